//! Conversion of core errors to those of `sekai.error`.

use gym::{BatchError, BatchStateError};
use market::MemoryError;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;

// One wheel installs both packages, so `sekai.error` is there when an error is raised.
pyo3::import_exception!(sekai.error, BusyError);
pyo3::import_exception!(sekai.error, InvalidActionError);
pyo3::import_exception!(sekai.error, NotReadyError);
pyo3::import_exception!(sekai.error, ResetRequired);
pyo3::import_exception!(sekai.error, StateError);

/// Convert a memory error.
pub(crate) fn of_memory(error: MemoryError) -> PyErr {
    PyMemoryError::new_err(error.to_string())
}

/// Check that `count` times `each` bytes can be allocated.
pub(crate) fn check_memory(what: &'static str, count: usize, each: usize) -> PyResult<()> {
    market::check_memory(what, count, each).map_err(of_memory)
}

/// Convert an error of a batch.
pub(crate) fn of_batch(error: &BatchError) -> PyErr {
    match error {
        BatchError::Action { .. } => InvalidActionError::new_err(error.to_string()),
        BatchError::NotRunning { .. } => ResetRequired::new_err(error.to_string()),
        BatchError::Waiting { .. } => NotReadyError::new_err(error.to_string()),
        BatchError::NoSuchEnv { .. }
        | BatchError::Length { .. }
        | BatchError::PartLength { .. }
        | BatchError::Unreadable(_) => PyValueError::new_err(error.to_string()),
    }
}

/// Convert an error of loading a state.
pub(crate) fn of_state(error: &BatchStateError) -> PyErr {
    StateError::new_err(error.to_string())
}
