//! Assets four at a time: numbers of all assets lie next to each other, and loops over them take
//! four together, in the same order on every machine, so that the same bits come out.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use wide::f64x4;

/// Assets that are reckoned together.
pub(super) const LANES: usize = 4;

/// Four numbers of four assets.
pub(super) type Lanes = f64x4;

/// How many numbers a row has for so many assets: one each, one for cash, and nothing up to a
/// whole number of lanes.
pub(super) fn stride(assets: usize) -> usize {
    (assets + 1).next_multiple_of(LANES)
}

/// A row, four numbers at a time.
#[inline(always)]
pub(super) fn lanes(row: &[f64]) -> impl Iterator<Item = Lanes> + '_ {
    row.as_chunks::<LANES>().0.iter().map(|four| f64x4::from(*four))
}

/// A row to write into, four numbers at a time.
#[inline(always)]
pub(super) fn lanes_mut(row: &mut [f64]) -> &mut [[f64; LANES]] {
    row.as_chunks_mut().0
}

/// The sum of four sums.
#[inline(always)]
pub(super) fn total(sums: Lanes) -> f64 {
    let sums = sums.to_array();
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// The numbers that are wanted, NaN included, and 0 for the others.
#[inline(always)]
pub(super) fn only_where(wanted: Lanes, numbers: Lanes) -> Lanes {
    numbers & wanted
}

/// Numbers with the signs of others.
#[inline(always)]
pub(super) fn with_sign_of(numbers: Lanes, signs: Lanes) -> Lanes {
    let sign = f64x4::splat(-0.0);
    numbers.abs() | (signs & sign)
}

/// Numbers in a cache line.
const LINE: usize = 8;

/// A sum that has to look at every cache line of a row, and at nothing more.
#[inline(always)]
pub(super) fn touched(row: &[f64]) -> f64 {
    row.iter().step_by(LINE).sum()
}
