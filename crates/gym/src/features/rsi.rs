//! The relative strength index.

use serde::{Deserialize, Serialize};

use super::seeded::Wilder;

/// The share of gains in all moves of the close, 0 to 100, smoothed as Wilder does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rsi<const N: u32> {
    gain: Wilder<N>,
    loss: Wilder<N>,
}

impl<const N: u32> Rsi<N> {
    pub(super) fn new() -> Self {
        Self { gain: Wilder::new(), loss: Wilder::new() }
    }

    /// Takes in the move from the close before to this one.
    #[inline]
    pub(super) fn push(&mut self, change: f64) {
        self.gain.push(if change > 0.0 { change } else { 0.0 });
        self.loss.push(if change < 0.0 { -change } else { 0.0 });
    }

    /// The index; NaN until `N` moves have been seen, and while the close has never moved.
    #[inline]
    pub(super) fn value(&self) -> f64 {
        // The same as 100 - 100 / (1 + gain / loss), and defined without losses too.
        let (gain, loss) = (self.gain.value(), self.loss.value());
        100.0 * (gain / (gain + loss))
    }
}
