//! Moving average convergence divergence (MACD).

use serde::{Deserialize, Serialize};

use super::seeded::Ema;

/// MACD: EMA 8 minus EMA 16 (the line), and EMA 4 of that (the signal).
///
/// As in TA-Lib, the fast average of the line begins together with the slow one, with the mean of
/// the 8 closes up to there. The feature `f_ema_8` began eight bars earlier, so that early on
/// the line is not `f_ema_8 - f_ema_16`; the difference fades by 7/9 with every bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Macd {
    fast: Option<Ema<8>>,
    line: f64,
    signal: Ema<4>,
}

impl Default for Macd {
    fn default() -> Self {
        Self { fast: None, line: f64::NAN, signal: Ema::default() }
    }
}

impl Macd {
    /// Push a close after which the slow average is `slow` and the mean of 8 closes `mean`.
    #[inline]
    pub fn push(&mut self, close: f64, slow: f64, mean: f64) {
        match &mut self.fast {
            Some(fast) => fast.push(close),
            None if slow.is_nan() => return,
            None => self.fast = Some(Ema::begun(mean)),
        }
        self.line = self.fast.as_ref().map_or(f64::NAN, |fast| fast.value() - slow);
        self.signal.push(self.line);
    }

    /// The line; NaN until the slow average has begun.
    #[must_use]
    #[inline]
    pub fn line(&self) -> f64 {
        self.line
    }

    /// The signal; NaN until four values of the line have been seen.
    #[must_use]
    #[inline]
    pub fn signal(&self) -> f64 {
        self.signal.value()
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;

    #[test]
    fn the_fast_average_begins_with_the_slow_one() {
        let mut macd = Macd::default();
        macd.push(1.0, f64::NAN, 99.0);
        assert!(macd.line().is_nan());

        macd.push(2.0, 10.0, 12.0);
        assert_eq!(macd.line(), 2.0);

        macd.push(21.0, 11.0, f64::NAN);
        assert_eq!(macd.line(), 14.0 - 11.0);
    }

    #[test]
    fn the_signal_begins_with_the_mean_of_four_lines() {
        let mut macd = Macd::default();
        for (close, slow) in [(1.0, 9.0), (19.0, 11.0), (3.0, 7.0)] {
            macd.push(close, slow, 10.0);
            assert!(macd.signal().is_nan());
        }
        // The fast average is 10, 12, 10 and 10.
        macd.push(10.0, 4.0, 10.0);
        assert_eq!(macd.signal(), (1.0 + 1.0 + 3.0 + 6.0) / 4.0);

        macd.push(19.0, 2.0, 10.0);

        assert_eq!(macd.signal(), 2.75 + 0.4 * (10.0 - 2.75));
    }
}
