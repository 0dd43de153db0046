//! Features of panels, for Python: rows by assets, strided as they come.

use gym::panel::{self, Float, Fold, Layout};
use numpy::ndarray::{ArrayD, ArrayView3};
use numpy::{
    Element, IntoPyArray, PyArray2, PyArray3, PyArrayDyn, PyArrayMethods, PyReadonlyArray2,
    PyReadonlyArray3, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{flat, owned};
use crate::errors::check_memory;

/// Feature block, and masks of values present.
type FeatureBlock<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Rolling windows of `rows` rows of `values`, each reduced by itself: `sum`, `maximum`, `minimum`
/// or `deviation`.
#[pyfunction]
pub(crate) fn rolling_windows<'py>(
    values: PyReadonlyArray2<'py, f64>,
    rows: usize,
    fold: &str,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let fold = match fold {
        "sum" => Fold::Sum,
        "maximum" => Fold::Maximum,
        "minimum" => Fold::Minimum,
        "deviation" => Fold::Deviation,
        _ => {
            return Err(PyValueError::new_err(format!(
                "unknown window reduction {fold:?}; expected 'sum', 'maximum', 'minimum' or 'deviation'"
            )));
        }
    };
    if rows == 0 {
        return Err(PyValueError::new_err("expected a window of at least 1 row, got 0"));
    }
    let view = values.as_array();
    let width = view.ncols();
    let numbers = owned(&view)?;
    check_memory("windows", numbers.len(), 6 * size_of::<f64>())?;
    table(values.py(), panel::rolling(numbers, width, rows, fold), [view.nrows(), width])
}

/// Log return over `rows` rows, where both values are present.
#[pyfunction]
pub(crate) fn log_changes<'py>(
    values: PyReadonlyArray2<'py, f64>,
    there: PyReadonlyArray2<'py, bool>,
    rows: usize,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (view, mask) = (values.as_array(), there.as_array());
    if view.dim() != mask.dim() {
        return Err(PyValueError::new_err("expected values and a mask of one shape"));
    }
    let known = view.iter().zip(&mask).map(|(value, there)| if *there { *value } else { f64::NAN });
    check_memory("numbers", view.len(), size_of::<f64>())?;
    let changes = panel::log_changes(known.collect(), view.ncols(), rows);
    table(values.py(), changes, [view.nrows(), view.ncols()])
}

/// Natural logarithm of each value; NaN where undefined.
#[pyfunction]
pub(crate) fn logarithms(
    values: PyReadonlyArrayDyn<'_, f64>,
) -> PyResult<Bound<'_, PyArrayDyn<f64>>> {
    check_memory("numbers", values.len(), size_of::<f64>())?;
    Ok(values.as_array().mapv(panel::logarithm).into_pyarray(values.py()))
}

/// Concatenate blocks of rows by assets by channels: infinite values are missing, and so is
/// everything of an asset that is not listed.
#[pyfunction]
pub(crate) fn join_features<'py>(
    blocks: Vec<PyReadonlyArray3<'py, f64>>,
    listed: PyReadonlyArray2<'py, bool>,
) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let listed_view = listed.as_array();
    let (rows, assets) = listed_view.dim();
    let views: Vec<ArrayView3<'_, f64>> = blocks.iter().map(|block| block.as_array()).collect();
    if views.iter().any(|view| (view.dim().0, view.dim().1) != (rows, assets)) {
        return Err(PyValueError::new_err(format!(
            "expected blocks of {rows} rows and {assets} assets, got others"
        )));
    }
    let channels = views.iter().map(|view| view.dim().2).sum::<usize>();
    if channels == 0 {
        return Err(PyValueError::new_err("blocks have no channels; expected at least 1"));
    }
    let entries = rows.saturating_mul(assets);
    check_memory("places", entries, channels.saturating_mul(size_of::<f64>()))?;
    let listed_flat = flat(listed_view)?;
    let mut joined = vec![f64::NAN; rows * assets * channels];
    let mut first = 0;
    for view in views {
        let width = view.dim().2;
        let values = flat(view)?;
        let entries = joined.chunks_exact_mut(channels).zip(values.chunks_exact(width.max(1)));
        for ((entry, values), _) in entries.zip(&*listed_flat).filter(|(_, listed)| **listed) {
            for (slot, value) in entry[first..].iter_mut().zip(values) {
                *slot = if value.is_finite() { *value } else { f64::NAN };
            }
        }
        first += width;
    }
    joined.into_pyarray(listed.py()).reshape([rows, assets, channels])
}

/// Joined features as a feature block, and masks of those present; see `Pipeline`.
///
/// `firsts` is the first channel of each feature, if each has a mask of its own; `is_double` has
/// numbers of 8 bytes instead of 4.
#[pyfunction]
#[pyo3(signature = (values, limits=None, firsts=None, is_double=false))]
pub(crate) fn show_features(
    values: PyReadonlyArray3<'_, f64>,
    limits: Option<(f64, f64)>,
    firsts: Option<Vec<usize>>,
    is_double: bool,
) -> PyResult<FeatureBlock<'_>> {
    let view = values.as_array();
    let (rows, assets, channels) = view.dim();
    let rises = |firsts: &Vec<usize>| {
        let is_whole = firsts.first() == Some(&0) && firsts.iter().all(|f| *f < channels);
        is_whole && firsts.is_sorted()
    };
    if !firsts.as_ref().is_none_or(rises) {
        return Err(PyValueError::new_err(format!(
            "expected first channels that rise from 0 to below {channels}, got others"
        )));
    }
    let masks = firsts.as_ref().map_or(1, Vec::len);
    let entry = (channels + masks).saturating_mul(size_of::<f64>());
    check_memory("places", rows.saturating_mul(assets), entry)?;
    let layout = Layout { channels, firsts: firsts.as_deref(), limits };
    let shape = [rows, assets];
    let numbers = flat(view)?;
    if is_double {
        shown::<f64>(values.py(), &numbers, layout, shape)
    } else {
        shown::<f32>(values.py(), &numbers, layout, shape)
    }
}

fn shown<'py, T: Float + Element>(
    py: Python<'py>,
    values: &[f64],
    layout: Layout<'_>,
    [rows, assets]: [usize; 2],
) -> PyResult<FeatureBlock<'py>> {
    let (block, present) = panel::show::<T>(values, layout);
    let block = lasting(py, vec![rows, assets, layout.channels + layout.masks()], block)?;
    let mut shape = vec![rows, assets];
    shape.extend(layout.firsts.map(<[usize]>::len));
    Ok((block, lasting(py, shape, present)?))
}

/// A read-only array.
fn lasting<T: Element>(
    py: Python<'_>,
    shape: Vec<usize>,
    values: Vec<T>,
) -> PyResult<Bound<'_, PyAny>> {
    let array = ArrayD::from_shape_vec(shape, values)
        .map_err(|error| PyValueError::new_err(error.to_string()))?
        .into_pyarray(py);
    array.readwrite().make_nonwriteable();
    Ok(array.into_any())
}

fn table(
    py: Python<'_>,
    values: Vec<f64>,
    shape: [usize; 2],
) -> PyResult<Bound<'_, PyArray2<f64>>> {
    values.into_pyarray(py).reshape(shape)
}
