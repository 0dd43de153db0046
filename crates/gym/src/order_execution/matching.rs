//! What becomes of the amount that is wanted in one tick: clipped by volume, cash and unit.

use serde::{Deserialize, Serialize};

use super::day::OrderDay;
use super::direction::Direction;
use super::rules::OrderRules;

/// What one tick did for an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TickFill {
    /// What was asked for.
    pub wanted: f64,
    /// What was filled.
    pub filled: f64,
    /// Price times what was filled.
    pub value: f64,
    /// Commission and impact.
    pub cost: f64,
}

/// What is left of an order and of the cash behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Holdings {
    /// What is still to be traded.
    pub(super) position: f64,
    /// What has been.
    pub(super) dealt: f64,
    /// What can be paid with; none if money is no object.
    pub(super) cash: Option<f64>,
}

impl Holdings {
    /// Asks a tick for `wanted` and takes what it gives.
    pub(super) fn trade(
        &mut self,
        day: &OrderDay,
        rules: &OrderRules,
        direction: Direction,
        tick: usize,
        wanted: f64,
    ) -> TickFill {
        if !day.is_open(tick) || wanted <= 0.0 {
            return TickFill { wanted, ..TickFill::default() };
        }
        let price = day.price[tick];
        let cap = day.cap(tick, self.dealt).min(self.position);
        let by_volume = wanted.min(cap);
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
        TickFill { wanted, filled, value, cost }
    }

    /// The value that the cash buys, of `value` wanted; costs are paid from the same cash.
    fn affordable(&self, value: f64, rules: &OrderRules, rate: f64) -> f64 {
        let Some(cash) = self.cash else { return f64::INFINITY };
        if cash >= value + rules.cost(value, rate) {
            return f64::INFINITY;
        }
        // The cash buys the less of the two: one pays the rate, the other the least commission.
        (cash / (1.0 + rate)).min(cash - rules.min_cost).max(0.0)
    }

    /// What can be sold of `amount`: whole units unless it is the last, and none for which the
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
        self.dealt += filled;
        if let Some(cash) = &mut self.cash {
            *cash += match direction {
                Direction::Buy => -value - cost,
                Direction::Sell => value - cost,
            };
        }
    }
}
