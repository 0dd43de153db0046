//! How an episode of trading is cut, shown and rewarded.

use market::{ConfigError, MarketConfig};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::reward::RewardTerm;
use crate::features::FeatureOptions;

/// Everything that an episode of trading is made of, apart from its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TradingSettings {
    /// The market; its first learning agent is the one that is trained.
    pub market: MarketConfig,
    /// The currency that one tick of price stands for.
    pub tick_size: f64,
    /// Decisions until an episode is truncated.
    pub max_ticks: u64,
    /// Lots of one sell or buy decision.
    pub order_size: u32,
    /// Ticks that a market runs before an episode begins in it.
    pub warm_up: u32,
    /// What is shown of each symbol.
    pub features: FeatureOptions,
    /// Whether the agent is shown its own account too.
    pub agent: bool,
    /// What is rewarded: terms with their weights.
    pub reward: Vec<(RewardTerm, f64)>,
    /// How fast the differential Sharpe ratio and the volatility forget.
    pub reward_memory: f64,
}

impl Default for TradingSettings {
    fn default() -> Self {
        Self {
            market: MarketConfig::default(),
            tick_size: 0.01,
            max_ticks: 10_000,
            order_size: 30,
            warm_up: 128,
            features: FeatureOptions::default(),
            agent: false,
            reward: vec![(RewardTerm::EquityChange, 1.0)],
            reward_memory: 0.01,
        }
    }
}

/// Why settings were refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TradingError {
    /// The market could not run.
    #[error(transparent)]
    Market(#[from] ConfigError),
    /// A setting is out of its range.
    #[error("{field} {wanted} was wanted, found {found}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What it should be.
        wanted: &'static str,
        /// What it was.
        found: String,
    },
}

impl TradingSettings {
    /// Refuses settings with which no episode could run.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), TradingError> {
        self.market.check()?;
        let positive = |number: f64| number.is_finite() && number > 0.0;
        let kinds = self.reward.iter().map(|(term, _)| term);
        let is_repeated = kinds
            .enumerate()
            .any(|(place, term)| self.reward[..place].iter().any(|(before, _)| before == term));
        for (holds, field, wanted, found) in [
            (
                self.market.external >= 1,
                "agents",
                "of at least 1",
                self.market.external.to_string(),
            ),
            (positive(self.tick_size), "tick_size", "above 0", self.tick_size.to_string()),
            (self.max_ticks >= 1, "max_ticks", "of at least 1", self.max_ticks.to_string()),
            (
                (1..=1_000_000).contains(&self.order_size),
                "order_size",
                "from 1 to 1,000,000 lots",
                self.order_size.to_string(),
            ),
            (
                (1..=100_000).contains(&self.warm_up),
                "warm_up",
                "from 1 to 100,000 ticks",
                self.warm_up.to_string(),
            ),
            (!self.reward.is_empty(), "reward", "with at least one term", "none".to_string()),
            (!is_repeated, "reward", "with each term once", "one of them twice".to_string()),
            (
                self.reward.iter().all(|(_, weight)| weight.is_finite()),
                "reward",
                "with finite weights",
                format!("{:?}", self.reward),
            ),
            (
                self.reward_memory > 0.0 && self.reward_memory <= 1.0,
                "reward_memory",
                "above 0 and at most 1",
                self.reward_memory.to_string(),
            ),
        ] {
            if !holds {
                return Err(TradingError::Setting { field, wanted, found });
            }
        }
        Ok(())
    }
}
