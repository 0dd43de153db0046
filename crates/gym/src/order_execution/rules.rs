//! Rules of order execution: schedule over ticks, volume cap and costs of fills.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::direction::Direction;

/// Largest value treated as a rounding error, not a trade.
const LEAST_VALUE: f64 = 1e-5;

/// Rules of order execution; the defaults have no costs or limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderRules {
    /// Number of ticks per step. Steps begin at multiples of it, counted from the first tick of the
    /// session.
    pub ticks_per_step: usize,
    /// Request the amount that a cap left unfilled again in later ticks of the step.
    pub carries: bool,
    /// Request all remaining size in the last tick of the window.
    pub finishes: bool,
    /// Trade unit of real shares; needs the day's `factor`.
    pub trade_unit: Option<f64>,
    /// Commission of a purchase, as a share of its value.
    pub open_cost: f64,
    /// Commission of a sale, as a share of its value.
    pub close_cost: f64,
    /// Minimum commission of a fill.
    pub min_cost: f64,
    /// Impact cost: a share of value times the squared participation of the fill.
    pub impact_cost: f64,
    /// Initial cash; `None` if unlimited.
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

/// Invalid rules.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RulesError {
    /// No ticks per step.
    #[error("ticks_per_step must be at least 1 tick, got 0")]
    NoTicks,
    /// Setting out of range.
    #[error("{name} must be {expected}, got {got}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// Allowed values, in words.
        expected: &'static str,
        /// Actual value.
        got: f64,
    },
}

impl OrderRules {
    /// Validate the settings.
    ///
    /// # Errors
    /// If a setting is negative, infinite or NaN.
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
        for (name, got) in costs {
            if !(got >= 0.0 && got.is_finite()) {
                let expected = "a finite number of at least 0";
                return Err(RulesError::OutOfRange { name, expected, got });
            }
        }
        match self.trade_unit {
            Some(got) if !(got > 0.0 && got.is_finite()) => {
                Err(RulesError::OutOfRange { name: "trade_unit", expected: "above 0", got })
            }
            _ => Ok(()),
        }
    }

    /// The cost of a fill of `value` in a market that trades `market_value`, as a share. If the
    /// market volume is unknown, the participation counts as 1.
    pub(super) fn rate(&self, direction: Direction, value: f64, market_value: f64) -> f64 {
        let commission = match direction {
            Direction::Buy => self.open_cost,
            Direction::Sell => self.close_cost,
        };
        let share = if market_value > 0.0 { value / market_value } else { 1.0 };
        commission + self.impact_cost * share * share
    }

    /// Cost of a fill of `value` at this rate.
    pub(super) fn cost(&self, value: f64, rate: f64) -> f64 {
        if value <= LEAST_VALUE { 0.0 } else { (value * rate).max(self.min_cost) }
    }

    /// Round down to whole units of real shares; a tenth of a share is tolerated as rounding.
    pub(super) fn in_units(&self, amount: f64, factor: Option<f64>) -> f64 {
        match (self.trade_unit, factor) {
            (Some(unit), Some(factor)) => {
                let shares = amount * factor + 0.1;
                // By the remainder: a quotient just below an integer could be rounded to it.
                ((shares - shares % unit) / unit).round() * unit / factor
            }
            _ => amount,
        }
    }

    /// `amount` rounded to the nearest whole units.
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
