//! Fills of an order in one tick: the requested amount clipped by volume, cash and trade unit.

use serde::{Deserialize, Serialize};

use super::day::OrderDay;
use super::direction::Direction;
use super::rules::OrderRules;

/// Fill of an order in one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TickFill {
    /// Requested amount.
    pub requested: f64,
    /// Filled amount.
    pub filled: f64,
    /// Filled value: price times filled amount.
    pub value: f64,
    /// Commission and impact.
    pub cost: f64,
}

/// Remaining size of an order, and the cash behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Holdings {
    /// Remaining size.
    pub(super) position: f64,
    /// Filled size.
    pub(super) filled_before: f64,
    /// Available cash; `None` if unlimited.
    pub(super) cash: Option<f64>,
}

impl Holdings {
    /// Fill `requested` in a tick as far as possible.
    pub(super) fn trade(
        &mut self,
        day: &OrderDay,
        rules: &OrderRules,
        direction: Direction,
        tick: usize,
        requested: f64,
    ) -> TickFill {
        if !day.is_open(tick) || requested <= 0.0 {
            return TickFill { requested, ..TickFill::default() };
        }
        let price = day.price[tick];
        let cap = day.cap(tick, self.filled_before).min(self.position);
        let by_volume = requested.min(cap);
        let rate = rules.rate(direction, by_volume * price, day.market_value(tick));
        let factor = day.factor(tick);
        let filled = match direction {
            Direction::Buy => {
                let affordable = self.affordable(by_volume * price, rules, rate) / price;
                rules.in_units(by_volume.min(affordable), factor).min(cap).min(affordable)
            }
            Direction::Sell => self.saleable(by_volume, price, rules, rate, factor).min(cap),
        };
        let value = filled * price;
        let cost = rules.cost(value, rate);
        self.take(direction, filled, value, cost);
        TickFill { requested, filled, value, cost }
    }

    /// Affordable part of `value`; costs are paid from the same cash.
    fn affordable(&self, value: f64, rules: &OrderRules, rate: f64) -> f64 {
        let Some(cash) = self.cash else { return f64::INFINITY };
        if cash >= value + rules.cost(value, rate) {
            return f64::INFINITY;
        }
        // The lesser of the two: one pays the rate, the other the minimum commission.
        (cash / (1.0 + rate)).min(cash - rules.min_cost).max(0.0)
    }

    /// Saleable part of `amount`: a multiple of the trade unit unless it is the last, and 0 if the
    /// costs could not be paid.
    fn saleable(
        &self,
        amount: f64,
        price: f64,
        rules: &OrderRules,
        rate: f64,
        factor: Option<f64>,
    ) -> f64 {
        let Some(cash) = self.cash else { return rules.in_units(amount, factor) };
        let is_last = amount >= self.position;
        let sold = if is_last { amount } else { rules.in_units(amount, factor) };
        let value = sold * price;
        if cash + value < rules.cost(value, rate) { 0.0 } else { sold }
    }

    fn take(&mut self, direction: Direction, filled: f64, value: f64, cost: f64) {
        self.position -= filled;
        self.filled_before += filled;
        if let Some(cash) = &mut self.cash {
            *cash += match direction {
                Direction::Buy => -value - cost,
                Direction::Sell => value - cost,
            };
        }
    }
}
