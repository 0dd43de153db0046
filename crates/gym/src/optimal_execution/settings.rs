//! Settings of optimal execution: order, horizon, impact and risk aversion.

use market::Side;
use serde::Serialize;

use crate::settings_error::SettingsError;

/// Quantity of an action of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ActionUnit {
    /// Remaining size.
    Rest,
    /// Full size of the order; trades are limited to the remaining size.
    Order,
}

/// Settings of an optimal execution episode. Times are in any one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptimalExecutionSettings {
    /// Side of the parent order.
    pub side: Side,
    /// Size of the parent order.
    pub shares: f64,
    /// Arrival price.
    pub initial_price: f64,
    /// Horizon of the order.
    pub horizon: f64,
    /// Number of decisions per episode.
    pub episode_steps: u32,
    /// Standard deviation of the price after a unit of time.
    pub volatility: f64,
    /// Temporary impact: price concession per share traded in a unit of time.
    pub temporary_impact: f64,
    /// Permanent impact: lasting price move per share traded.
    pub permanent_impact: f64,
    /// Half of the spread: cost per share at any trading speed.
    pub half_spread: f64,
    /// Risk aversion: weight of a unit of variance.
    pub risk_aversion: f64,
    /// Quantity that actions are shares of.
    pub action: ActionUnit,
    /// Reward unit: cash per reward of 1; by default a hundredth of the order's value.
    pub reward_unit: Option<f64>,
}

impl OptimalExecutionSettings {
    /// Validate the settings.
    ///
    /// # Errors
    /// If a setting is invalid: its name, the expected and the actual value.
    pub fn check(&self) -> Result<(), SettingsError> {
        let positive =
            |name, value| SettingsError::unless(value > 0.0, name, "finite and above 0", value);
        let not_negative =
            |name, value| SettingsError::unless(value >= 0.0, name, "finite and at least 0", value);
        positive("shares", self.shares)?;
        positive("initial_price", self.initial_price)?;
        positive("horizon", self.horizon)?;
        let has_steps = (1..=1_000_000).contains(&self.episode_steps);
        let steps = f64::from(self.episode_steps);
        SettingsError::unless(has_steps, "episode_steps", "from 1 to 1000000", steps)?;
        not_negative("volatility", self.volatility)?;
        not_negative("permanent_impact", self.permanent_impact)?;
        let expected = "finite and above permanent_impact * horizon / episode_steps / 2";
        let is_even_best = self.effective_impact() > 0.0;
        SettingsError::unless(is_even_best, "temporary_impact", expected, self.temporary_impact)?;
        not_negative("half_spread", self.half_spread)?;
        not_negative("risk_aversion", self.risk_aversion)?;
        self.reward_unit.map_or(Ok(()), |unit| positive("reward_unit", unit))?;
        self.check_size()
    }

    /// Check that money stays finite and above 0, even if all is traded at once or nothing for
    /// long.
    fn check_size(&self) -> Result<(), SettingsError> {
        let risk = self.volatility * self.volatility * self.horizon * (1.0 + self.risk_aversion);
        let impact = self.temporary_impact / self.step_time() + self.permanent_impact;
        let most = self.shares * self.shares * (impact + risk) + self.shares * self.half_spread;
        let value = self.shares * self.initial_price;
        let is_sane = (most + value).is_finite() && value.is_normal();
        let expected = "such that value, costs and risk of the order are finite and above 0";
        SettingsError::unless(is_sane, "shares", expected, self.shares)
    }

    /// Duration of a step.
    #[must_use]
    pub fn step_time(&self) -> f64 {
        self.horizon / f64::from(self.episode_steps)
    }

    /// Effective impact: temporary impact less half of the permanent impact of a step. If it is not
    /// above 0, trading in lumps would be cheaper than trading evenly.
    #[must_use]
    pub fn effective_impact(&self) -> f64 {
        self.temporary_impact - self.permanent_impact * self.step_time() / 2.0
    }
}
