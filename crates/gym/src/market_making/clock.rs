//! Fill clocks of quotes: Poisson processes whose intensity decays with the distance from the mid.

use market::Stream;
use serde::{Deserialize, Serialize};

/// Poisson process of rate 1 in its own time, which passes at the current intensity.
///
/// Exact for any changes of the intensity; each side has its own clock, so the fills of one side do
/// not depend on the quotes of the other.
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

    /// Return true if the clock is in a reachable state.
    pub(super) fn is_valid(&self) -> bool {
        self.left >= 0.0 && self.left.is_finite()
    }

    /// Return true if the clock fires within `amount` of its own time.
    pub(super) fn fires_within(&self, amount: f64) -> bool {
        self.left <= amount
    }

    /// Time until the clock fires, at this intensity.
    pub(super) fn wait(&self, rate: f64) -> f64 {
        if rate > 0.0 { self.left / rate } else { f64::INFINITY }
    }

    /// Advance the clock by `amount` of its own time without firing.
    pub(super) fn advance(&mut self, amount: f64) {
        self.left = (self.left - amount).max(0.0);
    }

    /// Fire, and draw the next waiting time.
    pub(super) fn fire(&mut self) {
        self.left = self.stream.exponential();
    }
}
