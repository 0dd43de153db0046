//! Bitmap of the levels of a ladder's window that hold orders: the next best one is two bit scans.

/// Words of 64 levels in a window.
const WORDS: usize = 16;
/// Levels in a window: more would rarely be used, and thousands of books share the cache.
pub(crate) const WINDOW: usize = 64 * WORDS;

/// One bit for each level, and one bit for each word of those that has any.
#[derive(Clone)]
pub(crate) struct Occupancy {
    summary: u64,
    words: [u64; WORDS],
}

impl Occupancy {
    /// An empty bitmap.
    pub(crate) fn new() -> Self {
        Self { summary: 0, words: [0; WORDS] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.summary == 0
    }

    pub(crate) fn set(&mut self, offset: usize) {
        let word = offset / 64 % WORDS;
        self.words[word] |= 1 << (offset % 64);
        self.summary |= 1 << word;
    }

    pub(crate) fn clear(&mut self, offset: usize) {
        let word = offset / 64 % WORDS;
        self.words[word] &= !(1 << (offset % 64));
        self.summary &= !(u64::from(self.words[word] == 0) << word);
    }

    /// The lowest occupied offset.
    pub(crate) fn first(&self) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.trailing_zeros() as usize % WORDS;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The highest occupied offset.
    pub(crate) fn last(&self) -> Option<usize> {
        let word = self.summary.checked_ilog2()? as usize % WORDS;
        Some(word * 64 + self.words[word].checked_ilog2()? as usize)
    }

    /// The lowest occupied offset above `offset`.
    pub(crate) fn after(&self, offset: usize) -> Option<usize> {
        // Shift twice: a shift by 64 is undefined.
        let above = |bits: u64, index: usize| bits >> index >> 1 << 1 << index;
        let word = offset / 64 % WORDS;
        let rest = above(self.words[word], offset % 64);
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let words = above(self.summary, word);
        let word = words.trailing_zeros() as usize;
        (words != 0).then(|| word * 64 + self.words[word % WORDS].trailing_zeros() as usize)
    }

    /// Every occupied offset, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.first(), |&offset| self.after(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn occupancy_is_a_set_of_offsets(flips in prop::collection::vec(0..WINDOW, 0..200)) {
            let (mut occupancy, mut set) = (Occupancy::new(), BTreeSet::new());
            for offset in flips {
                if set.remove(&offset) {
                    occupancy.clear(offset);
                } else {
                    set.insert(offset);
                    occupancy.set(offset);
                }

                prop_assert_eq!(occupancy.is_empty(), set.is_empty());
                prop_assert_eq!(occupancy.first(), set.first().copied());
                prop_assert_eq!(occupancy.last(), set.last().copied());
                prop_assert!(occupancy.iter().eq(set.iter().copied()));
            }
        }
    }

    #[test]
    fn the_edges_of_the_window_are_levels_too() {
        let mut occupancy = Occupancy::new();

        occupancy.set(0);
        occupancy.set(WINDOW - 1);

        assert_eq!(occupancy.iter().collect::<Vec<_>>(), [0, WINDOW - 1]);
        assert_eq!(occupancy.after(WINDOW - 1), None);
    }
}
