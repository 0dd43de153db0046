//! Nested root finding for the prices of the constraints: slow, but it always terminates.
//!
//! With the outer prices fixed, the best inner ones leave an excess that falls as an outer price
//! rises (the dual stays concave when some of its prices are chosen best). The nesting is, from the
//! outside in: turnover, leverage, sum, sectors.

use super::evaluate::{Prices, Sums};
use super::problem::Workspace;

/// Residual tolerances of the four depths, relative to the largest target weight: the outer ones
/// inherit the errors of the inner ones.
const SECTOR: f64 = 1e-15;
const SUM: f64 = 4e-15;
const LEVERAGE: f64 = 2e-14;
const TURNOVER: f64 = 4e-14;

/// The highest price, relative to the largest target weight.
const HIGHEST: f64 = 1e5;
const MOST_STEPS: usize = 200;

impl Workspace {
    /// Prices at which all constraints are met.
    pub(super) fn nested(&mut self) -> Prices {
        let scale = self.scale();
        let mut prices = Prices::default();
        if self.turnover.is_infinite() {
            self.meet_leverage(&mut prices, scale);
            return prices;
        }
        prices.turnover = falling_root(true, TURNOVER * scale, scale, |turnover| {
            prices.turnover = turnover;
            self.meet_leverage(&mut prices, scale).turnover - self.turnover
        });
        self.meet_leverage(&mut prices, scale);
        prices
    }

    fn meet_leverage(&mut self, prices: &mut Prices, scale: f64) -> Sums {
        prices.leverage = 0.0;
        if self.leverage.is_finite() {
            prices.leverage = falling_root(true, LEVERAGE * scale, scale, |leverage| {
                prices.leverage = leverage;
                self.meet_sum(prices, scale).gross - self.leverage
            });
        }
        self.meet_sum(prices, scale)
    }

    fn meet_sum(&mut self, prices: &mut Prices, scale: f64) -> Sums {
        prices.level = falling_root(false, SUM * scale, scale, |level| {
            prices.level = level;
            self.meet_sectors(*prices, scale).net + self.cash.at(level) - self.budget
        });
        self.meet_sectors(*prices, scale)
    }

    fn meet_sectors(&mut self, prices: Prices, scale: f64) -> Sums {
        let mut total = Sums::default();
        for slot in 0..self.slots.len() {
            let mut price = 0.0;
            let cap = self.slots[slot].cap;
            if cap.is_finite() {
                price = falling_root(true, SECTOR * scale, scale, |price| {
                    self.slot_sums(slot, prices, price).gross - cap
                });
            }
            self.slots[slot].price = price;
            total.add(&self.slot_sums(slot, prices, price));
        }
        total
    }
}

/// Point of a decreasing function.
#[derive(Clone, Copy)]
struct End {
    price: f64,
    excess: f64,
}

/// The price at which the excess is within `exact`. A non-negative price is zero if nothing is
/// exceeded; without a root the result is the highest price.
fn falling_root(
    not_negative: bool,
    exact: f64,
    scale: f64,
    mut excess_at: impl FnMut(f64) -> f64,
) -> f64 {
    let start = End { price: 0.0, excess: excess_at(0.0) };
    if start.excess.abs() <= exact || not_negative && start.excess < 0.0 {
        return 0.0;
    }
    let mut near = start;
    let mut step = 0.25 * scale * start.excess.signum();
    loop {
        let far = End { price: near.price + step, excess: excess_at(near.price + step) };
        if far.excess.abs() <= exact || far.price.abs() > HIGHEST * scale {
            return far.price;
        }
        if (far.excess > 0.0) != (start.excess > 0.0) {
            return between(near, far, exact, excess_at);
        }
        near = far;
        step *= 4.0;
    }
}

/// Root between two ends of different signs: secant steps, and bisection when these stall.
fn between(first: End, second: End, exact: f64, mut excess_at: impl FnMut(f64) -> f64) -> f64 {
    let (mut above, mut below) = if first.excess > 0.0 { (first, second) } else { (second, first) };
    for step in 0..MOST_STEPS {
        let secant = above.price
            + (below.price - above.price) * (above.excess / (above.excess - below.excess));
        let half = f64::midpoint(above.price, below.price);
        let inside = secant > above.price && secant < below.price;
        let price = if step % 3 != 2 && inside { secant } else { half };
        if price <= above.price || price >= below.price {
            break;
        }
        let end = End { price, excess: excess_at(price) };
        if end.excess.abs() <= exact {
            return price;
        }
        if end.excess > 0.0 {
            above = end;
        } else {
            below = end;
        }
    }
    below.price
}
