//! Projection of target weights to the nearest allowed weights.
//!
//! Weights are parts of equity: one for each asset, and that of cash last. A mandate allows those
//! that sum to one, keep every asset and cash within its bounds, keep the sum of absolute weights
//! (of all assets, and of those of a sector) below a cap, keep net and beta exposure within their
//! bounds, and are within a turnover cap of the held weights. The distance is Euclidean, cash
//! included. Target weights that are allowed to within [`TOLERANCE`] are returned unchanged, bit
//! for bit. Rules on the size and number of positions are not convex; see [`positions`].
//!
//! Infeasible constraints are relaxed, and [`Projection::Compromise`] reports which:
//!
//! 1. An asset that cannot be traded now keeps its held weight, whatever its bounds. It uses up the
//!    caps of its sector and of leverage first; a cap that such assets exceed by themselves is
//!    relaxed to their holdings and leaves nothing for the others. They take no turnover. The
//!    difference to the target weight of such an asset goes to cash, or to all others alike: see
//!    [`Untradable`].
//! 2. If no weights within the other caps bring cash (or net exposure, which is one less cash)
//!    within its bounds, the bound is relaxed by exactly the missing amount: cash is negative if
//!    assets that cannot be sold exceed the equity, and idle if nothing may be bought.
//! 3. If no such weights bring the beta exposure within its bounds, its bound is relaxed in the same
//!    way.
//! 4. If all this is infeasible within the turnover cap, the nearest point without that cap is
//!    computed, and the weights move from the held ones towards it as far as the cap allows: on a
//!    straight line, so that every such step leaves less to be traded.
//!
//! Bounds of an asset must allow a weight of zero (`lower <= 0 <= upper`), so that rules 1 to
//! 3 always leave a feasible set. Target weights are clipped to [`TARGET_LIMIT`].

mod beta;
mod bounds;
mod check;
mod drift;
mod evaluate;
mod nested;
mod newton;
mod positions;
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

/// Mandate: all constraints of a portfolio. Bounds may be infinite; `None` disables a cap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Bounds of the net exposure: the sum of the weights of assets.
    #[serde(rename = "net_exposure")]
    pub net: Option<(f64, f64)>,
    /// Beta of each asset; empty unless beta exposure is bounded.
    pub betas: Vec<f64>,
    /// Bounds of the beta exposure: the sum of the weights of assets times their betas.
    #[serde(rename = "beta_exposure")]
    pub beta: Option<(f64, f64)>,
    /// The use of the weight wanted in assets that cannot be traded.
    pub untradable: Untradable,
    /// The least absolute weight of a position; 0 for none.
    pub min_weight: f64,
    /// The largest number of positions.
    pub max_names: Option<usize>,
    /// The excess over caps of assets, sectors and leverage that drift may cause and that need not
    /// be traded back.
    pub tolerance: f64,
}

/// The use of the weight wanted in assets that cannot be traded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untradable {
    /// Cash takes the difference between wanted and held weight.
    #[default]
    Cash,
    /// All other assets and cash share it alike.
    Assets,
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
    /// Net exposure is outside its bounds.
    pub net: bool,
    /// Beta exposure is outside its bounds.
    pub beta: bool,
    /// Positions are smaller than `min_weight` or more than `max_names`.
    pub positions: bool,
}

impl Projection {
    /// Return true if all constraints are met.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self == Self::Exact
    }

    /// The relaxed constraints as bits, in the order of the fields of [`Compromise`].
    #[must_use]
    pub fn bits(self) -> u8 {
        let Self::Compromise(relaxed) = self else { return 0 };
        relaxed.facts().iter().rev().fold(0, |bits, &fact| 2 * bits + u8::from(fact))
    }

    fn of(compromise: Compromise) -> Self {
        if compromise == Compromise::default() { Self::Exact } else { Self::Compromise(compromise) }
    }
}

impl Compromise {
    fn facts(self) -> [bool; 8] {
        let Self { bounds, sectors, leverage, cash, cut_short, net, beta, positions } = self;
        [bounds, sectors, leverage, cash, cut_short, net, beta, positions]
    }
}

impl Constraints {
    /// Return true if the only constraints are that weights are not negative and sum to one.
    #[must_use]
    pub fn is_simplex(&self) -> bool {
        let (cash_lower, cash_upper) = self.cash_bounds();
        self.only_bounds()
            && self.is_convex()
            && cash_lower == 0.0
            && cash_upper >= 1.0
            && self.lower.iter().all(|lower| *lower == 0.0)
            && self.upper.iter().all(|upper| *upper >= 1.0)
    }

    /// Return true if the result depends on the held weights even if all assets can be traded.
    #[must_use]
    pub fn needs_held(&self) -> bool {
        self.turnover.is_some() || self.tolerance > 0.0 || !self.is_convex()
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
        let input = Input { target, held, movable };
        if self.tolerance > 0.0 {
            return self.project_after_drift(input, workspace, allowed);
        }
        self.project_positions(input, workspace, allowed)
    }

    /// Project onto the constraints without a tolerance.
    fn project_positions(
        &self,
        input: Input<'_>,
        workspace: &mut Workspace,
        allowed: &mut [f64],
    ) -> Projection {
        let projection = self.project_exactly(input, workspace, allowed);
        if self.is_convex() || self.allows_positions(allowed, input.movable) {
            return projection;
        }
        Projection::of(self.choose_positions(input, projection, workspace, allowed))
    }

    /// Project onto the convex constraints.
    fn project_exactly(
        &self,
        input: Input<'_>,
        workspace: &mut Workspace,
        allowed: &mut [f64],
    ) -> Projection {
        let Input { target, held, movable } = input;
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
            && self.beta.is_none_or(|bounds| is_within(self.beta_exposure(weights), bounds))
    }

    fn beta_exposure(&self, weights: &[f64]) -> f64 {
        self.betas.iter().zip(weights).map(|(beta, weight)| beta * weight).sum()
    }

    /// Bounds of cash, those of the net exposure included: cash is one less the net exposure.
    fn cash_bounds(&self) -> (f64, f64) {
        match self.net {
            None => (self.cash_lower, self.cash_upper),
            Some((least, most)) => {
                (self.cash_lower.max(1.0 - most), self.cash_upper.min(1.0 - least))
            }
        }
    }

    /// Copy all fields without allocating again.
    fn copy_from(&mut self, other: &Self) {
        let mut lists = std::mem::take(self);
        lists.lower.clone_from(&other.lower);
        lists.upper.clone_from(&other.upper);
        lists.sectors.clone_from(&other.sectors);
        lists.sector_caps.clone_from(&other.sector_caps);
        lists.betas.clone_from(&other.betas);
        let Self { lower, upper, sectors, sector_caps, betas, .. } = lists;
        let &Self { cash_lower, cash_upper, leverage, turnover, net, beta, .. } = other;
        let &Self { untradable, min_weight, max_names, tolerance, .. } = other;
        *self = Self {
            lower,
            upper,
            cash_lower,
            cash_upper,
            leverage,
            sectors,
            sector_caps,
            turnover,
            net,
            betas,
            beta,
            untradable,
            min_weight,
            max_names,
            tolerance,
        };
    }

    fn is_convex(&self) -> bool {
        self.min_weight == 0.0 && self.max_names.is_none()
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
        self.leverage.is_none()
            && self.sector_caps.is_empty()
            && self.turnover.is_none()
            && self.beta.is_none()
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

/// Target and held weights, cash last, and mask of the assets that can be traded.
#[derive(Clone, Copy)]
struct Input<'a> {
    target: &'a [f64],
    held: &'a [f64],
    movable: &'a [bool],
}

fn is_within(value: f64, (lower, upper): (f64, f64)) -> bool {
    value >= lower - TOLERANCE && value <= upper + TOLERANCE
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
