//! Actions that Python hands over: a batch of rows, or the one of a single env.

use gym::ActionError;
use numpy::{Element, PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::arrays::{described, readable};
use crate::errors::InvalidActionError;

/// A number of an action.
pub(crate) trait ActionNumber: Element + Copy + Default {
    /// What it is called in errors.
    const NAME: &'static str;

    /// One number, or `None` if the value is something else.
    fn read(value: &Bound<'_, PyAny>) -> Option<Self>;
}

impl ActionNumber for f64 {
    const NAME: &'static str = "numbers";

    fn read(value: &Bound<'_, PyAny>) -> Option<Self> {
        // A bool is a number to Python, but no amount.
        if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() }
    }
}

impl ActionNumber for i64 {
    const NAME: &'static str = "whole numbers";

    fn read(value: &Bound<'_, PyAny>) -> Option<Self> {
        // A bool is an int to Python, but no choice among several.
        if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() }
    }
}

/// The actions of all envs. Where an action is one number, its axis may be left out.
pub(crate) fn of_batch<'py, A: ActionNumber>(
    value: &Bound<'py, PyAny>,
    num_envs: usize,
    action_len: usize,
) -> PyResult<PyReadonlyArrayDyn<'py, A>> {
    let actions = match readable("actions", value, &[num_envs, action_len]) {
        Err(_) if action_len == 1 => readable("actions", value, &[num_envs]),
        found => found,
    };
    actions.map_err(|error| {
        let refusal = InvalidActionError::new_err(error.value(value.py()).to_string());
        refusal.set_cause(value.py(), Some(error));
        refusal
    })
}

/// The action of a single env: a row of numbers, or the number itself where it is one.
pub(crate) fn of_single<A: ActionNumber>(
    value: &Bound<'_, PyAny>,
    action: &mut [A],
) -> PyResult<()> {
    let array = value.cast::<PyArray1<A>>().ok().filter(|array| array.len() == action.len());
    if let Some(Ok(row)) = array.map(PyArrayMethods::try_readonly) {
        action.iter_mut().zip(row.as_array()).for_each(|(number, given)| *number = *given);
        return Ok(());
    }
    read_numbers(value, action).ok_or_else(|| {
        let wanted = format!("{} {}", action.len(), A::NAME);
        refused(&ActionError { wanted, found: described(value) })
    })
}

/// An action that the env will not take.
pub(crate) fn refused(error: &ActionError) -> PyErr {
    InvalidActionError::new_err(format!("the action does not fit: {error}"))
}

fn read_numbers<A: ActionNumber>(value: &Bound<'_, PyAny>, action: &mut [A]) -> Option<()> {
    if let ([number], Some(given)) = (&mut *action, A::read(value)) {
        *number = given;
        return Some(());
    }
    if value.len().ok()? != action.len() {
        return None;
    }
    for (number, given) in action.iter_mut().zip(value.try_iter().ok()?) {
        *number = A::read(&given.ok()?)?;
    }
    Some(())
}
