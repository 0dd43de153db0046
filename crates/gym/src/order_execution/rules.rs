//! How an order is spread over ticks, and what its fills cost.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::direction::Direction;

/// Values up to this are rounding, not trades.
const LEAST_VALUE: f64 = 1e-5;

/// Settings of the matching; the defaults are those of a market without any cost or limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderRules {
    /// How many ticks a step has. Steps begin at multiples of it, counted from the day's first.
    pub ticks_per_step: usize,
    /// Whether what a cap kept from being filled is asked for again in the step's later ticks.
    pub carries: bool,
    /// Whether the last tick of all asks for everything that is left of the order.
    pub finishes: bool,
    /// Real shares come in multiples of this; needs the day's `factor`.
    pub trade_unit: Option<f64>,
    /// Commission of a purchase, as a share of its value.
    pub open_cost: f64,
    /// Commission of a sale, as a share of its value.
    pub close_cost: f64,
    /// The least commission of a fill.
    pub min_cost: f64,
    /// A further share, times the square of the fill's share of the market's value.
    pub impact_cost: f64,
    /// What can be paid with at first; none if money is no object.
    pub cash: Option<f64>,
}

impl Default for OrderRules {
    fn default() -> Self {
        Self {
            ticks_per_step: 30,
            carries: false,
            finishes: true,
            trade_unit: None,
            open_cost: 0.0,
            close_cost: 0.0,
            min_cost: 0.0,
            impact_cost: 0.0,
            cash: None,
        }
    }
}

/// Why rules cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RulesError {
    /// A step without ticks.
    #[error("ticks_per_step must be at least 1 tick, was 0")]
    NoTicks,
    /// A setting that is too small, or no number.
    #[error("{name} must be {wanted}, was {found}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What it may be.
        wanted: &'static str,
        /// What it is.
        found: f64,
    },
}

impl OrderRules {
    /// Refuses settings that mean nothing.
    ///
    /// # Errors
    /// If a setting is negative, infinite or no number.
    pub fn check(&self) -> Result<(), RulesError> {
        if self.ticks_per_step == 0 {
            return Err(RulesError::NoTicks);
        }
        let costs = [
            ("open_cost", self.open_cost),
            ("close_cost", self.close_cost),
            ("min_cost", self.min_cost),
            ("impact_cost", self.impact_cost),
            ("cash_limit", self.cash.unwrap_or(0.0)),
        ];
        for (name, found) in costs {
            if !(found >= 0.0 && found.is_finite()) {
                let wanted = "a finite number of at least 0";
                return Err(RulesError::OutOfRange { name, wanted, found });
            }
        }
        match self.trade_unit {
            Some(found) if !(found > 0.0 && found.is_finite()) => {
                Err(RulesError::OutOfRange { name: "trade_unit", wanted: "above 0", found })
            }
            _ => Ok(()),
        }
    }

    /// The cost of a fill of `value` in a market that trades `market_value`, as a share. Where
    /// nobody knows what the market trades, the fill counts as all of it.
    pub(super) fn rate(&self, direction: Direction, value: f64, market_value: f64) -> f64 {
        let commission = match direction {
            Direction::Buy => self.open_cost,
            Direction::Sell => self.close_cost,
        };
        let share = if market_value > 0.0 { value / market_value } else { 1.0 };
        commission + self.impact_cost * share * share
    }

    /// What a fill of `value` costs at this rate.
    pub(super) fn cost(&self, value: f64, rate: f64) -> f64 {
        if value <= LEAST_VALUE { 0.0 } else { (value * rate).max(self.min_cost) }
    }

    /// Whole units, of real shares; a tenth of a share is taken for rounding.
    pub(super) fn in_units(&self, amount: f64, factor: Option<f64>) -> f64 {
        match (self.trade_unit, factor) {
            (Some(unit), Some(factor)) => {
                let shares = amount * factor + 0.1;
                // By the remainder: a quotient just below a whole number could be rounded to it.
                ((shares - shares % unit) / unit).round() * unit / factor
            }
            _ => amount,
        }
    }

    /// The whole number of units that is nearest to `amount`.
    pub(super) fn nearest_units(&self, amount: f64, factor: Option<f64>) -> f64 {
        match (self.trade_unit, factor) {
            (Some(unit), Some(factor)) => {
                let unit = unit / factor;
                (amount / unit).round_ties_even() * unit
            }
            _ => amount,
        }
    }
}
