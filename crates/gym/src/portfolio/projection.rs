//! Projection of target weights to the nearest allowed weights.
//!
//! Weights are parts of equity: one for each asset, and that of cash last. A mandate allows those
//! that sum to one, keep every asset and cash within its bounds, keep the sum of absolute weights
//! (of all assets, and of those of a sector) below a cap, and are within a turnover cap of the held
//! weights. The distance is Euclidean, cash included. Target weights that are allowed to within
//! [`TOLERANCE`] are returned unchanged, bit for bit.
//!
//! Infeasible constraints are relaxed, and [`Projection::Compromise`] reports which:
//!
//! 1. An asset that cannot be traded now keeps its held weight, whatever its bounds. It uses up the
//!    caps of its sector and of leverage first; a cap that such assets exceed by themselves is
//!    relaxed to their holdings and leaves nothing for the others. They take no turnover.
//! 2. If no weights within the other caps bring cash within its bounds, the bound of cash is
//!    relaxed by exactly the missing amount: cash is negative if assets that cannot be sold exceed
//!    the equity, and idle if nothing may be bought.
//! 3. If all this is infeasible within the turnover cap, the nearest point without that cap is
//!    computed, and the weights move from the held ones towards it as far as the cap allows: on a
//!    straight line, so that every such step leaves less to be traded.
//!
//! Bounds of an asset must allow a weight of zero (`lower <= 0 <= upper`), so that rules 1 and 2
//! always leave a feasible set. Target weights are clipped to [`TARGET_LIMIT`].

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

/// Largest excess at which a constraint counts as met.
pub const TOLERANCE: f64 = 1e-12;

/// Largest target weight, long or short.
pub const TARGET_LIMIT: f64 = 1e6;

/// Mandate: all constraints of a portfolio. Bounds may be infinite; a cap of `None` is none.
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

/// Result of a projection: exact, or a compromise if the constraints are infeasible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// Nearest allowed weights.
    Exact,
    /// Infeasible constraints: the result of the rules of this module, and the relaxed constraints.
    Compromise(Compromise),
}

/// Constraints that were relaxed because nothing meets all of them.
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
    /// The turnover cap was reached before the other constraints were met.
    pub cut_short: bool,
}

impl Projection {
    /// Return true if all constraints are met.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self == Self::Exact
    }

    fn of(compromise: Compromise) -> Self {
        if compromise == Compromise::default() { Self::Exact } else { Self::Compromise(compromise) }
    }
}

impl Constraints {
    /// Return true if the only constraints are that weights are not negative and sum to one.
    #[must_use]
    pub fn is_simplex(&self) -> bool {
        self.only_bounds()
            && self.cash_lower == 0.0
            && self.cash_upper >= 1.0
            && self.lower.iter().all(|lower| *lower == 0.0)
            && self.upper.iter().all(|upper| *upper >= 1.0)
    }

    /// Number of assets, cash not counted.
    #[must_use]
    pub fn assets(&self) -> usize {
        self.lower.len()
    }

    /// Project `target` to the nearest allowed weights, written into `allowed`; cash is last in
    /// both and in `held`. The constraints must have passed [`Constraints::check`], and numbers be
    /// finite.
    ///
    /// # Panics
    /// If a slice is not as long as there are assets (and cash), or the workspace is of another
    /// shape.
    pub fn project(
        &self,
        target: &[f64],
        held: &[f64],
        movable: &[bool],
        workspace: &mut Workspace,
        allowed: &mut [f64],
    ) -> Projection {
        self.assert_lengths([target.len(), held.len(), allowed.len()], movable.len());
        let all_movable = movable.iter().all(|&can| can);
        if self.allows(target, held, movable, all_movable) {
            allowed.copy_from_slice(target);
            return Projection::Exact;
        }
        if all_movable && self.only_bounds() && bounds::project(self, target, allowed) {
            return Projection::Exact;
        }
        Projection::of(workspace.solve(self, target, held, movable, allowed))
    }

    /// Return true if weights meet every constraint as it stands.
    fn allows(&self, weights: &[f64], held: &[f64], movable: &[bool], all_movable: bool) -> bool {
        bounds::allow(self, weights)
            && (all_movable || stay(weights, held, movable))
            && self.turnover.is_none_or(|cap| moved(weights, held) <= cap + TOLERANCE)
            && (self.leverage.is_none() && self.sector_caps.is_empty() || self.caps_allow(weights))
    }

    fn caps_allow(&self, weights: &[f64]) -> bool {
        let assets = &weights[..self.assets()];
        let gross: f64 = assets.iter().map(|weight| weight.abs()).sum();
        let in_sector = |target: usize| -> f64 {
            let of_it = assets.iter().zip(&self.sectors);
            of_it.filter(|(_, sector)| **sector == Some(target)).map(|(w, _)| w.abs()).sum()
        };
        let sector_allows = |(sector, cap): (usize, &Option<f64>)| {
            // A sector cannot exceed the gross exposure of all assets.
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
            "expected {assets} assets and cash, got wanted, held and allowed of {with_cash:?} \
             and movable of {movable}"
        );
    }
}

#[allow(clippy::float_cmp)] // an untradable weight must not change, not even by rounding
fn stay(weights: &[f64], held: &[f64], movable: &[bool]) -> bool {
    let same = |((weight, held), can): ((&f64, &f64), &bool)| *can || weight == held;
    weights.iter().zip(held).zip(movable).all(same)
}

fn moved(weights: &[f64], held: &[f64]) -> f64 {
    let assets = weights.len() - 1;
    weights[..assets].iter().zip(held).map(|(weight, held)| (weight - held).abs()).sum()
}
