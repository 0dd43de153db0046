//! When quotes are filled: Poisson processes that run as fast as the quotes are good.

use market::Stream;
use serde::{Deserialize, Serialize};

/// A Poisson process of rate 1 whose time passes at the rate of the moment.
///
/// Exact however the rate changes; and since each side has its own, the fills of one side do not
/// depend on what is quoted on the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Clock {
    stream: Stream,
    left: f64,
}

impl Clock {
    pub(super) fn new(mut stream: Stream) -> Self {
        let left = stream.exponential();
        Self { stream, left }
    }

    /// Whether it can exist.
    pub(super) fn is_possible(&self) -> bool {
        self.left >= 0.0 && self.left.is_finite()
    }

    /// Whether it rings within `amount` of its own time.
    pub(super) fn rings_within(&self, amount: f64) -> bool {
        self.left <= amount
    }

    /// Time until it rings, at this rate.
    pub(super) fn wait(&self, rate: f64) -> f64 {
        if rate > 0.0 { self.left / rate } else { f64::INFINITY }
    }

    /// Lets `amount` of its own time pass without a ring.
    pub(super) fn advance(&mut self, amount: f64) {
        self.left = (self.left - amount).max(0.0);
    }

    /// Rings, and waits for the next time.
    pub(super) fn ring(&mut self) {
        self.left = self.stream.exponential();
    }
}
