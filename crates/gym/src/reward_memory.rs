//! What rewards remember of an episode: how changes were spread, and the highest worth.

use serde::{Deserialize, Serialize};

/// The smallest variance that is told from none, as a part of the second moment.
const LEAST_SPREAD: f64 = 1e-12;

/// The changes so far, in currency or as returns: whatever a task counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RewardMemory {
    peak: f64,
    /// Exponentially weighted mean and variance of changes. Not their second moment: the square
    /// of a mean taken from that leaves few digits of a small variance.
    recent_mean: f64,
    recent_variance: f64,
    /// Number, mean and sum of squared departures of all changes.
    steps: f64,
    mean: f64,
    squares: f64,
}

impl RewardMemory {
    /// Nothing yet, at this worth.
    pub(crate) fn new(worth: f64) -> Self {
        Self { peak: worth, ..Self::default() }
    }

    /// Takes a change in that led to this worth; `rate` is how fast recent ones are forgotten.
    pub(crate) fn remember(&mut self, rate: f64, change: f64, worth: f64) {
        self.peak = self.peak.max(worth);
        let departure = change - self.recent_mean;
        self.recent_mean += rate * departure;
        self.recent_variance = (1.0 - rate) * (self.recent_variance + rate * departure * departure);
        self.steps += 1.0;
        let apart = change - self.mean;
        self.mean += apart / self.steps;
        self.squares += apart * (change - self.mean);
    }

    /// Takes in the worth alone, where nobody asks how changes were spread.
    pub(crate) fn reach(&mut self, worth: f64) {
        self.peak = self.peak.max(worth);
    }

    /// The highest worth so far.
    pub(crate) fn peak(&self) -> f64 {
        self.peak
    }

    /// The standard deviation of recent changes.
    pub(crate) fn volatility(&self) -> f64 {
        libm::sqrt(self.recent_variance)
    }

    /// The derivative of the recent Sharpe ratio with respect to how fast it forgets, for a change
    /// that is not remembered yet (Moody and Saffell).
    pub(crate) fn differential(&self, change: f64) -> f64 {
        let (first, variance) = (self.recent_mean, self.recent_variance);
        let second = variance + first * first;
        // Changes that differ by rounding alone have no ratio that means anything.
        if variance <= LEAST_SPREAD * second {
            return 0.0;
        }
        let (first_step, second_step) = (change - first, change * change - second);
        (second * first_step - 0.5 * first * second_step) / (variance * libm::sqrt(variance))
    }

    /// The Sharpe ratio of all changes, not annualised.
    pub(crate) fn sharpe(&self) -> f64 {
        let variance = self.squares / (self.steps - 1.0);
        if self.steps > 1.0 && variance > 0.0 { self.mean / libm::sqrt(variance) } else { 0.0 }
    }

    /// Whether it can be what it says.
    pub(crate) fn is_sound(&self) -> bool {
        let recent = [self.recent_mean, self.recent_variance];
        let whole = [self.peak, self.steps, self.mean, self.squares];
        recent.iter().chain(&whole).all(|number| number.is_finite()) && self.recent_variance >= 0.0
    }
}

/// Changes up to this share have their logarithm from its series.
const NEAR: f64 = 0.1;

/// The least share that something can shrink to: less is what rounding left of nothing.
const LEAST: f64 = 1e-12;

/// The logarithm of how many times more something is worth; what is ruined has shrunk as much as
/// can be told apart.
pub(crate) fn log_growth(before: f64, after: f64) -> f64 {
    let smallest = LEAST * before.abs();
    let (before, after) = (before.max(smallest).max(f64::MIN_POSITIVE), after.max(smallest));
    let change = (after - before) / (0.5 * after + 0.5 * before);
    if change.abs() > NEAR {
        return libm::log(after / before);
    }
    // Of the same bits on every machine too, sooner at hand, and no digit of a small change is
    // lost in a quotient near one.
    let square = 0.25 * change * change;
    let (fourth, eighth) = (square * square, square * square * (square * square));
    let near = (1.0 + square * (1.0 / 3.0)) + fourth * (1.0 / 5.0 + square * (1.0 / 7.0));
    let far = (1.0 / 9.0 + square * (1.0 / 11.0)) + fourth * (1.0 / 13.0);
    change * (near + eighth * far)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn growth_is_the_logarithm_of_a_quotient(before in 1e-3..1e9, change in -0.3..0.3) {
            let after = before * (1.0 + change);

            let growth = log_growth(before, after);

            prop_assert!((growth - libm::log(after / before)).abs() < 4e-16, "{growth}");
        }
    }

    #[test]
    fn growth_of_what_is_ruined_or_huge_is_finite() {
        assert!((log_growth(1.0, 0.0) - LEAST.ln()).abs() < 1e-12);
        assert!((log_growth(1e308, 1.05e308) - 1.05_f64.ln()).abs() < 1e-15);
        assert_eq!(log_growth(5.0, 5.0).to_bits(), 0.0_f64.to_bits());
    }
}
