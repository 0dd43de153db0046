//! Orders and their outcomes.

use crate::error::OrderError;
use crate::id::{AccountId, OrderId};
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Time in force: handling of lots that cannot trade at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeInForce {
    /// Rest until filled or cancelled.
    GoodTillCancelled,
    /// Rest; an order that could trade at once is refused.
    PostOnly,
    /// Cancel.
    ImmediateOrCancel,
    /// Refuse the order.
    FillOrKill,
}

impl TimeInForce {
    /// Return true if lots that cannot trade at once rest in the book.
    #[must_use]
    pub fn rests(self) -> bool {
        matches!(self, Self::GoodTillCancelled | Self::PostOnly)
    }
}

/// Incoming order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Account of the order.
    pub account: AccountId,
    /// Side of the order.
    pub side: Side,
    /// Limit price.
    pub price: Ticks,
    /// Size.
    pub size: Lots,
    /// Handling of lots that cannot trade at once.
    pub time_in_force: TimeInForce,
}

impl Order {
    /// Limit order: trades up to `price`; the rest rests there.
    #[must_use]
    pub fn limit(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::GoodTillCancelled }
    }

    /// Post-only order: rests at `price`, or is refused if it could trade at once.
    #[must_use]
    pub fn post_only(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::PostOnly }
    }

    /// Immediate-or-cancel order: trades up to `price`; the rest is cancelled.
    #[must_use]
    pub fn immediate_or_cancel(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::ImmediateOrCancel }
    }

    /// Fill-or-kill order: trades in full up to `price`, or is refused.
    #[must_use]
    pub fn fill_or_kill(account: AccountId, side: Side, price: Ticks, size: Lots) -> Self {
        Self { account, side, price, size, time_in_force: TimeInForce::FillOrKill }
    }

    /// Market order: trades at any price; the rest is cancelled.
    #[must_use]
    pub fn market(account: AccountId, side: Side, size: Lots) -> Self {
        let price = match side {
            Side::Buy => Ticks::MAX,
            Side::Sell => Ticks::MIN,
        };
        Self::immediate_or_cancel(account, side, price, size)
    }
}

/// Validate the price and size of an order.
pub(crate) fn check(price: Ticks, size: Lots) -> Result<(), OrderError> {
    if !(Ticks::MIN..=Ticks::MAX).contains(&price) {
        return Err(OrderError::PriceOutOfRange { got: price.0.into() });
    }
    check_size(size)
}

/// Validate that the size is not zero.
pub(crate) fn check_size(size: Lots) -> Result<(), OrderError> {
    if size < Lots::MIN {
        return Err(OrderError::SizeOutOfRange { got: size.0.into() });
    }
    Ok(())
}

/// Outcome of an order; filled, resting and cancelled lots add up to its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its id, if a part of it rests.
    pub id: Option<OrderId>,
    /// Lots that traded.
    pub filled: Lots,
    /// Lots that rest.
    pub resting: Lots,
    /// Cancelled lots: unfilled, or removed by self-trade prevention.
    pub cancelled: Lots,
    /// Lots that self-trade prevention removed from resting orders of the same account.
    pub prevented: u64,
}

/// Resting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resting {
    /// Its id.
    pub id: OrderId,
    /// Account of the order.
    pub account: AccountId,
    /// Side of the order.
    pub side: Side,
    /// Limit price.
    pub price: Ticks,
    /// Remaining lots.
    pub size: Lots,
}
