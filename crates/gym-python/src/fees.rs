//! Fee schedules and settlement of trades, for Python.

use market::{FeesError, Money, Rate, Settled, settle_columns};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::check_memory;
use crate::order_arguments::{Fee, Millionths};
use crate::order_columns::{Column, column};
use crate::order_error::{OrderError, batch_refusal};
use crate::record::record;

/// No fees: an upper bound on the profit of a strategy.
#[pyclass(frozen, eq, hash, from_py_object, module = "sekai.market")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Free;

record!(Free:;
    #[new]
    fn new() -> Self {
        Self
    }
);

/// A fixed fee for each lot, in ticks; negative for a rebate.
#[pyclass(frozen, eq, hash, get_all, from_py_object, module = "sekai.market")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PerLot {
    maker: i64,
    taker: i64,
}

record!(PerLot: "maker", "taker";
    #[new]
    fn new(maker: Fee, taker: Fee) -> PyResult<Self> {
        let fees = Self { maker: maker.0, taker: taker.0 };
        fees.model().map(|_| fees).map_err(invalid)
    }
);

impl PerLot {
    fn model(self) -> Result<market::PerLot, FeesError> {
        market::PerLot::new(Money(self.maker), Money(self.taker))
    }
}

/// A part of the notional, in millionths (100 are one basis point), rounded up in favour of the
/// market; negative for a rebate.
#[pyclass(frozen, eq, hash, get_all, from_py_object, module = "sekai.market")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OfNotional {
    maker_millionths: i32,
    taker_millionths: i32,
}

record!(OfNotional: "maker_millionths", "taker_millionths";
    #[new]
    fn new(maker_millionths: Millionths, taker_millionths: Millionths) -> PyResult<Self> {
        let (maker_millionths, taker_millionths) = (maker_millionths.0, taker_millionths.0);
        let fees = Self { maker_millionths, taker_millionths };
        fees.model().map(|_| fees).map_err(invalid)
    }
);

impl OfNotional {
    fn model(self) -> Result<market::OfNotional, FeesError> {
        Ok(market::OfNotional {
            maker: Rate::from_millionths(self.maker_millionths)?,
            taker: Rate::from_millionths(self.taker_millionths)?,
        })
    }
}

/// Any of the models.
#[derive(FromPyObject)]
pub(crate) enum FeeModel {
    Free(Free),
    PerLot(PerLot),
    OfNotional(OfNotional),
}

/// Cash of maker and taker, lots of maker and taker, and fees.
type SettledColumns<'py> = [Bound<'py, PyArray1<i64>>; 5];

/// Settle trades: moved cash and lots, as columns.
#[pyfunction]
pub(crate) fn settle_trades<'py>(
    py: Python<'py>,
    price: Column<'py, i64>,
    size: Column<'py, i64>,
    taker_side: Column<'py, i8>,
    fees: FeeModel,
) -> PyResult<Bound<'py, PyTuple>> {
    let (price, size, side) = (column(price)?, column(size)?, column(taker_side)?);
    check_memory("settled trades", price.len(), 5 * size_of::<i64>())?;
    let (price, size, side) = (&price[..], &size[..], &side[..]);
    let settled = match fees {
        FeeModel::Free(_) => py.detach(|| settle_columns(price, size, side, &market::Free)),
        FeeModel::PerLot(fees) => {
            let model = fees.model().map_err(invalid)?;
            py.detach(|| settle_columns(price, size, side, &model))
        }
        FeeModel::OfNotional(fees) => {
            let model = fees.model().map_err(invalid)?;
            py.detach(|| settle_columns(price, size, side, &model))
        }
    };
    let Settled { maker_cash, taker_cash, maker_lots, taker_lots, fees } =
        settled.map_err(batch_refusal)?;
    let columns: SettledColumns<'py> = [maker_cash, taker_cash, maker_lots, taker_lots, fees]
        .map(|column| PyArray1::from_vec(py, column));
    PyTuple::new(py, columns)
}

fn invalid(error: FeesError) -> PyErr {
    OrderError::new_err(error.to_string())
}
