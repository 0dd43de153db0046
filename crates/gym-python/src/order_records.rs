//! Records of a book for Python: frozen, compared by value, hashable, and cheap to create.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::order_arguments::Direction;
use crate::record::record;

/// Fill; its price is the resting order's.
#[pyclass(frozen, eq, hash, get_all, new = "from_fields", from_py_object, module = "sekai.market")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fill {
    maker: i64,
    maker_account: i64,
    taker_account: i64,
    price: i64,
    size: i64,
    maker_left: i64,
    taker_side: Direction,
}

record!(Fill: "maker", "maker_account", "taker_account", "price", "size", "maker_left", "taker_side");

impl From<&market::Fill> for Fill {
    fn from(fill: &market::Fill) -> Self {
        Self {
            maker: number(fill.maker),
            maker_account: fill.maker_account.0.into(),
            taker_account: fill.taker_account.0.into(),
            price: fill.price.0.into(),
            size: fill.size.0.into(),
            maker_left: fill.maker_left.0.into(),
            taker_side: Direction(fill.taker_side),
        }
    }
}

/// Outcome of an order; filled, resting and cancelled lots add up to its size.
#[pyclass(frozen, eq, hash, new = "from_fields", module = "sekai.market")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Placement {
    #[pyo3(get)]
    id: Option<i64>,
    #[pyo3(get)]
    filled: i64,
    #[pyo3(get)]
    resting: i64,
    #[pyo3(get)]
    cancelled: i64,
    #[pyo3(get)]
    prevented: i64,
    fills: Vec<Fill>,
}

record!(Placement: "id", "filled", "resting", "cancelled", "prevented", "fills";
    /// Fills, best price and oldest maker first; created on access.
    #[getter]
    fn fills<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.fills.iter().copied())
    }
);

impl Placement {
    pub(crate) fn of(placement: market::Placement, fills: &[market::Fill]) -> Self {
        Self {
            id: placement.id.map(number),
            filled: placement.filled.0.into(),
            resting: placement.resting.0.into(),
            cancelled: placement.cancelled.0.into(),
            prevented: placement.prevented.cast_signed(),
            fills: fills.iter().map(Fill::from).collect(),
        }
    }
}

/// Resting order.
#[pyclass(frozen, eq, hash, get_all, new = "from_fields", module = "sekai.market")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Resting {
    id: i64,
    account: i64,
    side: Direction,
    price: i64,
    size: i64,
}

record!(Resting: "id", "account", "side", "price", "size");

impl From<market::Resting> for Resting {
    fn from(order: market::Resting) -> Self {
        Self {
            id: number(order.id),
            account: order.account.0.into(),
            side: Direction(order.side),
            price: order.price.0.into(),
            size: order.size.0.into(),
        }
    }
}

/// Depth of one price level.
#[pyclass(frozen, eq, hash, get_all, new = "from_fields", module = "sekai.market")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DepthLevel {
    price: i64,
    size: i64,
    orders: i64,
}

record!(DepthLevel: "price", "size", "orders");

impl From<&market::DepthLevel> for DepthLevel {
    fn from(level: &market::DepthLevel) -> Self {
        Self { price: level.price.0.into(), size: level.size.0.into(), orders: level.orders.into() }
    }
}

/// Queue position of a resting order at its price.
#[pyclass(frozen, eq, hash, get_all, new = "from_fields", module = "sekai.market")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QueuePosition {
    lots_ahead: i64,
    orders_ahead: i64,
}

record!(QueuePosition: "lots_ahead", "orders_ahead");

impl From<market::QueuePosition> for QueuePosition {
    fn from(position: market::QueuePosition) -> Self {
        let (lots_ahead, orders_ahead) = (position.lots_ahead.0, position.orders_ahead);
        Self { lots_ahead: lots_ahead.into(), orders_ahead: orders_ahead.into() }
    }
}

/// Order id as a Python integer.
pub(crate) fn number(id: market::OrderId) -> i64 {
    id.to_bits().cast_signed()
}
