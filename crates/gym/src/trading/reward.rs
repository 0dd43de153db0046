//! What a step of trading is worth: terms that can be weighed against each other.

use serde::{Deserialize, Serialize};

use crate::task::Outcome;

/// One thing to reward. Amounts are in currency, ratios have no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardTerm {
    /// How much more the account is worth.
    EquityChange,
    /// The logarithm of how many times more the account is worth.
    LogGrowth,
    /// Minus the standard deviation of changes of equity, recent ones weighing most.
    VolatilityPenalty,
    /// Minus what trading cost: fees, and prices worse than the middle.
    TransactionCost,
    /// Minus how much farther the account has fallen below its highest worth.
    DrawdownPenalty,
    /// How much the step changed the Sharpe ratio of recent changes (Moody and Saffell).
    DifferentialSharpe,
    /// At the end of the episode, the Sharpe ratio of all its changes, not annualised.
    TerminalSharpe,
}

/// What a step did to the account, in currency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earned {
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) cost: f64,
}

/// The smallest variance that is told from none, as a part of the second moment.
const LEAST_SPREAD: f64 = 1e-12;

/// What rewards remember of an episode.
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
    pub(crate) fn new(equity: f64) -> Self {
        Self { peak: equity, ..Self::default() }
    }

    /// The weighed sum of all terms for one step, which is then remembered.
    pub(crate) fn reward(
        &mut self,
        terms: &[(RewardTerm, f64)],
        memory: f64,
        earned: Earned,
        outcome: &Outcome,
    ) -> f64 {
        let before = *self;
        self.remember(memory, earned);
        let term = |term| match term {
            RewardTerm::EquityChange => earned.after - earned.before,
            RewardTerm::LogGrowth => log_growth(earned),
            RewardTerm::VolatilityPenalty => -self.volatility(),
            RewardTerm::TransactionCost => -earned.cost,
            RewardTerm::DrawdownPenalty => {
                (before.peak - earned.before) - (self.peak - earned.after)
            }
            RewardTerm::DifferentialSharpe => before.differential(earned.after - earned.before),
            RewardTerm::TerminalSharpe if outcome.is_done() => self.sharpe(),
            RewardTerm::TerminalSharpe => 0.0,
        };
        match terms {
            // The usual case, kept free of a sum that starts at zero.
            [(only, weight)] => weight * term(*only),
            _ => terms.iter().map(|&(kind, weight)| weight * term(kind)).sum(),
        }
    }

    fn remember(&mut self, memory: f64, earned: Earned) {
        let change = earned.after - earned.before;
        self.peak = self.peak.max(earned.after);
        let departure = change - self.recent_mean;
        self.recent_mean += memory * departure;
        self.recent_variance =
            (1.0 - memory) * (self.recent_variance + memory * departure * departure);
        self.steps += 1.0;
        let apart = change - self.mean;
        self.mean += apart / self.steps;
        self.squares += apart * (change - self.mean);
    }

    fn volatility(&self) -> f64 {
        libm::sqrt(self.recent_variance)
    }

    /// The derivative of the recent Sharpe ratio with respect to how fast it forgets.
    fn differential(&self, change: f64) -> f64 {
        let (first, variance) = (self.recent_mean, self.recent_variance);
        let second = variance + first * first;
        // Changes that differ by rounding alone have no ratio that means anything.
        if variance <= LEAST_SPREAD * second {
            return 0.0;
        }
        let (first_step, second_step) = (change - first, change * change - second);
        (second * first_step - 0.5 * first * second_step) / (variance * libm::sqrt(variance))
    }

    fn sharpe(&self) -> f64 {
        let variance = self.squares / (self.steps - 1.0);
        if self.steps > 1.0 && variance > 0.0 { self.mean / libm::sqrt(variance) } else { 0.0 }
    }

    pub(crate) fn is_sound(&self) -> bool {
        let recent = [self.recent_mean, self.recent_variance];
        let whole = [self.peak, self.steps, self.mean, self.squares];
        recent.iter().chain(&whole).all(|number| number.is_finite()) && self.recent_variance >= 0.0
    }
}

/// A ruined account has shrunk as much as can be told apart.
fn log_growth(earned: Earned) -> f64 {
    let smallest = f64::EPSILON * earned.before.abs();
    libm::log(earned.after.max(smallest) / earned.before.max(smallest).max(f64::MIN_POSITIVE))
}
