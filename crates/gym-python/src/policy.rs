//! Inference of policy networks, for Python.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{
    Element, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use policy::{Function, InputError, Matrix, Network, Operation, PolicyError, Rows};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::{described, flags, zeros};
use crate::errors::check_memory;

/// Multiplications above which the GIL is released: a release costs about as much as this.
pub(crate) const LARGE_WORK: usize = 1 << 18;

/// Program of a policy network: a list of operations over rows of observations.
#[pyclass(module = "quant_gym_rs", frozen)]
pub(crate) struct PolicyProgram {
    names: Vec<String>,
    sizes: Vec<usize>,
    widths: Vec<usize>,
    work: usize,
    /// A program has one set of scratch memory: threads take turns.
    network: Mutex<Network>,
}

#[pymethods]
impl PolicyProgram {
    /// Validate the operations and pack their weights.
    ///
    /// `leaves` are names with the numbers of a row; an operation is its name with its arguments.
    #[new]
    fn new(
        leaves: Vec<(String, usize)>,
        operations: Vec<(String, Bound<'_, PyDict>)>,
        outputs: Vec<usize>,
    ) -> PyResult<Self> {
        let operations =
            operations.iter().map(|(name, values)| operation(name, &Arguments(values)));
        let operations = operations.collect::<PyResult<_>>()?;
        let (names, sizes): (Vec<String>, Vec<usize>) = leaves.into_iter().unzip();
        let network = Network::new(sizes.clone(), operations, outputs).map_err(refused)?;
        let (widths, work) = (network.widths(), network.work());
        Ok(Self { names, sizes, widths, work, network: Mutex::new(network) })
    }

    /// Outputs of a batch of observations.
    ///
    /// `allowed` is the mask of allowed actions: rows by logits; None allows all.
    #[pyo3(signature = (inputs, allowed=None))]
    fn forward<'py>(
        &self,
        inputs: &Bound<'py, PyDict>,
        allowed: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = inputs.py();
        let mut count = None;
        let arrays = self.names.iter().zip(&self.sizes);
        let arrays = arrays.map(|(name, size)| Leaf::of(inputs, name, *size, &mut count));
        let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        let count = count.unwrap_or(0);
        let allowed = allowed.map(|mask| mask_of(mask, count)).transpose()?;
        let outputs = self.widths.iter().map(|width| zeros::<f32, 2>(py, [count, *width]));
        let outputs = outputs.collect::<PyResult<Vec<Bound<'py, PyArray2<f32>>>>>()?;
        {
            let mut guards = Vec::with_capacity(outputs.len());
            for output in &outputs {
                guards.push(output.try_readwrite()?);
            }
            let mut numbers = Vec::with_capacity(outputs.len());
            for guard in &mut guards {
                numbers.push(guard.as_slice_mut()?);
            }
            let rows = arrays.iter().map(Leaf::rows).collect::<PyResult<Vec<_>>>()?;
            if self.work.saturating_mul(count) < LARGE_WORK {
                self.network().forward(count, &rows, allowed.as_deref(), &mut numbers)
            } else {
                // Copied: other threads may write into the arrays meanwhile.
                let copies = rows.iter().map(Owned::of).collect::<PyResult<Vec<_>>>()?;
                py.detach(|| {
                    let rows: Vec<Rows<'_>> = copies.iter().map(Owned::rows).collect();
                    self.network().forward(count, &rows, allowed.as_deref(), &mut numbers)
                })
            }
            .map_err(unfit)?;
        }
        PyTuple::new(py, outputs)
    }

    /// Numbers in a row of each output.
    #[getter]
    fn widths(&self) -> Vec<usize> {
        self.widths.clone()
    }
}

impl PolicyProgram {
    /// Multiplications of one row, roughly.
    pub(crate) fn work(&self) -> usize {
        self.work
    }

    /// Numbers in a row of each output.
    pub(crate) fn row_widths(&self) -> &[usize] {
        &self.widths
    }

    /// Names of the leaves.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mask_of(mask: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<bool>> {
    let shape: Vec<usize> = mask.getattr("shape")?.extract()?;
    if shape.first() != Some(&count) {
        return Err(PyValueError::new_err(format!(
            "allowed needs {count} rows, got {}",
            described(mask)
        )));
    }
    flags("allowed", mask, &shape)
}

pub(crate) fn refused(error: PolicyError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn unfit(error: InputError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An array of observations, borrowed for reading.
enum Leaf<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
    I64(PyReadonlyArrayDyn<'py, i64>),
    I32(PyReadonlyArrayDyn<'py, i32>),
    I8(PyReadonlyArrayDyn<'py, i8>),
    U8(PyReadonlyArrayDyn<'py, u8>),
    Bool(Vec<bool>),
}

impl<'py> Leaf<'py> {
    fn of(
        inputs: &Bound<'py, PyDict>,
        name: &str,
        size: usize,
        count: &mut Option<usize>,
    ) -> PyResult<Self> {
        let value = inputs
            .get_item(name)?
            .ok_or_else(|| PyKeyError::new_err(format!("the observation has no {name:?}")))?;
        let leaf = if let Some(array) = borrowed::<f32>(&value)? {
            Self::F32(array)
        } else if let Some(array) = borrowed::<f64>(&value)? {
            Self::F64(array)
        } else if let Some(array) = borrowed::<i64>(&value)? {
            Self::I64(array)
        } else if let Some(array) = borrowed::<i32>(&value)? {
            Self::I32(array)
        } else if let Some(array) = borrowed::<i8>(&value)? {
            Self::I8(array)
        } else if let Some(array) = borrowed::<u8>(&value)? {
            Self::U8(array)
        } else if value.cast::<PyArrayDyn<bool>>().is_ok() {
            let shape: Vec<usize> = value.getattr("shape")?.extract()?;
            Self::Bool(flags(name, &value, &shape)?)
        } else {
            return Err(PyValueError::new_err(format!(
                "{name} needs an array of float32, float64, int64, int32, int8, uint8 or bool, \
                 got {}",
                described(&value)
            )));
        };
        let rows = value.cast::<PyUntypedArray>()?.shape().first().copied().unwrap_or(0);
        if *count.get_or_insert(rows) != rows || leaf.len() != rows.saturating_mul(size) {
            return Err(PyValueError::new_err(format!(
                "{name} needs {} rows of {size} numbers, got {}",
                count.unwrap_or(rows),
                described(&value)
            )));
        }
        Ok(leaf)
    }

    fn len(&self) -> usize {
        match self {
            Self::F32(array) => array.len(),
            Self::F64(array) => array.len(),
            Self::I64(array) => array.len(),
            Self::I32(array) => array.len(),
            Self::I8(array) => array.len(),
            Self::U8(array) => array.len(),
            Self::Bool(array) => array.len(),
        }
    }

    fn rows(&self) -> PyResult<Rows<'_>> {
        Ok(match self {
            Self::F32(array) => Rows::F32(array.as_slice()?),
            Self::F64(array) => Rows::F64(array.as_slice()?),
            Self::I64(array) => Rows::I64(array.as_slice()?),
            Self::I32(array) => Rows::I32(array.as_slice()?),
            Self::I8(array) => Rows::I8(array.as_slice()?),
            Self::U8(array) => Rows::U8(array.as_slice()?),
            Self::Bool(array) => Rows::Bool(array),
        })
    }
}

fn borrowed<'py, E: Element>(
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<PyReadonlyArrayDyn<'py, E>>> {
    match value.cast::<PyArrayDyn<E>>() {
        Ok(array) => Ok(Some(array.try_readonly()?)),
        Err(_) => Ok(None),
    }
}

/// Numbers of a leaf that no other thread writes into.
enum Owned {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    I32(Vec<i32>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    Bool(Vec<bool>),
}

impl Owned {
    fn of(rows: &Rows<'_>) -> PyResult<Self> {
        fn copied<T: Clone>(numbers: &[T]) -> PyResult<Vec<T>> {
            check_memory("numbers", numbers.len(), size_of::<T>())?;
            Ok(numbers.to_vec())
        }
        Ok(match rows {
            Rows::F32(numbers) => Self::F32(copied(numbers)?),
            Rows::F64(numbers) => Self::F64(copied(numbers)?),
            Rows::I64(numbers) => Self::I64(copied(numbers)?),
            Rows::I32(numbers) => Self::I32(copied(numbers)?),
            Rows::I8(numbers) => Self::I8(copied(numbers)?),
            Rows::U8(numbers) => Self::U8(copied(numbers)?),
            Rows::Bool(numbers) => Self::Bool(copied(numbers)?),
        })
    }

    fn rows(&self) -> Rows<'_> {
        match self {
            Self::F32(numbers) => Rows::F32(numbers),
            Self::F64(numbers) => Rows::F64(numbers),
            Self::I64(numbers) => Rows::I64(numbers),
            Self::I32(numbers) => Rows::I32(numbers),
            Self::I8(numbers) => Rows::I8(numbers),
            Self::U8(numbers) => Rows::U8(numbers),
            Self::Bool(numbers) => Rows::Bool(numbers),
        }
    }
}

/// Arguments of an operation by name.
pub(crate) struct Arguments<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl<'py> Arguments<'_, 'py> {
    pub(crate) fn get(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let value = self.0.get_item(name)?;
        value.ok_or_else(|| PyValueError::new_err(format!("an operation needs {name:?}")))
    }

    fn number(&self, name: &str) -> PyResult<f32> {
        self.get(name)?.extract()
    }

    fn count(&self, name: &str) -> PyResult<usize> {
        self.get(name)?.extract()
    }

    fn counts(&self, name: &str) -> PyResult<Vec<usize>> {
        self.get(name)?.extract()
    }

    fn mask(&self) -> PyResult<Option<usize>> {
        self.get("mask")?.extract()
    }

    fn vector(&self, name: &str) -> PyResult<Vec<f32>> {
        Ok(floats(name, &self.get(name)?, 1)?.1)
    }

    fn matrix(&self, name: &str) -> PyResult<Matrix> {
        let (shape, numbers) = floats(name, &self.get(name)?, 2)?;
        Ok(Matrix { rows: shape[0], columns: shape[1], numbers })
    }
}

fn floats(name: &str, value: &Bound<'_, PyAny>, axes: usize) -> PyResult<(Vec<usize>, Vec<f32>)> {
    match value.cast::<PyArrayDyn<f32>>() {
        Ok(array) if array.ndim() == axes => {
            check_memory("numbers", array.len(), size_of::<f32>())?;
            let numbers = array.try_readonly()?.as_array().iter().copied().collect();
            Ok((array.shape().to_vec(), numbers))
        }
        _ => Err(PyValueError::new_err(format!(
            "{name} needs an array of float32 with {axes} axes, got {}",
            described(value)
        ))),
    }
}

fn operation(name: &str, values: &Arguments<'_, '_>) -> PyResult<Operation> {
    let input = || values.count("input");
    Ok(match name {
        "input" => Operation::Input { leaf: values.count("leaf")? },
        "one_hot" => Operation::OneHot {
            leaf: values.count("leaf")?,
            counts: values.counts("counts")?,
            starts: values.get("starts")?.extract()?,
        },
        "non_zero" => Operation::NonZero { leaf: values.count("leaf")? },
        "scale" => Operation::Scale { input: input()?, factor: values.number("factor")? },
        "normalize" => Operation::Normalize {
            input: input()?,
            mean: values.vector("mean")?,
            scale: values.vector("scale")?,
            clip: values.number("clip")?,
        },
        "concatenate" => Operation::Concatenate {
            inputs: values.counts("inputs")?,
            items: values.count("items")?,
        },
        "slice" => Operation::Slice {
            input: input()?,
            items: values.count("items")?,
            start: values.count("start")?,
            width: values.count("width")?,
        },
        "transpose" => Operation::Transpose {
            input: input()?,
            rows: values.count("rows")?,
            columns: values.count("columns")?,
        },
        "linear" => Operation::Linear {
            input: input()?,
            weight: values.matrix("weight")?,
            bias: values.vector("bias")?,
        },
        "tanh" => Operation::Activate { input: input()?, function: Function::Tanh },
        "relu" => Operation::Activate { input: input()?, function: Function::Relu },
        "silu" => Operation::Activate { input: input()?, function: Function::Silu },
        "add" => Operation::Add { input: input()?, other: values.count("other")? },
        "layer_norm" => Operation::LayerNorm {
            input: input()?,
            weight: values.vector("weight")?,
            bias: values.vector("bias")?,
            epsilon: values.number("epsilon")?,
        },
        "mask_logits" => Operation::MaskLogits {
            input: input()?,
            mask: values.mask()?,
            masked: values.number("masked")?,
        },
        "exponent" => Operation::Exponent {
            input: input()?,
            shift: values.vector("shift")?,
            low: values.number("low")?,
            high: values.number("high")?,
        },
        _ => return asset_operation(name, values),
    })
}

/// Operations over asset slots, windows and images.
fn asset_operation(name: &str, values: &Arguments<'_, '_>) -> PyResult<Operation> {
    let (input, items) = (|| values.count("input"), || values.count("items"));
    Ok(match name {
        "zero_unused" => Operation::ZeroUnused { input: input()?, mask: values.count("mask")? },
        "scale_by_root_count" => {
            Operation::ScaleByRootCount { input: input()?, mask: values.mask()? }
        }
        "mean" => Operation::Mean { input: input()?, items: items()?, mask: values.mask()? },
        "max" => Operation::Max { input: input()?, items: items()?, mask: values.mask()? },
        "attention" => Operation::Attention {
            input: input()?,
            items: items()?,
            heads: values.count("heads")?,
            mask: values.mask()?,
        },
        "neighbours" => {
            Operation::Neighbours { near: values.matrix("near")?, mask: values.mask()? }
        }
        "correlations" => Operation::Correlations {
            input: input()?,
            items: items()?,
            times: values.count("times")?,
            channel: values.count("channel")?,
            slope: values.number("slope")?,
            offset: values.number("offset")?,
            mask: values.mask()?,
        },
        "mix" => Operation::Mix { near: values.count("near")?, input: input()?, items: items()? },
        "gru" => Operation::Gru {
            input: input()?,
            items: items()?,
            input_weight: values.matrix("input_weight")?,
            hidden_weight: values.matrix("hidden_weight")?,
            input_bias: values.vector("input_bias")?,
            hidden_bias: values.vector("hidden_bias")?,
        },
        "pieces" => Operation::Pieces {
            input: input()?,
            items: items()?,
            times: values.count("times")?,
            kernel: values.count("kernel")?,
            stride: values.count("stride")?,
        },
        "convolution" => Operation::Convolution {
            input: input()?,
            sides: values.get("sides")?.extract()?,
            kernel: values.count("kernel")?,
            stride: values.count("stride")?,
            weight: values.matrix("weight")?,
            bias: values.vector("bias")?,
        },
        _ => return Err(PyValueError::new_err(format!("unknown operation {name:?}"))),
    })
}
