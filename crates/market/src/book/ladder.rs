//! One side of the book: its price levels, in a window of 1,024 ticks that follows the best price.

use std::collections::BTreeMap;

use crate::book::occupancy::{Occupancy, WINDOW};
use crate::units::Ticks;

/// Levels that the window keeps free for better prices when it moves.
const HEADROOM: i32 = SPAN / 4;

/// Largest absolute base key of a window.
pub(crate) const KEY_LIMIT: i32 = Ticks::MAX.0 + SPAN;

#[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation)] // 1,024
const SPAN: i32 = WINDOW as i32;

/// The queue at one price: its first and last order, its lots and its orders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    /// First order; undefined if the level is empty.
    pub(crate) head: u32,
    /// Last order; undefined if the level is empty.
    pub(crate) tail: u32,
    pub(crate) quantity: u32,
    pub(crate) count: u32,
}

/// Levels by key (see [`crate::side::Side::key`]: the lower, the better).
///
/// Two things always hold, so that the best level never needs the tree: no level is better than
/// the window, and the window is empty only if the ladder is.
pub(crate) struct Ladder {
    /// The key of the window's first level.
    pub(crate) base: i32,
    occupancy: Occupancy,
    /// Levels without orders have no lots and count no orders.
    levels: Box<[Level; WINDOW]>,
    /// Levels behind the window.
    far: BTreeMap<i32, Level>,
}

impl Ladder {
    pub(crate) fn new() -> Self {
        let levels = vec![Level::default(); WINDOW].into_boxed_slice();
        let levels = levels.try_into().expect("as many levels as the window has");
        Self { base: 0, occupancy: Occupancy::new(), levels, far: BTreeMap::new() }
    }

    /// The key of the best level.
    pub(crate) fn best(&self) -> Option<i32> {
        self.occupancy.first().map(|offset| self.key(offset))
    }

    /// The best level.
    pub(crate) fn best_mut(&mut self) -> Option<(i32, &mut Level)> {
        let offset = self.occupancy.first()?;
        Some((self.key(offset), &mut self.levels[offset]))
    }

    /// Return true if `key` is in the window.
    pub(crate) fn reaches(&self, key: i32) -> bool {
        self.offset(key).is_some()
    }

    /// The level at `key`, if it has orders.
    pub(crate) fn level(&self, key: i32) -> Option<&Level> {
        match self.offset(key) {
            Some(offset) => Some(&self.levels[offset]).filter(|level| level.count > 0),
            None => self.far.get(&key),
        }
    }

    /// The lots at `key`.
    pub(crate) fn quantity(&self, key: i32) -> u32 {
        match self.offset(key) {
            Some(offset) => self.levels[offset].quantity,
            None => self.far.get(&key).map_or(0, |level| level.quantity),
        }
    }

    /// The level at `key`, which has orders.
    pub(crate) fn level_mut(&mut self, key: i32) -> &mut Level {
        match self.offset(key) {
            Some(offset) => &mut self.levels[offset],
            None => self.far.get_mut(&key).expect("a level with orders exists"),
        }
    }

    /// The level at `key`, created if missing, for an order to be added.
    pub(crate) fn open(&mut self, key: i32) -> &mut Level {
        if !self.reaches(key) {
            self.follow(key);
        }
        self.open_here(key)
    }

    /// The level at `key`, created if missing, without moving the window.
    pub(crate) fn open_here(&mut self, key: i32) -> &mut Level {
        match self.offset(key) {
            Some(offset) => {
                self.occupancy.set(offset);
                &mut self.levels[offset]
            }
            None => self.far.entry(key).or_default(),
        }
    }

    /// Remove the level at `key`, whose last order has gone.
    pub(crate) fn close(&mut self, key: i32) {
        let Some(offset) = self.offset(key) else {
            self.far.remove(&key);
            return;
        };
        self.occupancy.clear(offset);
        if self.occupancy.is_empty() {
            self.advance();
        }
    }

    /// Every level, best first.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (i32, &Level)> {
        let near = self.occupancy.iter().map(|offset| (self.key(offset), &self.levels[offset]));
        near.chain(self.far.iter().map(|(&key, level)| (key, level)))
    }

    /// Copy `other` into the existing allocations; the cost is linear in the occupied levels.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        for offset in self.occupancy.iter() {
            self.levels[offset] = Level::default();
        }
        for offset in other.occupancy.iter() {
            self.levels[offset] = other.levels[offset];
        }
        self.base = other.base;
        self.occupancy.clone_from(&other.occupancy);
        self.far.clone_from(&other.far);
    }

    #[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation)] // offset < WINDOW
    fn key(&self, offset: usize) -> i32 {
        self.base + offset as i32
    }

    #[allow(clippy::cast_sign_loss)] // a key before the window becomes a huge offset
    fn offset(&self, key: i32) -> Option<usize> {
        let offset = key.wrapping_sub(self.base) as u32 as usize;
        (offset < WINDOW).then_some(offset)
    }

    /// Move the window, if needed, for an order at a key outside it.
    #[cold]
    fn follow(&mut self, key: i32) {
        let best = self.best().map_or(key, |best| best.min(key));
        // An order far behind a best price in the first half stays in the tree: moving the window
        // for it would gain nothing.
        if best < self.base || best >= self.base + 2 * HEADROOM {
            self.recentre(best);
        }
    }

    /// Move the window, which is empty, to the best of the levels behind it.
    fn advance(&mut self) {
        if let Some((&first, _)) = self.far.first_key_value() {
            self.recentre(first);
        }
    }

    /// Move the window so that `best`, the best key of all, has its headroom.
    #[cold]
    fn recentre(&mut self, best: i32) {
        let mut left = std::mem::replace(&mut self.occupancy, Occupancy::new());
        let old = std::mem::replace(&mut self.base, best - HEADROOM);
        // Levels move in the order in which none is overwritten before it has moved.
        while let Some(from) = if self.base > old { left.first() } else { left.last() } {
            left.clear(from);
            let level = std::mem::take(&mut self.levels[from]);
            self.put(old + i32::try_from(from).expect("an offset of the window"), level);
        }
        let behind = self.far.split_off(&(self.base + SPAN));
        for (key, level) in std::mem::replace(&mut self.far, behind) {
            self.put(key, level);
        }
    }

    /// Store a level with orders at its key.
    fn put(&mut self, key: i32, level: Level) {
        if let Some(offset) = self.offset(key) {
            self.occupancy.set(offset);
            self.levels[offset] = level;
        } else {
            self.far.insert(key, level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(ladder: &mut Ladder, key: i32) {
        ladder.open(key).count += 1;
    }

    fn remove(ladder: &mut Ladder, key: i32) {
        ladder.level_mut(key).count -= 1;
        if ladder.level(key).is_none_or(|level| level.count == 0) {
            ladder.close(key);
        }
    }

    #[test]
    fn a_level_has_16_bytes() {
        assert_eq!(size_of::<Level>(), 16);
    }

    #[test]
    fn a_price_that_wanders_off_takes_the_window_along() {
        let mut ladder = Ladder::new();
        add(&mut ladder, 0);
        for key in 1..100_000 {
            add(&mut ladder, key);
            remove(&mut ladder, key - 1);
        }

        assert!(ladder.far.is_empty());
        assert_eq!(ladder.best(), Some(99_999));
    }

    #[test]
    fn an_order_far_behind_leaves_the_window_where_it_is() {
        let mut ladder = Ladder::new();
        add(&mut ladder, 5_000);
        let base = ladder.base;

        add(&mut ladder, 1_000_000);

        assert_eq!((ladder.base, ladder.far.len()), (base, 1));
    }

    proptest! {
        #[test]
        fn a_ladder_is_a_sorted_map(
            start in -(1 << 30)..=1 << 30i32,
            steps in prop::collection::vec((-3_000..3_000i32, 0..4u8, any::<prop::sample::Index>()), 1..300),
        ) {
            let (mut ladder, mut map) = (Ladder::new(), BTreeMap::new());
            let mut middle: i32 = start;
            for (step, kind, pick) in steps {
                middle = (middle + step / 8).clamp(-(1 << 30), 1 << 30);
                if kind == 0 && !map.is_empty() {
                    let key = *map.keys().nth(pick.index(map.len())).expect("in range");
                    remove(&mut ladder, key);
                    let count = map.get_mut(&key).expect("present");
                    *count -= 1;
                    if *count == 0 {
                        map.remove(&key);
                    }
                } else {
                    let key = (middle + step).clamp(-(1 << 30), 1 << 30);
                    add(&mut ladder, key);
                    *map.entry(key).or_default() += 1;
                }

                let got = ladder.levels().map(|(key, level)| (key, level.count));
                prop_assert!(got.eq(map.iter().map(|(&key, &count)| (key, count))));
                prop_assert_eq!(ladder.best(), map.keys().next().copied());
                prop_assert!(ladder.far.keys().all(|&key| key >= ladder.base + SPAN));
            }
        }
    }
}
