//! History of closes and log prices of the last 64 bars.

use market::indicators::array;
use serde::{Deserialize, Serialize};

/// Number of past bars kept; a power of two, so that indices wrap by a mask.
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
    /// Index at which the next value is written.
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

    /// Push the next close and return the log return; NaN at the first.
    #[inline]
    pub(super) fn push(&mut self, close: f64) -> f64 {
        if self.close.is_nan() {
            self.close = close;
            return f64::NAN;
        }
        let log_return = log_ratio(close, self.close);
        let index = self.next % DEPTH;
        (self.closes[index], self.logs[index]) = (self.close, self.log);
        self.next = (index + 1) % DEPTH;
        (self.close, self.log) = (close, self.log.plus(log_return));
        log_return
    }

    /// Change in percent since the close `bars` bars ago, 1 to 64.
    #[inline]
    pub(super) fn percent_change(&self, bars: usize) -> f64 {
        let before = self.closes[self.index_of(bars)];
        100.0 * ((self.close - before) / before)
    }

    /// Log return since the close `bars` bars ago, 1 to 64.
    #[inline]
    pub(super) fn log_return(&self, bars: usize) -> f64 {
        let before = self.logs[self.index_of(bars)];
        (self.log.high - before.high) + (self.log.low - before.low)
    }

    #[inline]
    fn index_of(&self, bars: usize) -> usize {
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

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn history_of(closes: &[f64]) -> History {
        let mut history = History::new();
        for &close in closes {
            history.push(close);
        }
        history
    }

    proptest! {
        #[test]
        fn moves_are_those_since_the_close_so_many_bars_ago(
            closes in vec(1e-3..1e6f64, 1..200), bars in 1..=64usize
        ) {
            let history = history_of(&closes);

            let (change, log) = (history.percent_change(bars), history.log_return(bars));
            if bars < closes.len() {
                let (now, then) = (closes[closes.len() - 1], closes[closes.len() - 1 - bars]);
                prop_assert_eq!(change, 100.0 * ((now - then) / then));
                prop_assert!((log - libm::log(now / then)).abs() < 1e-13);
            } else {
                prop_assert!(change.is_nan() && log.is_nan());
            }
        }

        #[test]
        fn small_returns_keep_their_digits(steps in vec(-1000..1000i32, 2..100)) {
            let closes: Vec<f64> = steps.iter().map(|&step| 1e6 + f64::from(step) * 1e-3).collect();
            let history = history_of(&closes);

            let [.., then, now] = closes[..] else { unreachable!("two closes at least") };
            let expected = libm::log1p((now - then) / then);
            prop_assert!((history.log_return(1) - expected).abs() <= 1e-15 * expected.abs());
        }

        #[test]
        fn a_power_of_two_changes_no_bit(closes in vec(1.0..1e3f64, 2..100), power in -40..40i32) {
            let scaled: Vec<f64> = closes.iter().map(|close| close * 2_f64.powi(power)).collect();

            prop_assert_eq!(history_of(&closes).log_return(1), history_of(&scaled).log_return(1));
        }
    }

    #[test]
    fn a_million_returns_later_a_return_is_as_good_as_new() {
        let mut history = History::new();
        let mut close = 100.0;
        for bar in 0..1_000_000_u32 {
            close *= if bar % 3 == 0 { 1.0021 } else { 0.99895 };
            history.push(close);
        }
        history.push(100.0);
        history.push(100.0 * 1.25);

        assert!((history.log_return(1) - libm::log(1.25)).abs() < 1e-16);
    }

    #[test]
    fn the_ratio_of_any_two_prices_has_a_logarithm() {
        for (after, before) in [(1e300, 1e-300), (1e-300, 1e300), (5e-324, 1.0), (1.0, 1e-20)] {
            let expected = libm::log(after) - libm::log(before);
            assert!((log_ratio(after, before) - expected).abs() < 1e-12 * expected.abs());
        }
    }
}
