//! Validation and default masks of panel rows, for Python.

use gym::panel::{
    ActionColumns, Adjustment, Benchmark, Flaw, Levels, Masks, RowMasks, flaw, priced, seen,
};
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyReadonlyArray3,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{flat, owned};
use crate::errors::check_memory;

/// Benchmark returns, and the last known levels.
type Returned<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// First flaw of the rows of a panel: its kind, row, asset and field.
#[pyfunction]
pub(crate) fn panel_flaw(
    values: PyReadonlyArray3<'_, f64>,
    listed: PyReadonlyArray2<'_, bool>,
    quoted: PyReadonlyArray2<'_, bool>,
    tradable: PyReadonlyArray2<'_, bool>,
    prices: Vec<usize>,
) -> PyResult<Option<(&'static str, usize, usize, usize)>> {
    let (rows, assets, fields) = values.as_array().dim();
    let masks = [listed.as_array(), quoted.as_array(), tradable.as_array()];
    if masks.iter().any(|mask| mask.dim() != (rows, assets)) {
        return Err(PyValueError::new_err(format!(
            "expected masks of {rows} rows and {assets} assets, got others"
        )));
    }
    check_places(&prices, fields)?;
    let [listed, quoted, tradable] = masks;
    let (listed, quoted, tradable) = (flat(listed)?, flat(quoted)?, flat(tradable)?);
    let numbers = flat(values.as_array())?;
    let masks = Masks { listed: &listed, quoted: &quoted, tradable: &tradable };
    Ok(flaw(&numbers, fields, &prices, masks).map(|got| {
        let (word, index, field) = match got {
            Flaw::NotListed(index) => ("not_listed", index, 0),
            Flaw::NotQuoted(index) => ("not_quoted", index, 0),
            Flaw::NoPrice { index, field } => ("no_price", index, field),
        };
        (word, index / assets, index % assets, field)
    }))
}

/// Mask of entries with all prices present, or all values if no field is a price.
#[pyfunction]
pub(crate) fn priced_places(
    values: PyReadonlyArray3<'_, f64>,
    prices: Vec<usize>,
) -> PyResult<Bound<'_, PyArray2<bool>>> {
    let (rows, assets, fields) = values.as_array().dim();
    check_places(&prices, fields)?;
    let got = priced(&flat(values.as_array())?, fields, &prices);
    got.into_pyarray(values.py()).reshape([rows, assets])
}

/// Mask of entries with any data: a value, or a quoted flag.
#[pyfunction]
pub(crate) fn seen_places<'py>(
    values: PyReadonlyArray3<'py, f64>,
    quoted: PyReadonlyArray2<'py, bool>,
) -> PyResult<Bound<'py, PyArray2<bool>>> {
    let (rows, assets, fields) = values.as_array().dim();
    if quoted.as_array().dim() != (rows, assets) {
        return Err(PyValueError::new_err(format!(
            "expected a mask of {rows} rows and {assets} assets, got another"
        )));
    }
    check_places(&[], fields)?;
    let got = seen(&flat(values.as_array())?, fields, &flat(quoted.as_array())?);
    got.into_pyarray(values.py()).reshape([rows, assets])
}

/// Masks of listed, quoted and tradable assets of a row, and of those with any data: masks that are
/// passed stay, the others take their defaults.
#[pyfunction]
#[pyo3(signature = (values, prices, still_listed, listed=None, quoted=None, tradable=None))]
pub(crate) fn row_masks<'py>(
    values: PyReadonlyArray2<'py, f64>,
    prices: Vec<usize>,
    still_listed: PyReadonlyArray2<'py, bool>,
    listed: Option<PyReadonlyArray1<'py, bool>>,
    quoted: Option<PyReadonlyArray1<'py, bool>>,
    tradable: Option<PyReadonlyArray1<'py, bool>>,
) -> PyResult<Bound<'py, PyArray2<bool>>> {
    let (assets, fields) = values.as_array().dim();
    check_places(&prices, fields)?;
    let copied = |mask: Option<PyReadonlyArray1<'py, bool>>| match mask {
        Some(mask) if mask.as_array().len() != assets => Err(PyValueError::new_err(format!(
            "expected masks of {assets} assets, got one of {}",
            mask.as_array().len()
        ))),
        Some(mask) => owned(&mask.as_array()).map(Some),
        None => Ok(None),
    };
    let copied = [copied(listed)?, copied(quoted)?, copied(tradable)?];
    let numbers = flat(values.as_array())?;
    let still: Vec<bool> = match still_listed.as_array() {
        view if view.ncols() == assets => {
            view.columns().into_iter().map(|column| column.iter().any(|still| *still)).collect()
        }
        view => {
            return Err(PyValueError::new_err(format!(
                "expected a mask of {assets} listed assets, got {}",
                view.ncols()
            )));
        }
    };
    let got = RowMasks::of(&numbers, fields, &prices, &still, copied);
    let all = [got.listed, got.quoted, got.tradable, got.seen].concat();
    all.into_pyarray(values.py()).reshape([4, assets])
}

/// Benchmark returns of each row of `levels`, and the last known levels after them.
///
/// `quoted` is the mask of known levels, `counted` that of returns in the mean, and `before` has
/// the last known levels before the first row.
#[pyfunction]
#[pyo3(signature = (levels, quoted=None, counted=None, before=None, dividend=None, split=None))]
pub(crate) fn benchmark_returns<'py>(
    levels: PyReadonlyArray2<'py, f64>,
    quoted: Option<PyReadonlyArray2<'py, bool>>,
    counted: Option<PyReadonlyArray2<'py, bool>>,
    before: Option<PyReadonlyArray1<'py, f64>>,
    dividend: Option<PyReadonlyArray2<'py, f64>>,
    split: Option<PyReadonlyArray2<'py, f64>>,
) -> PyResult<Returned<'py>> {
    let view = levels.as_array();
    let (rows, width) = view.dim();
    check_actions([&dividend, &split], (rows, width))?;
    for mask in [&quoted, &counted].into_iter().flatten() {
        if mask.as_array().dim() != (rows, width) {
            return Err(PyValueError::new_err("expected levels and masks of one shape"));
        }
    }
    check_memory("levels", width, size_of::<f64>())?;
    let known =
        before.map_or_else(|| Ok(vec![f64::NAN; width]), |known| owned(&known.as_array()))?;
    if known.len() != width {
        return Err(PyValueError::new_err(format!("expected {width} known levels")));
    }
    check_memory("returns", rows, size_of::<f64>())?;
    let mut benchmark = Benchmark::after(known);
    let quoted = quoted.as_ref().map(|mask| flat(mask.as_array())).transpose()?;
    let counted = counted.as_ref().map(|mask| flat(mask.as_array())).transpose()?;
    let dividend = dividend.as_ref().map(|array| flat(array.as_array())).transpose()?;
    let split = split.as_ref().map(|array| flat(array.as_array())).transpose()?;
    let numbers = flat(view)?;
    let each = |row: usize| {
        let cut = row * width..(row + 1) * width;
        benchmark.push(Levels {
            levels: &numbers[cut.clone()],
            quoted: quoted.as_ref().map(|mask| &mask[cut.clone()]),
            counted: counted.as_ref().map(|mask| &mask[cut.clone()]),
            actions: ActionColumns {
                dividend: dividend.as_ref().map_or(&[], |array| &array[cut.clone()]),
                split: split.as_ref().map_or(&[], |array| &array[cut.clone()]),
            },
        })
    };
    let returns: Vec<f64> = (0..rows).map(each).collect();
    let py = levels.py();
    Ok((returns.into_pyarray(py), benchmark.known().into_pyarray(py)))
}

/// Factors that adjust the prices of each row for dividends and splits so far, the units that a
/// unit of the first row has become by then, and the state after them: factors, units and prices.
///
/// `before` is the state after all rows before the first.
#[pyfunction]
#[pyo3(signature = (close, quoted, dividend=None, split=None, before=None))]
pub(crate) fn adjustment_factors<'py>(
    close: PyReadonlyArray2<'py, f64>,
    quoted: PyReadonlyArray2<'py, bool>,
    dividend: Option<PyReadonlyArray2<'py, f64>>,
    split: Option<PyReadonlyArray2<'py, f64>>,
    before: Option<PyReadonlyArray2<'py, f64>>,
) -> PyResult<Adjusted<'py>> {
    let (rows, width) = close.as_array().dim();
    check_actions([&dividend, &split], (rows, width))?;
    if quoted.as_array().dim() != (rows, width) {
        return Err(PyValueError::new_err("expected close and quoted of one shape"));
    }
    let mut adjustment = Adjustment::new(width);
    if let Some(before) = before {
        if before.as_array().dim() != (3, width) {
            return Err(PyValueError::new_err(format!("expected a state of 3 by {width}")));
        }
        let state = flat(before.as_array())?;
        adjustment.prices = state[..width].to_vec();
        adjustment.units = state[width..2 * width].to_vec();
        adjustment.last = state[2 * width..].to_vec();
    }
    check_memory("factors", rows * width, 2 * size_of::<f64>())?;
    let dividend = dividend.as_ref().map(|array| flat(array.as_array())).transpose()?;
    let split = split.as_ref().map(|array| flat(array.as_array())).transpose()?;
    let (close_rows, quoted_rows) = (flat(close.as_array())?, flat(quoted.as_array())?);
    let (mut prices, mut units) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let cut = row * width..(row + 1) * width;
        let actions = ActionColumns {
            dividend: dividend.as_ref().map_or(&[], |array| &array[cut.clone()]),
            split: split.as_ref().map_or(&[], |array| &array[cut.clone()]),
        };
        adjustment.push(&close_rows[cut.clone()], &quoted_rows[cut], actions);
        prices.extend_from_slice(&adjustment.prices);
        units.extend_from_slice(&adjustment.units);
    }
    let py = close.py();
    let state = [adjustment.prices, adjustment.units, adjustment.last].concat();
    Ok((
        prices.into_pyarray(py).reshape([rows, width])?,
        units.into_pyarray(py).reshape([rows, width])?,
        state.into_pyarray(py).reshape([3, width])?,
    ))
}

/// Price factors, units, and the state after the last row.
type Adjusted<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>);

fn check_actions(
    columns: [&Option<PyReadonlyArray2<'_, f64>>; 2],
    shape: (usize, usize),
) -> PyResult<()> {
    if columns.into_iter().flatten().any(|column| column.as_array().dim() != shape) {
        return Err(PyValueError::new_err("expected dividends and splits of the shape of prices"));
    }
    Ok(())
}

fn check_places(prices: &[usize], fields: usize) -> PyResult<()> {
    if fields == 0 {
        return Err(PyValueError::new_err("values have no fields; expected at least 1"));
    }
    match prices.iter().find(|index| **index >= fields) {
        None => Ok(()),
        Some(index) => Err(PyValueError::new_err(format!(
            "expected prices among {fields} fields, got index {index}"
        ))),
    }
}
