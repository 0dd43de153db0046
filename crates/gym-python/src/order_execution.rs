//! Order execution over the ticks of a day, for Python.

use gym::order_execution::{
    Direction, ExecutionError, OrderDay, OrderExecution, OrderRules, Summary,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::actions::ActionNumber;
use crate::arrays::{described, owned};
use crate::errors::{InvalidActionError, ResetRequired, StateError};
use crate::record::record;

/// Sums and means over the ticks of a step, or of all steps so far.
#[pyclass(frozen, get_all, new = "from_fields", module = "quant_gym_rs._core")]
#[derive(Clone, Copy)]
pub(crate) struct OrderSummary {
    wanted: f64,
    filled: f64,
    value: f64,
    cost: f64,
    market_volume: f64,
    market_price: f64,
}

record!(OrderSummary: "wanted", "filled", "value", "cost", "market_volume", "market_price");

impl From<Summary> for OrderSummary {
    fn from(summary: Summary) -> Self {
        let Summary { requested, filled, value, cost, market_volume, market_price } = summary;
        Self { wanted: requested, filled, value, cost, market_volume, market_price }
    }
}

/// Execution of one order: matching and costs of both order simulators.
#[pyclass(module = "quant_gym_rs._core")]
pub(crate) struct OrderMatcher(pub(crate) OrderExecution);

type Floats<'py> = PyReadonlyArray1<'py, f64>;

#[pymethods]
impl OrderMatcher {
    /// An order of `amount`, executed from tick `first` up to but not including `stop`.
    #[new]
    #[pyo3(signature = (price, volume, is_buy, amount, first, stop, *, ticks_per_step=30,
        carries=false, finishes=true, tradable=None, current_cap=None, cumulative_cap=None,
        factor=None, trade_unit=None, open_cost=0.0, close_cost=0.0, min_cost=0.0,
        impact_cost=0.0, cash=None, sessions=Vec::new()))]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn new(
        price: Floats<'_>,
        volume: Floats<'_>,
        is_buy: bool,
        amount: f64,
        first: usize,
        stop: usize,
        ticks_per_step: usize,
        carries: bool,
        finishes: bool,
        tradable: Option<PyReadonlyArray1<'_, bool>>,
        current_cap: Option<Floats<'_>>,
        cumulative_cap: Option<Floats<'_>>,
        factor: Option<Floats<'_>>,
        trade_unit: Option<f64>,
        open_cost: f64,
        close_cost: f64,
        min_cost: f64,
        impact_cost: f64,
        cash: Option<f64>,
        sessions: Vec<usize>,
    ) -> PyResult<Self> {
        let column =
            |values: Option<Floats<'_>>| values.map(|values| owned(&values.as_array())).transpose();
        let day = OrderDay {
            price: owned(&price.as_array())?,
            volume: owned(&volume.as_array())?,
            tradable: tradable.map(|values| owned(&values.as_array())).transpose()?,
            current_cap: column(current_cap)?,
            cumulative_cap: column(cumulative_cap)?,
            factor: column(factor)?,
            sessions,
        };
        let rules = OrderRules {
            ticks_per_step,
            carries,
            finishes,
            trade_unit,
            open_cost,
            close_cost,
            min_cost,
            impact_cost,
            cash,
        };
        let direction = if is_buy { Direction::Buy } else { Direction::Sell };
        OrderExecution::new(day, rules, direction, amount, (first, stop))
            .map(Self)
            .map_err(|error| refused(&error))
    }

    /// Spread `amount` over the ticks of the next step; a refused amount changes nothing.
    fn step(&mut self, amount: &Bound<'_, PyAny>) -> PyResult<OrderSummary> {
        let amount = <f64 as ActionNumber>::read(amount).ok_or_else(|| {
            InvalidActionError::new_err(format!(
                "an amount must be a real number, got {}",
                described(amount)
            ))
        })?;
        self.0.step(amount).map(OrderSummary::from).map_err(|error| refused(&error))
    }

    /// Summary of all steps so far.
    fn total(&self) -> OrderSummary {
        self.0.total().into()
    }

    /// Steps from the `first`th on: tick at which each begins, amount that was to be traded, amount
    /// left afterwards, and a summary of its ticks.
    #[pyo3(signature = (first=0))]
    fn step_summaries(&self, first: usize) -> Vec<(usize, f64, f64, OrderSummary)> {
        let steps = self.0.step_summaries(first);
        steps
            .map(|(begin, step, summary)| (begin, step.ordered, step.position, summary.into()))
            .collect()
    }

    /// Amount that was to be traded in all steps so far.
    #[getter]
    fn ordered(&self) -> f64 {
        self.0.ordered()
    }

    /// Six rows of one value per executed tick, from the window's `begin`th up to its `stop`th:
    /// requested, filled, value, cost, price and volume.
    #[pyo3(signature = (begin=0, stop=None))]
    fn fills<'py>(
        &self,
        py: Python<'py>,
        begin: usize,
        stop: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let stop = stop.unwrap_or(self.0.fills().len());
        self.check_ticks(begin, stop)?;
        let fills = &self.0.fills()[begin..stop];
        let mut table = Vec::with_capacity(6 * fills.len());
        table.extend(fills.iter().map(|fill| fill.requested));
        table.extend(fills.iter().map(|fill| fill.filled));
        table.extend(fills.iter().map(|fill| fill.value));
        table.extend(fills.iter().map(|fill| fill.cost));
        table.extend_from_slice(&self.0.prices()[begin..stop]);
        table.extend_from_slice(&self.0.volumes()[begin..stop]);
        PyArray1::from_vec(py, table).reshape([6, fills.len()])
    }

    /// Negative implementation shortfall with costs of the window's `begin`th up to its `stop`th
    /// tick, in basis points.
    fn shortfall(&self, begin: usize, stop: usize) -> PyResult<f64> {
        let first = self.check_ticks(begin, stop)?;
        Ok(self.0.shortfall(first + begin, first + stop))
    }

    /// Price advantage over TWAP of the window's `begin`th up to its `stop`th tick in basis points,
    /// weighted by their share of the order.
    fn advantage(&self, begin: usize, stop: usize) -> PyResult<f64> {
        let first = self.check_ticks(begin, stop)?;
        Ok(self.0.advantage(first + begin, first + stop))
    }

    /// Sum of squared fills of the window's `begin`th up to its `stop`th tick, as shares of the
    /// order.
    fn concentration(&self, begin: usize, stop: usize) -> PyResult<f64> {
        let first = self.check_ticks(begin, stop)?;
        Ok(self.0.concentration(first + begin, first + stop))
    }

    /// 1, 0 or -1 for a good, a fair or a bad price of the window's first `stop` ticks, against the
    /// mean price of the ticks `day_begin` up to `day_stop` of each session.
    fn price_score(&self, stop: usize, day_begin: usize, day_stop: usize) -> PyResult<f64> {
        let first = self.check_ticks(0, stop)?;
        Ok(self.0.price_score(first + stop, day_begin..day_stop.max(day_begin)))
    }

    /// Mean of the known prices in the window; 0 if there is none.
    #[getter]
    fn twap_price(&self) -> f64 {
        self.0.twap_price()
    }

    /// Return True if the order is filled or the window is over.
    #[getter]
    fn done(&self) -> bool {
        self.0.is_done()
    }

    /// Remaining size.
    #[getter]
    fn position(&self) -> f64 {
        self.0.position()
    }

    /// Available cash; None if unlimited.
    #[getter]
    fn cash(&self) -> Option<f64> {
        self.0.cash()
    }

    /// The day's tick at which the next step begins.
    #[getter]
    fn tick(&self) -> usize {
        self.0.tick()
    }

    /// The day's tick at which the step that contains a tick ends.
    fn boundary_after(&self, tick: usize) -> usize {
        self.0.boundary_after(tick)
    }

    /// Number of steps taken.
    #[getter]
    fn steps(&self) -> usize {
        self.0.steps()
    }

    /// Number of steps from the window's first tick to its last.
    #[getter]
    fn total_steps(&self) -> usize {
        self.0.total_steps()
    }

    /// Restore an order from its pickled bytes.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        OrderExecution::from_bytes(bytes)
            .map(Self)
            .map_err(|error| StateError::new_err(error.to_string()))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let bytes = PyBytes::new(py, &slf.borrow().0.to_bytes());
        Ok((slf.get_type().getattr("from_bytes")?, PyTuple::new(py, [bytes])?))
    }

    fn __copy__(&self) -> Self {
        Self(self.0.clone())
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        Self(self.0.clone())
    }
}

impl OrderMatcher {
    /// Check a range of executed ticks; return the day's tick at which the window begins.
    fn check_ticks(&self, begin: usize, stop: usize) -> PyResult<usize> {
        let worked = self.0.fills().len();
        if begin <= stop && stop <= worked {
            return Ok(self.0.tick() - worked);
        }
        Err(PyValueError::new_err(format!(
            "expected ticks within the {worked} executed ones, got {begin} to {stop}"
        )))
    }
}

fn refused(error: &ExecutionError) -> PyErr {
    let message = error.to_string();
    match error {
        ExecutionError::Amount { .. } => InvalidActionError::new_err(message),
        ExecutionError::Done { .. } => ResetRequired::new_err(message),
        _ => PyValueError::new_err(message),
    }
}
