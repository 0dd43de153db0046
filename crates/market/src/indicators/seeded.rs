//! Exponential moving averages seeded with a plain mean.

use serde::{Deserialize, Serialize};

/// Exponential moving average of weight 2 / (N + 1).
pub type Ema<const N: u32> = Seeded<N, false>;

/// Wilder smoothing: exponential moving average of weight 1 / N.
pub type Wilder<const N: u32> = Seeded<N, true>;

/// Exponential moving average whose first value is the mean of the first `N`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seeded<const N: u32, const WILDER: bool> {
    /// Values seen, up to N.
    seen: u32,
    first: f64,
    /// The average; during warm-up, the sum of distances from the first value.
    average: f64,
}

impl<const N: u32, const WILDER: bool> Default for Seeded<N, WILDER> {
    fn default() -> Self {
        Self { seen: 0, first: 0.0, average: 0.0 }
    }
}

impl<const N: u32, const WILDER: bool> Seeded<N, WILDER> {
    /// An average that begins with `average` at once.
    #[must_use]
    pub fn begun(average: f64) -> Self {
        Self { seen: N, first: average, average }
    }

    /// Push the next value.
    #[inline]
    pub fn push(&mut self, value: f64) {
        if self.seen >= N {
            self.average += (value - self.average) * Self::weight();
            return;
        }
        if self.seen == 0 {
            self.first = value;
        }
        // Distances are summed so that the mean of equal values is that value to the last bit.
        self.average += value - self.first;
        self.seen += 1;
        if self.seen == N {
            self.average = self.first + self.average / f64::from(N);
        }
    }

    /// The average, or NaN until `N` values have been seen.
    #[must_use]
    #[inline]
    pub fn value(&self) -> f64 {
        if self.seen < N { f64::NAN } else { self.average }
    }

    fn weight() -> f64 {
        if WILDER { 1.0 / f64::from(N) } else { 2.0 / f64::from(N + 1) }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_average_begins_with_the_mean_and_moves_by_its_weight(values in vec(0.1..1e3f64, 5..40)) {
            let (mut ema, mut wilder) = (Ema::<4>::default(), Wilder::<4>::default());
            let mut expected = [f64::NAN; 2];
            for (now, &value) in values.iter().enumerate() {
                ema.push(value);
                wilder.push(value);
                expected = match now {
                    0..=2 => expected,
                    3 => [values[..4].iter().sum::<f64>() / 4.0; 2],
                    _ => [0.6 * expected[0] + 0.4 * value, (3.0 * expected[1] + value) / 4.0],
                };
                for (got, expected) in [ema.value(), wilder.value()].into_iter().zip(expected) {
                    prop_assert_eq!(got.is_nan(), now < 3);
                    prop_assert!(now < 3 || (got - expected).abs() <= 1e-13 * expected);
                }
            }
        }

        #[test]
        fn the_average_of_equal_values_is_that_value(value in 1e-9..1e9f64, length in 16..60u32) {
            let mut ema = Ema::<16>::default();
            (0..length).for_each(|_| ema.push(value));

            prop_assert_eq!(ema.value(), value);
        }
    }

    #[test]
    fn an_average_can_begin_at_once() {
        let mut ema = Ema::<3>::begun(10.0);
        assert_eq!(ema.value(), 10.0);

        ema.push(20.0);

        assert_eq!(ema.value(), 15.0);
    }
}
