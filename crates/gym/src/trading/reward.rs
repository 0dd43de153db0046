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
    /// Exponentially weighted first and second moment of changes.
    recent: [f64; 2],
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
        self.recent[0] += memory * (change - self.recent[0]);
        self.recent[1] += memory * (change * change - self.recent[1]);
        self.steps += 1.0;
        let apart = change - self.mean;
        self.mean += apart / self.steps;
        self.squares += apart * (change - self.mean);
    }

    fn volatility(&self) -> f64 {
        libm::sqrt(self.variance())
    }

    /// Zero where it is so small a part of the second moment that rounding alone can be its cause.
    fn variance(&self) -> f64 {
        let [first, second] = self.recent;
        let variance = second - first * first;
        if variance > LEAST_SPREAD * second { variance } else { 0.0 }
    }

    /// The derivative of the recent Sharpe ratio with respect to how fast it forgets.
    fn differential(&self, change: f64) -> f64 {
        let [first, second] = self.recent;
        let variance = self.variance();
        if variance == 0.0 {
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
        let numbers = [self.peak, self.recent[0], self.recent[1], self.steps, self.mean];
        numbers.iter().all(|number| number.is_finite()) && self.squares.is_finite()
    }
}

/// A ruined account has shrunk as much as can be told apart.
fn log_growth(earned: Earned) -> f64 {
    let smallest = f64::EPSILON * earned.before.abs();
    libm::log(earned.after.max(smallest) / earned.before.max(smallest).max(f64::MIN_POSITIVE))
}
