//! Closes and log prices of the last 64 bars.

use serde::{Deserialize, Serialize};

use super::array;

/// How many bars back can be seen; a power of two, so that places wrap by a mask.
const DEPTH: usize = 64;

/// The last close and the 64 before it; NaN where there is none yet.
///
/// Logarithms are kept as the sum of one-bar log returns since the first bar, so that a return
/// over many bars is a difference and takes no logarithm of its own. Each one-bar return is good
/// to its last digit however small it is, and does not change when prices are scaled by a power
/// of two; the sum has twice the digits of a float, so that none of that is lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    close: f64,
    log: Double,
    /// Where the next value of the past goes.
    next: usize,
    #[serde(with = "array")]
    closes: [f64; DEPTH],
    #[serde(with = "array")]
    logs: [Double; DEPTH],
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            close: f64::NAN,
            log: Double::default(),
            next: 0,
            closes: [f64::NAN; DEPTH],
            logs: [Double { high: f64::NAN, low: f64::NAN }; DEPTH],
        }
    }

    /// The last close.
    pub(super) fn close(&self) -> f64 {
        self.close
    }

    /// Takes in the next close; the log return since the one before is NaN at the first.
    #[inline]
    pub(super) fn push(&mut self, close: f64) -> f64 {
        if self.close.is_nan() {
            self.close = close;
            return f64::NAN;
        }
        let log_return = log_ratio(close, self.close);
        let place = self.next % DEPTH;
        (self.closes[place], self.logs[place]) = (self.close, self.log);
        self.next = (place + 1) % DEPTH;
        (self.close, self.log) = (close, self.log.plus(log_return));
        log_return
    }

    /// Change in percent since the close `bars` bars ago, 1 to 64.
    #[inline]
    pub(super) fn percent_change(&self, bars: usize) -> f64 {
        let before = self.closes[self.place(bars)];
        100.0 * ((self.close - before) / before)
    }

    /// Log return since the close `bars` bars ago, 1 to 64.
    #[inline]
    pub(super) fn log_return(&self, bars: usize) -> f64 {
        let before = self.logs[self.place(bars)];
        (self.log.high - before.high) + (self.log.low - before.low)
    }

    #[inline]
    fn place(&self, bars: usize) -> usize {
        self.next.wrapping_sub(bars) % DEPTH
    }
}

/// ln(after / before), exact to the last digits also where the two are almost equal.
#[inline]
fn log_ratio(after: f64, before: f64) -> f64 {
    let change = (after - before) / before;
    if change.abs() < 0.5 {
        return libm::log1p(change);
    }
    let ratio = after / before;
    if ratio.is_normal() { libm::log(ratio) } else { libm::log(after) - libm::log(before) }
}

/// A number of twice the digits of a float: the sum of two, the second below the last digit of
/// the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Double {
    high: f64,
    low: f64,
}

impl Double {
    /// Knuth's exact sum of two floats, then of what it left over.
    #[inline]
    fn plus(self, term: f64) -> Self {
        let sum = self.high + term;
        let taken = sum - self.high;
        let left = (self.high - (sum - taken)) + (term - taken) + self.low;
        let high = sum + left;
        Self { high, low: left - (high - sum) }
    }
}
