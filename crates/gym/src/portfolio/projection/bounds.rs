//! Projection with bounds and the sum alone: one multiplier, found by bracketed Newton steps.
//!
//! Every weight is the target less a common level, clipped to its bounds; the sum is piecewise
//! linear and decreasing in the level, so that a step on the right piece is exact.

use super::{Constraints, TOLERANCE, is_within};

/// Sums are kept in lanes, in an order that is the same on every machine.
const LANES: usize = 4;

/// A sum this close to its target is as close as rounding lets it be.
const EXACT: f64 = 2e-14;

/// Upper bound on bisection steps for doubles.
const MOST_STEPS: usize = 2_200;

/// Weights between bounds, and cash.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'a> {
    pub(super) target: &'a [f64],
    pub(super) lower: &'a [f64],
    pub(super) upper: &'a [f64],
    pub(super) cash: Cash,
    /// Required sum of weights and cash.
    pub(super) budget: f64,
}

/// Target weight of cash, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cash {
    pub(super) target: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl Cash {
    pub(super) fn at(self, level: f64) -> f64 {
        clip(self.target - level, self.lower, self.upper)
    }

    /// 1 where cash follows the level, 0 where a bound holds it.
    pub(super) fn free(self, level: f64) -> f64 {
        let value = self.target - level;
        if value > self.lower && value < self.upper { 1.0 } else { 0.0 }
    }
}

/// Return true if weights (cash last) are within their bounds and sum to one.
pub(super) fn allow(constraints: &Constraints, weights: &[f64]) -> bool {
    let assets = constraints.assets();
    let cash = weights[assets];
    if !is_within(cash, constraints.cash_bounds()) {
        return false;
    }
    let (sum, excess) = sum_and_excess(&weights[..assets], &constraints.lower, &constraints.upper);
    excess <= TOLERANCE && (sum + cash - 1.0).abs() <= TOLERANCE
}

/// Write the nearest weights (cash last); false if rounding spoils the sum, as it does for huge
/// targets.
pub(super) fn project(constraints: &Constraints, target: &[f64], allowed: &mut [f64]) -> bool {
    let assets = constraints.assets();
    let (lower, upper) = constraints.cash_bounds();
    let bounded = Bounded {
        target: &target[..assets],
        lower: &constraints.lower,
        upper: &constraints.upper,
        cash: Cash { target: target[assets], lower, upper },
        budget: 1.0,
    };
    let (level, excess) = bounded.level();
    bounded.write(level, &mut allowed[..assets]);
    allowed[assets] = bounded.cash.at(level);
    excess.abs() <= TOLERANCE
}

impl Bounded<'_> {
    /// Level at which the sum meets its target, and the remaining excess.
    pub(super) fn level(&self) -> (f64, f64) {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let (mut level, mut excess) = (0.0, 0.0);
        for _ in 0..MOST_STEPS {
            let (sum, free) = self.sum_at(level);
            excess = sum - self.budget;
            if excess.abs() <= EXACT {
                break;
            }
            if excess > 0.0 {
                low = level;
            } else {
                high = level;
            }
            let step = level + excess / free;
            level = if free > 0.0 && step > low && step < high {
                step
            } else {
                let middle = self.middle(low, high);
                if middle <= low || middle >= high {
                    break;
                }
                middle
            };
        }
        (level, excess)
    }

    pub(super) fn write(&self, level: f64, weights: &mut [f64]) {
        let rows = self.target.iter().zip(self.lower).zip(self.upper);
        for (weight, ((target, lower), upper)) in weights.iter_mut().zip(rows) {
            *weight = clip(target - level, *lower, *upper);
        }
    }

    /// Sum at a level, and number of free weights.
    #[inline(never)] // vectorised when compiled by itself
    fn sum_at(&self, level: f64) -> (f64, f64) {
        let (mut sums, mut frees) = ([0.0; LANES], [0_u64; LANES]);
        let target = self.target.chunks_exact(LANES);
        let (lower, upper) = (self.lower.chunks_exact(LANES), self.upper.chunks_exact(LANES));
        let rest = target.remainder().iter().zip(lower.remainder()).zip(upper.remainder());
        for ((target, lower), upper) in target.zip(lower).zip(upper) {
            for lane in 0..LANES {
                let value = target[lane] - level;
                let weight = clip(value, lower[lane], upper[lane]);
                sums[lane] += weight;
                frees[lane] += u64::from(same(weight, value));
            }
        }
        for ((target, lower), upper) in rest {
            let value = target - level;
            let weight = clip(value, *lower, *upper);
            sums[0] += weight;
            frees[0] += u64::from(same(weight, value));
        }
        let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        let free = as_f64((frees[0] + frees[1]) + (frees[2] + frees[3]));
        (sum + self.cash.at(level), free + self.cash.free(level))
    }

    /// Midpoint of the bracket; if an end is unknown, a level beyond all bounds.
    fn middle(&self, low: f64, high: f64) -> f64 {
        let mut far = 2.0 * (self.cash.target.abs() + self.budget.abs() + 1.0);
        for bound in [self.cash.lower, self.cash.upper] {
            if bound.is_finite() {
                far += 2.0 * bound.abs();
            }
        }
        for ((target, lower), upper) in self.target.iter().zip(self.lower).zip(self.upper) {
            for value in [target, lower, upper] {
                far += if value.is_finite() { 2.0 * value.abs() } else { 0.0 };
            }
        }
        f64::midpoint(low.max(-far), high.min(far))
    }
}

/// `value` within bounds. Unlike `clamp`, without checks: NaN cannot occur here.
pub(super) fn clip(value: f64, lower: f64, upper: f64) -> f64 {
    let raised = if value > lower { value } else { lower };
    if raised < upper { raised } else { upper }
}

/// The sum of weights, and the most by which one of them is outside its bounds.
fn sum_and_excess(weights: &[f64], lower: &[f64], upper: &[f64]) -> (f64, f64) {
    let (mut sums, mut excesses) = ([0.0; LANES], [0.0_f64; LANES]);
    let weights = weights.chunks_exact(LANES);
    let (lower, upper) = (lower.chunks_exact(LANES), upper.chunks_exact(LANES));
    let rest = weights.remainder().iter().zip(lower.remainder()).zip(upper.remainder());
    for ((weights, lower), upper) in weights.zip(lower).zip(upper) {
        for lane in 0..LANES {
            sums[lane] += weights[lane];
            excesses[lane] = larger(excesses[lane], lower[lane] - weights[lane]);
            excesses[lane] = larger(excesses[lane], weights[lane] - upper[lane]);
        }
    }
    for ((weight, lower), upper) in rest {
        sums[0] += weight;
        excesses[0] = larger(larger(excesses[0], lower - weight), weight - upper);
    }
    let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    let excess = larger(larger(excesses[0], excesses[1]), larger(excesses[2], excesses[3]));
    (sum, excess)
}

/// Return true if bounds left a value unchanged.
#[allow(clippy::float_cmp)] // exact equality is intended
fn same(weight: f64, value: f64) -> bool {
    weight == value
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn as_f64(count: u64) -> f64 {
    count as f64
}

fn larger(first: f64, second: f64) -> f64 {
    if first > second { first } else { second }
}
