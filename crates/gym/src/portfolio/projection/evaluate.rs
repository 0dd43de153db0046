//! Weights at given multipliers (prices) of the constraints, and the constraint residuals.
//!
//! At given prices of the sum, leverage, turnover and each sector, assets are independent: the
//! least of (weight - target)^2 / 2 + level * weight + gross * |weight| + turnover * |weight -
//! held| within its bounds.

use super::bounds::clip;
use super::problem::Workspace;

/// Prices (dual multipliers) of the constraints on all assets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prices {
    pub(super) level: f64,
    pub(super) leverage: f64,
    pub(super) turnover: f64,
}

/// Sums over assets and their derivatives with respect to prices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) net: f64,
    pub(super) gross: f64,
    pub(super) turnover: f64,
    /// Half the squared distance from the target.
    pub(super) distance: f64,
    /// Number of free assets: neither at a bound, nor at the kinks at zero and at the held weight.
    pub(super) free: f64,
    /// Sum of the signs of the weights of free assets.
    pub(super) signs: f64,
    /// Sum of the signs of the changes of free assets.
    pub(super) turns: f64,
    /// Sum of the products of both signs of free assets.
    pub(super) products: f64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self) {
        self.net += other.net;
        self.gross += other.gross;
        self.turnover += other.turnover;
        self.distance += other.distance;
        self.free += other.free;
        self.signs += other.signs;
        self.turns += other.turns;
        self.products += other.products;
    }
}

/// One asset: target and held weight, and bounds.
#[derive(Clone, Copy)]
pub(super) struct Asset {
    pub(super) target: f64,
    pub(super) held: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl Asset {
    /// Weight at these prices, with and without bounds.
    ///
    /// Three linear pieces, separated by the kinks at zero and at the held weight.
    fn weight(self, level: f64, gross: f64, turnover: f64) -> (f64, f64) {
        let value = self.target - level;
        let (low, high, between) = if self.held >= 0.0 {
            (0.0, self.held, value + (turnover - gross))
        } else {
            (self.held, 0.0, value - (turnover - gross))
        };
        let below = smaller(value + (gross + turnover), low);
        let above = value - (gross + turnover);
        let unbounded = larger(larger(below, smaller(between, high)), above);
        (clip(unbounded, self.lower, self.upper), unbounded)
    }

    #[allow(clippy::float_cmp, clippy::needless_bitwise_bool)] // kinks and bounds are met exactly
    fn add_to(self, sums: &mut Sums, level: f64, gross: f64, turnover: f64) {
        let (weight, unbounded) = self.weight(level, gross, turnover);
        // Bitwise operators rather than `&&` and `||`: a mispredicted branch would cost more.
        let at_kink = (weight == 0.0) & (gross > 0.0) | (weight == self.held) & (turnover > 0.0);
        let free = f64::from(u8::from((weight == unbounded) & !at_kink));
        let (change, off) = (weight - self.held, weight - self.target);
        let (sign, turn) = (free.copysign(weight), free.copysign(change));
        sums.net += weight;
        sums.gross += weight.abs();
        sums.turnover += change.abs();
        sums.distance += 0.5 * off * off;
        sums.free += free;
        sums.signs += sign;
        sums.turns += turn;
        sums.products += sign * turn;
    }
}

impl Workspace {
    /// Sums over the assets of a slot whose sector has a price of its own.
    pub(super) fn slot_sums(&self, slot: usize, prices: Prices, sector: f64) -> Sums {
        let mut sums = Sums::default();
        let gross = prices.leverage + sector;
        for asset in self.assets_of(slot) {
            asset.add_to(&mut sums, prices.level, gross, prices.turnover);
        }
        sums
    }

    /// Write the weights at these prices and at the prices of the slots.
    pub(super) fn write_weights(&mut self, prices: Prices) {
        for slot in 0..self.slots.len() {
            let gross = prices.leverage + self.slots[slot].price;
            for index in self.slots[slot].start..self.slots[slot].end {
                let asset = self.asset(index);
                self.weights[index] = asset.weight(prices.level, gross, prices.turnover).0;
            }
        }
        self.cash_weight = self.cash.at(prices.level);
    }

    fn assets_of(&self, slot: usize) -> impl Iterator<Item = Asset> {
        let indices = self.slots[slot].start..self.slots[slot].end;
        let rows = self.target[indices.clone()].iter().zip(&self.held[indices.clone()]);
        let bounds = self.lower[indices.clone()].iter().zip(&self.upper[indices]);
        rows.zip(bounds).map(|((&target, &held), (&lower, &upper))| Asset {
            target,
            held,
            lower,
            upper,
        })
    }
}

fn smaller(first: f64, second: f64) -> f64 {
    if first < second { first } else { second }
}

fn larger(first: f64, second: f64) -> f64 {
    if first > second { first } else { second }
}
