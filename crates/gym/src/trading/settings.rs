//! Settings of trading episodes: length, observation and reward.

use market::{ConfigError, MarketConfig};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::reward::RewardTerm;
use crate::features::FeatureOptions;

/// Settings of a trading episode, without its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TradingSettings {
    /// Market configuration; its first learning agent is the trained agent.
    pub market: MarketConfig,
    /// Tick size in currency.
    pub tick_size: f64,
    /// Time limit of an episode, in decisions.
    pub max_ticks: u64,
    /// Lots of one sell or buy decision.
    pub order_size: u32,
    /// Warm-up ticks of a market before an episode.
    pub warm_up: u32,
    /// Feature options of each symbol.
    pub features: FeatureOptions,
    /// Append the agent's own account to the observation.
    pub agent: bool,
    /// Reward terms with their weights.
    pub reward: Vec<(RewardTerm, f64)>,
    /// Decay of the differential Sharpe ratio and of the volatility.
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
            // Real traders do not observe the fair value.
            features: FeatureOptions { privileged: false, ..FeatureOptions::default() },
            agent: false,
            reward: vec![(RewardTerm::EquityChange, 1.0)],
            reward_memory: 0.01,
        }
    }
}

/// Invalid settings.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TradingError {
    /// Invalid market configuration.
    #[error(transparent)]
    Market(#[from] ConfigError),
    /// Setting out of range.
    #[error("expected {field} {expected}, got {got}")]
    Setting {
        /// Name of the setting.
        field: &'static str,
        /// Expected value, in words.
        expected: &'static str,
        /// Actual value, in words.
        got: String,
    },
}

impl TradingSettings {
    /// Validate the settings.
    ///
    /// # Errors
    /// If a setting is out of its range; reports the first.
    pub fn check(&self) -> Result<(), TradingError> {
        self.market.check()?;
        let positive = |number: f64| number.is_finite() && number > 0.0;
        let kinds = self.reward.iter().map(|(term, _)| term);
        let is_repeated = kinds
            .enumerate()
            .any(|(index, term)| self.reward[..index].iter().any(|(before, _)| before == term));
        for (holds, field, expected, got) in [
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
                return Err(TradingError::Setting { field, expected, got });
            }
        }
        Ok(())
    }
}
