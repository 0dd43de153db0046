//! Rolling mean and standard deviation, from sums that cannot drift.

use serde::{Deserialize, Serialize};

use super::array;

/// Rolling window of the last `N` values: mean and standard deviation.
///
/// The stream is cut into blocks of `N`. A window is the end of the block before (the tail) and the
/// beginning of this one (the head), so its sums are one of the sums from the right, made when the
/// block before was complete, plus the running sum of this block. Nothing is ever subtracted from a
/// sum, so no rounding error of old values is left in it.
///
/// Sums are those of distances from an origin, the first value of the head, which is always in
/// the window. Hence no distance is larger than the range of the window, whose spread is at
/// least half the square of that range, and nothing is lost however far from zero the values are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window<const N: usize> {
    /// Values in the head, 0 to N.
    length: usize,
    /// True if a previous block is complete.
    has_tail: bool,
    origin: f64,
    head: Sums,
    /// The head's values, and behind them those of the block before.
    #[serde(with = "array")]
    values: [f64; N],
    /// Sums of the block before without its first 1, 2, ... N values.
    #[serde(with = "array")]
    tails: [Sums; N],
}

/// Sum of distances from the origin, and of their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    distances: f64,
    squares: f64,
}

impl Sums {
    #[inline]
    fn with(self, distance: f64) -> Self {
        Self { distances: self.distances + distance, squares: self.squares + distance * distance }
    }
}

impl<const N: usize> Default for Window<N> {
    fn default() -> Self {
        Self {
            length: 0,
            has_tail: false,
            origin: 0.0,
            head: Sums::default(),
            values: [0.0; N],
            tails: [Sums::default(); N],
        }
    }
}

impl<const N: usize> Window<N> {
    /// Push the next value.
    #[inline]
    pub fn push(&mut self, value: f64) {
        if self.length == N {
            self.begin_block(value);
        } else if self.length == 0 {
            self.origin = value;
        }
        self.head = self.head.with(value - self.origin);
        self.values[self.length] = value;
        self.length += 1;
    }

    fn begin_block(&mut self, origin: f64) {
        let mut sums = Sums::default();
        for (tail, value) in self.tails.iter_mut().zip(&self.values).rev() {
            *tail = sums;
            sums = sums.with(value - origin);
        }
        self.has_tail = true;
        self.origin = origin;
        self.head = Sums::default();
        self.length = 0;
    }

    /// Mean of the values, or NaN until there are `N`.
    #[must_use]
    #[inline]
    pub fn mean(&self) -> f64 {
        self.origin + self.sums().distances / count(N)
    }

    /// Difference of `value` and the mean.
    #[must_use]
    #[inline]
    pub fn above_mean(&self, value: f64) -> f64 {
        (value - self.origin) - self.sums().distances / count(N)
    }

    /// Population standard deviation.
    #[must_use]
    #[inline]
    pub fn population_deviation(&self) -> f64 {
        (self.spread() / count(N)).sqrt()
    }

    /// Sample standard deviation (`N - 1`).
    #[must_use]
    #[inline]
    pub fn sample_deviation(&self) -> f64 {
        (self.spread() / count(N - 1)).sqrt()
    }

    /// Return true if the window is reachable by pushing values.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.length <= N && (self.length > 0 || !self.has_tail)
    }

    /// Sum of squared distances from the mean.
    #[inline]
    fn spread(&self) -> f64 {
        let sums = self.sums();
        let spread = sums.squares - sums.distances * sums.distances / count(N);
        // Rounding of tiny squared distances can make the difference negative.
        if spread < 0.0 { 0.0 } else { spread }
    }

    #[inline]
    fn sums(&self) -> Sums {
        if self.length < N && !self.has_tail {
            return Sums { distances: f64::NAN, squares: f64::NAN };
        }
        let tail = self.tails[self.length - 1];
        Sums {
            distances: self.head.distances + tail.distances,
            squares: self.head.squares + tail.squares,
        }
    }
}

/// Windows have a few dozen values, which `f64` counts exactly.
#[allow(clippy::cast_precision_loss)]
fn count(length: usize) -> f64 {
    length as f64
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Mean and sum of squared distances from it, computed in two passes.
    fn afresh(values: &[f64]) -> (f64, f64) {
        let origin = values[0];
        let offset = values.iter().map(|value| value - origin).sum::<f64>() / count(values.len());
        let distance = |value: &f64| (value - origin) - offset;
        (origin + offset, values.iter().map(|value| distance(value).powi(2)).sum())
    }

    fn close(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance * right.abs()
    }

    /// Compare every window of a stream with a recomputed one.
    fn check_all<const N: usize>(values: &[f64]) {
        let mut window = Window::<N>::default();
        for (now, &value) in values.iter().enumerate() {
            window.push(value);
            if now + 1 < N {
                assert!(window.mean().is_nan() && window.sample_deviation().is_nan());
                continue;
            }
            let (mean, spread) = afresh(&values[now + 1 - N..=now]);
            assert!(close(window.mean(), mean, 1e-13), "{} for {mean}", window.mean());
            let (population, sample) = (spread / count(N), spread / count(N - 1));
            let (wide, narrow) = (window.sample_deviation(), window.population_deviation());
            assert!(close(narrow, population.sqrt(), 1e-12), "{narrow} for {}", population.sqrt());
            assert!(close(wide, sample.sqrt(), 1e-12), "{wide} for {}", sample.sqrt());
        }
    }

    proptest! {
        #[test]
        fn windows_equal_those_made_afresh(values in vec(0.1..1e3f64, 1..120)) {
            check_all::<8>(&values);
            check_all::<12>(&values);
            check_all::<32>(&values);
        }

        #[test]
        fn small_moves_of_high_prices_are_not_lost(moves in vec(-1e-3..1e-3f64, 20..60)) {
            let values: Vec<f64> = moves.iter().map(|step| 1e6 + step).collect();
            check_all::<12>(&values);
        }

        #[test]
        fn a_jump_that_is_gone_leaves_nothing(
            moves in vec(-1e-3..1e-3f64, 60..90), jump in 10..50usize, size in 1.0..1e9f64
        ) {
            let mut values: Vec<f64> = moves.iter().map(|step| 1.0 + step).collect();
            values[jump] += size;
            check_all::<12>(&values);
        }

        #[test]
        fn equal_values_have_their_mean_and_no_spread(value in 1e-6..1e9f64, length in 12..40usize) {
            let mut window = Window::<12>::default();
            (0..length).for_each(|_| window.push(value));

            prop_assert_eq!(window.mean(), value);
            prop_assert_eq!(window.population_deviation(), 0.0);
            prop_assert_eq!(window.above_mean(value), 0.0);
        }
    }

    #[test]
    fn a_million_values_later_the_sums_are_as_good_as_new() {
        let mut state = 1_u64;
        let mut price = 1e6;
        let values: Vec<f64> = (0..1_000_000)
            .map(|_| {
                state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
                price += 1e-3 * (f64::from((state >> 40) as u32) / f64::from(1_u32 << 24) - 0.5);
                price
            })
            .collect();
        let mut window = Window::<32>::default();
        for &value in &values {
            window.push(value);
        }

        let (mean, spread) = afresh(&values[values.len() - 32..]);

        assert!(close(window.mean(), mean, 1e-15));
        assert!(close(window.sample_deviation(), (spread / 31.0).sqrt(), 1e-13));
    }

    #[test]
    fn a_length_beyond_the_window_is_not_sound() {
        let mut window = Window::<8>::default();
        assert!(window.is_valid());
        window.length = 9;
        assert!(!window.is_valid());
        (window.length, window.has_tail) = (0, true);
        assert!(!window.is_valid());
    }
}
