//! Eight numbers at a time. Products are fused on every machine, so that the bits are the same.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them

/// Numbers that are computed together.
pub(crate) const LANES: usize = 8;

/// Machine token with its registers; it exists only on such machines.
pub(crate) trait Machine: Copy {
    type Eight: Copy;

    fn load(self, numbers: [f32; LANES]) -> Self::Eight;

    /// The same number eight times.
    fn all(self, number: f32) -> Self::Eight;

    fn mul_add(self, left: Self::Eight, right: Self::Eight, sum: Self::Eight) -> Self::Eight;

    fn add(self, left: Self::Eight, right: Self::Eight) -> Self::Eight;

    fn store(self, numbers: Self::Eight) -> [f32; LANES];
}

/// Any machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Machine for Plain {
    type Eight = [f32; LANES];

    #[inline(always)]
    fn load(self, numbers: [f32; LANES]) -> Self::Eight {
        numbers
    }

    #[inline(always)]
    fn all(self, number: f32) -> Self::Eight {
        [number; LANES]
    }

    #[inline(always)]
    fn mul_add(self, left: Self::Eight, right: Self::Eight, sum: Self::Eight) -> Self::Eight {
        std::array::from_fn(|lane| left[lane].mul_add(right[lane], sum[lane]))
    }

    #[inline(always)]
    fn add(self, left: Self::Eight, right: Self::Eight) -> Self::Eight {
        std::array::from_fn(|lane| left[lane] + right[lane])
    }

    #[inline(always)]
    fn store(self, numbers: Self::Eight) -> [f32; LANES] {
        numbers
    }
}

/// Machine with AVX2 and fused products: `V3` does not exist on others.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx(pub(crate) pulp::x86::V3);

#[cfg(target_arch = "x86_64")]
impl Machine for Avx {
    type Eight = std::arch::x86_64::__m256;

    #[inline(always)]
    fn load(self, numbers: [f32; LANES]) -> Self::Eight {
        pulp::cast(numbers)
    }

    #[inline(always)]
    fn all(self, number: f32) -> Self::Eight {
        self.0.avx._mm256_set1_ps(number)
    }

    #[inline(always)]
    fn mul_add(self, left: Self::Eight, right: Self::Eight, sum: Self::Eight) -> Self::Eight {
        self.0.fma._mm256_fmadd_ps(left, right, sum)
    }

    #[inline(always)]
    fn add(self, left: Self::Eight, right: Self::Eight) -> Self::Eight {
        self.0.avx._mm256_add_ps(left, right)
    }

    #[inline(always)]
    fn store(self, numbers: Self::Eight) -> [f32; LANES] {
        pulp::cast(numbers)
    }
}

/// Scalar product in eight interleaved sums.
#[inline(always)]
pub(crate) fn dot<M: Machine>(machine: M, left: &[f32], right: &[f32]) -> f32 {
    let mut sums = machine.all(0.0);
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    for (left, right) in left.iter().zip(right) {
        sums = machine.mul_add(machine.load(*left), machine.load(*right), sums);
    }
    let mut sums = machine.store(sums);
    for ((sum, left), right) in sums.iter_mut().zip(left_rest).zip(right_rest) {
        *sum = left.mul_add(*right, *sum);
    }
    total(sums)
}

/// Sum in eight interleaved sums.
#[inline(always)]
pub(crate) fn sum<M: Machine>(machine: M, numbers: &[f32]) -> f32 {
    let mut sums = machine.all(0.0);
    let (whole, rest) = numbers.as_chunks::<LANES>();
    for numbers in whole {
        sums = machine.add(sums, machine.load(*numbers));
    }
    let mut sums = machine.store(sums);
    for (sum, number) in sums.iter_mut().zip(rest) {
        *sum += number;
    }
    total(sums)
}

#[inline(always)]
fn total(sums: [f32; LANES]) -> f32 {
    let halves: [f32; 4] = std::array::from_fn(|lane| sums[lane] + sums[lane + 4]);
    (halves[0] + halves[2]) + (halves[1] + halves[3])
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn machines_give_the_same_bits() {
        let pulp::Arch::V3(machine) = pulp::Arch::new() else { return };
        let numbers = (1..40_u8).map(|number| 1.0 / f32::from(number)).collect::<Vec<f32>>();
        for count in 0..numbers.len() {
            let (left, right) = (&numbers[..count], &numbers[numbers.len() - count..]);

            let wide = (dot(Avx(machine), left, right), sum(Avx(machine), left));
            let plain = (dot(Plain, left, right), sum(Plain, left));

            assert_eq!(wide.0.to_bits(), plain.0.to_bits());
            assert_eq!(wide.1.to_bits(), plain.1.to_bits());
        }
    }
}
