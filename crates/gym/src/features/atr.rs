//! Average true range (ATR).

use market::indicators::Wilder;
use serde::{Deserialize, Serialize};

use super::bar::Bar;

/// Average true range with Wilder smoothing; the true range includes the gap from the previous
/// close.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Atr<const N: u32>(Wilder<N>);

impl<const N: u32> Atr<N> {
    pub(super) fn new() -> Self {
        Self(Wilder::default())
    }

    /// Push a bar and the previous close.
    #[inline]
    pub(super) fn push(&mut self, bar: &Bar, close_before: f64) {
        let above = (bar.high - close_before).abs();
        let below = (bar.low - close_before).abs();
        self.0.push((bar.high - bar.low).max(above).max(below));
    }

    /// The average, or NaN until `N` bars that have a close before them have been seen.
    #[inline]
    pub(super) fn value(&self) -> f64 {
        self.0.value()
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;

    fn bar(high: f64, low: f64) -> Bar {
        Bar { high, low, close: low, volume: 0.0, trades: 0 }
    }

    #[test]
    fn a_gap_from_the_close_before_counts() {
        let cases = [(12.0, 10.0, 11.0, 2.0), (12.0, 10.0, 5.0, 7.0), (12.0, 10.0, 20.0, 10.0)];
        for (high, low, close_before, range) in cases {
            let mut atr = Atr::<1>::new();
            atr.push(&bar(high, low), close_before);
            assert_eq!(atr.value(), range);
        }
    }

    #[test]
    fn ranges_are_smoothed_as_wilder_does() {
        let mut atr = Atr::<2>::new();
        atr.push(&bar(12.0, 10.0), 11.0);
        assert!(atr.value().is_nan());
        atr.push(&bar(14.0, 10.0), 11.0);
        assert_eq!(atr.value(), 3.0);

        atr.push(&bar(18.0, 11.0), 11.0);

        assert_eq!(atr.value(), 5.0);
    }
}
