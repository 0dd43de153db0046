//! Read-only views of a book: best prices, depth, queue position.

use crate::book::OrderBook;
use crate::error::OrderError;
use crate::id::OrderId;
use crate::order::Resting;
use crate::self_trade::SelfTrade;
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Depth of one price level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthLevel {
    /// Price.
    pub price: Ticks,
    /// The lots of all its orders.
    pub size: Lots,
    /// Number of orders at the level.
    pub orders: u32,
}

/// Queue position of a resting order at its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Lots that must trade or leave before it trades.
    pub lots_ahead: Lots,
    /// Number of orders ahead.
    pub orders_ahead: u32,
}

impl OrderBook {
    /// Self-trade prevention rule.
    #[must_use]
    pub fn self_trade(&self) -> SelfTrade {
        self.self_trade
    }

    /// Resting orders of both sides.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.slab.live
    }

    /// Return true if no order rests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Traded lots since the book was created.
    #[must_use]
    pub fn traded(&self) -> u64 {
        self.traded
    }

    /// The best price of a side.
    #[must_use]
    pub fn best(&self, side: Side) -> Option<Ticks> {
        self.queues.best(side)
    }

    /// Spread: best ask less best bid, if both sides have orders.
    #[must_use]
    pub fn spread(&self) -> Option<i32> {
        Some(self.best(Side::Sell)?.0 - self.best(Side::Buy)?.0)
    }

    /// Mid price: mean of best bid and best ask, if both sides have orders.
    #[must_use]
    pub fn mid(&self) -> Option<f64> {
        Some(f64::midpoint(self.best(Side::Buy)?.0.into(), self.best(Side::Sell)?.0.into()))
    }

    /// Resting lots of a side, summed over its levels.
    #[must_use]
    pub fn volume(&self, side: Side) -> u64 {
        self.queues.ladder(side).levels().map(|(_, level)| u64::from(level.quantity)).sum()
    }

    /// Lots that rest at one price of a side.
    #[must_use]
    pub fn volume_at(&self, side: Side, price: Ticks) -> Lots {
        self.queues.volume_at(side, price)
    }

    /// Write the best levels of a side into `depth`, best first; returns the number written.
    pub fn depth(&self, side: Side, depth: &mut [DepthLevel]) -> usize {
        let levels = self.queues.ladder(side).levels();
        let mut written = 0;
        for (entry, (key, level)) in depth.iter_mut().zip(levels) {
            let (size, orders) = (Lots(level.quantity), level.count);
            *entry = DepthLevel { price: side.price(key), size, orders };
            written += 1;
        }
        written
    }

    /// The best levels of a side, best first, at most `count` of them.
    #[must_use]
    pub fn levels(&self, side: Side, count: usize) -> Vec<DepthLevel> {
        let mut levels = vec![DepthLevel::default(); count.min(self.len())];
        let got = self.depth(side, &mut levels);
        levels.truncate(got);
        levels
    }

    /// The resting order with this id.
    #[must_use]
    pub fn order(&self, id: OrderId) -> Option<Resting> {
        self.queues.slab.find(id).ok().map(|slot| self.queues.slab.resting(slot))
    }

    /// The orders of a side, best price first, then oldest first.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = Resting> {
        self.queues.orders(side)
    }

    /// Queue position of a resting order at its price; walks the queue before it.
    ///
    /// # Errors
    /// If no such order rests.
    pub fn queue_position(&self, id: OrderId) -> Result<QueuePosition, OrderError> {
        let slot = self.queues.slab.find(id)?;
        let mut position = QueuePosition { lots_ahead: Lots(0), orders_ahead: 0 };
        for size in self.queues.ahead(slot) {
            position.lots_ahead.0 += size.0;
            position.orders_ahead += 1;
        }
        Ok(position)
    }
}
