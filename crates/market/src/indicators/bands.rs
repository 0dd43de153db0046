//! Bollinger bands.

use serde::{Deserialize, Serialize};

use super::window::Window;

/// Width below which percent b is undefined.
const NARROWEST: f64 = 1e-10;

/// Bollinger bands: two standard deviations around the mean of the last `N` closes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bands<const N: usize>(pub Window<N>);

/// The bands after a bar.
#[derive(Clone, Copy, Debug)]
pub struct Band {
    /// Two deviations above the mean.
    pub upper: f64,
    /// The mean.
    pub middle: f64,
    /// Two deviations below the mean.
    pub lower: f64,
    /// Percent b: 0 on the lower band, 1 on the upper.
    pub percent: f64,
}

impl<const N: usize> Default for Bands<N> {
    fn default() -> Self {
        Self(Window::default())
    }
}

impl<const N: usize> Bands<N> {
    /// Push the next close.
    #[inline]
    pub fn push(&mut self, close: f64) {
        self.0.push(close);
    }

    /// The bands, and percent b of `price`; NaN until there are `N` closes.
    #[must_use]
    #[inline]
    pub fn around(&self, price: f64) -> Band {
        let (middle, deviation) = (self.0.mean(), self.0.population_deviation());
        let reach = 2.0 * deviation;
        let width = 2.0 * reach;
        // Computed from distances, not from the bands: their difference would lose the digits of a
        // high price.
        let percent = if width < NARROWEST { 0.5 } else { 0.5 + self.0.above_mean(price) / width };
        Band { upper: middle + reach, middle, lower: middle - reach, percent }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bands_of(closes: impl IntoIterator<Item = f64>) -> Bands<12> {
        let mut bands = Bands::default();
        closes.into_iter().for_each(|close| bands.push(close));
        bands
    }

    proptest! {
        #[test]
        fn the_bands_are_0_and_1_and_the_middle_is_half(closes in vec(90.0..110.0f64, 12..40)) {
            let bands = bands_of(closes);
            let band = bands.around(100.0);

            prop_assert!((bands.around(band.lower).percent).abs() < 1e-9);
            prop_assert!((bands.around(band.upper).percent - 1.0).abs() < 1e-9);
            prop_assert!((bands.around(band.middle).percent - 0.5).abs() < 1e-9);
            prop_assert!(band.lower <= band.middle && band.middle <= band.upper);
        }

        #[test]
        fn percent_b_of_a_high_price_is_exact(steps in vec(-1000..1000i32, 12), price in -1000..1000i32) {
            prop_assume!(steps.iter().any(|step| (step - steps[0]).abs() > 10));
            // Thousandths of a power of two are floats at both heights, so both are exact.
            let at = |height: f64| {
                let close = |step: i32| height + f64::from(step) / 1_048_576.0;
                bands_of(steps.iter().map(|&step| close(step))).around(close(price)).percent
            };

            prop_assert!((at(1_048_576.0) - at(1.0)).abs() < 1e-12);
        }
    }

    #[test]
    fn the_bands_are_two_deviations_away() {
        let closes = (0..12).map(|bar| if bar % 2 == 0 { 97.0 } else { 103.0 });

        let band = bands_of(closes).around(112.0);

        assert_eq!((band.lower, band.middle, band.upper), (94.0, 100.0, 106.0));
        assert_eq!(band.percent, 1.5);
    }

    #[test]
    fn between_bands_that_touch_there_is_only_the_middle() {
        let band = bands_of([100.0; 12]).around(250.0);

        assert_eq!((band.upper, band.lower, band.percent), (100.0, 100.0, 0.5));
    }

    #[test]
    fn there_are_no_bands_before_twelve_closes() {
        let band = bands_of([100.0; 11]).around(100.0);

        assert!(band.upper.is_nan() && band.middle.is_nan() && band.percent.is_nan());
    }
}
