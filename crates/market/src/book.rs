//! The limit order book: price, then time, in integer ticks and lots.

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

/// Resting orders of both sides, and the rules by which incoming ones trade with them.
///
/// Operations allocate nothing once the book has seen its largest size. A refused operation
/// leaves every byte as it was.
pub struct OrderBook {
    pub(crate) queues: Queues,
    pub(crate) self_trade: SelfTrade,
    pub(crate) traded: u64,
}

impl OrderBook {
    /// An empty book with this rule for accounts that meet themselves.
    #[must_use]
    pub fn new(self_trade: SelfTrade) -> Self {
        Self { queues: Queues::new(), self_trade, traded: 0 }
    }

    /// Takes in an order, appending its trades to `fills`, best price and oldest maker first.
    ///
    /// # Errors
    /// When its size, price or time in force cannot be met, or the book has no room for it.
    pub fn place(&mut self, order: Order, fills: &mut Vec<Fill>) -> Result<Placement, OrderError> {
        self.check(&order)?;
        Ok(self.accept(&order, fills))
    }

    /// Takes an order out of the book.
    ///
    /// # Errors
    /// When no such order rests.
    pub fn cancel(&mut self, id: OrderId) -> Result<Resting, OrderError> {
        let slot = self.queues.slab.find(id)?;
        let order = self.queues.slab.resting(slot);
        self.queues.remove(slot);
        Ok(order)
    }

    /// Takes `by` lots from an order, which keeps its place in the queue; tells what is left.
    ///
    /// # Errors
    /// When no such order rests, or nothing would be taken or left.
    pub fn reduce(&mut self, id: OrderId, by: Lots) -> Result<Lots, OrderError> {
        check_size(by)?;
        let slot = self.queues.slab.find(id)?;
        let resting = self.queues.slab.node(slot).size;
        if by >= resting {
            return Err(OrderError::NothingLeft { resting, found: by });
        }
        self.queues.shrink(slot, by);
        Ok(Lots(resting.0 - by.0))
    }

    /// Gives an order a new price and size. At the same price with no more lots it keeps its id
    /// and its place; otherwise it comes in anew as a limit order, and may trade.
    ///
    /// # Errors
    /// When no such order rests, or the new one would be refused.
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

    /// Takes every order of an account out of the book, appending them to `cancelled`: bids, then
    /// asks, best price and oldest first. Looks at every resting order.
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
            Some(best) => Err(OrderError::WouldTrade { found: order.price, best }),
            None => Ok(()),
        }
    }

    fn check_fillable(&self, order: &Order) -> Result<(), OrderError> {
        let (wanted, found) = (order.size, fillable(&self.queues, order, self.self_trade));
        if found < wanted { Err(OrderError::NotFillable { wanted, found }) } else { Ok(()) }
    }

    /// Trades and rests an order that nothing speaks against.
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
    /// The top of the book: its orders would fill pages.
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

    /// Becomes `other` in the memory it has; costs as much as `other` has live levels and slots.
    fn clone_from(&mut self, other: &Self) {
        self.queues.copy_from(&other.queues);
        (self.self_trade, self.traded) = (other.self_trade, other.traded);
    }
}
