//! The allowed weights that lie nearest to those that were wanted.
//!
//! Weights are parts of equity: one for each asset, and that of cash last. A mandate allows those
//! that sum to one, keep every asset and cash within its bounds, keep the sum of absolute weights
//! (of all assets, and of those of a sector) below a cap, and are reached from what is held by
//! trading at most so much. Nearest is meant in the sense of Euclid, cash included. A point that
//! is allowed to within [`TOLERANCE`] is returned unchanged, bit for bit.
//!
//! What cannot be met has an answer too, and [`Projection::Compromise`] says what gave:
//!
//! 1. An asset that cannot be traded now keeps the weight that is held, whatever its bounds say.
//!    It uses up the caps of its sector and of leverage first; a cap that such assets exceed by
//!    themselves is relaxed to what they hold, so that nothing is left of it for the others. They
//!    take no turnover.
//! 2. When the assets cannot bring cash within its bounds, whatever is traded within the other
//!    caps, the bound of cash gives, by exactly what is missing: cash is negative when assets that
//!    cannot be sold are worth more than the equity, and idle when nothing may be bought.
//! 3. When all this cannot be reached within the turnover cap, the nearest point without that cap
//!    is sought, and the way from what is held to it is gone as far as the cap allows: a straight
//!    line, so that every such step leaves less to be traded before the mandate is met.
//!
//! Bounds of an asset must allow nothing of it (`lower <= 0 <= upper`). Thereby rules 1 and 2
//! always leave something that is allowed. Wanted weights beyond [`WANTED_LIMIT`] count as that.

mod bounds;
mod check;
mod evaluate;
mod nested;
mod newton;
mod problem;
mod reach;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use check::ConstraintsError;
pub use problem::Workspace;

/// What a constraint may be exceeded by, and still counts as met.
pub const TOLERANCE: f64 = 1e-12;

/// The largest weight, long or short, that can be wanted.
pub const WANTED_LIMIT: f64 = 1e6;

/// What a mandate allows. Bounds may be infinite; a cap of `None` is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constraints {
    /// The least weight of each asset, at most 0.
    pub lower: Vec<f64>,
    /// The largest weight of each asset, at least 0.
    pub upper: Vec<f64>,
    /// The least weight of cash; negative where money may be borrowed.
    pub cash_lower: f64,
    /// The largest weight of cash.
    pub cash_upper: f64,
    /// The largest sum of absolute weights of assets.
    pub leverage: Option<f64>,
    /// The sector of each asset, as an index into `sector_caps`; empty when there are no sectors.
    pub sectors: Vec<Option<usize>>,
    /// The largest sum of absolute weights in each sector.
    pub sector_caps: Vec<Option<f64>>,
    /// The largest sum of absolute changes of the weights of assets.
    pub turnover: Option<f64>,
}

/// Whether all constraints are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// The nearest of the allowed weights.
    Exact,
    /// No weights are allowed: the answer of the rules of this module, and what gave.
    Compromise(Compromise),
}

/// What gave, because nothing meets all constraints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Compromise {
    /// Assets that cannot be traded are outside their bounds.
    pub bounds: bool,
    /// Assets that cannot be traded exceed the cap of a sector.
    pub sectors: bool,
    /// Assets that cannot be traded exceed the leverage cap.
    pub leverage: bool,
    /// Cash is outside its bounds.
    pub cash: bool,
    /// The turnover cap was reached on the way to what meets the rest.
    pub cut_short: bool,
}

impl Projection {
    /// Whether all constraints are met.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self == Self::Exact
    }

    fn of(compromise: Compromise) -> Self {
        if compromise == Compromise::default() { Self::Exact } else { Self::Compromise(compromise) }
    }
}

impl Constraints {
    /// Whether all that is asked is that weights are not negative and sum to one.
    #[must_use]
    pub fn is_simplex(&self) -> bool {
        self.only_bounds()
            && self.cash_lower == 0.0
            && self.cash_upper >= 1.0
            && self.lower.iter().all(|lower| *lower == 0.0)
            && self.upper.iter().all(|upper| *upper >= 1.0)
    }

    /// How many assets there are, cash not counted.
    #[must_use]
    pub fn assets(&self) -> usize {
        self.lower.len()
    }

    /// Writes the allowed weights nearest to `wanted` into `allowed`; cash is last in both and in
    /// `held`. The constraints must have passed [`Constraints::check`], and numbers be finite.
    ///
    /// # Panics
    /// When a slice is not as long as there are assets (and cash), or the workspace is of another
    /// shape.
    pub fn project(
        &self,
        wanted: &[f64],
        held: &[f64],
        movable: &[bool],
        workspace: &mut Workspace,
        allowed: &mut [f64],
    ) -> Projection {
        self.assert_lengths([wanted.len(), held.len(), allowed.len()], movable.len());
        let all_movable = movable.iter().all(|&can| can);
        if self.allows(wanted, held, movable, all_movable) {
            allowed.copy_from_slice(wanted);
            return Projection::Exact;
        }
        if all_movable && self.only_bounds() && bounds::project(self, wanted, allowed) {
            return Projection::Exact;
        }
        Projection::of(workspace.solve(self, wanted, held, movable, allowed))
    }

    /// Whether weights meet every constraint as it stands.
    fn allows(&self, weights: &[f64], held: &[f64], movable: &[bool], all_movable: bool) -> bool {
        bounds::allow(self, weights)
            && (all_movable || stay(weights, held, movable))
            && self.turnover.is_none_or(|cap| moved(weights, held) <= cap + TOLERANCE)
            && (self.leverage.is_none() && self.sector_caps.is_empty() || self.caps_allow(weights))
    }

    fn caps_allow(&self, weights: &[f64]) -> bool {
        let assets = &weights[..self.assets()];
        let gross: f64 = assets.iter().map(|weight| weight.abs()).sum();
        let in_sector = |wanted: usize| -> f64 {
            let of_it = assets.iter().zip(&self.sectors);
            of_it.filter(|(_, sector)| **sector == Some(wanted)).map(|(w, _)| w.abs()).sum()
        };
        let sector_allows = |(sector, cap): (usize, &Option<f64>)| {
            // A sector cannot hold more than all assets do.
            cap.is_none_or(|cap| gross <= cap || in_sector(sector) <= cap + TOLERANCE)
        };
        self.leverage.is_none_or(|cap| gross <= cap + TOLERANCE)
            && self.sector_caps.iter().enumerate().all(sector_allows)
    }

    fn only_bounds(&self) -> bool {
        self.leverage.is_none() && self.sector_caps.is_empty() && self.turnover.is_none()
    }

    fn assert_lengths(&self, with_cash: [usize; 3], movable: usize) {
        let assets = self.assets();
        assert!(
            with_cash == [assets + 1; 3] && movable == assets,
            "{assets} assets and cash were wanted, found wanted, held and allowed of {with_cash:?} \
             and movable of {movable}"
        );
    }
}

#[allow(clippy::float_cmp)] // not even a rounding error may be traded where nothing can be
fn stay(weights: &[f64], held: &[f64], movable: &[bool]) -> bool {
    let same = |((weight, held), can): ((&f64, &f64), &bool)| *can || weight == held;
    weights.iter().zip(held).zip(movable).all(same)
}

fn moved(weights: &[f64], held: &[f64]) -> f64 {
    let assets = weights.len() - 1;
    weights[..assets].iter().zip(held).map(|(weight, held)| (weight - held).abs()).sum()
}
