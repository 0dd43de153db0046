//! Why the book refused an operation.

use thiserror::Error;

use crate::id::OrderId;
use crate::units::{Lots, Ticks};

/// Why the book refused an operation. Nothing has moved.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum OrderError {
    /// The size is zero, or not one that an order can have.
    #[error("a size from {} to {} lots was wanted, found {found}", Lots::MIN, Lots::MAX)]
    SizeOutOfRange {
        /// The size that was given.
        found: i64,
    },
    /// The price is not one that a book can hold.
    #[error("a price from {} to {} ticks was wanted, found {found}", Ticks::MIN, Ticks::MAX)]
    PriceOutOfRange {
        /// The price that was given.
        found: i64,
    },
    /// The number is no side.
    #[error("a side of 0 (buy) or 1 (sell) was wanted, found {found}")]
    UnknownSide {
        /// The number that was given.
        found: i64,
    },
    /// The number is no account.
    #[error("an account from 0 to {} was wanted, found {found}", u32::MAX)]
    UnknownAccount {
        /// The number that was given.
        found: i64,
    },
    /// The order has traded, was cancelled, or never was.
    #[error("a resting order was wanted, found none with id {id}")]
    NotResting {
        /// The id that was given.
        id: OrderId,
    },
    /// A post-only order would have traded.
    #[error("a price that cannot trade was wanted, found {found} against {best} on the other side")]
    WouldTrade {
        /// The price that was given.
        found: Ticks,
        /// The best price of the other side.
        best: Ticks,
    },
    /// A fill-or-kill order could not trade whole.
    #[error("{wanted} lots to trade at once were wanted, found {found}")]
    NotFillable {
        /// The order's size.
        wanted: Lots,
        /// Lots that it could have traded.
        found: Lots,
    },
    /// A reduction would leave nothing.
    #[error(
        "a reduction by less than the {resting} resting lots was wanted, found {found}; cancel the order instead"
    )]
    NothingLeft {
        /// Lots that are left of the order.
        resting: Lots,
        /// The reduction that was given.
        found: Lots,
    },
    /// A price level can hold no more lots.
    #[error(
        "at most {room} more lots were wanted at {price} ticks, found {found}; count in larger lots"
    )]
    LevelFull {
        /// The price of the level.
        price: Ticks,
        /// Lots that it can still take.
        room: Lots,
        /// The size that was given.
        found: Lots,
    },
    /// The book can hold no more orders.
    #[error("at most {limit} resting orders were wanted, found one more")]
    BookFull {
        /// Orders that a book can hold.
        limit: usize,
    },
}

impl OrderError {
    /// The number of the reason, for columns of answers; 0 is left for what was not refused.
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
