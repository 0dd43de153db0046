//! What a step of trading is worth: terms that can be weighed against each other.

use serde::{Deserialize, Serialize};

use crate::reward_memory::{RewardMemory, log_growth};
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

/// The weighed sum of all terms for one step, which is then remembered.
pub(crate) fn reward(
    memory: &mut RewardMemory,
    terms: &[(RewardTerm, f64)],
    rate: f64,
    earned: Earned,
    outcome: &Outcome,
) -> f64 {
    let past = *memory;
    let change = earned.after - earned.before;
    memory.remember(rate, change, earned.after);
    let term = |term| match term {
        RewardTerm::EquityChange => change,
        RewardTerm::LogGrowth => log_growth(earned.before, earned.after),
        RewardTerm::VolatilityPenalty => -memory.volatility(),
        RewardTerm::TransactionCost => -earned.cost,
        RewardTerm::DrawdownPenalty => {
            (past.peak() - earned.before) - (memory.peak() - earned.after)
        }
        RewardTerm::DifferentialSharpe => past.differential(change),
        RewardTerm::TerminalSharpe if outcome.is_done() => memory.sharpe(),
        RewardTerm::TerminalSharpe => 0.0,
    };
    match terms {
        // The usual case, kept free of a sum that starts at zero.
        [(only, weight)] => weight * term(*only),
        _ => terms.iter().map(|&(kind, weight)| weight * term(kind)).sum(),
    }
}
