//! Weights that multipliers of the constraints imply, and how far these are from being met.
//!
//! Once the sum, leverage, turnover and each sector have a price, every asset finds its weight by
//! itself: the least of (weight - wanted)^2 / 2 + level * weight + gross * |weight| +
//! turnover * |weight - held| within its bounds.

use super::bounds::clip;
use super::problem::Workspace;

/// The prices of the constraints that concern all assets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prices {
    pub(super) level: f64,
    pub(super) leverage: f64,
    pub(super) turnover: f64,
}

/// What assets add up to, and how the sums change with prices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) net: f64,
    pub(super) gross: f64,
    pub(super) turnover: f64,
    /// Half the squared distance from what was wanted.
    pub(super) distance: f64,
    /// Assets whose weight follows the prices: neither at a bound, nor at nothing or what is held.
    pub(super) free: f64,
    /// Of the free ones: the sum of signs of weights,
    pub(super) signs: f64,
    /// of signs of changes,
    pub(super) turns: f64,
    /// and of the products of both.
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

/// One asset: what is wanted and held of it, and its bounds.
#[derive(Clone, Copy)]
pub(super) struct Asset {
    pub(super) wanted: f64,
    pub(super) held: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl Asset {
    /// The weight at these prices, and the one it would have without bounds.
    ///
    /// Three straight pieces, kept apart by the kinks at nothing and at what is held.
    fn weight(self, level: f64, gross: f64, turnover: f64) -> (f64, f64) {
        let value = self.wanted - level;
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
        // Bits rather than `&&` and `||`: a wrong guess at a branch costs more than all of this.
        let at_kink = (weight == 0.0) & (gross > 0.0) | (weight == self.held) & (turnover > 0.0);
        let free = f64::from(u8::from((weight == unbounded) & !at_kink));
        let (change, off) = (weight - self.held, weight - self.wanted);
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
    /// What the assets of a slot add up to when its sector has a price of its own.
    pub(super) fn slot_sums(&self, slot: usize, prices: Prices, sector: f64) -> Sums {
        let mut sums = Sums::default();
        let gross = prices.leverage + sector;
        for asset in self.assets_of(slot) {
            asset.add_to(&mut sums, prices.level, gross, prices.turnover);
        }
        sums
    }

    /// Writes the weights at these prices, and those that the slots hold.
    pub(super) fn write_weights(&mut self, prices: Prices) {
        for slot in 0..self.slots.len() {
            let gross = prices.leverage + self.slots[slot].price;
            for place in self.slots[slot].start..self.slots[slot].end {
                let asset = self.asset(place);
                self.weights[place] = asset.weight(prices.level, gross, prices.turnover).0;
            }
        }
        self.cash_weight = self.cash.at(prices.level);
    }

    fn assets_of(&self, slot: usize) -> impl Iterator<Item = Asset> {
        let places = self.slots[slot].start..self.slots[slot].end;
        let rows = self.wanted[places.clone()].iter().zip(&self.held[places.clone()]);
        let bounds = self.lower[places.clone()].iter().zip(&self.upper[places]);
        rows.zip(bounds).map(|((&wanted, &held), (&lower, &upper))| Asset {
            wanted,
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
