//! How a market is made and what it pays.

use serde::Serialize;

use crate::settings_error::SettingsError;

/// The most fills of a side that a step may have on average: beyond, a step takes for ever.
const MOST_FILLS: f64 = 1_000.0;

/// How an episode of market making is cut and priced. Times are in any one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarketMakingSettings {
    /// The mid price that an episode begins with.
    pub initial_mid: f64,
    /// Cash that an episode begins with.
    pub initial_cash: f64,
    /// Standard deviation of the mid price after a unit of time.
    pub volatility: f64,
    /// How long an episode lasts.
    pub horizon: f64,
    /// Into how many decisions an episode is cut.
    pub episode_steps: u32,
    /// Fills in a unit of time of a quote at the mid price.
    pub fill_rate: f64,
    /// How fast fills become fewer with the distance from the mid.
    pub fill_decay: f64,
    /// The most that is held, long or short.
    pub inventory_limit: u32,
    /// The smallest distance that can be quoted.
    pub min_distance: f64,
    /// The largest distance that can be quoted.
    pub max_distance: f64,
    /// Absolute risk aversion of the optimal market maker.
    pub risk_aversion: f64,
    /// What holding a unit costs in a unit of time; grows with the square of what is held.
    pub running_penalty: f64,
    /// What a unit costs that is still held at the end.
    pub liquidation_penalty: f64,
    /// Wealth at which the episode is over.
    pub ruin_wealth: Option<f64>,
}

impl MarketMakingSettings {
    /// Whether the settings make sense.
    ///
    /// # Errors
    /// When one of them does not: which, what was wanted and what was found.
    pub fn check(&self) -> Result<(), SettingsError> {
        let check = |name, wanted, found: f64, holds: bool| {
            SettingsError::unless(holds, name, wanted, found)
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
        let found = self.rate(self.min_distance) * self.step_time();
        let wanted = "at most 1000 fills of a side in a step, at min_distance on average";
        let name = "fill_rate * exp(-fill_decay * min_distance) * horizon / episode_steps";
        if found <= MOST_FILLS { Ok(()) } else { Err(SettingsError { name, wanted, found }) }
    }

    /// How long a step lasts.
    #[must_use]
    pub fn step_time(&self) -> f64 {
        self.horizon / f64::from(self.episode_steps)
    }

    /// Fills in a unit of time at this distance.
    #[must_use]
    pub fn rate(&self, distance: f64) -> f64 {
        self.fill_rate * libm::exp(-self.fill_decay * distance)
    }
}
