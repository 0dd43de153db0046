//! Projection to the simplex, the most common mandate: weights are not negative and sum to one.
//!
//! The nearest such weights are the targets less a common level, clipped at zero. Their sum is
//! piecewise linear and convex in the level, so that Newton steps never overshoot.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use super::lanes::{Lanes, Machine, lanes_mut, total};
use super::projection::TOLERANCE;

/// A sum this close to one is as close as rounding lets it be.
const EXACT: f64 = 2e-14;

/// Write the nearest weights into a row of lanes; allowed targets are unchanged. Returns false if
/// undecided: a weight is negative within the tolerance, or so large that rounding spoils the sum.
#[inline(always)]
pub(super) fn meet<M: Machine>(machine: M, target: &[f64], row: &mut [f64]) -> bool {
    let (weights, rest) = row.split_at_mut(target.len());
    weights.copy_from_slice(target);
    rest.fill(0.0);
    let (mut sums, mut least) = (machine.all(0.0), machine.all(0.0));
    for four in machine.lanes(row) {
        sums = sums + four;
        least = least.smaller(four);
    }
    let (sum, least) = (total(sums), total(least));
    // The negative part is summed over four lanes: beyond this, one of them alone exceeds the
    // tolerance.
    if (sum - 1.0).abs() > TOLERANCE || least < -4.0 * TOLERANCE {
        row[target.len()..].fill(f64::NEG_INFINITY);
        return project(machine, row);
    }
    least >= 0.0
}

/// Subtract the level at which the weights sum to one; false if rounding spoils that.
#[inline(always)]
fn project<M: Machine>(machine: M, row: &mut [f64]) -> bool {
    let none = machine.all(0.0);
    let most = machine.lanes(row).fold(machine.all(f64::NEG_INFINITY), M::Lanes::larger);
    // The largest weight becomes at most one.
    let mut level = most.to_array().into_iter().fold(f64::NEG_INFINITY, f64::max) - 1.0;
    let mut last = f64::INFINITY;
    loop {
        let (mut sums, mut frees) = (none, none);
        for four in machine.lanes(row) {
            let left = (four - machine.all(level)).larger(none);
            sums = sums + left;
            frees = frees + (machine.all(1.0) & left.at_least(machine.all(f64::MIN_POSITIVE)));
        }
        let excess = total(sums) - 1.0;
        // Steps without progress are rounding.
        if excess <= EXACT || excess >= last {
            write(machine, row, level);
            return excess.abs() <= TOLERANCE;
        }
        last = excess;
        level += excess / total(frees);
    }
}

#[inline(always)]
fn write(machine: impl Machine, row: &mut [f64], level: f64) {
    for four in lanes_mut(row) {
        let left = machine.four(*four) - machine.all(level);
        *four = left.larger(machine.all(0.0)).to_array();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lanes::{Plain, stride};
    use super::super::projection::{Constraints, Workspace};
    use super::*;

    fn constraints(assets: usize) -> Constraints {
        Constraints {
            lower: vec![0.0; assets],
            upper: vec![1.0; assets],
            cash_lower: 0.0,
            cash_upper: 1.0,
            leverage: None,
            sectors: vec![],
            sector_caps: vec![],
            turnover: None,
            ..Constraints::default()
        }
    }

    /// Nearest weights by the general projection.
    fn nearest(target: &[f64]) -> Vec<f64> {
        let assets = target.len() - 1;
        let (held, mut allowed) = (vec![0.0; assets + 1], vec![0.0; assets + 1]);
        let mut workspace = Workspace::new(assets, 0);
        let movable = vec![true; assets];
        constraints(assets).project(target, &held, &movable, &mut workspace, &mut allowed);
        allowed
    }

    fn met(target: &[f64]) -> Option<Vec<f64>> {
        let mut row = vec![f64::NAN; stride(target.len() - 1)];
        meet(Plain, target, &mut row).then(|| row[..target.len()].to_vec())
    }

    proptest! {
        #[test]
        fn the_nearest_weights_are_those_of_any_mandates_way(
            target in prop::collection::vec(-50.0..50.0, 2..30),
        ) {
            let weights = met(&target).expect("such weights have a sum");

            for (weight, nearest) in weights.iter().zip(nearest(&target)) {
                prop_assert!((weight - nearest).abs() < 1e-12, "{weights:?}");
            }
        }

        #[test]
        fn weights_that_are_allowed_are_left_as_they_are(
            shares in prop::collection::vec(0.0..1.0, 2..30),
        ) {
            let sum: f64 = shares.iter().sum();
            prop_assume!(sum > 0.0);
            let target: Vec<f64> = shares.iter().map(|share| share / sum).collect();

            prop_assert_eq!(met(&target), Some(target));
        }
    }

    #[test]
    fn undecided_cases_are_left_to_the_general_projection() {
        assert_eq!(met(&[1e300, -1e300, 0.0]), None, "rounding spoils the sum");
        assert_eq!(met(&[1.0 + 1e-13, -1e-13, 0.0]), None, "allowed within the tolerance");
    }
}
