//! SIMD lanes: numbers of all assets are contiguous, and loops process four at a time, in the same
//! order on every machine, so that results are bit-identical.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

#[cfg(target_arch = "x86_64")]
mod avx;
mod plain;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

#[cfg(target_arch = "x86_64")]
pub(super) use avx::Avx;
pub(super) use plain::Plain;

/// Number of assets per lane vector.
pub(super) const LANES: usize = 4;

/// Four numbers of four assets. NaN is never compared for size.
pub(super) trait Lanes:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
{
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    /// Comparison mask: all bits set where true; none where false or NaN.
    fn at_least(self, other: Self) -> Self;
    /// The numbers, with zero where the mask is set.
    fn except(self, got: Self) -> Self;
    fn to_array(self) -> [f64; LANES];
}

/// Machine token with its lanes; it exists only on such machines.
pub(super) trait Machine: Copy {
    type Lanes: Lanes;

    fn four(self, numbers: [f64; LANES]) -> Self::Lanes;

    /// The same number four times.
    #[inline(always)]
    fn all(self, number: f64) -> Self::Lanes {
        self.four([number; LANES])
    }

    /// A row, four numbers at a time.
    #[inline(always)]
    fn lanes(self, row: &[f64]) -> impl Iterator<Item = Self::Lanes> {
        row.as_chunks::<LANES>().0.iter().map(move |four| self.four(*four))
    }

    /// Numbers with the signs of others.
    #[inline(always)]
    fn with_sign_of(self, numbers: Self::Lanes, signs: Self::Lanes) -> Self::Lanes {
        numbers.abs() | (signs & self.all(-0.0))
    }
}

/// Length of a row for `assets` assets: one number each, one for cash, padded to a whole number of
/// lanes.
pub(super) fn stride(assets: usize) -> usize {
    (assets + 1).next_multiple_of(LANES)
}

/// A row to write into, four numbers at a time.
#[inline(always)]
pub(super) fn lanes_mut(row: &mut [f64]) -> &mut [[f64; LANES]] {
    row.as_chunks_mut().0
}

/// The sum of four sums.
#[inline(always)]
pub(super) fn total(sums: impl Lanes) -> f64 {
    let sums = sums.to_array();
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// Bytes in a cache line.
const LINE: usize = 64;

/// Prefetch memory that will be read soon.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(super) fn fetch<E>(memory: &[E]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    let start = memory.as_ptr().cast::<i8>();
    for byte in (0..size_of_val(memory)).step_by(LINE) {
        // SAFETY: a hint that reads nothing, and the address lies within the slice.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(start.add(byte));
        }
    }
}

/// No prefetch elsewhere.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fetch<E>(_memory: &[E]) {}
