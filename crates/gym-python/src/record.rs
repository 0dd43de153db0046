//! Frozen Python records: representation, pattern matching and pickling.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Define methods of a frozen record from the names of its fields.
macro_rules! record {
    ($name:ident: $($field:literal),* $(; $($extra:tt)+)?) => {
        #[pyo3::pymethods]
        impl $name {
            #[classattr]
            #[pyo3(name = "__match_args__")]
            fn match_args(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                let names: &[&str] = &[$($field),*];
                PyTuple::new(py, names)
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                $crate::record::shown(slf.as_any(), stringify!($name), &[$($field),*])
            }

            fn __getnewargs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
                $crate::record::values(slf.as_any(), &[$($field),*])
            }

            $($($extra)+)?
        }
    };
}

pub(crate) use record;

pub(crate) fn shown(record: &Bound<'_, PyAny>, name: &str, fields: &[&str]) -> PyResult<String> {
    let mut parts = Vec::with_capacity(fields.len());
    for field in fields {
        parts.push(format!("{field}={}", record.getattr(*field)?.repr()?));
    }
    Ok(format!("{name}({})", parts.join(", ")))
}

pub(crate) fn values<'py>(
    record: &Bound<'py, PyAny>,
    fields: &[&str],
) -> PyResult<Bound<'py, PyTuple>> {
    let values: PyResult<Vec<_>> = fields.iter().map(|field| record.getattr(*field)).collect();
    PyTuple::new(record.py(), values?)
}
