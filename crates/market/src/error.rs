//! Errors of order book operations.

use thiserror::Error;

use crate::id::OrderId;
use crate::units::{Lots, Ticks};

/// Error of a refused book operation; the book is unchanged.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum OrderError {
    /// Invalid order size.
    #[error("expected a size from {} to {} lots, got {got}", Lots::MIN, Lots::MAX)]
    SizeOutOfRange {
        /// Rejected size.
        got: i64,
    },
    /// Price out of range.
    #[error("expected a price from {} to {} ticks, got {got}", Ticks::MIN, Ticks::MAX)]
    PriceOutOfRange {
        /// Rejected price.
        got: i64,
    },
    /// Invalid side.
    #[error("expected a side of 0 (buy) or 1 (sell), got {got}")]
    UnknownSide {
        /// Rejected number.
        got: i64,
    },
    /// Invalid account.
    #[error("expected an account from 0 to {}, got {got}", u32::MAX)]
    UnknownAccount {
        /// Rejected number.
        got: i64,
    },
    /// The order was filled, cancelled, or never existed.
    #[error("no resting order with id {id}")]
    NotResting {
        /// Rejected id.
        id: OrderId,
    },
    /// A post-only order would have traded.
    #[error("post-only order at {got} would trade against {best} on the other side")]
    WouldTrade {
        /// Rejected price.
        got: Ticks,
        /// The best price of the other side.
        best: Ticks,
    },
    /// A fill-or-kill order could not be filled in full.
    #[error("fill-or-kill order of {expected} lots, but only {got} lots can trade at once")]
    NotFillable {
        /// The order's size.
        expected: Lots,
        /// Lots that it could have traded.
        got: Lots,
    },
    /// A reduction would leave nothing.
    #[error(
        "reduction must be below the {resting} resting lots, got {got}; cancel the order instead"
    )]
    NothingLeft {
        /// Lots that are left of the order.
        resting: Lots,
        /// Rejected reduction.
        got: Lots,
    },
    /// A price level can hold no more lots.
    #[error("expected at most {room} more lots at {price} ticks, got {got}; count in larger lots")]
    LevelFull {
        /// The price of the level.
        price: Ticks,
        /// Lots that the level can still hold.
        room: Lots,
        /// Rejected size.
        got: Lots,
    },
    /// The book can hold no more orders.
    #[error("the book holds its limit of {limit} resting orders; cancel some first")]
    BookFull {
        /// Orders that a book can hold.
        limit: usize,
    },
}

impl OrderError {
    /// Status code of the error, for columns of answers; 0 means accepted.
    #[must_use]
    pub fn status(&self) -> i8 {
        match self {
            Self::SizeOutOfRange { .. } => 1,
            Self::PriceOutOfRange { .. } => 2,
            Self::UnknownSide { .. } => 3,
            Self::UnknownAccount { .. } => 4,
            Self::NotResting { .. } => 5,
            Self::WouldTrade { .. } => 6,
            Self::NotFillable { .. } => 7,
            Self::NothingLeft { .. } => 8,
            Self::LevelFull { .. } => 9,
            Self::BookFull { .. } => 10,
        }
    }
}
