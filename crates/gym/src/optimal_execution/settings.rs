//! What is to be traded, in how much time, and what that costs.

use market::Side;
use serde::Serialize;

use crate::settings_error::SettingsError;

/// What an action of 1 stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Whole {
    /// All that is left to trade.
    Rest,
    /// All of the order; what is left is the most that is traded.
    Order,
}

/// How an order is worked in an episode. Times are in any one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptimalExecutionSettings {
    /// Whether it sells or buys.
    pub side: Side,
    /// How much it trades.
    pub shares: f64,
    /// The price when it is given.
    pub initial_price: f64,
    /// The time there is for it.
    pub horizon: f64,
    /// Into how many decisions that is cut.
    pub episode_steps: u32,
    /// Standard deviation of the price after a unit of time.
    pub volatility: f64,
    /// How far the price of a fill gives way, for each share in a unit of time.
    pub temporary_impact: f64,
    /// How far the price gives way for good, for each share.
    pub permanent_impact: f64,
    /// What a share costs however slowly it is traded.
    pub half_spread: f64,
    /// What a unit of variance is worth.
    pub risk_aversion: f64,
    /// What actions are shares of.
    pub action: Whole,
    /// Money that a reward of 1 stands for; a hundredth of the order's value where not given.
    pub reward_unit: Option<f64>,
}

impl OptimalExecutionSettings {
    /// Whether the settings make sense.
    ///
    /// # Errors
    /// When one of them does not: which, what was wanted and what was found.
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
        let wanted = "finite and above permanent_impact * horizon / episode_steps / 2";
        let is_even_best = self.effective_impact() > 0.0;
        SettingsError::unless(is_even_best, "temporary_impact", wanted, self.temporary_impact)?;
        not_negative("half_spread", self.half_spread)?;
        not_negative("risk_aversion", self.risk_aversion)?;
        self.reward_unit.map_or(Ok(()), |unit| positive("reward_unit", unit))?;
        self.check_size()
    }

    /// Whether money stays finite and above 0, even if all is traded at once or nothing for long.
    fn check_size(&self) -> Result<(), SettingsError> {
        let risk = self.volatility * self.volatility * self.horizon * (1.0 + self.risk_aversion);
        let impact = self.temporary_impact / self.step_time() + self.permanent_impact;
        let most = self.shares * self.shares * (impact + risk) + self.shares * self.half_spread;
        let value = self.shares * self.initial_price;
        let is_sane = (most + value).is_finite() && value.is_normal();
        let wanted = "such that value, costs and risk of the order are finite and above 0";
        SettingsError::unless(is_sane, "shares", wanted, self.shares)
    }

    /// How long a step lasts.
    #[must_use]
    pub fn step_time(&self) -> f64 {
        self.horizon / f64::from(self.episode_steps)
    }

    /// Temporary impact, less what permanent impact takes from it by coming a step late. Where
    /// this is not above 0, trading in lumps would be cheaper than trading evenly.
    #[must_use]
    pub fn effective_impact(&self) -> f64 {
        self.temporary_impact - self.permanent_impact * self.step_time() / 2.0
    }
}
