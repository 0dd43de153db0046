//! Conversion of actions from Python: a batch of rows, or the action of a single env.

use gym::ActionError;
use numpy::{
    Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat};

use crate::arrays::{described, readable};
use crate::errors::InvalidActionError;

/// Number type of an action.
pub(crate) trait ActionNumber: Element + Copy + Default {
    /// Name in errors.
    const NAME: &'static str;

    /// A number that a policy chose.
    fn of_number(number: f64) -> Self;

    /// One number, or `None` if the value is something else.
    fn read(value: &Bound<'_, PyAny>) -> Option<Self>;

    /// Copy an array of another dtype and this shape; false if the value is something else.
    fn convert(value: &Bound<'_, PyAny>, shape: &[usize], into: &mut [Self]) -> bool;
}

impl ActionNumber for f64 {
    const NAME: &'static str = "numbers";

    fn of_number(number: f64) -> Self {
        number
    }

    fn read(value: &Bound<'_, PyAny>) -> Option<Self> {
        // A bool is a number in Python and NumPy, but not a valid amount.
        if is_real(value) { value.extract().ok() } else { None }
    }

    #[allow(clippy::cast_precision_loss)] // as Python's own float() rounds whole numbers
    fn convert(value: &Bound<'_, PyAny>, shape: &[usize], into: &mut [Self]) -> bool {
        copy_of::<f32, _>(value, shape, into, f64::from)
            || copy_of::<i64, _>(value, shape, into, |number| number as f64)
    }
}

impl ActionNumber for i64 {
    const NAME: &'static str = "whole numbers";

    #[allow(clippy::cast_possible_truncation)] // policies choose whole numbers
    fn of_number(number: f64) -> Self {
        number as Self
    }

    fn read(value: &Bound<'_, PyAny>) -> Option<Self> {
        // A bool is an int in Python, but not a valid choice.
        if is_real(value) { value.extract().ok() } else { None }
    }

    /// Another dtype may hold fractions or integers out of range.
    fn convert(_value: &Bound<'_, PyAny>, _shape: &[usize], _into: &mut [Self]) -> bool {
        false
    }
}

/// Copy the actions of all envs into `actions`, which grows once. Where an action is one number,
/// its axis may be left out.
pub(crate) fn of_batch<A: ActionNumber>(
    value: &Bound<'_, PyAny>,
    num_envs: usize,
    action_len: usize,
    actions: &mut Vec<A>,
) -> PyResult<()> {
    let has_rows = value.cast::<PyUntypedArray>().is_ok_and(|array| array.ndim() == 2);
    let shape = [num_envs, action_len];
    let shape = if action_len == 1 && !has_rows { &shape[..1] } else { &shape };
    actions.resize(num_envs * action_len, A::default());
    if copy_of(value, shape, actions, |number: A| number) || A::convert(value, shape, actions) {
        return Ok(());
    }
    Err(readable::<A>("actions", value, shape).err().map_or_else(
        || InvalidActionError::new_err("actions cannot be read: another call writes into them"),
        |error| {
            let refusal = InvalidActionError::new_err(error.value(value.py()).to_string());
            refusal.set_cause(value.py(), Some(error));
            refusal
        },
    ))
}

/// The action of a single env: a row of numbers, or the number itself where it is one.
pub(crate) fn of_single<A: ActionNumber>(
    value: &Bound<'_, PyAny>,
    action: &mut [A],
) -> PyResult<()> {
    let array = value.cast::<PyArray1<A>>().ok().filter(|array| array.len() == action.len());
    if let Some(Ok(row)) = array.map(PyArrayMethods::try_readonly) {
        action.iter_mut().zip(row.as_array()).for_each(|(number, item)| *number = *item);
        return Ok(());
    }
    if A::convert(value, &[action.len()], action) {
        return Ok(());
    }
    read_numbers(value, action).ok_or_else(|| {
        let expected = format!("{} {}", action.len(), A::NAME);
        refused(&ActionError { expected, got: described(value) })
    })
}

/// Convert an error of an invalid action.
pub(crate) fn refused(error: &ActionError) -> PyErr {
    InvalidActionError::new_err(format!("the action does not fit: {error}"))
}

fn read_numbers<A: ActionNumber>(value: &Bound<'_, PyAny>, action: &mut [A]) -> Option<()> {
    if let ([number], Some(item)) = (&mut *action, A::read(value)) {
        *number = item;
        return Some(());
    }
    if value.len().ok()? != action.len() {
        return None;
    }
    for (number, item) in action.iter_mut().zip(value.try_iter().ok()?) {
        *number = A::read(&item.ok()?)?;
    }
    Some(())
}

/// Copy a C-contiguous array of `E`; false if the value is something else.
fn copy_of<E: Element + Copy, A>(
    value: &Bound<'_, PyAny>,
    shape: &[usize],
    into: &mut [A],
    convert: impl Fn(E) -> A,
) -> bool {
    let Ok(array) = value.cast::<PyArrayDyn<E>>() else { return false };
    if array.shape() != shape || !array.is_c_contiguous() {
        return false;
    }
    let Ok(array) = array.try_readonly() else { return false };
    let Ok(numbers) = array.as_slice() else { return false };
    into.iter_mut().zip(numbers).for_each(|(number, item)| *number = convert(*item));
    true
}

/// Return true if a value can be read as a real number: a bool of Python or of `NumPy` is none, and
/// of a complex one `NumPy` would return the real part alone.
fn is_real(value: &Bound<'_, PyAny>) -> bool {
    if value.is_instance_of::<PyFloat>() {
        return true;
    }
    let dtype = || value.getattr(pyo3::intern!(value.py(), "dtype")).ok()?.cast_into().ok();
    let is_real = |dtype: Bound<'_, PyArrayDescr>| !matches!(dtype.kind(), b'b' | b'c');
    !value.is_instance_of::<PyBool>() && dtype().is_none_or(is_real)
}
