//! Observations made of parts, as dicts of arrays.

use std::fmt::{self, Display, Formatter};

use gym::Shape;
use numpy::ndarray::{ArrayViewD, IxDyn};
use numpy::{Element, PyReadwriteArrayDyn, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arrays::{described, writable};

/// Array of a part of an observation; `None` if the part is absent.
pub(crate) type PartArray<'py, E> = Option<PyReadwriteArrayDyn<'py, E>>;

/// Convert an observation of `gym::parts!` to a Python dict with a key for each part: its buffers,
/// its rows, and its parts.
macro_rules! observation_in_parts {
    ($memory:ty, $rows:ident { $($part:ident: $number:ty),+ $(,)? }) => {
        const _: () = {
            use pyo3::intern;
            use pyo3::prelude::*;
            use pyo3::types::PyDict;
            use $crate::observation::PyObservation;
            use $crate::observation_parts::{PartArray, dict_of, part_of, put_part, slice_of};

            pub(crate) struct Arrays<'py> {
                $($part: PartArray<'py, $number>,)+
            }

            impl PyObservation for $memory {
                type Arrays<'py> = Arrays<'py>;

                fn writable<'py>(
                    name: &'static str,
                    value: &Bound<'py, PyAny>,
                    layout: &Self::Layout,
                    num_envs: usize,
                ) -> PyResult<Arrays<'py>> {
                    let py = value.py();
                    let shapes = [$((stringify!($part), layout.$part)),+];
                    let value = dict_of(name, value, &shapes)?;
                    Ok(Arrays {
                        $($part: part_of(
                            name, intern!(py, stringify!($part)), value, layout.$part, num_envs,
                        )?,)+
                    })
                }

                fn rows_of<'a>(arrays: &'a mut Arrays<'_>) -> PyResult<$rows<'a>> {
                    Ok($rows { $($part: slice_of(&mut arrays.$part)?,)+ })
                }

                fn to_python<'py>(
                    &self,
                    py: Python<'py>,
                    layout: &Self::Layout,
                ) -> PyResult<Bound<'py, PyAny>> {
                    let dict = PyDict::new(py);
                    $(put_part(
                        &dict, intern!(py, stringify!($part)), layout.$part, &self.$part,
                    )?;)+
                    Ok(dict.into_any())
                }
            }
        };
    };
}

pub(crate) use observation_in_parts;

/// The dict argument, with one key per part.
pub(crate) fn dict_of<'a, 'py>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
    shapes: &[(&str, Shape)],
) -> PyResult<&'a Bound<'py, PyDict>> {
    let keys = || shapes.iter().filter(|(_, shape)| !shape.is_empty()).map(|(key, _)| *key);
    let got = match value.cast::<PyDict>() {
        Ok(dict) if dict.len() == keys().count() => return Ok(dict),
        Ok(dict) => format!("one with the keys {}", dict.keys()),
        Err(_) => described(value),
    };
    let expected: Vec<&str> = keys().collect();
    Err(PyValueError::new_err(format!(
        "{name} needs a dict of arrays with the keys {expected:?}, got {got}"
    )))
}

/// The array of one part, with a row for each env.
pub(crate) fn part_of<'py, E: Element>(
    name: &str,
    key: &Bound<'py, PyString>,
    value: &Bound<'py, PyDict>,
    shape: Shape,
    num_envs: usize,
) -> PyResult<PartArray<'py, E>> {
    if shape.is_empty() {
        return Ok(None);
    }
    let Some(array) = value.get_item(key)? else {
        return Err(PyValueError::new_err(format!(
            "{name} needs an array under the key {}, got the keys {}",
            key.repr()?,
            value.keys()
        )));
    };
    let mut axes = [num_envs; 1 + Shape::MOST_AXES];
    let rank = shape.axes().len();
    axes[1..=rank].copy_from_slice(shape.axes());
    writable(PartName { name, key }, &array, &axes[..=rank]).map(Some)
}

/// Values of a part; empty if absent.
pub(crate) fn slice_of<'a, E: Element>(array: &'a mut PartArray<'_, E>) -> PyResult<&'a mut [E]> {
    array.as_mut().map_or(Ok(&mut []), |array| Ok(array.as_slice_mut()?))
}

/// Add a part to the dict, as a new array, unless absent.
pub(crate) fn put_part<E: Element>(
    dict: &Bound<'_, PyDict>,
    key: &Bound<'_, PyString>,
    shape: Shape,
    values: &[E],
) -> PyResult<()> {
    if shape.is_empty() {
        return Ok(());
    }
    let view = ArrayViewD::from_shape(IxDyn(shape.axes()), values)
        .map_err(|error| PyValueError::new_err(format!("{key} does not fit its shape: {error}")))?;
    dict.set_item(key, view.to_pyarray(dict.py()))
}

/// Name of a part in errors; formatted only there.
struct PartName<'a, 'py> {
    name: &'a str,
    key: &'a Bound<'py, PyString>,
}

impl Display for PartName<'_, '_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}[{:?}]", self.name, self.key.to_string())
    }
}
