//! What a row is worth to a portfolio: terms that can be weighed against each other.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::settings::RewardMode;
use super::trader::Trader;
use crate::reward_memory::{RewardMemory, log_growth};

/// One thing to reward. All but profit are shares of equity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortfolioTerm {
    /// The change of equity, as a share of it.
    Return,
    /// The logarithm of how many times more the portfolio is worth.
    LogReturn,
    /// The change of equity, in currency.
    Profit,
    /// The return, less half its square times the aversion to risk.
    MeanVariance,
    /// How much the row changed the Sharpe ratio of recent returns (Moody and Saffell).
    DifferentialSharpe,
    /// Minus how much farther the portfolio has fallen below its highest worth.
    DrawdownPenalty,
    /// Minus the standard deviation of recent returns.
    VolatilityPenalty,
    /// Minus the share of the portfolio that was traded.
    TurnoverPenalty,
    /// Minus what was paid, of every kind.
    CostPenalty,
    /// How much more it returned than the benchmark.
    BenchmarkRelative,
}

/// How a portfolio is rewarded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardRule {
    /// What is rewarded: terms with their weights.
    pub terms: Vec<(PortfolioTerm, f64)>,
    /// How fast the differential Sharpe ratio and the volatility forget.
    pub memory: f64,
    /// What `MeanVariance` weighs the square of a return with.
    pub risk_aversion: f64,
}

/// What a row did to a portfolio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Earned {
    pub(super) before: f64,
    pub(super) after: f64,
    /// In currency.
    pub(super) cost: f64,
    /// As a share of equity.
    pub(super) turnover: f64,
    pub(super) benchmark: f64,
}

impl RewardRule {
    /// Whether a term asks how returns were spread.
    fn remembers(&self) -> bool {
        let spread = [PortfolioTerm::DifferentialSharpe, PortfolioTerm::VolatilityPenalty];
        self.terms.iter().any(|(term, _)| spread.contains(term))
    }

    /// The weighed sum of all terms for one row, which is then remembered.
    pub(super) fn reward(&self, memory: &mut RewardMemory, earned: Earned) -> f64 {
        let past = *memory;
        let gained = earned.after / earned.before - 1.0;
        if self.remembers() {
            memory.remember(self.memory, gained, earned.after);
        } else {
            memory.reach(earned.after);
        }
        let term = |term| match term {
            PortfolioTerm::Return => gained,
            PortfolioTerm::LogReturn => log_growth(earned.before, earned.after),
            PortfolioTerm::Profit => earned.after - earned.before,
            PortfolioTerm::MeanVariance => gained - 0.5 * self.risk_aversion * gained * gained,
            PortfolioTerm::DifferentialSharpe => past.differential(gained),
            PortfolioTerm::DrawdownPenalty => {
                earned.after / memory.peak() - earned.before / past.peak()
            }
            PortfolioTerm::VolatilityPenalty => -memory.volatility(),
            PortfolioTerm::TurnoverPenalty => -earned.turnover,
            PortfolioTerm::CostPenalty => -earned.cost / earned.before,
            PortfolioTerm::BenchmarkRelative => gained - earned.benchmark,
        };
        match &self.terms[..] {
            // The usual case, kept free of a sum that starts at zero.
            [(only, weight)] => weight * term(*only),
            terms => terms.iter().map(|&(kind, weight)| weight * term(kind)).sum(),
        }
    }
}

/// Lets rewards of several agents have to do with each other.
pub(super) fn combine(mode: RewardMode, traders: &mut [Trader]) {
    if mode == RewardMode::Own || traders.len() == 1 {
        return;
    }
    let mut rewards: SmallVec<[f64; 16]> =
        traders.iter().map(|trader| trader.told.reward).collect();
    let took_part: SmallVec<[bool; 16]> = traders.iter().map(Trader::took_part).collect();
    combine_rewards(mode, &mut rewards, &took_part);
    for (trader, reward) in traders.iter_mut().zip(rewards) {
        trader.told.reward = reward;
    }
}

/// Combines the rewards of the agents of one env that took part in a step; others stay as they
/// are.
pub fn combine_rewards(mode: RewardMode, rewards: &mut [f64], took_part: &[bool]) {
    let taking = rewards.iter().zip(took_part).filter(|(_, took_part)| **took_part);
    let (sum, count) =
        taking.fold((0.0, 0.0), |(sum, count), (reward, _)| (sum + reward, count + 1.0));
    for (reward, _) in rewards.iter_mut().zip(took_part).filter(|(_, took_part)| **took_part) {
        let own = *reward;
        *reward = match mode {
            RewardMode::Cooperative => sum / count,
            RewardMode::Competitive if count > 1.0 => own - (sum - own) / (count - 1.0),
            RewardMode::Competitive | RewardMode::Own => own,
        };
    }
}
