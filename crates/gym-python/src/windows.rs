//! Windows of a panel, for Python.

use gym::{Panel, Threads};
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{described, owned, readable, writable};
use crate::batch::thread_count;

/// Copy, for each of `rows`, the `lookback` rows of `panel` that end with it into `out`.
#[pyfunction]
#[pyo3(signature = (panel, rows, lookback, out, threads=1))]
pub(crate) fn gather_windows(
    py: Python<'_>,
    panel: &Bound<'_, PyAny>,
    rows: PyReadonlyArray1<'_, i64>,
    lookback: usize,
    out: &Bound<'_, PyAny>,
    threads: i64,
) -> PyResult<()> {
    let threads = thread_count(threads)?;
    let shape = shape_of(panel)?;
    let values = readable::<f32>("panel", panel, &shape)?;
    let mut target = writable::<f32>("out", out, &[rows.shape()[0], lookback, shape[1], shape[2]])?;
    let panel = Panel { values: values.as_slice()?, width: shape[1] * shape[2] };
    let (rows, target) = (owned(&rows.as_array())?, target.as_slice_mut()?);
    py.detach(|| panel.gather(&rows, lookback, &mut Threads::new(Some(threads)), target))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn shape_of(panel: &Bound<'_, PyAny>) -> PyResult<[usize; 3]> {
    panel.getattr("shape").and_then(|shape| shape.extract()).map_err(|_| {
        PyValueError::new_err(format!(
            "panel needs an array of rows, assets and features, got {}",
            described(panel)
        ))
    })
}
