//! Summary of an order's fills over consecutive ticks.

use super::matching::TickFill;

/// Sums and means over ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Requested amount.
    pub requested: f64,
    /// Filled amount.
    pub filled: f64,
    /// Filled value: price times filled amount.
    pub value: f64,
    /// Commission and impact.
    pub cost: f64,
    /// Market volume, summed over ticks in which it is known.
    pub market_volume: f64,
    /// Mean of the known prices; NaN if none is known.
    pub market_price: f64,
}

impl Summary {
    pub(super) fn of(prices: &[f64], volumes: &[f64], fills: &[TickFill]) -> Self {
        let sum = |part: fn(&TickFill) -> f64| fills.iter().map(part).sum();
        Self {
            requested: sum(|fill| fill.requested),
            filled: sum(|fill| fill.filled),
            value: sum(|fill| fill.value),
            cost: sum(|fill| fill.cost),
            market_volume: volumes.iter().filter(|volume| !volume.is_nan()).sum(),
            market_price: mean_of_known(prices),
        }
    }
}

/// Mean of the known prices.
fn mean_of_known(prices: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for price in prices.iter().filter(|price| **price > 0.0 && price.is_finite()) {
        sum += price;
        count += 1.0;
    }
    sum / count
}
