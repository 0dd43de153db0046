//! Acting by a policy network in one call, for Python.

use std::sync::Mutex;

use numpy::ndarray::IxDyn;
use numpy::{Element, PyArray, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use policy::{ActionKind, Actions, Rows};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arrays::{described, readable};
use crate::errors::check_memory;
use crate::policy::{LARGE_WORK, PolicyProgram};

/// Largest number of arrays in an observation that is read in one call.
const MAX_INPUTS: usize = 16;

/// Largest number of outputs of a network.
const MAX_OUTPUTS: usize = 3;

/// Array of an observation: key, shape, dtype, low and high bounds, and True for an action mask.
type Field<'py> = (Option<Bound<'py, PyString>>, Vec<usize>, String, Vec<f64>, Vec<f64>, bool);

/// Network with the conversion of its outputs to actions.
///
/// `predict` reads one observation of known arrays, converts nothing and allocates the action alone.
#[pyclass(module = "quant_gym_rs", frozen)]
pub(crate) struct PolicyActor {
    program: Py<PolicyProgram>,
    actions: Actions,
    /// Shape of one action; empty for single integers.
    shape: Vec<usize>,
    is_float32: bool,
    /// Index of the input with the slots that numbers belong to.
    slots: Option<usize>,
    /// Memory of one observation; None if observations are not plain arrays.
    memory: Option<Mutex<Memory>>,
}

/// Memory of one observation and its action.
struct Memory {
    inputs: Vec<Input>,
    allowed: Vec<bool>,
    used: Vec<f32>,
    outputs: Vec<Vec<f32>>,
    numbers: Vec<f64>,
    choices: Vec<i64>,
}

#[pymethods]
impl PolicyActor {
    /// Conversion to actions of `kind`: "choices" with counts and first values, "weights" with their
    /// number and reach, "numbers" with low and high bounds.
    ///
    /// `fields` are the arrays of an observation; None if it has others. `slots` is the index of the
    /// one with the slots that numbers belong to.
    #[new]
    #[pyo3(signature = (program, kind, sizes, limits, shape, is_float32, fields, slots))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        program: &Bound<'_, PolicyProgram>,
        kind: &str,
        sizes: Vec<i64>,
        limits: Vec<(f64, f64)>,
        shape: Vec<usize>,
        is_float32: bool,
        fields: Option<Vec<Field<'_>>>,
        slots: Option<usize>,
    ) -> PyResult<Self> {
        let actions = Actions::new(action_kind(kind, sizes, &limits)?);
        let widths = program.get().row_widths();
        if widths.len() > MAX_OUTPUTS || widths.first() != Some(&actions.inputs()) {
            return Err(PyValueError::new_err(format!(
                "actions need {} outputs of the network, got {widths:?}",
                actions.inputs()
            )));
        }
        let memory = fields.map(|fields| Memory::new(fields, widths, &actions)).transpose()?;
        let memory = memory.flatten().map(Mutex::new);
        let program = program.clone().unbind();
        Ok(Self { program, actions, shape, is_float32, slots, memory })
    }

    /// Deterministic action for one observation; None unless it consists of C-contiguous arrays of
    /// the expected types and shapes, with numbers within the bounds.
    fn predict<'py>(&self, observation: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = observation.py();
        // Held without the GIL by large networks: not waited for with it.
        let Some(Ok(mut memory)) = self.memory.as_ref().map(Mutex::try_lock) else {
            return Ok(None);
        };
        let memory = &mut *memory;
        if !memory.read(observation)? {
            return Ok(None);
        }
        let program = self.program.get();
        let is_computed = if program.work() < LARGE_WORK {
            memory.compute(program)
        } else {
            py.detach(|| memory.compute(program))
        };
        if !is_computed {
            return Ok(None);
        }
        if matches!(self.actions.kind(), ActionKind::Choices { .. }) {
            self.actions.choose(&memory.outputs[0], &mut memory.choices);
            return array(py, &self.shape, &memory.choices).map(Some);
        }
        let used = match self.slots.and_then(|slots| memory.inputs.get(slots)) {
            Some(input) => {
                memory.used.resize(input.numbers.rows().len(), 0.0);
                input.numbers.rows().write_floats(&mut memory.used);
                Some(memory.used.as_slice())
            }
            None => None,
        };
        self.actions.convert(&memory.outputs[0], used, &mut memory.numbers);
        self.float_array(py, &self.shape, &memory.numbers).map(Some)
    }

    /// Actions for a batch of network outputs: the most likely choices, weights or numbers.
    ///
    /// `used` is non-zero for the slots in use that the first numbers belong to; None for all.
    fn convert<'py>(
        &self,
        outputs: &Bound<'py, PyAny>,
        used: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = outputs.py();
        let count = rows_of(outputs)?;
        let numbers = readable::<f32>("outputs", outputs, &[count, self.actions.inputs()])?;
        let mut shape = vec![count];
        shape.extend(&self.shape);
        let size = count * self.actions.width();
        check_memory("actions", size, size_of::<f64>())?;
        if matches!(self.actions.kind(), ActionKind::Choices { .. }) {
            let mut choices = vec![0; size];
            self.actions.choose(numbers.as_slice()?, &mut choices);
            return array(py, &shape, &choices);
        }
        let used = match used {
            None => None,
            Some(used) => {
                let slots: Vec<usize> = used.getattr("shape")?.extract()?;
                if slots.len() != 2 || slots[0] != count || slots[1] > self.actions.width() {
                    return Err(PyValueError::new_err(format!(
                        "used needs {count} rows of at most {} slots, got {}",
                        self.actions.width(),
                        described(used)
                    )));
                }
                Some(readable::<f32>("used", used, &slots)?)
            }
        };
        let mut actions = vec![0.0; size];
        let used = used.as_ref().map(|used| used.as_slice()).transpose()?;
        self.actions.convert(numbers.as_slice()?, used, &mut actions);
        self.float_array(py, &shape, &actions)
    }
}

impl PolicyActor {
    #[allow(clippy::cast_possible_truncation)] // float32 is what the space asks for
    fn float_array<'py>(
        &self,
        py: Python<'py>,
        shape: &[usize],
        numbers: &[f64],
    ) -> PyResult<Bound<'py, PyAny>> {
        if !self.is_float32 {
            return array(py, shape, numbers);
        }
        let result = PyArray::<f32, _>::zeros(py, IxDyn(shape), false);
        for (result, number) in result.try_readwrite()?.as_slice_mut()?.iter_mut().zip(numbers) {
            *result = *number as f32;
        }
        Ok(result.into_any())
    }
}

fn array<'py, T: Element + Copy>(
    py: Python<'py>,
    shape: &[usize],
    numbers: &[T],
) -> PyResult<Bound<'py, PyAny>> {
    let result = PyArray::<T, _>::zeros(py, IxDyn(shape), false);
    result.try_readwrite()?.as_slice_mut()?.copy_from_slice(numbers);
    Ok(result.into_any())
}

fn rows_of(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(array.cast::<PyUntypedArray>()?.shape().first().copied().unwrap_or(0))
}

/// Kind of actions by its name, sizes and limits; see `sekai.policy.acting`.
pub(crate) fn action_kind(
    kind: &str,
    sizes: Vec<i64>,
    limits: &[(f64, f64)],
) -> PyResult<ActionKind> {
    let wrong = || PyValueError::new_err(format!("no actions of kind {kind:?}, {sizes:?}"));
    Ok(match (kind, sizes.as_slice()) {
        ("choices", sizes) if sizes.len().is_multiple_of(2) => {
            let (counts, starts) = sizes.split_at(sizes.len() / 2);
            let counts = counts.iter().map(|count| usize::try_from(*count).ok());
            let counts = counts.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
            if counts.contains(&0) {
                return Err(wrong());
            }
            ActionKind::Choices { counts, starts: starts.to_vec() }
        }
        ("weights", [size]) if limits.len() == 1 => {
            let size = usize::try_from(*size).map_err(|_| wrong())?;
            ActionKind::Weights { size, reach: limits[0].1 }
        }
        ("numbers", []) => {
            let (low, high) = limits.iter().copied().unzip();
            ActionKind::Numbers { low, high }
        }
        _ => return Err(wrong()),
    })
}

impl Memory {
    /// Memory for the arrays of an observation; None if there are too many of them, or of others.
    fn new(fields: Vec<Field<'_>>, widths: &[usize], actions: &Actions) -> PyResult<Option<Self>> {
        if fields.len() > MAX_INPUTS {
            return Ok(None);
        }
        let inputs = fields.into_iter().map(Input::new).collect::<PyResult<Option<Vec<_>>>>()?;
        Ok(inputs.map(|inputs| {
            let masks = inputs.iter().filter(|input| input.is_action_mask);
            let size = actions.width();
            Self {
                allowed: Vec::with_capacity(masks.map(|mask| mask.numbers.rows().len()).sum()),
                used: Vec::new(),
                outputs: widths.iter().map(|width| vec![0.0; *width]).collect(),
                numbers: vec![0.0; size],
                choices: vec![0; size],
                inputs,
            }
        }))
    }

    /// Copy the numbers of an observation; false if it does not fit.
    fn read(&mut self, observation: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let [input] = self.inputs.as_mut_slice()
            && input.key.is_none()
        {
            return input.read(observation);
        }
        let Ok(arrays) = observation.cast_exact::<PyDict>() else { return Ok(false) };
        if arrays.len() != self.inputs.len() {
            return Ok(false);
        }
        for input in &mut self.inputs {
            let Some(key) = &input.key else { return Ok(false) };
            match arrays.get_item(key)? {
                Some(array) if input.read(&array)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Compute the outputs of the network; false if a category is out of range.
    fn compute(&mut self, program: &PolicyProgram) -> bool {
        let mut rows = [Rows::F32(&[]); MAX_INPUTS];
        let mut count = 0;
        self.allowed.clear();
        for input in &self.inputs {
            if input.is_action_mask {
                input.numbers.add_flags(&mut self.allowed);
            } else {
                rows[count] = input.numbers.rows();
                count += 1;
            }
        }
        let allowed = (!self.allowed.is_empty()).then_some(self.allowed.as_slice());
        let mut outputs: [&mut [f32]; MAX_OUTPUTS] = [&mut [], &mut [], &mut []];
        let used = self.outputs.len();
        for (output, numbers) in outputs.iter_mut().zip(&mut self.outputs) {
            *output = numbers;
        }
        program.network().forward(1, &rows[..count], allowed, &mut outputs[..used]).is_ok()
    }
}

/// An array of an observation.
struct Input {
    /// Key in a dict; None for an observation that is one array.
    key: Option<Py<PyString>>,
    shape: Vec<usize>,
    /// Bounds of each number; empty without bounds.
    bounds: Vec<(f64, f64)>,
    numbers: Numbers,
    is_action_mask: bool,
}

impl Input {
    fn new((key, shape, dtype, low, high, is_action_mask): Field<'_>) -> PyResult<Option<Self>> {
        let size = shape.iter().try_fold(1, |size: usize, axis| size.checked_mul(*axis));
        let size = size.unwrap_or(usize::MAX);
        check_memory("an observation", size, size_of::<f64>())?;
        let Some(numbers) = Numbers::new(&dtype, size) else { return Ok(None) };
        if low.len() != high.len() || !(low.is_empty() || low.len() == size) {
            return Err(PyValueError::new_err(format!(
                "bounds need {size} numbers, got {} and {}",
                low.len(),
                high.len()
            )));
        }
        let bounds = low.into_iter().zip(high).collect();
        let key = key.map(Bound::unbind);
        Ok(Some(Self { key, shape, bounds, numbers, is_action_mask }))
    }

    fn read(&mut self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (shape, bounds) = (&self.shape, &self.bounds);
        match &mut self.numbers {
            Numbers::F32(numbers) => copy(value, shape, bounds, numbers),
            Numbers::F64(numbers) => copy(value, shape, bounds, numbers),
            Numbers::I64(numbers) => copy(value, shape, bounds, numbers),
            Numbers::I32(numbers) => copy(value, shape, bounds, numbers),
            Numbers::I8(numbers) => copy(value, shape, bounds, numbers),
            Numbers::U8(numbers) => copy(value, shape, bounds, numbers),
        }
    }
}

/// Copy an array of this type and shape with numbers within bounds; false for any other.
fn copy<T: Number>(
    value: &Bound<'_, PyAny>,
    shape: &[usize],
    bounds: &[(f64, f64)],
    numbers: &mut [T],
) -> PyResult<bool> {
    let Ok(array) = value.cast_exact::<PyArrayDyn<T>>() else { return Ok(false) };
    if array.shape() != shape || !array.is_c_contiguous() {
        return Ok(false);
    }
    let borrowed = array.try_readonly()?;
    numbers.copy_from_slice(borrowed.as_slice()?);
    if bounds.is_empty() {
        return Ok(numbers.iter().all(|number| !number.wide().is_nan()));
    }
    let mut pairs = numbers.iter().zip(bounds);
    Ok(pairs.all(|(number, (low, high))| number.wide() >= *low && number.wide() <= *high))
}

trait Number: Element + Copy {
    fn wide(self) -> f64;
}

/// Numbers of an observation in the type of its array.
macro_rules! numbers {
    ($($name:ident $kind:ty, $dtype:literal;)*) => {
        enum Numbers {
            $($name(Vec<$kind>),)*
        }

        impl Numbers {
            fn new(dtype: &str, size: usize) -> Option<Self> {
                match dtype {
                    $($dtype => Some(Self::$name(vec![<$kind>::default(); size])),)*
                    _ => None,
                }
            }

            fn rows(&self) -> Rows<'_> {
                match self {
                    $(Self::$name(numbers) => Rows::$name(numbers),)*
                }
            }

            #[allow(clippy::float_cmp)] // any number but zero allows
            fn add_flags(&self, flags: &mut Vec<bool>) {
                match self {
                    $(Self::$name(numbers) => {
                        flags.extend(numbers.iter().map(|n| *n != <$kind>::default()));
                    })*
                }
            }
        }

        $(
            #[allow(clippy::cast_lossless, clippy::cast_precision_loss, clippy::unnecessary_cast)]
            impl Number for $kind {
                fn wide(self) -> f64 {
                    self as f64
                }
            }
        )*
    };
}

numbers! {
    F32 f32, "float32";
    F64 f64, "float64";
    I64 i64, "int64";
    I32 i32, "int32";
    I8 i8, "int8";
    U8 u8, "uint8";
}
