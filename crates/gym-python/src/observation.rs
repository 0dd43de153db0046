//! Observations as Python arrays: one array, or a dict of them (see `observation_parts`).

use gym::{Number, Observation};
use numpy::{Element, PyArray1, PyReadwriteArrayDyn};
use pyo3::prelude::*;

use crate::arrays::writable;

/// Observation that can be written into Python arrays.
pub(crate) trait PyObservation: Observation {
    /// Arrays to write into, held for the length of a call.
    type Arrays<'py>;

    /// Borrow the arrays for `num_envs` envs, or raise an error that names the wrong one of `name`.
    fn writable<'py>(
        name: &'static str,
        value: &Bound<'py, PyAny>,
        layout: &Self::Layout,
        num_envs: usize,
    ) -> PyResult<Self::Arrays<'py>>;

    /// Rows of the arrays.
    fn rows_of<'a>(arrays: &'a mut Self::Arrays<'_>) -> PyResult<Self::Rows<'a>>;

    /// Observation of one env, in new arrays.
    fn to_python<'py>(&self, py: Python<'py>, layout: &Self::Layout)
    -> PyResult<Bound<'py, PyAny>>;
}

impl<N: Element + Number> PyObservation for Vec<N> {
    type Arrays<'py> = PyReadwriteArrayDyn<'py, N>;

    fn writable<'py>(
        name: &'static str,
        value: &Bound<'py, PyAny>,
        layout: &usize,
        num_envs: usize,
    ) -> PyResult<Self::Arrays<'py>> {
        writable(name, value, &[num_envs, *layout])
    }

    fn rows_of<'a>(arrays: &'a mut Self::Arrays<'_>) -> PyResult<&'a mut [N]> {
        Ok(arrays.as_slice_mut()?)
    }

    fn to_python<'py>(&self, py: Python<'py>, _layout: &usize) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyArray1::from_slice(py, self).into_any())
    }
}
