//! What technical traders look at, kept up to date tick by tick.

use serde::{Deserialize, Serialize};

use crate::indicators::{Bands, Ema, Macd, Rsi, Window};

/// Weight of the last tick in the volatility.
const VOLATILITY: f64 = 0.05;

/// Indicators of the mid price, in ticks. One that has no value yet moves nobody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Signals {
    price: f64,
    fast: Window<8>,
    slow: Window<16>,
    slow_average: Ema<16>,
    macd: Macd,
    strength: Rsi<8>,
    bands: Bands<12>,
    squared_move: f64,
}

impl Signals {
    /// A price of which nothing is known yet; moves of a tick are expected.
    pub(crate) fn new(price: f64) -> Self {
        Self {
            price,
            fast: Window::default(),
            slow: Window::default(),
            slow_average: Ema::default(),
            macd: Macd::default(),
            strength: Rsi::default(),
            bands: Bands::default(),
            squared_move: 1.0,
        }
    }

    pub(crate) fn update(&mut self, price: f64) {
        let change = price - self.price;
        self.price = price;
        self.fast.push(price);
        self.slow.push(price);
        self.slow_average.push(price);
        self.macd.push(price, self.slow_average.value(), self.fast.mean());
        self.strength.push(change);
        self.bands.push(price);
        self.squared_move += VOLATILITY * (change * change - self.squared_move);
    }

    /// Standard deviation of a tick's move, in ticks.
    pub(crate) fn volatility(&self) -> f64 {
        libm::sqrt(self.squared_move)
    }

    /// Relative strength above its middle: from -50 (only falls) to 50 (only rises).
    pub(crate) fn strength(&self) -> f64 {
        self.strength.value() - 50.0
    }

    /// How far the fast average is above the slow one, in ticks.
    pub(crate) fn trend(&self) -> f64 {
        self.fast.mean() - self.slow.mean()
    }

    /// How far the difference of exponential averages is above its own average, in ticks.
    pub(crate) fn convergence(&self) -> f64 {
        self.macd.line() - self.macd.signal()
    }

    /// Where the price stands between its bands: from -1 at the lower to 1 at the upper one.
    pub(crate) fn band(&self) -> f64 {
        2.0 * self.bands.around(self.price).percent - 1.0
    }

    /// Whether updates can have led here.
    pub(crate) fn is_sound(&self) -> bool {
        self.price.is_finite()
            && self.squared_move.is_finite()
            && self.fast.is_sound()
            && self.slow.is_sound()
            && self.bands.0.is_sound()
    }
}
