//! Exponential averages that begin with a plain mean.

use serde::{Deserialize, Serialize};

/// An average of weight 2 / (N + 1).
pub(super) type Ema<const N: u32> = Seeded<N, false>;

/// An average of weight 1 / N, as Wilder smooths gains, losses and ranges.
pub(super) type Wilder<const N: u32> = Seeded<N, true>;

/// An exponential average whose first value is the mean of the first `N`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Seeded<const N: u32, const WILDER: bool> {
    /// Values seen, up to N.
    seen: u32,
    first: f64,
    /// The average; before it begins, the sum of distances from the first value.
    average: f64,
}

impl<const N: u32, const WILDER: bool> Seeded<N, WILDER> {
    pub(super) fn new() -> Self {
        Self { seen: 0, first: 0.0, average: 0.0 }
    }

    /// An average that begins with `average` at once.
    pub(super) fn begun(average: f64) -> Self {
        Self { seen: N, first: average, average }
    }

    /// Takes in the next value.
    #[inline]
    pub(super) fn push(&mut self, value: f64) {
        if self.seen >= N {
            self.average += (value - self.average) * Self::weight();
            return;
        }
        if self.seen == 0 {
            self.first = value;
        }
        // Distances are summed so that the mean of equal values is that value to the last bit.
        self.average += value - self.first;
        self.seen += 1;
        if self.seen == N {
            self.average = self.first + self.average / f64::from(N);
        }
    }

    /// The average, or NaN until `N` values have been seen.
    #[inline]
    pub(super) fn value(&self) -> f64 {
        if self.seen < N { f64::NAN } else { self.average }
    }

    fn weight() -> f64 {
        if WILDER { 1.0 / f64::from(N) } else { 2.0 / f64::from(N + 1) }
    }
}
