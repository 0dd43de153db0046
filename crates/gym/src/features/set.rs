//! Feature set of one symbol.

use market::indicators::{Bands, Ema, Macd, Rsi, Window};
use serde::{Deserialize, Serialize};

use super::atr::Atr;
use super::bar::Bar;
use super::clipping::{clip_row, clip_row_raw};
use super::history::History;
use super::registry::{CORE, FULL, registry};
use super::view::View;
use super::volatility::Volatility;

/// Lags of returns, in bars.
const LAGS: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// A trade intensity of one is this many trades in a bar.
const USUAL_TRADES: f64 = 8.0;

/// Options of a feature set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureOptions {
    /// Divide features in units of price by mid.
    pub normalize: bool,
    /// Compute features that depend on the fair value instead of leaving them at their neutral
    /// value.
    pub privileged: bool,
    /// Append the order flow as the 55th feature.
    pub full55: bool,
}

impl Default for FeatureOptions {
    fn default() -> Self {
        Self { normalize: false, privileged: true, full55: false }
    }
}

/// Feature state of one symbol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Features {
    options: FeatureOptions,
    history: History,
    sma_8: Window<8>,
    sma_16: Window<16>,
    ema_8: Ema<8>,
    ema_16: Ema<16>,
    rsi: Rsi<8>,
    macd: Macd,
    bands: Bands<12>,
    atr: Atr<8>,
    volatility: Volatility,
    volumes: Window<8>,
    volume_surge: f64,
    trades: f64,
}

impl Features {
    /// The features of a symbol that has no bar yet.
    #[must_use]
    pub fn new(options: FeatureOptions) -> Self {
        Self {
            options,
            history: History::new(),
            sma_8: Window::default(),
            sma_16: Window::default(),
            ema_8: Ema::default(),
            ema_16: Ema::default(),
            rsi: Rsi::default(),
            macd: Macd::default(),
            bands: Bands::default(),
            atr: Atr::new(),
            volatility: Volatility::new(),
            volumes: Window::default(),
            volume_surge: f64::NAN,
            trades: f64::NAN,
        }
    }

    /// Options of this feature set.
    #[must_use]
    pub fn options(&self) -> FeatureOptions {
        self.options
    }

    /// Values in a row: 54, or 55 with the order flow.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a row is never empty
    pub fn len(&self) -> usize {
        if self.options.full55 { FULL } else { CORE }
    }

    /// The close of the last bar; NaN before the first.
    #[must_use]
    pub fn last_close(&self) -> f64 {
        self.history.close()
    }

    /// Clear the history.
    pub fn reset(&mut self) {
        *self = Self::new(self.options);
    }

    /// Push the next completed bar.
    #[inline]
    pub fn push(&mut self, bar: &Bar) {
        let (close, close_before) = (bar.close, self.history.close());
        let log_return = self.history.push(close);
        if !close_before.is_nan() {
            self.rsi.push(close - close_before);
            self.atr.push(bar, close_before);
            self.volatility.push(log_return);
        }
        self.sma_8.push(close);
        self.sma_16.push(close);
        self.bands.push(close);
        self.ema_8.push(close);
        self.ema_16.push(close);
        self.macd.push(close, self.ema_16.value(), self.sma_8.mean());
        self.volume_surge = ratio(bar.volume, self.volumes.mean());
        self.volumes.push(bar.volume);
        self.trades = f64::from(bar.trades);
    }

    /// Write the features: clipped to their range, and neutral where there is no value.
    ///
    /// # Panics
    /// If the row has not [`Features::len`] values.
    #[inline]
    pub fn write(&self, view: &View, row: &mut [f64]) {
        self.fill(view, row);
        clip_row(row);
    }

    /// Write values clipped to their range, and NaN where there is none: the value cannot be
    /// computed, or is hidden.
    ///
    /// # Panics
    /// If the row has not [`Features::len`] values.
    pub fn write_raw(&self, view: &View, row: &mut [f64]) {
        self.fill(view, row);
        clip_row_raw(row);
    }

    /// Return true if the state is reachable by pushing bars; a state that was deserialised without
    /// [`Features::decode`] may not be.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.sma_8.is_valid()
            && self.sma_16.is_valid()
            && self.bands.0.is_valid()
            && self.volatility.short.is_valid()
            && self.volatility.long.is_valid()
            && self.volumes.is_valid()
    }

    #[inline]
    fn fill(&self, view: &View, row: &mut [f64]) {
        assert_eq!(row.len(), self.len(), "a row has as many values as there are features");
        let mid = view.mid();
        row[0] = mid;
        for (index, lag) in LAGS.into_iter().enumerate() {
            row[1 + index] = self.history.percent_change(lag);
            row[13 + index] = self.history.log_return(lag);
        }
        row[25..38].copy_from_slice(&self.technical(mid));
        row[38..42].copy_from_slice(&news(view));
        row[42] = view.quote().map_or(f64::NAN, |(bid, ask)| 1e4 * ratio(ask - bid, mid));
        row[43] = share(view.bid_volume, view.ask_volume);
        row[44..47].copy_from_slice(&self.volatilities());
        let deviation = self.deviation(view, mid);
        row[47] = deviation;
        row[48] = if self.options.privileged { ratio(mid, view.fair) } else { f64::NAN };
        row[49] = ratio((self.ema_8.value() - self.ema_16.value()).abs(), self.atr.value());
        row[50] = self.rsi.value() - 50.0;
        row[51] = self.volume_surge;
        row[52] = self.trades / USUAL_TRADES;
        row[53] = view.sentiment * deviation;
        if self.options.full55 {
            row[54] = share(view.buy_volume, view.sell_volume);
        }
        if self.options.normalize {
            normalize(mid, row);
        }
    }

    fn technical(&self, mid: f64) -> [f64; 13] {
        let band = self.bands.around(mid);
        let (line, signal) = (self.macd.line(), self.macd.signal());
        [
            self.sma_8.mean(),
            self.sma_16.mean(),
            self.ema_8.value(),
            self.ema_16.value(),
            self.rsi.value(),
            line,
            signal,
            line - signal,
            band.upper,
            band.middle,
            band.lower,
            band.percent,
            self.atr.value(),
        ]
    }

    fn volatilities(&self) -> [f64; 3] {
        let short = self.volatility.short.sample_deviation();
        let long = self.volatility.long.sample_deviation();
        [short, long, ratio(short, long)]
    }

    /// Deviation of mid from the fair value, as a share of the fair value.
    fn deviation(&self, view: &View, mid: f64) -> f64 {
        if self.options.privileged { ratio(mid - view.fair, view.fair) } else { f64::NAN }
    }
}

fn news(view: &View) -> [f64; 4] {
    match &view.news {
        Some(event) => [1.0, event.effective(), event.magnitude, event.remaining()],
        None => [0.0, f64::NAN, f64::NAN, f64::NAN],
    }
}

/// Divide features in units of price by mid.
fn normalize(mid: f64, row: &mut [f64]) {
    for (value, spec) in row.iter_mut().zip(registry(true)) {
        if spec.price_level {
            *value = ratio(*value, mid);
        }
    }
}

/// Ratio; NaN for a division by zero.
fn ratio(over: f64, under: f64) -> f64 {
    if under == 0.0 { f64::NAN } else { over / under }
}

/// Imbalance: difference over sum.
fn share(first: f64, second: f64) -> f64 {
    ratio(first - second, first + second)
}
