//! Settings of market making: market, quotes, costs and penalties.

use serde::Serialize;

use crate::glft;
use crate::settings_error::SettingsError;

/// Largest mean number of fills per side and step: beyond, a step takes too long.
const MOST_FILLS: f64 = 1_000.0;

/// Settings of a market making episode. Times are in any one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarketMakingSettings {
    /// Initial mid price.
    pub initial_mid: f64,
    /// Initial cash.
    pub initial_cash: f64,
    /// Standard deviation of the mid price after a unit of time.
    pub volatility: f64,
    /// Duration of an episode.
    pub horizon: f64,
    /// Number of decisions per episode.
    pub episode_steps: u32,
    /// Fill intensity at the mid price, per unit of time.
    pub fill_rate: f64,
    /// Exponential decay of the fill intensity with the distance from the mid.
    pub fill_decay: f64,
    /// Inventory limit, long or short.
    pub inventory_limit: u32,
    /// Smallest quote distance.
    pub min_distance: f64,
    /// Largest quote distance.
    pub max_distance: f64,
    /// Absolute risk aversion of the optimal market maker.
    pub risk_aversion: f64,
    /// Running inventory penalty per unit of time, in proportion to the squared inventory.
    pub running_penalty: f64,
    /// Penalty per unit of inventory left at the end of the episode.
    pub liquidation_penalty: f64,
    /// Wealth at or below which the episode terminates.
    pub ruin_wealth: Option<f64>,
}

impl MarketMakingSettings {
    /// Validate the settings.
    ///
    /// # Errors
    /// If a setting is invalid: its name, the expected and the actual value.
    pub fn check(&self) -> Result<(), SettingsError> {
        let check = |name, expected, got: f64, holds: bool| {
            SettingsError::unless(holds, name, expected, got)
        };
        let positive = |name, value| check(name, "finite and above 0", value, value > 0.0);
        let not_negative = |name, value| check(name, "finite and at least 0", value, value >= 0.0);
        let at_least_one = |name, value: u32| {
            check(name, "from 1 to 1000000", f64::from(value), (1..=1_000_000).contains(&value))
        };
        check("initial_mid", "finite", self.initial_mid, true)?;
        check("initial_cash", "finite", self.initial_cash, true)?;
        not_negative("volatility", self.volatility)?;
        positive("horizon", self.horizon)?;
        at_least_one("episode_steps", self.episode_steps)?;
        not_negative("fill_rate", self.fill_rate)?;
        positive("fill_decay", self.fill_decay)?;
        at_least_one("inventory_limit", self.inventory_limit)?;
        check("min_distance", "finite", self.min_distance, true)?;
        let above = self.max_distance > self.min_distance;
        check("max_distance", "finite and above min_distance", self.max_distance, above)?;
        not_negative("risk_aversion", self.risk_aversion)?;
        not_negative("running_penalty", self.running_penalty)?;
        not_negative("liquidation_penalty", self.liquidation_penalty)?;
        if let Some(level) = self.ruin_wealth {
            check("ruin_wealth", "below initial_cash", level, level < self.initial_cash)?;
        }
        self.check_fills()
    }

    fn check_fills(&self) -> Result<(), SettingsError> {
        let got = self.rate(self.min_distance) * self.step_time();
        let expected = "at most 1000 fills of a side in a step, at min_distance on average";
        let name = "fill_rate * exp(-fill_decay * min_distance) * horizon / episode_steps";
        if got <= MOST_FILLS { Ok(()) } else { Err(SettingsError { name, expected, got }) }
    }

    /// Check that the closed form of optimal quotes can be computed in a bounded time.
    ///
    /// # Errors
    /// The number of operations is too large.
    pub fn check_optimum(&self) -> Result<(), SettingsError> {
        glft::check(self)
    }

    /// Duration of a step.
    #[must_use]
    pub fn step_time(&self) -> f64 {
        self.horizon / f64::from(self.episode_steps)
    }

    /// Fill intensity at this distance.
    #[must_use]
    pub fn rate(&self, distance: f64) -> f64 {
        self.fill_rate * libm::exp(-self.fill_decay * distance)
    }
}
