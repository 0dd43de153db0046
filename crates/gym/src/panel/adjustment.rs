//! Corporate actions: dividends and splits of a row, and point-in-time adjustment for them.

use serde::{Deserialize, Serialize};

/// Dividends and splits of a row, as in the data; empty if it has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct ActionColumns<'a> {
    /// Dividend per unit in currency; NaN or 0 for none.
    pub dividend: &'a [f64],
    /// Units after the split for each unit before; NaN or 0 for none.
    pub split: &'a [f64],
}

/// Dividend and split of an asset in one row, in units after the split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Dividend per unit, in currency.
    pub dividend: f64,
    /// Units after the split for each unit before.
    pub split: f64,
}

impl Action {
    /// No dividend and no split.
    pub const NONE: Self = Self { dividend: 0.0, split: 1.0 };

    /// Price of an asset that is not quoted in the row: the last one, split and without the
    /// dividend.
    #[must_use]
    pub fn ex_price(&self, last: f64) -> f64 {
        let split = last / self.split;
        // A dividend above the last price leaves a price that is unknown.
        if split > self.dividend { split - self.dividend } else { split }
    }

    /// Total growth of a holding from one price to the next, dividend included.
    #[must_use]
    pub fn growth(&self, last: f64, price: f64) -> f64 {
        (price + self.dividend) * self.split / last
    }
}

impl ActionColumns<'_> {
    /// Action of an asset.
    #[must_use]
    pub fn of(&self, asset: usize) -> Action {
        let value = |column: &[f64], none: f64| {
            let number = column.get(asset).copied().unwrap_or(none);
            if number.is_nan() || number == 0.0 { none } else { number }
        };
        Action { dividend: value(self.dividend, 0.0), split: value(self.split, 1.0) }
    }
}

/// Point-in-time adjustment: factors that make prices and volumes of all rows so far comparable.
/// They follow from past rows alone, so that later dividends and splits change nothing.
#[derive(Clone, Debug)]
pub struct Adjustment {
    /// Factor of the prices of each asset: reinvested dividends and splits so far.
    pub prices: Vec<f64>,
    /// Units that one unit of the first row has become by splits.
    pub units: Vec<f64>,
    /// Last price; NaN if there was none.
    pub last: Vec<f64>,
}

impl Adjustment {
    /// Adjustment before the first row.
    #[must_use]
    pub fn new(assets: usize) -> Self {
        Self { prices: vec![1.0; assets], units: vec![1.0; assets], last: vec![f64::NAN; assets] }
    }

    /// Continue with the next row: close prices, the mask of those that are known, and actions.
    pub fn push(&mut self, close: &[f64], quoted: &[bool], actions: ActionColumns<'_>) {
        for asset in 0..self.last.len() {
            let (action, last) = (actions.of(asset), self.last[asset]);
            let price = if quoted[asset] { close[asset] } else { action.ex_price(last) };
            if action != Action::NONE && price > 0.0 {
                self.prices[asset] *= action.split * (1.0 + action.dividend / price);
                self.units[asset] *= action.split;
            }
            self.last[asset] = price;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_prices_grow_as_a_holding_with_its_dividends() {
        let mut adjustment = Adjustment::new(1);
        let none = ActionColumns::default();
        adjustment.push(&[100.0], &[true], none);
        adjustment.push(&[49.0], &[true], ActionColumns { dividend: &[1.0], split: &[2.0] });

        // Two units at 49 and a dividend of 1 each: nothing was gained or lost.
        assert!((49.0 * adjustment.prices[0] - 100.0).abs() < 1e-12);
        assert!((adjustment.units[0] - 2.0).abs() < 1e-15);
    }

    #[test]
    fn an_asset_that_is_not_quoted_is_split_too() {
        let mut adjustment = Adjustment::new(1);
        adjustment.push(&[100.0], &[true], ActionColumns::default());
        adjustment.push(&[f64::NAN], &[false], ActionColumns { dividend: &[], split: &[4.0] });
        adjustment.push(&[25.0], &[true], ActionColumns::default());

        assert!((25.0 * adjustment.prices[0] - 100.0).abs() < 1e-12);
    }

    #[test]
    fn absent_actions_are_none() {
        let columns = ActionColumns { dividend: &[f64::NAN, 0.0], split: &[0.0, f64::NAN] };

        assert_eq!([columns.of(0), columns.of(1), columns.of(2)], [Action::NONE; 3]);
    }
}
