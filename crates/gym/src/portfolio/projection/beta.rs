//! Bounds of beta exposure: one more price, outside of those of the other constraints.
//!
//! At a price of beta exposure the projection is that of the target less price times beta, so that
//! the solver of the other constraints is used as it is. The exposure falls as the price rises, in
//! linear pieces; weights between two prices of one piece are exact.

use super::problem::Workspace;
use super::{Compromise, Constraints, TOLERANCE};

/// The highest price, relative to the largest target weight over the largest beta.
const HIGHEST: f64 = 1e4;
const MOST_STEPS: usize = 120;

/// Exposures this close to a bound are at it.
const EXACT: f64 = 1e-14;

/// Size of the steps to the least exposure, in weight, their number, and the least progress.
const STRIDE: f64 = 64.0;
const MOST_STRIDES: usize = 100;
const NO_PROGRESS: f64 = 1e-13;

/// An exposure that is this much above the least one is attained.
const SLACK: f64 = 1e-10;
/// A bound is unattainable if it is missed by more than this.
pub(super) const MISSED: f64 = 1e-9;

/// Betas of the movable assets, and working memory of the search.
#[derive(Clone, Debug, Default)]
pub(super) struct BetaSpace {
    betas: Vec<f64>,
    /// Bounds of the exposure of the movable assets.
    bounds: Option<(f64, f64)>,
    /// Target weights, cash last.
    target: Vec<f64>,
    /// Weights at the last prices whose exposure is above and below the goal, cash last.
    above: Vec<f64>,
    below: Vec<f64>,
}

impl BetaSpace {
    pub(super) fn is_bounded(&self) -> bool {
        self.bounds.is_some()
    }

    /// Gather the betas of the movable assets; the others use up their part of the bounds.
    pub(super) fn gather(
        &mut self,
        constraints: &Constraints,
        held: &[f64],
        movable: &[bool],
        origin: &[usize],
    ) {
        self.bounds = constraints.beta;
        let Some((lower, upper)) = &mut self.bounds else { return };
        self.betas.clear();
        self.betas.extend(origin.iter().map(|&asset| constraints.betas[asset]));
        let stuck = movable.iter().zip(constraints.betas.iter().zip(held));
        let stuck = stuck.filter(|(can, _)| !**can).map(|(_, (beta, held))| beta * held);
        let taken: f64 = stuck.sum();
        (*lower, *upper) = (*lower - taken, *upper - taken);
    }

    fn largest(&self) -> f64 {
        self.betas.iter().fold(0.0, |largest, beta| f64::max(largest, beta.abs()))
    }
}

/// Required exposure: at most `most`, after a change of sign for a lower bound.
#[derive(Clone, Copy)]
struct Goal {
    sign: f64,
    most: f64,
}

impl Goal {
    /// Excess of an exposure over the goal.
    fn excess(self, exposure: f64) -> f64 {
        self.sign * exposure - self.most
    }
}

/// Price of the exposure, in the direction of the goal, and the excess there.
#[derive(Clone, Copy)]
struct End {
    price: f64,
    excess: f64,
}

impl Workspace {
    /// Find the nearest weights with bounded beta exposure; relax the bounds if no weights meet
    /// them, and drop the turnover cap if none do within it.
    pub(super) fn find_with_beta(&mut self, compromise: &mut Compromise) {
        let count = self.count();
        self.beta.target.clear();
        self.beta.target.extend_from_slice(&self.target[..count]);
        self.beta.target.push(self.cash.target);
        let Some(mut goal) = self.beta_goal() else { return };
        if self.meet_goal(goal) {
            return;
        }
        let turnover = std::mem::replace(&mut self.turnover, f64::INFINITY);
        let least = self.least_exposure(goal.sign);
        if least > goal.most + MISSED {
            compromise.beta = true;
            goal.most = least + SLACK;
        }
        self.turnover = turnover;
        if turnover.is_finite() && self.least_exposure(goal.sign) > goal.most + MISSED {
            compromise.cut_short = true;
            self.turnover = f64::INFINITY;
            if !compromise.beta {
                // Without the cap the other bound may be the violated one.
                let Some(violated) = self.beta_goal() else { return };
                goal = violated;
            }
        }
        if !self.meet_goal(goal) {
            self.approach(goal);
        }
    }

    /// The violated bound of the exposure at no price; `None` if the weights meet both.
    fn beta_goal(&mut self) -> Option<Goal> {
        let exposure = self.exposure_at(0.0);
        let (lower, upper) = self.beta.bounds?;
        if exposure > upper + TOLERANCE {
            return Some(Goal { sign: 1.0, most: upper });
        }
        (exposure < lower - TOLERANCE).then_some(Goal { sign: -1.0, most: -lower })
    }

    /// Find the nearest weights that meet the goal; false if no price up to the highest does.
    fn meet_goal(&mut self, goal: Goal) -> bool {
        let mut near = self.end_at(0.0, goal);
        if near.excess <= TOLERANCE {
            return true;
        }
        let highest = HIGHEST * self.scale() / self.beta.largest().max(f64::MIN_POSITIVE);
        // The exposure falls at most by this for each unit of the price.
        let slope: f64 = self.beta.betas.iter().map(|beta| beta * beta).sum();
        let mut step = near.excess / slope.max(f64::MIN_POSITIVE);
        loop {
            self.store_end(near);
            let far = self.end_at((near.price + step).min(highest), goal);
            if far.excess <= 0.0 {
                self.store_end(far);
                self.between(near, far, goal);
                return true;
            }
            if far.price >= highest {
                self.store_end(far);
                return false;
            }
            near = far;
            step *= 2.0;
        }
    }

    /// Narrow the prices by secant steps (Illinois), and bisection where these stall; then mix the
    /// weights at both ends.
    fn between(&mut self, mut above: End, mut below: End, goal: Goal) {
        // Excesses of the secant: that of an end kept twice counts half (Illinois rule).
        let (mut high, mut low, mut last) = (above.excess, below.excess, 0.0);
        for step in 0..MOST_STEPS {
            let secant = above.price + (below.price - above.price) * (high / (high - low));
            let is_inside = secant > above.price && secant < below.price;
            let half = f64::midpoint(above.price, below.price);
            let price = if is_inside && step % 8 != 7 { secant } else { half };
            let is_small = above.excess.min(-below.excess) <= EXACT;
            if is_small || price <= above.price || price >= below.price {
                break;
            }
            let end = self.end_at(price, goal);
            self.store_end(end);
            if end.excess > 0.0 {
                low = if last > 0.0 { 0.5 * low } else { below.excess };
                (above, high, last) = (end, end.excess, 1.0);
            } else {
                high = if last < 0.0 { 0.5 * high } else { above.excess };
                (below, low, last) = (end, end.excess, -1.0);
            }
        }
        self.mix(above.excess, below.excess);
    }

    /// Mix the weights at the highest price with those of the least exposure.
    fn approach(&mut self, goal: Goal) {
        let above = goal.excess(exposure(&self.beta.betas, &self.beta.above));
        let below = self.least_exposure(goal.sign) - goal.most;
        self.store_end(End { price: f64::INFINITY, excess: below.min(0.0) });
        self.mix(above, below);
    }

    /// Weights on the line between the two ends, at which the excess is zero.
    fn mix(&mut self, above: f64, below: f64) {
        let part = if above > below { (above / (above - below)).clamp(0.0, 1.0) } else { 1.0 };
        let count = self.count();
        let ends = self.beta.above.iter().zip(&self.beta.below);
        let mut mixed = ends.map(|(above, below)| above + part * (below - above));
        for weight in &mut self.weights[..count] {
            *weight = mixed.next().expect("a weight for each asset");
        }
        self.cash_weight = mixed.next().expect("and for cash");
    }

    fn end_at(&mut self, price: f64, goal: Goal) -> End {
        End { price, excess: goal.excess(self.exposure_at(goal.sign * price)) }
    }

    /// Keep the current weights as those of an end.
    fn store_end(&mut self, end: End) {
        let count = self.count();
        let kept = if end.excess > 0.0 { &mut self.beta.above } else { &mut self.beta.below };
        kept.clear();
        kept.extend_from_slice(&self.weights[..count]);
        kept.push(self.cash_weight);
    }

    /// Beta exposure of the nearest weights at a price of it.
    fn exposure_at(&mut self, price: f64) -> f64 {
        let count = self.count();
        let BetaSpace { target, betas, .. } = &self.beta;
        for ((shifted, target), beta) in self.target[..count].iter_mut().zip(target).zip(betas) {
            *shifted = target - price * beta;
        }
        self.cash.target = target[count];
        self.find_weights();
        exposure(&self.beta.betas, &self.weights)
    }

    /// The least exposure within the other constraints, its sign changed for a lower bound:
    /// proximal steps, which end at it. They do not depend on the target.
    fn least_exposure(&mut self, sign: f64) -> f64 {
        let count = self.count();
        let stride = sign * STRIDE / self.beta.largest().max(f64::MIN_POSITIVE);
        self.target[..count].fill(0.0);
        self.cash.target = 0.0;
        self.find_weights();
        let mut least = sign * exposure(&self.beta.betas, &self.weights);
        for _ in 0..MOST_STRIDES {
            let moved = self.weights.iter().zip(&self.beta.betas);
            for (target, (weight, beta)) in self.target[..count].iter_mut().zip(moved) {
                *target = weight - stride * beta;
            }
            self.cash.target = self.cash_weight;
            self.find_weights();
            let next = sign * exposure(&self.beta.betas, &self.weights);
            let is_last = least - next <= NO_PROGRESS;
            least = next;
            if is_last {
                break;
            }
        }
        least
    }
}

impl Constraints {
    /// Least and largest beta exposure within the other constraints if all assets can be traded.
    pub(super) fn attainable_beta(&self) -> (f64, f64) {
        let nothing = vec![0.0; self.assets() + 1];
        let mut workspace = Workspace::new(self.assets(), self.sector_caps.len());
        workspace.prepare(self, &nothing, &nothing, &vec![true; self.assets()]);
        workspace.turnover = f64::INFINITY;
        (workspace.least_exposure(1.0), -workspace.least_exposure(-1.0))
    }
}

fn exposure(betas: &[f64], weights: &[f64]) -> f64 {
    betas.iter().zip(weights).map(|(beta, weight)| beta * weight).sum()
}
