//! Bounds and the sum alone: one multiplier, found by Newton steps between brackets.
//!
//! Every weight is what was wanted less the same level, clipped into its bounds; the sum falls
//! with the level, in straight pieces, so that a step from the right piece hits exactly.

use super::{Constraints, TOLERANCE};

/// Sums are kept in lanes, in an order that is the same on every machine.
const LANES: usize = 4;

/// A sum this close to its target is as close as rounding lets it be.
const EXACT: f64 = 2e-14;

/// Halving a bracket of doubles ends by then, whatever the numbers are.
const MOST_STEPS: usize = 2_200;

/// Weights between bounds, and cash.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'a> {
    pub(super) wanted: &'a [f64],
    pub(super) lower: &'a [f64],
    pub(super) upper: &'a [f64],
    pub(super) cash: Cash,
    /// What weights and cash have to sum to.
    pub(super) target: f64,
}

/// The weight of cash that is wanted, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cash {
    pub(super) wanted: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl Cash {
    pub(super) fn at(self, level: f64) -> f64 {
        clip(self.wanted - level, self.lower, self.upper)
    }

    /// 1 where cash follows the level, 0 where a bound holds it.
    pub(super) fn free(self, level: f64) -> f64 {
        let value = self.wanted - level;
        if value > self.lower && value < self.upper { 1.0 } else { 0.0 }
    }
}

/// Whether weights (cash last) are within their bounds and sum to one.
pub(super) fn allow(constraints: &Constraints, weights: &[f64]) -> bool {
    let assets = constraints.assets();
    let cash = weights[assets];
    if !(cash >= constraints.cash_lower - TOLERANCE && cash <= constraints.cash_upper + TOLERANCE) {
        return false;
    }
    let (sum, excess) = sum_and_excess(&weights[..assets], &constraints.lower, &constraints.upper);
    excess <= TOLERANCE && (sum + cash - 1.0).abs() <= TOLERANCE
}

/// Writes the nearest weights (cash last); false when rounding spoils the sum, as it does when
/// huge weights are wanted.
pub(super) fn project(constraints: &Constraints, wanted: &[f64], allowed: &mut [f64]) -> bool {
    let assets = constraints.assets();
    let (lower, upper) = (constraints.cash_lower, constraints.cash_upper);
    let bounded = Bounded {
        wanted: &wanted[..assets],
        lower: &constraints.lower,
        upper: &constraints.upper,
        cash: Cash { wanted: wanted[assets], lower, upper },
        target: 1.0,
    };
    let (level, excess) = bounded.level();
    bounded.write(level, &mut allowed[..assets]);
    allowed[assets] = bounded.cash.at(level);
    excess.abs() <= TOLERANCE
}

impl Bounded<'_> {
    /// The level that makes the sum what it has to be, and what the sum still exceeds that by.
    pub(super) fn level(&self) -> (f64, f64) {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let (mut level, mut excess) = (0.0, 0.0);
        for _ in 0..MOST_STEPS {
            let (sum, free) = self.sum_at(level);
            excess = sum - self.target;
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
        let rows = self.wanted.iter().zip(self.lower).zip(self.upper);
        for (weight, ((wanted, lower), upper)) in weights.iter_mut().zip(rows) {
            *weight = clip(wanted - level, *lower, *upper);
        }
    }

    /// The sum at a level, and how many weights follow it.
    #[inline(never)] // by itself it becomes vector code
    fn sum_at(&self, level: f64) -> (f64, f64) {
        let (mut sums, mut frees) = ([0.0; LANES], [0_u64; LANES]);
        let wanted = self.wanted.chunks_exact(LANES);
        let (lower, upper) = (self.lower.chunks_exact(LANES), self.upper.chunks_exact(LANES));
        let rest = wanted.remainder().iter().zip(lower.remainder()).zip(upper.remainder());
        for ((wanted, lower), upper) in wanted.zip(lower).zip(upper) {
            for lane in 0..LANES {
                let value = wanted[lane] - level;
                let weight = clip(value, lower[lane], upper[lane]);
                sums[lane] += weight;
                frees[lane] += u64::from(same(weight, value));
            }
        }
        for ((wanted, lower), upper) in rest {
            let value = wanted - level;
            let weight = clip(value, *lower, *upper);
            sums[0] += weight;
            frees[0] += u64::from(same(weight, value));
        }
        let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        let free = as_f64((frees[0] + frees[1]) + (frees[2] + frees[3]));
        (sum + self.cash.at(level), free + self.cash.free(level))
    }

    /// Halfway between levels; where one is not known yet, beyond which no bound lets go.
    fn middle(&self, low: f64, high: f64) -> f64 {
        let mut far = 2.0 * (self.cash.wanted.abs() + self.target.abs() + 1.0);
        for bound in [self.cash.lower, self.cash.upper] {
            if bound.is_finite() {
                far += 2.0 * bound.abs();
            }
        }
        for ((wanted, lower), upper) in self.wanted.iter().zip(self.lower).zip(self.upper) {
            for value in [wanted, lower, upper] {
                far += if value.is_finite() { 2.0 * value.abs() } else { 0.0 };
            }
        }
        f64::midpoint(low.max(-far), high.min(far))
    }
}

/// `value` within bounds. Unlike `clamp`, a comparison each: NaN cannot come here.
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

/// Whether bounds left a value alone.
#[allow(clippy::float_cmp)] // the very same value is meant
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
