//! The mandate that most portfolios have: weights that are not negative and sum to one.
//!
//! The nearest such weights are those that were wanted, all less the same level, and nothing where
//! less than that was wanted. What is left falls with the level in straight pieces that bend one
//! way, so that steps along them never go too far.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use super::lanes::{Lanes, Machine, lanes_mut, total};
use super::projection::TOLERANCE;

/// A sum this close to one is as close as rounding lets it be.
const EXACT: f64 = 2e-14;

/// Writes the nearest weights into a row of lanes, those that were wanted where they are allowed.
/// False where this is not sure: something is less than nothing by no more than the tolerance, or
/// so large that rounding spoils the sum.
#[inline(always)]
pub(super) fn meet<M: Machine>(machine: M, wanted: &[f64], row: &mut [f64]) -> bool {
    let (weights, rest) = row.split_at_mut(wanted.len());
    weights.copy_from_slice(wanted);
    rest.fill(0.0);
    let (mut sums, mut least) = (machine.all(0.0), machine.all(0.0));
    for four in machine.lanes(row) {
        sums = sums + four;
        least = least.smaller(four);
    }
    let (sum, least) = (total(sums), total(least));
    // Four lanes share what is negative: beyond this, one of them alone is beyond the tolerance.
    if (sum - 1.0).abs() > TOLERANCE || least < -4.0 * TOLERANCE {
        row[wanted.len()..].fill(f64::NEG_INFINITY);
        return project(machine, row);
    }
    least >= 0.0
}

/// Takes the level from all weights at which they sum to one; false when rounding spoils that.
#[inline(always)]
fn project<M: Machine>(machine: M, row: &mut [f64]) -> bool {
    let none = machine.all(0.0);
    let most = machine.lanes(row).fold(machine.all(f64::NEG_INFINITY), M::Lanes::larger);
    // The largest weight becomes no more than one.
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
        // Steps that come no closer are rounding.
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
        }
    }

    /// The nearest weights by any mandate's way.
    fn nearest(wanted: &[f64]) -> Vec<f64> {
        let assets = wanted.len() - 1;
        let (held, mut allowed) = (vec![0.0; assets + 1], vec![0.0; assets + 1]);
        let mut workspace = Workspace::new(assets, 0);
        let movable = vec![true; assets];
        constraints(assets).project(wanted, &held, &movable, &mut workspace, &mut allowed);
        allowed
    }

    fn met(wanted: &[f64]) -> Option<Vec<f64>> {
        let mut row = vec![f64::NAN; stride(wanted.len() - 1)];
        meet(Plain, wanted, &mut row).then(|| row[..wanted.len()].to_vec())
    }

    proptest! {
        #[test]
        fn the_nearest_weights_are_those_of_any_mandates_way(
            wanted in prop::collection::vec(-50.0..50.0, 2..30),
        ) {
            let weights = met(&wanted).expect("such weights have a sum");

            for (weight, nearest) in weights.iter().zip(nearest(&wanted)) {
                prop_assert!((weight - nearest).abs() < 1e-12, "{weights:?}");
            }
        }

        #[test]
        fn weights_that_are_allowed_are_left_as_they_are(
            shares in prop::collection::vec(0.0..1.0, 2..30),
        ) {
            let sum: f64 = shares.iter().sum();
            prop_assume!(sum > 0.0);
            let wanted: Vec<f64> = shares.iter().map(|share| share / sum).collect();

            prop_assert_eq!(met(&wanted), Some(wanted));
        }
    }

    #[test]
    fn what_is_not_sure_is_left_to_others() {
        assert_eq!(met(&[1e300, -1e300, 0.0]), None, "rounding spoils the sum");
        assert_eq!(met(&[1.0 + 1e-13, -1e-13, 0.0]), None, "allowed within the tolerance");
    }
}
