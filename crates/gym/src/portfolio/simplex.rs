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
