//! Conversion of book errors to Python errors.

use market::{BatchError, SnapshotError};
use pyo3::prelude::*;

mod imported {
    #![allow(missing_docs)] // the macro's output has no docs

    pyo3::import_exception!(sekai.error, OrderError);
    pyo3::import_exception!(sekai.error, StateError);
}

pub(crate) use imported::{OrderError, StateError};

/// Convert the error of a refused operation, with its status code.
pub(crate) fn refusal(reason: market::OrderError) -> PyErr {
    OrderError::new_err((reason.to_string(), reason.status()))
}

/// Convert the error of a refused batch, with its row and status code.
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

/// Convert an error of decoding a snapshot.
pub(crate) fn unreadable(error: SnapshotError) -> PyErr {
    StateError::new_err(error.to_string())
}
