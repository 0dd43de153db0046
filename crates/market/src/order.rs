//! What a trader asks for, and what became of it.

use crate::error::OrderError;
use crate::id::{AccountId, OrderId};
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// What an order does with the lots that cannot trade at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeInForce {
    /// They rest until they trade or are cancelled.
    GoodTillCancelled,
    /// They rest, and an order that could trade at once is refused.
    PostOnly,
    /// They are cancelled.
    ImmediateOrCancel,
    /// An order with such lots is refused.
    FillOrKill,
}

impl TimeInForce {
    /// Whether lots that cannot trade at once wait in the book.
    #[must_use]
    pub fn rests(self) -> bool {
        matches!(self, Self::GoodTillCancelled | Self::PostOnly)
    }
}

/// An order as it comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Whose order it is.
    pub account: AccountId,
    /// Whether it buys or sells.
    pub side: Side,
    /// The worst price it takes.
    pub price: Ticks,
    /// Its size.
    pub size: Lots,
    /// What it does with lots that cannot trade at once.
    pub time_in_force: TimeInForce,
}

impl Order {
    /// Trades up to `price`; the rest waits there.
    #[must_use]
    pub fn limit(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::GoodTillCancelled }
    }

    /// Waits at `price`, or is refused if it could trade at once.
    #[must_use]
    pub fn post_only(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::PostOnly }
    }

    /// Trades up to `price`; the rest is cancelled.
    #[must_use]
    pub fn immediate_or_cancel(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::ImmediateOrCancel }
    }

    /// Trades whole up to `price`, or is refused.
    #[must_use]
    pub fn fill_or_kill(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::FillOrKill }
    }

    /// Trades at any price; the rest is cancelled.
    #[must_use]
    pub fn market(account: AccountId, side: Side, size: Lots) -> Self {
        let price = match side {
            Side::Buy => Ticks::MAX,
            Side::Sell => Ticks::MIN,
        };
        Self::immediate_or_cancel(account, side, price, size)
    }
}

/// Refuses a price that no book holds, and an order without size.
pub(crate) fn check(price: Ticks, size: Lots) -> Result<(), OrderError> {
    if !(Ticks::MIN..=Ticks::MAX).contains(&price) {
        return Err(OrderError::PriceOutOfRange { found: price.0.into() });
    }
    check_size(size)
}

/// Refuses no size.
pub(crate) fn check_size(size: Lots) -> Result<(), OrderError> {
    if size < Lots::MIN {
        return Err(OrderError::SizeOutOfRange { found: size.0.into() });
    }
    Ok(())
}

/// What became of an order; filled, resting and cancelled lots add up to its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its id, if a part of it rests.
    pub id: Option<OrderId>,
    /// Lots that traded.
    pub filled: Lots,
    /// Lots that rest.
    pub resting: Lots,
    /// Lots that will never trade: nobody took them, or self-trade prevention removed them.
    pub cancelled: Lots,
    /// Lots that self-trade prevention took from resting orders of the same account.
    pub prevented: u64,
}

/// An order that rests in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resting {
    /// Its id.
    pub id: OrderId,
    /// Whose order it is.
    pub account: AccountId,
    /// Whether it buys or sells.
    pub side: Side,
    /// Where it waits.
    pub price: Ticks,
    /// Lots that are left of it.
    pub size: Lots,
}
