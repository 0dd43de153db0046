//! Portfolio rewards: weighted sum of terms.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::account::AgentAccount;
use super::settings::RewardMode;
use crate::reward_memory::{RewardMemory, log_growth};

/// Reward term. All but profit are shares of equity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortfolioTerm {
    /// Return: relative change of equity.
    Return,
    /// Log growth of equity.
    LogReturn,
    /// Profit: change of equity, in currency.
    Profit,
    /// Mean-variance utility: return less half its square times the risk aversion.
    MeanVariance,
    /// Differential Sharpe ratio of recent returns (Moody and Saffell).
    DifferentialSharpe,
    /// Minus the increase of the drawdown.
    DrawdownPenalty,
    /// Minus the standard deviation of recent returns.
    VolatilityPenalty,
    /// Minus the turnover.
    TurnoverPenalty,
    /// Minus the costs of every kind.
    CostPenalty,
    /// Return in excess of the benchmark.
    BenchmarkRelative,
}

/// Reward rule of a portfolio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardRule {
    /// Reward terms with their weights.
    pub terms: Vec<(PortfolioTerm, f64)>,
    /// Decay of the differential Sharpe ratio and of the volatility.
    pub memory: f64,
    /// Weight of the squared return in `MeanVariance`.
    pub risk_aversion: f64,
}

/// Change of a portfolio over one row.
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
    /// Return true if a term depends on past returns.
    fn remembers(&self) -> bool {
        let spread = [PortfolioTerm::DifferentialSharpe, PortfolioTerm::VolatilityPenalty];
        self.terms.iter().any(|(term, _)| spread.contains(term))
    }

    /// Weighted sum of all terms for one row; updates the reward state.
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
            // Common case, without a sum that starts at zero.
            [(only, weight)] => weight * term(*only),
            terms => terms.iter().map(|&(kind, weight)| weight * term(kind)).sum(),
        }
    }
}

/// Combine the rewards of several agents.
pub(super) fn combine(mode: RewardMode, accounts: &mut [AgentAccount]) {
    if mode == RewardMode::Own || accounts.len() == 1 {
        return;
    }
    let mut rewards: SmallVec<[f64; 16]> =
        accounts.iter().map(|account| account.step_report.reward).collect();
    let took_part: SmallVec<[bool; 16]> = accounts.iter().map(AgentAccount::took_part).collect();
    combine_rewards(mode, &mut rewards, &took_part);
    for (account, reward) in accounts.iter_mut().zip(rewards) {
        account.step_report.reward = reward;
    }
}

/// Combine the rewards of the agents of one env that took part in a step; the others are unchanged.
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
