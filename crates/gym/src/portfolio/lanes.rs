//! Assets four at a time: numbers of all assets lie next to each other, and loops over them take
//! four together, in the same order on every machine, so that the same bits come out.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

/// Assets that are reckoned together.
pub(super) const LANES: usize = 4;

/// Four numbers of four assets.
pub(super) type Lanes = [f64; LANES];

/// How many numbers a row has for so many assets: one each, one for cash, and nothing up to a
/// whole number of lanes.
pub(super) fn stride(assets: usize) -> usize {
    (assets + 1).next_multiple_of(LANES)
}

/// A row, four numbers at a time.
#[inline(always)]
pub(super) fn lanes(row: &[f64]) -> &[Lanes] {
    row.as_chunks().0
}

/// A row to write into, four numbers at a time.
#[inline(always)]
pub(super) fn lanes_mut(row: &mut [f64]) -> &mut [Lanes] {
    row.as_chunks_mut().0
}

/// The sum of four sums.
#[inline(always)]
pub(super) fn total(sums: Lanes) -> f64 {
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// The smaller of two numbers. Unlike `f64::min` it says nothing of NaN, and is one instruction.
#[inline(always)]
pub(super) fn smaller(one: f64, other: f64) -> f64 {
    if one < other { one } else { other }
}

/// The larger of two numbers, as [`smaller`].
#[inline(always)]
pub(super) fn larger(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// A number, NaN included, or 0 if it is not wanted: without a jump that could be guessed wrong.
#[inline(always)]
pub(super) fn only_if(wanted: bool, number: f64) -> f64 {
    f64::from_bits(number.to_bits() & 0_u64.wrapping_sub(u64::from(wanted)))
}

/// Numbers in a cache line.
const LINE: usize = 8;

/// A sum that has to look at every cache line of a row, and at nothing more.
#[inline(always)]
pub(super) fn touched(row: &[f64]) -> f64 {
    row.iter().step_by(LINE).sum()
}
