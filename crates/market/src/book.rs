//! Limit order book with price-time priority, in integer ticks and lots.

pub(crate) mod batch;
pub(crate) mod ladder;
pub(crate) mod matching;
pub(crate) mod occupancy;
pub(crate) mod operation;
pub(crate) mod queues;
pub(crate) mod slab;
pub(crate) mod snapshot;
pub(crate) mod view;

use std::fmt;

use crate::book::matching::{crossed, fillable, sweep};
use crate::book::queues::Queues;
use crate::error::OrderError;
use crate::fill::Fill;
use crate::id::{AccountId, OrderId};
use crate::order::{Order, Placement, Resting, TimeInForce, check, check_size};
use crate::self_trade::SelfTrade;
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Limit order book: resting orders of both sides, and matching of incoming orders.
///
/// Operations allocate nothing once the book has seen its largest size. A refused operation leaves
/// the state unchanged.
pub struct OrderBook {
    pub(crate) queues: Queues,
    pub(crate) self_trade: SelfTrade,
    pub(crate) traded: u64,
}

impl OrderBook {
    /// An empty book with this self-trade prevention rule.
    #[must_use]
    pub fn new(self_trade: SelfTrade) -> Self {
        Self { queues: Queues::new(), self_trade, traded: 0 }
    }

    /// Submit an order, appending its fills to `fills`, best price and oldest maker first.
    ///
    /// # Errors
    /// If its size, price or time in force cannot be met, or the book has no room for it.
    pub fn place(&mut self, order: Order, fills: &mut Vec<Fill>) -> Result<Placement, OrderError> {
        self.check(&order)?;
        Ok(self.accept(&order, fills))
    }

    /// Cancel a resting order.
    ///
    /// # Errors
    /// If no such order rests.
    pub fn cancel(&mut self, id: OrderId) -> Result<Resting, OrderError> {
        let slot = self.queues.slab.find(id)?;
        let order = self.queues.slab.resting(slot);
        self.queues.remove(slot);
        Ok(order)
    }

    /// Reduce an order by `by` lots; it keeps its queue position. Returns the remaining lots.
    ///
    /// # Errors
    /// If no such order rests, or nothing would be taken or left.
    pub fn reduce(&mut self, id: OrderId, by: Lots) -> Result<Lots, OrderError> {
        check_size(by)?;
        let slot = self.queues.slab.find(id)?;
        let resting = self.queues.slab.node(slot).size;
        if by >= resting {
            return Err(OrderError::NothingLeft { resting, got: by });
        }
        self.queues.shrink(slot, by);
        Ok(Lots(resting.0 - by.0))
    }

    /// Replace the price and size of an order. At the same price with no more lots it keeps its id
    /// and queue position; otherwise it is resubmitted as a limit order, and may trade.
    ///
    /// # Errors
    /// If no such order rests, or the new one would be refused.
    pub fn replace(
        &mut self,
        id: OrderId,
        price: Ticks,
        size: Lots,
        fills: &mut Vec<Fill>,
    ) -> Result<Placement, OrderError> {
        check(price, size)?;
        let slot = self.queues.slab.find(id)?;
        let old = self.queues.slab.resting(slot);
        let order = Order::limit(old.account, old.side, price, size);
        if price == old.price && size <= old.size {
            self.queues.shrink(slot, Lots(old.size.0 - size.0));
            return Ok(Placement {
                id: Some(id),
                filled: Lots(0),
                resting: size,
                cancelled: Lots(0),
                prevented: 0,
            });
        }
        let leaving = if price == old.price { old.size } else { Lots(0) };
        self.queues.check_room(&order, leaving)?;
        self.queues.remove(slot);
        Ok(self.accept(&order, fills))
    }

    /// Cancel all orders of an account, appending them to `cancelled`: bids, then asks, best price
    /// and oldest first. Scans every resting order.
    pub fn cancel_all(&mut self, account: AccountId, cancelled: &mut Vec<Resting>) {
        let first = cancelled.len();
        for side in Side::BOTH {
            cancelled.extend(self.queues.orders(side).filter(|order| order.account == account));
        }
        for order in &cancelled[first..] {
            self.queues.remove(order.id.slot);
        }
    }

    fn check(&self, order: &Order) -> Result<(), OrderError> {
        check(order.price, order.size)?;
        if order.time_in_force.rests() {
            if order.time_in_force == TimeInForce::PostOnly {
                self.check_waits(order)?;
            }
            self.queues.check_room(order, Lots(0))
        } else if order.time_in_force == TimeInForce::FillOrKill {
            self.check_fillable(order)
        } else {
            Ok(())
        }
    }

    fn check_waits(&self, order: &Order) -> Result<(), OrderError> {
        match crossed(&self.queues, order.side, order.price) {
            Some(best) => Err(OrderError::WouldTrade { got: order.price, best }),
            None => Ok(()),
        }
    }

    fn check_fillable(&self, order: &Order) -> Result<(), OrderError> {
        let (expected, got) = (order.size, fillable(&self.queues, order, self.self_trade));
        if got < expected { Err(OrderError::NotFillable { expected, got }) } else { Ok(()) }
    }

    /// Match a validated order and rest the remainder.
    fn accept(&mut self, order: &Order, fills: &mut Vec<Fill>) -> Placement {
        let swept = sweep(&mut self.queues, order, self.self_trade, fills);
        self.traded += u64::from(swept.filled.0);
        let rests = order.time_in_force.rests() && swept.left.0 > 0;
        let resting = if rests { swept.left } else { Lots(0) };
        let id = rests.then(|| {
            let slot = self.queues.push(order, resting);
            OrderId { generation: self.queues.slab.node(slot).generation, slot }
        });
        let cancelled = Lots(order.size.0 - swept.filled.0 - resting.0);
        Placement { id, filled: swept.filled, resting, cancelled, prevented: swept.prevented }
    }
}

impl fmt::Debug for OrderBook {
    /// Shows the top of the book only: a full listing would fill pages.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OrderBook")
            .field("bid", &self.best(Side::Buy))
            .field("ask", &self.best(Side::Sell))
            .field("orders", &self.len())
            .field("traded", &self.traded)
            .field("self_trade", &self.self_trade)
            .finish_non_exhaustive()
    }
}

impl Clone for OrderBook {
    fn clone(&self) -> Self {
        let mut book = Self::new(self.self_trade);
        book.clone_from(self);
        book
    }

    /// Copy `other` into the existing allocations; the cost is linear in the live levels and slots
    /// of `other`.
    fn clone_from(&mut self, other: &Self) {
        self.queues.copy_from(&other.queues);
        (self.self_trade, self.traded) = (other.self_trade, other.traded);
    }
}
