//! Running mean and variance, for Python.

use gym::{Moments, MomentsError, Sample};
use numpy::{Element, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::flat;
use crate::errors::check_memory;

/// Running mean and variance of each of `width` columns.
#[pyclass(module = "quant_gym_rs")]
pub(crate) struct RunningMoments(Moments);

#[pymethods]
impl RunningMoments {
    #[new]
    fn new(width: usize) -> PyResult<Self> {
        check_memory("columns", width, 2 * size_of::<f64>())?;
        Ok(Self(Moments::new(width)))
    }

    /// Rows seen.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// Columns tracked.
    #[getter]
    fn width(&self) -> usize {
        self.0.width()
    }

    /// Mean of each column.
    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.0.mean())
    }

    /// Population variance of each column; zero until two rows have been seen.
    #[getter]
    fn variance<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, (0..self.0.width()).map(|column| self.0.variance(column)))
    }

    /// Update the moments with rows of float32 or float64 values.
    fn update(&mut self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(array) = values.cast::<PyArrayDyn<f32>>() {
            return with_slice(array, |rows| self.0.push_rows(rows))?.map_err(to_python);
        }
        if let Ok(array) = values.cast::<PyArrayDyn<f64>>() {
            return with_slice(array, |rows| self.0.push_rows(rows))?.map_err(to_python);
        }
        Err(not_an_array(values))
    }

    /// Update the moments with `values` (unless `learn` is off) and return them normalised, in
    /// `out` if passed.
    #[pyo3(signature = (values, epsilon=1e-8, clip=f64::INFINITY, learn=true, out=None))]
    fn normalise<'py>(
        &mut self,
        values: &Bound<'py, PyAny>,
        epsilon: f64,
        clip: f64,
        learn: bool,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(array) = values.cast::<PyArrayDyn<f32>>() {
            return self.normalise_array(array, epsilon, clip, learn, out);
        }
        if let Ok(array) = values.cast::<PyArrayDyn<f64>>() {
            return self.normalise_array(array, epsilon, clip, learn, out);
        }
        Err(not_an_array(values))
    }

    /// Merge the moments of `other`.
    fn merge(&mut self, other: PyRef<'_, Self>) -> PyResult<()> {
        self.0.merge(&other.0).map_err(to_python)
    }

    /// Count, means and sums of squares.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = PyDict::new(py);
        state.set_item("count", self.0.count())?;
        state.set_item("mean", self.mean(py))?;
        state.set_item("squares", PyArray1::from_slice(py, self.0.squares()))?;
        Ok(state)
    }

    /// Continue from saved moments; refused ones change nothing.
    fn load_state_dict(&mut self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let loaded = moments_from(state)?;
        if loaded.width() != self.0.width() {
            return Err(PyValueError::new_err(format!(
                "expected moments of {} columns, got {}",
                self.0.width(),
                loaded.width()
            )));
        }
        self.0 = loaded;
        Ok(())
    }
}

impl RunningMoments {
    fn normalise_array<'py, T: Sample + Element>(
        &mut self,
        array: &Bound<'py, PyArrayDyn<T>>,
        epsilon: f64,
        clip: f64,
        learn: bool,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let out = if let Some(buffer) = out {
            buffer.cast_into::<PyArrayDyn<T>>().map_err(PyErr::from)?
        } else {
            check_memory("numbers", array.len(), size_of::<T>())?;
            PyArrayDyn::zeros(array.py(), array.shape(), false)
        };
        {
            let mut target = out.try_readwrite()?;
            let target = target.as_slice_mut()?;
            with_slice(array, |rows| {
                // Before the update: a refused call changes nothing.
                self.0.check_normalising(rows.len(), epsilon, clip, target.len())?;
                if learn {
                    self.0.push_rows(rows)?;
                }
                self.0.normalise_rows(rows, epsilon, clip, target)
            })?
            .map_err(to_python)?;
        }
        Ok(out.into_any())
    }
}

/// Read an array as one slice, copying only if not contiguous.
fn with_slice<T: Element + Copy, R>(
    array: &Bound<'_, PyArrayDyn<T>>,
    read: impl FnOnce(&[T]) -> R,
) -> PyResult<R> {
    let array = array.try_readonly()?;
    Ok(read(&flat(array.as_array())?))
}

pub(crate) fn moments_from(state: &Bound<'_, PyAny>) -> PyResult<Moments> {
    let count = state.get_item("count")?.extract()?;
    let mean = state.get_item("mean")?.extract()?;
    let squares = state.get_item("squares")?.extract()?;
    Moments::from_parts(count, mean, squares).map_err(to_python)
}

pub(crate) fn to_python(error: MomentsError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn not_an_array(values: &Bound<'_, PyAny>) -> PyErr {
    let got = values.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    let dtype = values.getattr("dtype").map(|dtype| format!(" of {dtype}")).unwrap_or_default();
    PyTypeError::new_err(format!("expected a NumPy array of float32 or float64, got {got}{dtype}"))
}
