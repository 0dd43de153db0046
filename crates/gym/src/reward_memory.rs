//! Reward state of an episode: moments of past changes, and the highest equity.

use serde::{Deserialize, Serialize};

/// Smallest variance distinguished from zero, as a share of the second moment.
const LEAST_SPREAD: f64 = 1e-12;

/// Reward state: moments of changes so far, in currency or as returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RewardMemory {
    peak: f64,
    /// Exponentially weighted mean and variance of changes. Not the second moment: subtracting the
    /// squared mean from it would lose the digits of a small variance.
    recent_mean: f64,
    recent_variance: f64,
    /// Number, mean and sum of squared departures of all changes.
    steps: f64,
    mean: f64,
    squares: f64,
}

impl RewardMemory {
    /// Initial state at this equity.
    pub(crate) fn new(worth: f64) -> Self {
        Self { peak: worth, ..Self::default() }
    }

    /// Update with a change that led to this equity; `rate` is the decay of recent ones.
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

    /// Update the peak equity alone, if no term needs the moments.
    pub(crate) fn reach(&mut self, worth: f64) {
        self.peak = self.peak.max(worth);
    }

    /// Peak equity.
    pub(crate) fn peak(&self) -> f64 {
        self.peak
    }

    /// The standard deviation of recent changes.
    pub(crate) fn volatility(&self) -> f64 {
        libm::sqrt(self.recent_variance)
    }

    /// Differential Sharpe ratio (Moody and Saffell): derivative of the recent Sharpe ratio with
    /// respect to its decay rate, for a change not included yet.
    pub(crate) fn differential(&self, change: f64) -> f64 {
        let (first, variance) = (self.recent_mean, self.recent_variance);
        let second = variance + first * first;
        // Changes that differ by rounding alone have no meaningful ratio.
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

    /// Return true if the state is valid.
    pub(crate) fn is_valid(&self) -> bool {
        let recent = [self.recent_mean, self.recent_variance];
        let overall = [self.peak, self.steps, self.mean, self.squares];
        recent.iter().chain(&overall).all(|number| number.is_finite())
            && self.recent_variance >= 0.0
    }
}

/// Relative change up to which the logarithm is computed by its series.
const NEAR: f64 = 0.1;

/// Smallest growth factor: less is rounding residue of zero.
const LEAST: f64 = 1e-12;

/// Log growth from `before` to `after`, bounded below for a ruined account.
pub(crate) fn log_growth(before: f64, after: f64) -> f64 {
    let smallest = LEAST * before.abs();
    let (before, after) = (before.max(smallest).max(f64::MIN_POSITIVE), after.max(smallest));
    let change = (after - before) / (0.5 * after + 0.5 * before);
    if change.abs() > NEAR {
        return libm::log(after / before);
    }
    // Bit-identical on every machine, faster, and without the cancellation of a quotient near one.
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
    fn log_growth_of_ruined_or_huge_values_is_finite() {
        assert!((log_growth(1.0, 0.0) - LEAST.ln()).abs() < 1e-12);
        assert!((log_growth(1e308, 1.05e308) - 1.05_f64.ln()).abs() < 1e-15);
        assert_eq!(log_growth(5.0, 5.0).to_bits(), 0.0_f64.to_bits());
    }
}
