//! What some ticks in a row did for an order.

use super::matching::TickFill;

/// Sums and means over ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// What was asked for.
    pub wanted: f64,
    /// What was filled.
    pub filled: f64,
    /// Price times what was filled.
    pub value: f64,
    /// Commission and impact.
    pub cost: f64,
    /// What the market traded, as far as it is known.
    pub market_volume: f64,
    /// The plain mean of the prices that are known; NaN if none is.
    pub market_price: f64,
}

impl Summary {
    pub(super) fn of(prices: &[f64], volumes: &[f64], fills: &[TickFill]) -> Self {
        let sum = |part: fn(&TickFill) -> f64| fills.iter().map(part).sum();
        Self {
            wanted: sum(|fill| fill.wanted),
            filled: sum(|fill| fill.filled),
            value: sum(|fill| fill.value),
            cost: sum(|fill| fill.cost),
            market_volume: volumes.iter().filter(|volume| !volume.is_nan()).sum(),
            market_price: mean_of_known(prices),
        }
    }
}

/// The mean of the prices that are there.
fn mean_of_known(prices: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for price in prices.iter().filter(|price| **price > 0.0 && price.is_finite()) {
        sum += price;
        count += 1.0;
    }
    sum / count
}
