//! Random generator of `NumPy`: `default_rng(seed)`, bit for bit, so that a native batch draws the
//! same orders as an env in Python.

use serde::{Deserialize, Serialize};

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;
const POOL: usize = 4;

/// PCG64 seeded by a `SeedSequence`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NumpyGenerator {
    state: u128,
    increment: u128,
    /// Upper half of the last draw of 32 bits.
    spare: Option<u32>,
}

impl NumpyGenerator {
    pub(super) fn new(seed: u64) -> Self {
        let words = seed_words(seed);
        let wide = |index: usize| {
            let half = |index: usize| u64::from(words[index]) | u64::from(words[index + 1]) << 32;
            u128::from(half(index)) << 64 | u128::from(half(index + 2))
        };
        let mut made = Self { state: 0, increment: wide(4) << 1 | 1, spare: None };
        made.advance();
        made.state = made.state.wrapping_add(wide(0));
        made.advance();
        made
    }

    /// Draw a float from 0 (included) to 1 (excluded).
    #[allow(clippy::cast_precision_loss)] // 53 bits
    pub(super) fn random(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Draw a float from `low` to `high`.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// Draw an integer from 0 to below `count`, which is at least 1 and below 2^32.
    #[allow(clippy::cast_possible_truncation)] // halves of a product
    pub(super) fn integer(&mut self, count: usize) -> usize {
        let count = count as u32;
        if count <= 1 {
            return 0;
        }
        // Lemire's method: rejects the few draws that would make low numbers more likely.
        let least = count.wrapping_neg() % count;
        loop {
            let product = u64::from(self.half()) * u64::from(count);
            if product as u32 >= least {
                return (product >> 32) as usize;
            }
        }
    }

    #[allow(clippy::cast_possible_truncation)] // halves
    fn half(&mut self) -> u32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let bits = self.bits();
        self.spare = Some((bits >> 32) as u32);
        bits as u32
    }

    #[allow(clippy::cast_possible_truncation)] // halves
    fn bits(&mut self) -> u64 {
        self.advance();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn advance(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }
}

/// Words of `SeedSequence(seed).generate_state(8)`.
fn seed_words(seed: u64) -> [u32; 8] {
    let pool = seed_pool(seed);
    let mut constant = 0x8b51_f9dd_u32;
    let mut words = [0; 8];
    for (index, word) in words.iter_mut().enumerate() {
        *word = hashed(pool[index % POOL], &mut constant, 0x58f3_8ded);
    }
    words
}

#[allow(clippy::cast_possible_truncation)] // halves
fn seed_pool(seed: u64) -> [u32; POOL] {
    let mut constant = 0x43b0_d7e5_u32;
    let mut hash = |value| hashed(value, &mut constant, 0x931e_8875);
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut hash);
    for source in 0..POOL {
        for target in (0..POOL).filter(|target| *target != source) {
            let (own, other) = (pool[target], hash(pool[source]));
            let mixed = own.wrapping_mul(0xca01_f9dd).wrapping_sub(other.wrapping_mul(0x4973_f715));
            pool[target] = mixed ^ mixed >> 16;
        }
    }
    pool
}

fn hashed(value: u32, constant: &mut u32, multiplier: u32) -> u32 {
    let value = value ^ *constant;
    *constant = constant.wrapping_mul(multiplier);
    let value = value.wrapping_mul(*constant);
    value ^ value >> 16
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, clippy::unreadable_literal)] // as NumPy prints them

    use super::NumpyGenerator;

    #[test]
    fn draws_are_those_of_default_rng() {
        let mut small = NumpyGenerator::new(7);
        let drawn = (small.random(), small.integer(10), small.random(), small.integer(2));
        assert_eq!(drawn, NUMPY_7);
        let mut large = NumpyGenerator::new(u64::MAX - 5);
        let drawn = (large.random(), large.integer(1000), large.random(), large.integer(3));
        assert_eq!(drawn, NUMPY_LARGE);
    }

    const NUMPY_7: (f64, usize, f64, usize) = (0.625095466604667, 6, 0.7756856902451935, 1);
    const NUMPY_LARGE: (f64, usize, f64, usize) = (0.8824569888656901, 846, 0.9314235868516011, 1);
}
