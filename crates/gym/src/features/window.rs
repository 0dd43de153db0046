//! Mean and spread of the last values, from sums that cannot drift.

use serde::{Deserialize, Serialize};

use super::array;

/// The last `N` values of a stream: their mean and their spread.
///
/// The stream is cut into blocks of `N`. A window is the end of the block before (the tail) and
/// the beginning of this one (the head), so its sums are one of the sums from the right, made
/// when the block before was complete, plus the running sum of this block. Nothing is ever
/// subtracted from a sum, so nothing is left in it of values that are gone.
///
/// Sums are those of distances from an origin, the first value of the head, which is always in
/// the window. Hence no distance is larger than the range of the window, whose spread is at
/// least half the square of that range, and nothing is lost however far from zero the values are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Window<const N: usize> {
    /// Values in the head, 0 to N.
    length: usize,
    /// Whether a block before this one is complete.
    has_tail: bool,
    origin: f64,
    head: Sums,
    /// The head's values, and behind them those of the block before.
    #[serde(with = "array")]
    values: [f64; N],
    /// Sums of the block before without its first 1, 2, ... N values.
    #[serde(with = "array")]
    tails: [Sums; N],
}

/// Sum of distances from the origin, and of their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    distances: f64,
    squares: f64,
}

impl Sums {
    #[inline]
    fn with(self, distance: f64) -> Self {
        Self { distances: self.distances + distance, squares: self.squares + distance * distance }
    }
}

impl<const N: usize> Window<N> {
    pub(super) fn new() -> Self {
        Self {
            length: 0,
            has_tail: false,
            origin: 0.0,
            head: Sums::default(),
            values: [0.0; N],
            tails: [Sums::default(); N],
        }
    }

    /// Takes in the next value.
    #[inline]
    pub(super) fn push(&mut self, value: f64) {
        if self.length == N {
            self.begin_block(value);
        } else if self.length == 0 {
            self.origin = value;
        }
        self.head = self.head.with(value - self.origin);
        self.values[self.length] = value;
        self.length += 1;
    }

    fn begin_block(&mut self, origin: f64) {
        let mut sums = Sums::default();
        for (tail, value) in self.tails.iter_mut().zip(&self.values).rev() {
            *tail = sums;
            sums = sums.with(value - origin);
        }
        self.has_tail = true;
        self.origin = origin;
        self.head = Sums::default();
        self.length = 0;
    }

    /// Mean of the values, or NaN until there are `N`.
    #[inline]
    pub(super) fn mean(&self) -> f64 {
        self.origin + self.sums().distances / count(N)
    }

    /// How far `value` lies above the mean.
    #[inline]
    pub(super) fn above_mean(&self, value: f64) -> f64 {
        (value - self.origin) - self.sums().distances / count(N)
    }

    /// Standard deviation over all `N`.
    #[inline]
    pub(super) fn population_deviation(&self) -> f64 {
        (self.spread() / count(N)).sqrt()
    }

    /// Standard deviation over `N - 1`, as of a sample.
    #[inline]
    pub(super) fn sample_deviation(&self) -> f64 {
        (self.spread() / count(N - 1)).sqrt()
    }

    /// Whether the window can have come from pushing values.
    pub(super) fn is_sound(&self) -> bool {
        self.length <= N && (self.length > 0 || !self.has_tail)
    }

    /// Sum of squared distances from the mean.
    #[inline]
    fn spread(&self) -> f64 {
        let sums = self.sums();
        let spread = sums.squares - sums.distances * sums.distances / count(N);
        // Squares of tiny distances lose their last digits, and the difference its sign.
        if spread < 0.0 { 0.0 } else { spread }
    }

    #[inline]
    fn sums(&self) -> Sums {
        if self.length < N && !self.has_tail {
            return Sums { distances: f64::NAN, squares: f64::NAN };
        }
        let tail = self.tails[self.length - 1];
        Sums {
            distances: self.head.distances + tail.distances,
            squares: self.head.squares + tail.squares,
        }
    }
}

/// Windows have a few dozen values, which `f64` counts exactly.
#[allow(clippy::cast_precision_loss)]
fn count(length: usize) -> f64 {
    length as f64
}
