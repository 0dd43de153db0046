//! Validation of array arguments from Python: once per call, with errors that name the argument.

use std::borrow::Cow;
use std::fmt::Display;

use numpy::ndarray::{ArrayView, Dim, Dimension, IntoDimension};
use numpy::{
    Element, PyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::check_memory;

/// Borrow an array of this shape for reading.
pub(crate) fn readable<'py, E: Element>(
    name: impl Display,
    value: &Bound<'py, PyAny>,
    shape: &[usize],
) -> PyResult<PyReadonlyArrayDyn<'py, E>> {
    let array = array_of::<E>(&name, value, shape)?;
    array.try_readonly().map_err(|_| {
        PyValueError::new_err(format!("{name} cannot be read: another call writes into it"))
    })
}

/// Borrow an array of this shape for reading, with any strides.
pub(crate) fn strided<'py, E: Element>(
    name: impl Display,
    value: &Bound<'py, PyAny>,
    shape: &[usize],
) -> PyResult<PyReadonlyArrayDyn<'py, E>> {
    match value.cast::<PyArrayDyn<E>>() {
        Ok(array) if array.shape() == shape => array.try_readonly().map_err(|_| {
            PyValueError::new_err(format!("{name} cannot be read: another call writes into it"))
        }),
        _ => Err(PyValueError::new_err(format!(
            "{name} needs an array of {} and shape {shape:?}, got {}",
            E::get_dtype(value.py()),
            described(value)
        ))),
    }
}

/// Borrow an array of this shape for writing.
pub(crate) fn writable<'py, E: Element>(
    name: impl Display,
    value: &Bound<'py, PyAny>,
    shape: &[usize],
) -> PyResult<PyReadwriteArrayDyn<'py, E>> {
    let array = array_of::<E>(&name, value, shape)?;
    array.try_readwrite().map_err(|error| {
        PyValueError::new_err(format!(
            "{name} must be an array of its own that can be written into: {error}"
        ))
    })
}

/// All numbers of an array as one slice: copied only if not contiguous.
pub(crate) fn flat<T: Copy, D: Dimension>(view: ArrayView<'_, T, D>) -> PyResult<Cow<'_, [T]>> {
    match view.to_slice() {
        Some(numbers) => Ok(Cow::Borrowed(numbers)),
        None => owned(&view).map(Cow::Owned),
    }
}

/// A copy of all numbers of an array. A broadcast array can be larger than memory.
pub(crate) fn owned<T: Copy, D: Dimension>(view: &ArrayView<'_, T, D>) -> PyResult<Vec<T>> {
    check_memory("numbers", view.len(), size_of::<T>())?;
    Ok(view.iter().copied().collect())
}

/// A new array of zeros, if memory can hold it.
pub(crate) fn zeros<T: Element, const N: usize>(
    py: Python<'_>,
    shape: [usize; N],
) -> PyResult<Bound<'_, PyArray<T, Dim<[usize; N]>>>>
where
    [usize; N]: IntoDimension<Dim = Dim<[usize; N]>>,
    Dim<[usize; N]>: Dimension,
{
    let count = shape.iter().try_fold(1, |count: usize, axis| count.checked_mul(*axis));
    check_memory("numbers", count.unwrap_or(usize::MAX), size_of::<T>())?;
    Ok(PyArray::zeros(py, shape, false))
}

/// A copy of a mask of this shape. Any non-zero byte counts as true.
pub(crate) fn flags(
    name: impl Display,
    value: &Bound<'_, PyAny>,
    shape: &[usize],
) -> PyResult<Vec<bool>> {
    array_of::<bool>(&name, value, shape)?;
    let bytes = value.call_method1(pyo3::intern!(value.py(), "view"), ("uint8",))?;
    let bytes = readable::<u8>(name, &bytes, shape)?;
    Ok(bytes.as_slice()?.iter().map(|byte| *byte != 0).collect())
}

fn array_of<'a, 'py, E: Element>(
    name: &impl Display,
    value: &'a Bound<'py, PyAny>,
    shape: &[usize],
) -> PyResult<&'a Bound<'py, PyArrayDyn<E>>> {
    match value.cast::<PyArrayDyn<E>>() {
        Ok(array) if array.shape() == shape && array.is_c_contiguous() => Ok(array),
        _ => Err(mismatch::<E>(name, value, shape)),
    }
}

fn mismatch<E: Element>(name: &impl Display, value: &Bound<'_, PyAny>, shape: &[usize]) -> PyErr {
    let dtype = E::get_dtype(value.py());
    PyValueError::new_err(format!(
        "{name} needs a C-contiguous array of {dtype} and shape {shape:?}, got {}",
        described(value)
    ))
}

/// Description of a value, for errors.
pub(crate) fn described(value: &Bound<'_, PyAny>) -> String {
    let description = value.getattr("dtype").and_then(|dtype| {
        let shape = value.getattr("shape")?;
        let contiguous: bool = value.getattr("flags")?.getattr("c_contiguous")?.extract()?;
        let layout = if contiguous { "" } else { ", not C-contiguous" };
        Ok(format!("one of {dtype} and shape {shape}{layout}"))
    });
    description
        .unwrap_or_else(|_| value.repr().map_or_else(|_| "?".into(), |shown| shown.to_string()))
}
