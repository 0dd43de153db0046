//! Portfolio accounts kept by a broker: orders and account reports.

use gym::portfolio::{AccountReport, OrdersError, Paid, Portfolio};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::actions;
use crate::arrays::readable;
use crate::batch::NativeBatch;
use crate::errors::of_batch;
use crate::market_config::refused;

/// Cash, units and open units of each asset, costs by kind, and the value traded.
pub(crate) type Account<'py> =
    (f64, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64);

/// Orders in units for an action at current prices.
pub(crate) fn orders<'py>(
    batch: &mut NativeBatch<Portfolio>,
    env: i64,
    action: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let mut choice = vec![0.0; batch.action.len()];
    let task = batch.batch.running(env).map_err(|error| of_batch(&error))?;
    actions::of_single(action, &mut choice)?;
    let units = task.orders(&choice).map_err(|error| match error {
        OrdersError::Action(error) => actions::refused(&error),
        error => refused(&error),
    })?;
    Ok(PyArray1::from_vec(action.py(), units))
}

/// Read an account report from Python arrays.
pub(crate) fn read(
    batch: &NativeBatch<Portfolio>,
    cash: f64,
    units: &Bound<'_, PyAny>,
    open_units: &Bound<'_, PyAny>,
    paid: &Bound<'_, PyAny>,
    traded: f64,
) -> PyResult<AccountReport> {
    let assets = batch.batch.task(0).panel().width().assets;
    let numbers = |name, array, length| -> PyResult<Vec<f64>> {
        Ok(readable::<f64>(name, array, &[length])?.as_slice()?.to_vec())
    };
    let mut kinds = [0.0; Paid::KINDS];
    kinds.copy_from_slice(&numbers("paid", paid, Paid::KINDS)?);
    Ok(AccountReport {
        cash,
        units: numbers("units", units, assets)?,
        open_units: numbers("open_units", open_units, assets)?,
        paid: Paid::of_kinds(kinds),
        traded,
    })
}

/// Report the account of an env after its next row.
pub(crate) fn report(
    batch: &mut NativeBatch<Portfolio>,
    env: i64,
    report: AccountReport,
) -> PyResult<()> {
    let task = batch.batch.running(env).map_err(|error| of_batch(&error))?;
    task.expect(report).map_err(|error| refused(&error))
}

/// Account of an env.
pub(crate) fn account<'py>(
    batch: &NativeBatch<Portfolio>,
    env: i64,
    py: Python<'py>,
) -> PyResult<Account<'py>> {
    let (_, task) = batch.batch.begun(env).map_err(|error| of_batch(&error))?;
    let AccountReport { cash, units, open_units, paid, traded } = task.account_of(0);
    let array = |numbers| PyArray1::from_vec(py, numbers);
    Ok((cash, array(units), array(open_units), array(paid.by_kind().to_vec()), traded))
}
