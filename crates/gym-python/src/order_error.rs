//! Refusals of a book as Python errors.

use market::{BatchError, SnapshotError};
use pyo3::prelude::*;

mod imported {
    #![allow(missing_docs)] // what the macro makes has no place for them

    pyo3::import_exception!(sekai.error, OrderError);
    pyo3::import_exception!(sekai.error, StateError);
}

pub(crate) use imported::{OrderError, StateError};

/// A refused operation, with the number of the reason.
pub(crate) fn refusal(reason: market::OrderError) -> PyErr {
    OrderError::new_err((reason.to_string(), reason.status()))
}

/// A refused batch, with the row at fault and the number of the reason.
pub(crate) fn batch_refusal(error: BatchError) -> PyErr {
    let (status, row) = match error {
        BatchError::Value { row, reason, .. } | BatchError::Refused { row, reason } => {
            (Some(reason.status()), Some(row))
        }
        BatchError::Missing { row, .. }
        | BatchError::UnknownKind { row, .. }
        | BatchError::NotEarlier { row, .. } => (None, Some(row)),
        BatchError::Length { .. } => (None, None),
    };
    OrderError::new_err((error.to_string(), status, row))
}

/// A state that cannot be read.
pub(crate) fn unreadable(error: SnapshotError) -> PyErr {
    StateError::new_err(error.to_string())
}
