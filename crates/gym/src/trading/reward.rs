//! Trading rewards: weighted sum of terms.

use serde::{Deserialize, Serialize};

use crate::reward_memory::{RewardMemory, log_growth};
use crate::task::Outcome;

/// Reward term. Amounts are in currency, ratios have no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardTerm {
    /// Change of equity.
    EquityChange,
    /// Log growth of equity.
    LogGrowth,
    /// Minus the standard deviation of changes of equity, recent ones weighing most.
    VolatilityPenalty,
    /// Minus transaction costs: fees and slippage from the mid.
    TransactionCost,
    /// Minus the increase of the drawdown.
    DrawdownPenalty,
    /// Differential Sharpe ratio of recent changes (Moody and Saffell).
    DifferentialSharpe,
    /// At the end of the episode, the Sharpe ratio of all its changes, not annualised.
    TerminalSharpe,
}

/// Change of the account over one step, in currency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earned {
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) cost: f64,
}

/// Weighted sum of all terms for one step; updates the reward state.
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
        // Common case, without a sum that starts at zero.
        [(only, weight)] => weight * term(*only),
        _ => terms.iter().map(|&(kind, weight)| weight * term(kind)).sum(),
    }
}
