//! Bollinger's bands.

use serde::{Deserialize, Serialize};

use super::window::Window;

/// Bands narrower than this tell nothing of where the price stands between them.
const NARROWEST: f64 = 1e-10;

/// Two standard deviations around the mean of the last `N` closes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bands<const N: usize>(pub(super) Window<N>);

/// The bands after a bar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) upper: f64,
    pub(super) middle: f64,
    pub(super) lower: f64,
    /// Where the price stands: 0 on the lower band, 1 on the upper.
    pub(super) percent: f64,
}

impl<const N: usize> Bands<N> {
    pub(super) fn new() -> Self {
        Self(Window::new())
    }

    /// Takes in the next close.
    #[inline]
    pub(super) fn push(&mut self, close: f64) {
        self.0.push(close);
    }

    /// The bands, and where `price` stands between them; NaN until there are `N` closes.
    #[inline]
    pub(super) fn around(&self, price: f64) -> Band {
        let (middle, deviation) = (self.0.mean(), self.0.population_deviation());
        let reach = 2.0 * deviation;
        let width = 2.0 * reach;
        // From distances, not from the bands: their difference loses the digits of a high price.
        let percent = if width < NARROWEST { 0.5 } else { 0.5 + self.0.above_mean(price) / width };
        Band { upper: middle + reach, middle, lower: middle - reach, percent }
    }
}
