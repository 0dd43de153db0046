//! Random streams that depend on their key alone, identical on every machine.

mod normal;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Key of an episode's random streams: they depend on nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EpisodeKey {
    /// The seed of the env.
    pub seed: u64,
    /// Number of episodes begun since the seed was set.
    pub episode: u64,
}

impl EpisodeKey {
    /// The stream of one component. Streams of different keys or components are unrelated.
    #[must_use]
    pub fn stream(self, component: u64) -> Stream {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.episode.to_le_bytes());
        let mut derivation = ChaCha8Rng::from_seed(key);
        derivation.set_stream(component);
        let mut state = [0; 32];
        derivation.fill_bytes(&mut state);
        Stream(Xoshiro256PlusPlus::from_seed(state))
    }
}

/// Random stream: a small fast generator for hot loops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Xoshiro256PlusPlus")]
pub struct Stream(Xoshiro256PlusPlus);

/// Invalid generator state: all zeros.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a random stream needs a state that is not all zeros")]
pub struct DeadStreamError;

impl TryFrom<Xoshiro256PlusPlus> for Stream {
    type Error = DeadStreamError;

    fn try_from(generator: Xoshiro256PlusPlus) -> Result<Self, DeadStreamError> {
        let mut ahead = generator.clone();
        // Four draws reveal the 256 bits of state.
        let is_dead = (0..4).all(|_| ahead.next_u64() == 0);
        if is_dead { Err(DeadStreamError) } else { Ok(Self(generator)) }
    }
}

impl Stream {
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 (included) to 1 (excluded).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        to_unit(self.bits())
    }

    /// A whole number from 0 to `limit` (excluded), by multiplication: its bias is below 2^-32.
    ///
    /// # Panics
    /// If `limit` is 0, in debug builds.
    #[inline]
    pub fn below(&mut self, limit: u32) -> u32 {
        debug_assert!(limit > 0, "there is no number below 0");
        #[allow(clippy::cast_possible_truncation)] // the product's upper half is below `limit`
        let number = ((u64::from(limit) * (self.bits() >> 32)) >> 32) as u32;
        number
    }

    /// True with this probability.
    #[inline]
    pub fn bernoulli(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// A draw of the standard normal distribution.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        normal::draw(self)
    }

    /// A draw of the exponential distribution with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }
}

/// The upper 53 bits as a fraction.
#[inline]
#[allow(clippy::cast_precision_loss)] // 53 bits fit
fn to_unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(count: u32, mut draw: impl FnMut() -> f64) -> [f64; 4] {
        let mut sums = [0.0; 4];
        for _ in 0..count {
            let value = draw();
            let mut power = 1.0;
            for sum in &mut sums {
                power *= value;
                *sum += power;
            }
        }
        sums.map(|sum| sum / f64::from(count))
    }

    #[test]
    fn equal_keys_give_equal_streams_and_others_do_not() {
        let key = EpisodeKey { seed: 7, episode: 3 };
        let first: Vec<u64> =
            (0..4).map(|_| 0).scan(key.stream(1), |s, _: u64| Some(s.bits())).collect();
        let again: Vec<u64> =
            (0..4).map(|_| 0).scan(key.stream(1), |s, _: u64| Some(s.bits())).collect();

        assert_eq!(first, again);
        assert_ne!(first[0], key.stream(2).bits());
        assert_ne!(first[0], EpisodeKey { seed: 7, episode: 4 }.stream(1).bits());
        assert_ne!(first[0], EpisodeKey { seed: 8, episode: 3 }.stream(1).bits());
    }

    #[test]
    fn uniform_draws_have_the_moments_of_the_uniform_distribution() {
        let mut stream = EpisodeKey::default().stream(0);

        let got = moments(400_000, || stream.uniform());

        for (moment, expected) in got.iter().zip([1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0, 1.0 / 5.0]) {
            assert!((moment - expected).abs() < 0.003, "{got:?}");
        }
    }

    #[test]
    fn normal_draws_have_the_moments_of_the_normal_distribution() {
        let mut stream = EpisodeKey::default().stream(0);

        let got = moments(1_000_000, || stream.normal());

        for ((moment, expected), error) in
            got.iter().zip([0.0, 1.0, 0.0, 3.0]).zip([1.0, 1.5, 4.0, 10.0])
        {
            assert!((moment - expected).abs() < 4.0 * error / 1e3, "{got:?}");
        }
    }

    #[test]
    fn normal_tails_are_as_heavy_as_they_should_be() {
        let mut stream = EpisodeKey::default().stream(5);
        let mut beyond = [0u32; 3];

        for _ in 0..4_000_000 {
            let size = stream.normal().abs();
            for (count, limit) in beyond.iter_mut().zip([1.0, 3.0, 4.0]) {
                *count += u32::from(size > limit);
            }
        }

        // 4 standard errors around 4e6 times the two-sided tail probabilities.
        for (count, (expected, margin)) in
            beyond.iter().zip([(1_269_242.0, 3_722.0), (10_799.0, 415.0), (253.4, 64.0)])
        {
            assert!((f64::from(*count) - expected).abs() < margin, "{beyond:?}");
        }
    }

    #[test]
    fn exponential_draws_have_the_moments_of_the_exponential_distribution() {
        let mut stream = EpisodeKey::default().stream(0);

        let got = moments(400_000, || stream.exponential());

        assert!((got[0] - 1.0).abs() < 0.01 && (got[1] - 2.0).abs() < 0.04, "{got:?}");
    }

    #[test]
    fn numbers_below_a_limit_are_equally_likely() {
        let mut stream = EpisodeKey::default().stream(0);
        let mut counts = [0u32; 5];

        for _ in 0..100_000 {
            counts[stream.below(5) as usize] += 1;
        }

        assert!(counts.iter().all(|count| count.abs_diff(20_000) < 600), "{counts:?}");
    }
}
