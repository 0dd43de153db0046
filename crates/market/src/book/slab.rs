//! Slab of resting orders: slots are reused, last freed first.

use crate::error::OrderError;
use crate::id::{AccountId, OrderId};
use crate::order::Resting;
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Null slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Largest number of slots.
pub(crate) const SLOT_LIMIT: usize = 1 << 24;

/// One resting order with the links of its queue; two fill a cache line.
///
/// A free slot has size zero, the generation of the order it will hold, and in `next` the slot
/// that was freed before it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Node {
    pub(crate) price: Ticks,
    pub(crate) size: Lots,
    pub(crate) account: AccountId,
    pub(crate) generation: u32,
    /// Previous order in the queue; undefined for the first.
    pub(crate) previous: u32,
    /// Next order in the queue; undefined for the last.
    pub(crate) next: u32,
    pub(crate) side: Side,
}

/// All slots, and the free ones among them as a stack.
pub(crate) struct Slab {
    pub(crate) nodes: Vec<Node>,
    pub(crate) free: u32,
    pub(crate) live: usize,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), free: NO_SLOT, live: 0 }
    }

    /// A slab of slots that have used up their generations: the slots of a snapshot without an
    /// entry.
    pub(crate) fn retired(slots: usize) -> Self {
        let node = Node {
            price: Ticks(0),
            size: Lots(0),
            account: AccountId(0),
            generation: OrderId::GENERATIONS,
            previous: NO_SLOT,
            next: NO_SLOT,
            side: Side::Buy,
        };
        Self { nodes: vec![node; slots], free: NO_SLOT, live: 0 }
    }

    /// Check that a slot is free.
    pub(crate) fn check_room(&self) -> Result<(), OrderError> {
        if self.free == NO_SLOT && self.nodes.len() >= SLOT_LIMIT {
            return Err(OrderError::BookFull { limit: SLOT_LIMIT });
        }
        Ok(())
    }

    /// Store an order, and return its slot; the caller sets its links.
    pub(crate) fn insert(&mut self, node: Node) -> u32 {
        self.live += 1;
        let slot = self.free;
        if let Some(free) = self.nodes.get_mut(slot as usize) {
            self.free = free.next;
            *free = Node { generation: free.generation, ..node };
            return slot;
        }
        let slot = u32::try_from(self.nodes.len()).expect("room was checked");
        self.nodes.push(Node { generation: 0, ..node });
        slot
    }

    /// Free a slot and invalidate the id of its order.
    pub(crate) fn release(&mut self, slot: u32) {
        self.live -= 1;
        let free = self.free;
        let node = self.node_mut(slot);
        node.size = Lots(0);
        // A slot that has used up its generations is never used again: ids are unique for ever.
        node.generation += 1;
        if node.generation < OrderId::GENERATIONS {
            node.next = free;
            self.free = slot;
        }
    }

    pub(crate) fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    pub(crate) fn node_mut(&mut self, slot: u32) -> &mut Node {
        &mut self.nodes[slot as usize]
    }

    /// The slot of the order with this id.
    pub(crate) fn find(&self, id: OrderId) -> Result<u32, OrderError> {
        match self.nodes.get(id.slot as usize) {
            Some(node) if node.generation == id.generation && node.size.0 > 0 => Ok(id.slot),
            _ => Err(OrderError::NotResting { id }),
        }
    }

    /// The order in `slot`.
    pub(crate) fn resting(&self, slot: u32) -> Resting {
        let Node { price, size, account, generation, side, .. } = *self.node(slot);
        Resting { id: OrderId { generation, slot }, account, side, price, size }
    }

    /// The free slots, in the order in which they will be used.
    pub(crate) fn free_slots(&self) -> impl Iterator<Item = u32> {
        let existing = |slot: u32| Some(slot).filter(|&slot| slot != NO_SLOT);
        std::iter::successors(existing(self.free), move |&slot| existing(self.node(slot).next))
    }

    /// Copy `other` into the existing allocations.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.nodes.clone_from(&other.nodes);
        (self.free, self.live) = (other.free, other.live);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node {
        price: Ticks(1),
        size: Lots(1),
        account: AccountId(0),
        generation: 0,
        previous: NO_SLOT,
        next: NO_SLOT,
        side: Side::Buy,
    };

    #[test]
    fn two_orders_fill_a_cache_line() {
        assert_eq!(size_of::<Node>(), 32);
    }

    #[test]
    fn the_slot_freed_last_is_used_first() {
        let mut slab = Slab::new();
        let slots = [NODE; 3].map(|node| slab.insert(node));
        for slot in slots {
            slab.release(slot);
        }

        let again = [NODE; 3].map(|node| slab.insert(node));

        assert_eq!((slots, again), ([0, 1, 2], [2, 1, 0]));
    }

    #[test]
    fn a_slot_without_generations_left_is_never_used_again() {
        let mut slab = Slab::new();
        let slot = slab.insert(NODE);
        slab.node_mut(slot).generation = OrderId::GENERATIONS - 1;
        let last = slab.resting(slot).id;

        slab.release(slot);

        assert_eq!(slab.find(last), Err(OrderError::NotResting { id: last }));
        assert_ne!(slab.insert(NODE), slot);
    }

    #[test]
    fn the_next_id_of_a_free_slot_finds_nothing() {
        let mut slab = Slab::new();
        let slot = slab.insert(NODE);
        slab.release(slot);
        let next = OrderId { generation: 1, slot };

        assert_eq!(slab.find(next), Err(OrderError::NotResting { id: next }));
    }
}
