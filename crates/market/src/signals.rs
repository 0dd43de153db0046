//! What technical traders look at, kept up to date tick by tick.

use serde::{Deserialize, Serialize};

const FAST: f64 = 2.0 / 9.0;
const SLOW: f64 = 2.0 / 17.0;
const SIGNAL: f64 = 2.0 / 5.0;
const WILDER: f64 = 1.0 / 8.0;
const BAND: f64 = 2.0 / 13.0;
const VOLATILITY: f64 = 0.05;

/// Moving averages of the mid price, in ticks, and what is made of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Signals {
    price: f64,
    fast: f64,
    slow: f64,
    signal: f64,
    gain: f64,
    loss: f64,
    band_mean: f64,
    band_variance: f64,
    squared_move: f64,
}

impl Signals {
    /// A price that has always been the same; moves of a tick are expected.
    pub(crate) fn new(price: f64) -> Self {
        Self {
            price,
            fast: price,
            slow: price,
            signal: 0.0,
            gain: 0.0,
            loss: 0.0,
            band_mean: price,
            band_variance: 0.0,
            squared_move: 1.0,
        }
    }

    pub(crate) fn update(&mut self, price: f64) {
        let change = price - self.price;
        self.price = price;
        self.fast += FAST * (price - self.fast);
        self.slow += SLOW * (price - self.slow);
        self.signal += SIGNAL * (self.fast - self.slow - self.signal);
        self.gain += WILDER * (change.max(0.0) - self.gain);
        self.loss += WILDER * ((-change).max(0.0) - self.loss);
        let apart = price - self.band_mean;
        self.band_mean += BAND * apart;
        self.band_variance = (1.0 - BAND) * (self.band_variance + BAND * apart * apart);
        self.squared_move += VOLATILITY * (change * change - self.squared_move);
    }

    /// Standard deviation of a tick's move, in ticks.
    pub(crate) fn volatility(&self) -> f64 {
        libm::sqrt(self.squared_move)
    }

    /// Relative strength from 0 (only falls) to 1 (only rises).
    pub(crate) fn strength(&self) -> f64 {
        let moves = self.gain + self.loss;
        if moves > 1e-9 { self.gain / moves } else { 0.5 }
    }

    /// How far the fast average is above the slow one, in ticks.
    pub(crate) fn trend(&self) -> f64 {
        self.fast - self.slow
    }

    /// How far that difference is above its own average, in ticks.
    pub(crate) fn convergence(&self) -> f64 {
        self.trend() - self.signal
    }

    /// How many standard deviations the price is above its average.
    pub(crate) fn band(&self) -> f64 {
        let deviation = libm::sqrt(self.band_variance);
        if deviation > 1e-9 { (self.price - self.band_mean) / deviation } else { 0.0 }
    }

    pub(crate) fn is_sound(&self) -> bool {
        [self.price, self.fast, self.slow, self.signal, self.gain, self.loss]
            .iter()
            .chain(&[self.band_mean, self.band_variance, self.squared_move])
            .all(|number| number.is_finite())
    }
}
