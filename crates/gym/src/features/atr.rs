//! The average true range.

use serde::{Deserialize, Serialize};

use super::bar::Bar;
use super::seeded::Wilder;

/// How far prices reach in a bar, the gap from the close before included, as Wilder smooths it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Atr<const N: u32>(Wilder<N>);

impl<const N: u32> Atr<N> {
    pub(super) fn new() -> Self {
        Self(Wilder::new())
    }

    /// Takes in a bar and the close before it.
    #[inline]
    pub(super) fn push(&mut self, bar: &Bar, close_before: f64) {
        let above = (bar.high - close_before).abs();
        let below = (bar.low - close_before).abs();
        self.0.push((bar.high - bar.low).max(above).max(below));
    }

    /// The average, or NaN until `N` bars that have a close before them have been seen.
    #[inline]
    pub(super) fn value(&self) -> f64 {
        self.0.value()
    }
}
