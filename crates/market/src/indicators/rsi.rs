//! Relative strength index (RSI).

use serde::{Deserialize, Serialize};

use super::seeded::Wilder;

/// Relative strength index: share of gains in all moves of the close, 0 to 100, with Wilder
/// smoothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rsi<const N: u32> {
    gain: Wilder<N>,
    loss: Wilder<N>,
}

impl<const N: u32> Default for Rsi<N> {
    fn default() -> Self {
        Self { gain: Wilder::default(), loss: Wilder::default() }
    }
}

impl<const N: u32> Rsi<N> {
    /// Push the move from the previous close to this one.
    #[inline]
    pub fn push(&mut self, change: f64) {
        self.gain.push(if change > 0.0 { change } else { 0.0 });
        self.loss.push(if change < 0.0 { -change } else { 0.0 });
    }

    /// The index; NaN until `N` moves have been seen, and while the close has never moved.
    #[must_use]
    #[inline]
    pub fn value(&self) -> f64 {
        // The same as 100 - 100 / (1 + gain / loss), and defined without losses too.
        let (gain, loss) = (self.gain.value(), self.loss.value());
        100.0 * (gain / (gain + loss))
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn rsi_of(changes: &[f64]) -> f64 {
        let mut rsi = Rsi::<8>::default();
        for &change in changes {
            rsi.push(change);
        }
        rsi.value()
    }

    #[test]
    fn the_first_index_is_that_of_the_first_eight_moves() {
        let changes = [1.0, -1.0, 2.0, 0.0, -3.0, 4.0, 0.0, -1.0];

        assert!(rsi_of(&changes[..7]).is_nan());
        assert_eq!(rsi_of(&changes), 100.0 * 7.0 / 12.0);
        let (gain, loss) = ((7.0 / 8.0 * 7.0 + 9.0) / 8.0, 5.0 / 8.0 * 7.0 / 8.0);
        let next = [&changes[..], &[9.0]].concat();
        assert!((rsi_of(&next) - (100.0 - 100.0 / (1.0 + gain / loss))).abs() < 1e-12);
    }

    #[test]
    fn only_gains_are_100_only_losses_0_and_no_move_is_no_number() {
        assert_eq!(rsi_of(&[0.5; 9]), 100.0);
        assert_eq!(rsi_of(&[-0.5; 9]), 0.0);
        assert!(rsi_of(&[0.0; 9]).is_nan());
    }

    proptest! {
        #[test]
        fn the_mirror_image_has_the_rest_to_100(changes in vec(-9.0..9.0f64, 8..50)) {
            let mirrored: Vec<f64> = changes.iter().map(|change| -change).collect();
            let index = rsi_of(&changes);

            prop_assert!((0.0..=100.0).contains(&index));
            prop_assert!((index + rsi_of(&mirrored) - 100.0).abs() < 1e-11);
        }
    }
}
