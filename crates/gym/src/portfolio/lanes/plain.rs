//! Portable lanes.

use wide::{CmpGe, f64x4};

use super::{LANES, Lanes, Machine};

/// Machine without SIMD requirements.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Plain;

impl Machine for Plain {
    type Lanes = f64x4;

    #[inline(always)]
    fn four(self, numbers: [f64; LANES]) -> f64x4 {
        f64x4::from(numbers)
    }
}

impl Lanes for f64x4 {
    #[inline(always)]
    fn abs(self) -> Self {
        f64x4::abs(self)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        f64x4::sqrt(self)
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.fast_min(other)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.fast_max(other)
    }

    #[inline(always)]
    fn at_least(self, other: Self) -> Self {
        self.cmp_ge(other)
    }

    #[inline(always)]
    fn except(self, got: Self) -> Self {
        self & !got
    }

    #[inline(always)]
    fn to_array(self) -> [f64; LANES] {
        f64x4::to_array(self)
    }
}
