//! A limit order book, for Python: one call for one order.

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

/// What the answer to a row of a batch occupies, roughly, apart from its fills.
const ANSWER_BYTES: usize = 64;

/// A limit order book: price, then time, in integer ticks and lots.
///
/// Threads may share a book: each call waits for the one before it. No call into Python is made
/// while the book is locked, so none can wait for itself.
#[pyclass(frozen, subclass, module = "quant_gym_rs._core")]
pub(crate) struct OrderBook(Mutex<market::OrderBook>);

#[pymethods]
impl OrderBook {
    #[new]
    #[pyo3(signature = (self_trade=Rule(market::SelfTrade::CancelResting)))]
    fn new(self_trade: Rule) -> Self {
        Self(Mutex::new(market::OrderBook::new(self_trade.0)))
    }

    /// Take in an order that trades up to `price`; `time_in_force` says what becomes of the rest.
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

    /// Trade up to `price`; the rest waits there.
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

    /// Wait at `price`; an order that could trade at once is refused.
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

    /// Trade up to `price`; the rest is cancelled.
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

    /// Trade whole up to `price`, or be refused.
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

    /// Trade at any price; the rest is cancelled.
    fn market(
        &self,
        py: Python<'_>,
        account: Account,
        side: Direction,
        size: Size,
    ) -> PyResult<Placement> {
        self.take(py, Order::market(account.0, side.0, size.0))
    }

    /// Take an order out of the book.
    fn cancel(&self, py: Python<'_>, id: Id) -> PyResult<Resting> {
        self.lock(py)?.cancel(id.0).map(Resting::from).map_err(refusal)
    }

    /// Take `by` lots from an order, which keeps its place in the queue; return what is left.
    fn reduce(&self, py: Python<'_>, id: Id, by: Size) -> PyResult<u32> {
        self.lock(py)?.reduce(id.0, by.0).map(|left| left.0).map_err(refusal)
    }

    /// Give an order a new price and size. At the same price with no more lots it keeps its id
    /// and its place; otherwise it comes in anew as a limit order, and may trade.
    fn replace(&self, py: Python<'_>, id: Id, price: Price, size: Size) -> PyResult<Placement> {
        let mut fills = Vec::new();
        let placed = self.lock(py)?.replace(id.0, price.0, size.0, &mut fills);
        placed.map(|placement| Placement::of(placement, &fills)).map_err(refusal)
    }

    /// Take every order of an account out of the book: bids, then asks, best price first.
    fn cancel_all(&self, py: Python<'_>, account: Account) -> PyResult<Vec<Resting>> {
        let mut cancelled = Vec::new();
        self.lock(py)?.cancel_all(account.0, &mut cancelled);
        Ok(cancelled.into_iter().map(Resting::from).collect())
    }

    /// The number of the rule for accounts that meet themselves.
    #[getter]
    fn rule(&self, py: Python<'_>) -> PyResult<u8> {
        Ok(self.lock(py)?.self_trade() as u8)
    }

    /// The highest price at which an order waits to buy.
    #[getter]
    fn best_bid(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.lock(py)?.best(Side::Buy).map(|price| price.0))
    }

    /// The lowest price at which an order waits to sell.
    #[getter]
    fn best_ask(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.lock(py)?.best(Side::Sell).map(|price| price.0))
    }

    /// The middle between the best bid and the best ask, if there are both.
    #[getter]
    fn mid(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.lock(py)?.mid())
    }

    /// Ticks from the best bid to the best ask, if there are both.
    #[getter]
    fn spread(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.lock(py)?.spread())
    }

    /// Lots traded since the book began.
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

    /// The best levels of a side, best first; all of them unless `count` says how many.
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

    /// Where a resting order stands in the queue of its price.
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
        let found = self.lock(py)?.levels(side.0, levels.0);
        depth_columns(py, &found, levels.0)
    }

    /// Do every row of the columns, other threads running meanwhile; return columns of answers
    /// and of fills.
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
        let [price, size, account, id] = [price, size, account, id].map(|given| given.map(column));
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
        let answers = interruptible_in(py, &self.0, &mut book, |book, pauses| {
            if strict {
                book.whole_batch_slices(&rows, pauses)
            } else {
                book.batch_slices(&rows, pauses)
            }
        })?;
        drop(book);
        Ok(answer_columns(py, answers.map_err(batch_refusal)?))
    }

    /// The whole state as bytes that carry their version and checksum.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.lock(py)?.encode();
        Ok(PyBytes::new(py, &bytes))
    }

    /// Become the book that `encode` wrote; bytes that cannot be read change nothing.
    fn decode(&self, py: Python<'_>, state: &[u8]) -> PyResult<()> {
        let book = market::OrderBook::decode(state).map_err(unreadable)?;
        *self.lock(py)? = book;
        Ok(())
    }

    /// Become what `other` is now.
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
    PyRuntimeError::new_err("a whole book was wanted, found one whose last call failed half-way")
}
