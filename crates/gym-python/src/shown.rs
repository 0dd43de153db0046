//! What tasks show, in arrays of Python: one array, or a dict of them (see `shown_parts`).

use gym::Observation;
use numpy::{Element, PyArray1, PyReadwriteArrayDyn};
use pyo3::prelude::*;

use crate::arrays::writable;

/// An observation that Python can hand over memory for, and be shown.
pub(crate) trait Shown: Observation {
    /// Arrays to write into, held for the length of a call.
    type Arrays<'py>;

    /// The arrays for `num_envs` envs, or an error that says which of `name` does not fit.
    fn writable<'py>(
        name: &'static str,
        given: &Bound<'py, PyAny>,
        layout: &Self::Layout,
        num_envs: usize,
    ) -> PyResult<Self::Arrays<'py>>;

    /// Their rows.
    fn rows_of<'a>(arrays: &'a mut Self::Arrays<'_>) -> PyResult<Self::Rows<'a>>;

    /// What one env shows, in new arrays.
    fn to_python<'py>(&self, py: Python<'py>, layout: &Self::Layout)
    -> PyResult<Bound<'py, PyAny>>;
}

impl<N: Element + Copy + Default + 'static> Shown for Vec<N> {
    type Arrays<'py> = PyReadwriteArrayDyn<'py, N>;

    fn writable<'py>(
        name: &'static str,
        given: &Bound<'py, PyAny>,
        layout: &usize,
        num_envs: usize,
    ) -> PyResult<Self::Arrays<'py>> {
        writable(name, given, &[num_envs, *layout])
    }

    fn rows_of<'a>(arrays: &'a mut Self::Arrays<'_>) -> PyResult<&'a mut [N]> {
        Ok(arrays.as_slice_mut()?)
    }

    fn to_python<'py>(&self, py: Python<'py>, _layout: &usize) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyArray1::from_slice(py, self).into_any())
    }
}
