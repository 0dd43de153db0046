//! Queues of resting orders, independent of the matching rule.

use crate::book::ladder::{Ladder, Level};
use crate::book::slab::{NO_SLOT, Node, Slab};
use crate::error::OrderError;
use crate::order::{Order, Resting};
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Both sides of the book over one slab of orders.
pub(crate) struct Queues {
    pub(crate) ladders: [Ladder; 2],
    pub(crate) slab: Slab,
}

impl Queues {
    pub(crate) fn new() -> Self {
        Self { ladders: [Ladder::new(), Ladder::new()], slab: Slab::new() }
    }

    pub(crate) fn ladder(&self, side: Side) -> &Ladder {
        &self.ladders[side as usize]
    }

    /// The best price of a side.
    pub(crate) fn best(&self, side: Side) -> Option<Ticks> {
        self.ladder(side).best().map(|key| side.price(key))
    }

    /// Check that the book has room for `order`, not counting `leaving` lots that are about to
    /// leave its level.
    pub(crate) fn check_room(&self, order: &Order, leaving: Lots) -> Result<(), OrderError> {
        let held = self.volume_at(order.side, order.price).0 - leaving.0;
        if held.checked_add(order.size.0).is_none() {
            let room = Lots(u32::MAX - held);
            return Err(OrderError::LevelFull { price: order.price, room, got: order.size });
        }
        self.slab.check_room()
    }

    /// Append `size` lots of `order` to the queue at its price, and return their slot.
    pub(crate) fn push(&mut self, order: &Order, size: Lots) -> u32 {
        let &Order { account, side, price, .. } = order;
        let level = self.ladders[side as usize].open(side.key(price));
        let (previous, next) = (level.tail, NO_SLOT);
        let node = Node { price, size, account, generation: 0, previous, next, side };
        let slot = self.slab.insert(node);
        append(level, &mut self.slab, slot, size);
        slot
    }

    /// Restore an order of a snapshot in its slot, at the end of the queue at its price.
    pub(crate) fn restore(&mut self, order: &Resting) {
        let &Resting { id, account, side, price, size } = order;
        let level = self.ladders[side as usize].open_here(side.key(price));
        let (generation, previous, next) = (id.generation, level.tail, NO_SLOT);
        *self.slab.node_mut(id.slot) =
            Node { price, size, account, generation, previous, next, side };
        self.slab.live += 1;
        append(level, &mut self.slab, id.slot, size);
    }

    /// Lots that rest at one price.
    pub(crate) fn volume_at(&self, side: Side, price: Ticks) -> Lots {
        Lots(self.ladder(side).quantity(side.key(price)))
    }

    /// Remove an order from its queue.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Node { price, size, previous, next, side, .. } = *self.slab.node(slot);
        let (ladder, key) = (&mut self.ladders[side as usize], side.key(price));
        let level = ladder.level_mut(key);
        let (first, last) = (level.head == slot, level.tail == slot);
        level.head = if first { next } else { level.head };
        level.tail = if last { previous } else { level.tail };
        level.quantity -= size.0;
        level.count -= 1;
        if level.count == 0 {
            ladder.close(key);
        }
        // The queue position is unpredictable, so nothing branches on it: an order at an end is its
        // own neighbour.
        self.slab.node_mut(if first { slot } else { previous }).next = next;
        self.slab.node_mut(if last { slot } else { next }).previous = previous;
        self.slab.release(slot);
    }

    /// Reduce an order by `by` lots, fewer than it has; it keeps its queue position.
    pub(crate) fn shrink(&mut self, slot: u32, by: Lots) {
        let node = self.slab.node_mut(slot);
        node.size.0 -= by.0;
        self.ladders[node.side as usize].level_mut(node.side.key(node.price)).quantity -= by.0;
    }

    /// The sizes of the orders before the one in `slot`, nearest first.
    pub(crate) fn ahead(&self, slot: u32) -> impl Iterator<Item = Lots> {
        let node = self.slab.node(slot);
        let level = self.ladder(node.side).level(node.side.key(node.price));
        let head = level.expect("a resting order has a level").head;
        let before = move |&slot: &u32| (slot != head).then(|| self.slab.node(slot).previous);
        std::iter::successors(before(&slot), before).map(|slot| self.slab.node(slot).size)
    }

    /// The orders of a level, oldest first.
    pub(crate) fn queue(&self, level: &Level) -> impl Iterator<Item = Resting> {
        let slots =
            std::iter::successors(Some(level.head), |&slot| Some(self.slab.node(slot).next));
        slots.take(level.count as usize).map(|slot| self.slab.resting(slot))
    }

    /// The orders of a side, best price first, then oldest first.
    pub(crate) fn orders(&self, side: Side) -> impl Iterator<Item = Resting> {
        self.ladder(side).levels().flat_map(|(_, level)| self.queue(level))
    }

    /// Copy `other` into the existing allocations.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        for (own, others) in self.ladders.iter_mut().zip(&other.ladders) {
            own.copy_from(others);
        }
        self.slab.copy_from(&other.slab);
    }
}

/// Link the order in `slot` after its `previous`, the last order of the level.
fn append(level: &mut Level, slab: &mut Slab, slot: u32, size: Lots) {
    let first = level.count == 0;
    level.head = if first { slot } else { level.head };
    slab.node_mut(if first { slot } else { level.tail }).next = slot;
    level.tail = slot;
    level.quantity += size.0;
    level.count += 1;
}
