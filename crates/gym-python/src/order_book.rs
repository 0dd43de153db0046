//! Limit order book, for Python: one call per order.

use std::sync::{Mutex, MutexGuard};

use market::{Fill, Operations, Order, Side};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::check_memory;
use crate::interrupt::{self, interruptible_in};
use crate::order_arguments::{Account, Direction, Force, Id, Levels, Price, Rule, Size};
use crate::order_columns::{
    AnswerColumns, Column, DepthColumns, OrderColumns, answer_columns, column, depth_columns,
    order_columns,
};
use crate::order_error::{batch_refusal, refusal, unreadable};
use crate::order_records::{DepthLevel, Placement, QueuePosition, Resting};

/// Approximate memory of the answer to a row of a batch, without its fills, in bytes.
const ANSWER_BYTES: usize = 64;

/// Limit order book with price-time priority, in integer ticks and lots.
///
/// Thread-safe: calls are serialized by a lock. No call into Python is made while the book is
/// locked, so it cannot deadlock.
#[pyclass(frozen, subclass, module = "quant_gym_rs._core")]
pub(crate) struct OrderBook(Mutex<market::OrderBook>);

#[pymethods]
impl OrderBook {
    #[new]
    #[pyo3(signature = (self_trade=Rule(market::SelfTrade::CancelResting)))]
    fn new(self_trade: Rule) -> Self {
        Self(Mutex::new(market::OrderBook::new(self_trade.0)))
    }

    /// Submit an order that trades up to `price`; `time_in_force` decides the handling of the rest.
    #[pyo3(signature = (account, side, price, size, time_in_force))]
    fn place(
        &self,
        py: Python<'_>,
        account: Account,
        side: Direction,
        price: Price,
        size: Size,
        time_in_force: Force,
    ) -> PyResult<Placement> {
        let (account, side, price, size) = (account.0, side.0, price.0, size.0);
        self.take(py, Order { account, side, price, size, time_in_force: time_in_force.0 })
    }

    /// Submit a limit order: trades up to `price`; the rest rests there.
    fn limit(
        &self,
        py: Python<'_>,
        account: Account,
        side: Direction,
        price: Price,
        size: Size,
    ) -> PyResult<Placement> {
        self.take(py, Order::limit(account.0, side.0, price.0, size.0))
    }

    /// Submit a post-only order: rests at `price`; refused if it could trade at once.
    fn post_only(
        &self,
        py: Python<'_>,
        account: Account,
        side: Direction,
        price: Price,
        size: Size,
    ) -> PyResult<Placement> {
        self.take(py, Order::post_only(account.0, side.0, price.0, size.0))
    }

    /// Submit an immediate-or-cancel order: trades up to `price`; the rest is cancelled.
    fn immediate_or_cancel(
        &self,
        py: Python<'_>,
        account: Account,
        side: Direction,
        price: Price,
        size: Size,
    ) -> PyResult<Placement> {
        self.take(py, Order::immediate_or_cancel(account.0, side.0, price.0, size.0))
    }

    /// Submit a fill-or-kill order: trades in full up to `price`, or is refused.
    fn fill_or_kill(
        &self,
        py: Python<'_>,
        account: Account,
        side: Direction,
        price: Price,
        size: Size,
    ) -> PyResult<Placement> {
        self.take(py, Order::fill_or_kill(account.0, side.0, price.0, size.0))
    }

    /// Submit a market order: trades at any price; the rest is cancelled.
    fn market(
        &self,
        py: Python<'_>,
        account: Account,
        side: Direction,
        size: Size,
    ) -> PyResult<Placement> {
        self.take(py, Order::market(account.0, side.0, size.0))
    }

    /// Cancel a resting order.
    fn cancel(&self, py: Python<'_>, id: Id) -> PyResult<Resting> {
        self.lock(py)?.cancel(id.0).map(Resting::from).map_err(refusal)
    }

    /// Reduce an order by `by` lots; it keeps its queue position. Return the remaining lots.
    fn reduce(&self, py: Python<'_>, id: Id, by: Size) -> PyResult<u32> {
        self.lock(py)?.reduce(id.0, by.0).map(|left| left.0).map_err(refusal)
    }

    /// Replace the price and size of an order. At the same price with no more lots it keeps its id
    /// and queue position; otherwise it is resubmitted as a limit order, and may trade.
    fn replace(&self, py: Python<'_>, id: Id, price: Price, size: Size) -> PyResult<Placement> {
        let mut fills = Vec::new();
        let placed = self.lock(py)?.replace(id.0, price.0, size.0, &mut fills);
        placed.map(|placement| Placement::of(placement, &fills)).map_err(refusal)
    }

    /// Cancel all orders of an account: bids, then asks, best price first.
    fn cancel_all(&self, py: Python<'_>, account: Account) -> PyResult<Vec<Resting>> {
        let mut cancelled = Vec::new();
        self.lock(py)?.cancel_all(account.0, &mut cancelled);
        Ok(cancelled.into_iter().map(Resting::from).collect())
    }

    /// Number of the self-trade prevention rule.
    #[getter]
    fn rule(&self, py: Python<'_>) -> PyResult<u8> {
        Ok(self.lock(py)?.self_trade() as u8)
    }

    /// Best bid.
    #[getter]
    fn best_bid(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.lock(py)?.best(Side::Buy).map(|price| price.0))
    }

    /// Best ask.
    #[getter]
    fn best_ask(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.lock(py)?.best(Side::Sell).map(|price| price.0))
    }

    /// Mid price, if both sides have orders.
    #[getter]
    fn mid(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.lock(py)?.mid())
    }

    /// Spread in ticks, if both sides have orders.
    #[getter]
    fn spread(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.lock(py)?.spread())
    }

    /// Traded lots since the book was created.
    #[getter]
    fn traded(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.traded())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.lock(py)?.len())
    }

    /// Resting lots of a side.
    fn volume(&self, py: Python<'_>, side: Direction) -> PyResult<u64> {
        Ok(self.lock(py)?.volume(side.0))
    }

    /// Lots that rest at one price of a side.
    fn volume_at(&self, py: Python<'_>, side: Direction, price: Price) -> PyResult<u32> {
        Ok(self.lock(py)?.volume_at(side.0, price.0).0)
    }

    /// The best levels of a side, best first; at most `count` of them (all by default).
    #[pyo3(signature = (side, count=None))]
    fn levels(
        &self,
        py: Python<'_>,
        side: Direction,
        count: Option<Levels>,
    ) -> PyResult<Vec<DepthLevel>> {
        let levels = self.lock(py)?.levels(side.0, count.map_or(usize::MAX, |count| count.0));
        Ok(levels.iter().map(DepthLevel::from).collect())
    }

    /// The resting order with this id, if there is one.
    fn order(&self, py: Python<'_>, id: Id) -> PyResult<Option<Resting>> {
        Ok(self.lock(py)?.order(id.0).map(Resting::from))
    }

    /// Queue position of a resting order at its price.
    fn queue_position(&self, py: Python<'_>, id: Id) -> PyResult<QueuePosition> {
        self.lock(py)?.queue_position(id.0).map(QueuePosition::from).map_err(refusal)
    }

    /// Id, account, price and size of the orders of a side, best price first, then oldest first.
    fn order_columns<'py>(&self, py: Python<'py>, side: Direction) -> PyResult<OrderColumns<'py>> {
        let orders: Vec<_> = self.lock(py)?.orders(side.0).collect();
        Ok(order_columns(py, &orders))
    }

    /// Price, size and orders of the best `levels` levels of a side, zeros where there are none.
    fn depth_columns<'py>(
        &self,
        py: Python<'py>,
        side: Direction,
        levels: Levels,
    ) -> PyResult<DepthColumns<'py>> {
        let got = self.lock(py)?.levels(side.0, levels.0);
        depth_columns(py, &got, levels.0)
    }

    /// Execute the rows of a batch without the GIL; return columns of answers and of fills.
    #[pyo3(signature = (kind, side, price, size, account, id, strict))]
    #[allow(clippy::too_many_arguments)] // one for each column
    fn batch_columns<'py>(
        &self,
        py: Python<'py>,
        kind: Column<'py, i8>,
        side: Option<Column<'py, i8>>,
        price: Option<Column<'py, i64>>,
        size: Option<Column<'py, i64>>,
        account: Option<Column<'py, i64>>,
        id: Option<Column<'py, i64>>,
        strict: bool,
    ) -> PyResult<AnswerColumns<'py>> {
        let (kind, side) = (column(kind)?, side.map(column).transpose()?);
        let [price, size, account, id] =
            [price, size, account, id].map(|argument| argument.map(column));
        let (price, size) = (price.transpose()?, size.transpose()?);
        let (account, id) = (account.transpose()?, id.transpose()?);
        let rows = Operations {
            kind: &kind,
            side: side.as_deref(),
            price: price.as_deref(),
            size: size.as_deref(),
            account: account.as_deref(),
            id: id.as_deref(),
        };
        check_memory("answers", rows.kind.len(), ANSWER_BYTES)?;
        let mut book = self.lock(py)?;
        let answers = interruptible_in(py, &self.0, &mut book, |book, interrupt| {
            if strict {
                book.atomic_batch_slices(&rows, interrupt)
            } else {
                book.batch_slices(&rows, interrupt)
            }
        })?;
        drop(book);
        Ok(answer_columns(py, answers.map_err(batch_refusal)?))
    }

    /// Encode the full state as bytes with version and checksum.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.lock(py)?.encode();
        Ok(PyBytes::new(py, &bytes))
    }

    /// Restore the state of `encode`; invalid bytes change nothing.
    fn decode(&self, py: Python<'_>, state: &[u8]) -> PyResult<()> {
        let book = market::OrderBook::decode(state).map_err(unreadable)?;
        *self.lock(py)? = book;
        Ok(())
    }

    /// Copy the state of `other`.
    fn copy_from(&self, py: Python<'_>, other: PyRef<'_, Self>) -> PyResult<()> {
        let book = other.lock(py)?.clone();
        *self.lock(py)? = book;
        Ok(())
    }
}

impl OrderBook {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, market::OrderBook>> {
        interrupt::lock(py, &self.0)?.ok_or_else(broken)
    }

    fn take(&self, py: Python<'_>, order: Order) -> PyResult<Placement> {
        let mut fills: Vec<Fill> = Vec::new();
        let placed = self.lock(py)?.place(order, &mut fills);
        placed.map(|placement| Placement::of(placement, &fills)).map_err(refusal)
    }
}

fn broken() -> PyErr {
    PyRuntimeError::new_err(
        "the order book is unusable because its last call failed; create a new one or load a state",
    )
}
