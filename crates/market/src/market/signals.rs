//! Technical indicators of a symbol, updated tick by tick.

use serde::{Deserialize, Serialize};

use crate::indicators::{Bands, Ema, Macd, Rsi, Window};

/// Weight of the last tick in the volatility.
const VOLATILITY: f64 = 0.05;

/// Indicators of the mid price, in ticks. An indicator without a value yet has no effect.
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
    /// Indicators without history at this price; the initial volatility is one tick.
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

    /// RSI less 50: from -50 (only falls) to 50 (only rises).
    pub(crate) fn strength(&self) -> f64 {
        self.strength.value() - 50.0
    }

    /// Fast average less slow average, in ticks.
    pub(crate) fn trend(&self) -> f64 {
        self.fast.mean() - self.slow.mean()
    }

    /// MACD less its signal line, in ticks.
    pub(crate) fn convergence(&self) -> f64 {
        self.macd.line() - self.macd.signal()
    }

    /// Position of the price between its Bollinger bands: from -1 at the lower to 1 at the upper
    /// one.
    pub(crate) fn band(&self) -> f64 {
        2.0 * self.bands.around(self.price).percent - 1.0
    }

    /// Return true if the state is reachable by updates.
    pub(crate) fn is_valid(&self) -> bool {
        self.price.is_finite()
            && self.squared_move.is_finite()
            && self.fast.is_valid()
            && self.slow.is_valid()
            && self.bands.0.is_valid()
    }
}
