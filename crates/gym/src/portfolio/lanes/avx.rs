//! SIMD lanes of machines with AVX.

use std::arch::x86_64::{__m256d, _CMP_GE_OQ};
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

use pulp::x86::V3;

use super::{LANES, Lanes, Machine};

/// Machine with AVX: `V3` does not exist on others.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Avx(pub(in super::super) V3);

/// Four numbers, with the machine token.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Four {
    machine: V3,
    numbers: __m256d,
}

impl Machine for Avx {
    type Lanes = Four;

    #[inline(always)]
    fn four(self, numbers: [f64; LANES]) -> Four {
        Four { machine: self.0, numbers: pulp::cast(numbers) }
    }
}

/// An operator that is one instruction.
macro_rules! operator {
    ($operator:ident, $function:ident, $instruction:ident) => {
        impl $operator for Four {
            type Output = Self;

            #[inline(always)]
            fn $function(self, other: Self) -> Self {
                self.with(self.machine.avx.$instruction(self.numbers, other.numbers))
            }
        }
    };
}

operator!(Add, add, _mm256_add_pd);
operator!(Sub, sub, _mm256_sub_pd);
operator!(Mul, mul, _mm256_mul_pd);
operator!(BitAnd, bitand, _mm256_and_pd);
operator!(BitOr, bitor, _mm256_or_pd);
operator!(BitXor, bitxor, _mm256_xor_pd);

impl Four {
    #[inline(always)]
    fn with(self, numbers: __m256d) -> Self {
        Self { numbers, ..self }
    }
}

impl Lanes for Four {
    #[inline(always)]
    fn abs(self) -> Self {
        let sign = self.machine.avx._mm256_set1_pd(-0.0);
        self.with(self.machine.avx._mm256_andnot_pd(sign, self.numbers))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        self.with(self.machine.avx._mm256_sqrt_pd(self.numbers))
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.with(self.machine.avx._mm256_min_pd(self.numbers, other.numbers))
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.with(self.machine.avx._mm256_max_pd(self.numbers, other.numbers))
    }

    #[inline(always)]
    fn at_least(self, other: Self) -> Self {
        self.with(self.machine.avx._mm256_cmp_pd::<_CMP_GE_OQ>(self.numbers, other.numbers))
    }

    #[inline(always)]
    fn except(self, got: Self) -> Self {
        self.with(self.machine.avx._mm256_andnot_pd(got.numbers, self.numbers))
    }

    #[inline(always)]
    fn to_array(self) -> [f64; LANES] {
        pulp::cast(self.numbers)
    }
}
