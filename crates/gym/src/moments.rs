//! Running mean and variance of every column of a stream of rows.

use thiserror::Error;

use crate::welford::{ROWS_AT_ONCE, push_columns};

/// Error of refused input; the moments are unchanged.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum MomentsError {
    /// The number of values is not a multiple of the row width.
    #[error("expected rows of {width} values, got {got} values in all")]
    Width {
        /// Columns that the moments track.
        width: usize,
        /// Number of values.
        got: usize,
    },
    /// A value is NaN or infinite; it would corrupt the statistics permanently.
    #[error("expected finite values, got {value} in row {row}, column {column}")]
    NotFinite {
        /// Row of the offending value.
        row: usize,
        /// Column of the offending value.
        column: usize,
        /// The value itself.
        value: f64,
    },
    /// Invalid `clip` or `epsilon`.
    #[error("{name} must be {expected}, got {got}")]
    Limit {
        /// The argument.
        name: &'static str,
        /// Expected value, in words.
        expected: &'static str,
        /// Actual value.
        got: f64,
    },
    /// Inconsistent saved moments.
    #[error("saved moments need a mean and a sum of squares of {width} finite values each")]
    Saved {
        /// Columns that the moments track.
        width: usize,
    },
}

/// Largest number of rows: integers up to here are exact in `f64`.
const MOST_ROWS: u64 = 1 << 53;

/// A floating-point sample; statistics are kept in `f64` whatever the samples are.
pub trait Sample: Copy {
    /// The sample, widened.
    fn widen(self) -> f64;
    /// A statistic, narrowed to the precision of the samples.
    fn narrow(value: f64) -> Self;
    /// Return true if the sample is finite.
    fn is_finite(self) -> bool;
}

impl Sample for f64 {
    fn widen(self) -> f64 {
        self
    }
    fn narrow(value: f64) -> Self {
        value
    }
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
}

impl Sample for f32 {
    fn widen(self) -> f64 {
        f64::from(self)
    }
    #[allow(clippy::cast_possible_truncation)]
    fn narrow(value: f64) -> Self {
        value as f32
    }
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
}

/// Count, mean and sum of squared deviations of each column (Welford's recurrence).
///
/// Rows are processed one by one even in a batch, so that a batch of n rows leaves the same bits as
/// n single rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    count: u64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    /// Moments of `width` columns without data.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self { count: 0, mean: vec![0.0; width], squares: vec![0.0; width] }
    }

    /// Restore saved moments.
    ///
    /// # Errors
    /// If lengths disagree or a value is not finite.
    pub fn from_parts(count: u64, mean: Vec<f64>, squares: Vec<f64>) -> Result<Self, MomentsError> {
        let width = mean.len();
        let finite = mean.iter().chain(&squares).all(|value| value.is_finite());
        // A larger count would overflow when rows are pushed.
        let is_counted = count <= MOST_ROWS;
        if squares.len() != width
            || !finite
            || !is_counted
            || squares.iter().any(|&value| value < 0.0)
        {
            return Err(MomentsError::Saved { width });
        }
        Ok(Self { count, mean, squares })
    }

    /// Columns tracked.
    #[must_use]
    pub fn width(&self) -> usize {
        self.mean.len()
    }

    /// Rows seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean of each column.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Sum of squared deviations from the mean of each column.
    #[must_use]
    pub fn squares(&self) -> &[f64] {
        &self.squares
    }

    /// Population variance of column `column`; zero until two rows have been seen.
    #[must_use]
    pub fn variance(&self, column: usize) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares[column] / as_f64(self.count) }
    }

    /// Update the moments with rows of `width` values each.
    ///
    /// # Errors
    /// If the number of values is not a multiple of the row width, or one of them is not finite.
    pub fn push_rows<T: Sample>(&mut self, rows: &[T]) -> Result<(), MomentsError> {
        self.check(rows)?;
        if self.width() == 0 {
            return Ok(());
        }
        let mut weights = [0.0; ROWS_AT_ONCE];
        for rows in rows.chunks(self.width() * ROWS_AT_ONCE) {
            let weights = &mut weights[..rows.len() / self.width()];
            for weight in &mut *weights {
                self.count += 1;
                *weight = as_f64(self.count).recip();
            }
            push_columns(&mut self.mean, &mut self.squares, rows, weights);
        }
        Ok(())
    }

    /// Merge the moments of `other` (Chan's formula).
    ///
    /// # Errors
    /// If the widths differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), MomentsError> {
        if other.width() != self.width() {
            return Err(MomentsError::Width { width: self.width(), got: other.width() });
        }
        if other.count == 0 {
            return Ok(());
        }
        let (here, there) = (as_f64(self.count), as_f64(other.count));
        let share = there / (here + there);
        for column in 0..self.width() {
            let distance = other.mean[column] - self.mean[column];
            self.mean[column] += distance * share;
            self.squares[column] += other.squares[column] + distance * distance * here * share;
        }
        self.count += other.count;
        Ok(())
    }

    /// Normalise values into `out`: distance from the mean in standard deviations, clipped to
    /// `clip` on both sides.
    ///
    /// # Errors
    /// If the number of values is not a multiple of the row width, `out` has another length, or
    /// `epsilon` or `clip` is below 0 or NaN.
    pub fn normalise_rows<T: Sample>(
        &self,
        rows: &[T],
        epsilon: f64,
        clip: f64,
        out: &mut [T],
    ) -> Result<(), MomentsError> {
        self.check_normalising(rows.len(), epsilon, clip, out.len())?;
        if self.width() == 0 {
            return Ok(());
        }
        let scale: Vec<f64> = (0..self.width())
            .map(|column| (self.variance(column) + epsilon).sqrt().recip())
            .collect();
        if clip == f64::INFINITY {
            // An infinite limit would cost a third of the time.
            self.write_rows(rows, &scale, |value| value, out);
        } else {
            self.write_rows(rows, &scale, |value| value.clamp(-clip, clip), out);
        }
        Ok(())
    }

    /// Validate the arguments of [`Moments::normalise_rows`], except that rows are finite.
    ///
    /// # Errors
    /// As there.
    pub fn check_normalising(
        &self,
        values: usize,
        epsilon: f64,
        clip: f64,
        out: usize,
    ) -> Result<(), MomentsError> {
        self.check_width(values)?;
        if values != out {
            return Err(MomentsError::Width { width: values, got: out });
        }
        for (name, got) in [("epsilon", epsilon), ("clip", clip)] {
            if got.is_nan() || got < 0.0 {
                return Err(MomentsError::Limit { name, expected: "at least 0", got });
            }
        }
        Ok(())
    }

    fn write_rows<T: Sample>(
        &self,
        rows: &[T],
        scale: &[f64],
        limited: impl Fn(f64) -> f64,
        out: &mut [T],
    ) {
        let width = self.width();
        for (row, out_row) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let columns = self.mean.iter().zip(scale);
            for ((&sample, (mean, scale)), out) in row.iter().zip(columns).zip(out_row) {
                *out = T::narrow(limited((sample.widen() - mean) * scale));
            }
        }
    }

    fn check<T: Sample>(&self, rows: &[T]) -> Result<(), MomentsError> {
        self.check_width(rows.len())?;
        // One pass without a branch per value, so that it is vectorised.
        if rows.iter().fold(true, |finite, sample| finite & sample.is_finite()) {
            return Ok(());
        }
        let position = rows.iter().position(|sample| !sample.is_finite()).unwrap_or(0);
        Err(MomentsError::NotFinite {
            row: position / self.width(),
            column: position % self.width(),
            value: rows[position].widen(),
        })
    }

    fn check_width(&self, got: usize) -> Result<(), MomentsError> {
        let width = self.width();
        let total = if width == 0 { got == 0 } else { got.is_multiple_of(width) };
        if total { Ok(()) } else { Err(MomentsError::Width { width, got }) }
    }
}

/// Counts stay far below 2^53, where `f64` is exact.
#[allow(clippy::cast_precision_loss)]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * (1.0 + left.abs().max(right.abs()))
    }

    fn two_pass(values: &[f64]) -> (f64, f64) {
        let count = as_f64(values.len() as u64);
        let mean = values.iter().sum::<f64>() / count;
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
    }

    proptest! {
        #[test]
        fn moments_equal_the_two_pass_formulas(values in vec(-1e3..1e3f64, 2..200)) {
            let mut moments = Moments::new(1);
            moments.push_rows(&values).expect("finite");

            let (mean, variance) = two_pass(&values);
            prop_assert!(close(moments.mean()[0], mean));
            prop_assert!(close(moments.variance(0), variance));
        }

        #[test]
        fn a_batch_leaves_the_same_bits_as_single_rows(values in vec(-1e6..1e6f64, 0..60)) {
            let rows = &values[..values.len() / 3 * 3];
            let (mut batch, mut single) = (Moments::new(3), Moments::new(3));

            batch.push_rows(rows).expect("finite");
            for row in rows.chunks_exact(3) {
                single.push_rows(row).expect("finite");
            }

            prop_assert_eq!(batch, single);
        }

        #[test]
        fn columns_side_by_side_leave_the_same_bits_as_columns_alone(
            width in 1..40usize,
            values in vec(-1e6..1e6f64, 0..2000),
        ) {
            let rows = &values[..values.len() / width * width];
            let mut together = Moments::new(width);

            together.push_rows(rows).expect("finite");

            for column in 0..width {
                let mut alone = Moments::new(1);
                let own: Vec<f64> = rows.iter().skip(column).step_by(width).copied().collect();
                alone.push_rows(&own).expect("finite");
                prop_assert_eq!(alone.count(), together.count());
                prop_assert_eq!(alone.mean()[0].to_bits(), together.mean()[column].to_bits());
                prop_assert_eq!(alone.squares()[0].to_bits(), together.squares()[column].to_bits());
            }
        }

        #[test]
        fn merged_parts_equal_the_whole(values in vec(-1e3..1e3f64, 2..100), cut in 0..100usize) {
            let cut = cut.min(values.len());
            let (mut left, mut right, mut total) = (Moments::new(1), Moments::new(1), Moments::new(1));
            left.push_rows(&values[..cut]).expect("finite");
            right.push_rows(&values[cut..]).expect("finite");
            total.push_rows(&values).expect("finite");

            left.merge(&right).expect("same width");

            prop_assert_eq!(left.count(), total.count());
            prop_assert!(close(left.mean()[0], total.mean()[0]));
            prop_assert!(close(left.variance(0), total.variance(0)));
        }
    }

    #[test]
    fn a_value_that_is_not_finite_is_named_and_moves_nothing() {
        let mut moments = Moments::new(2);
        moments.push_rows(&[1.0, 2.0]).expect("finite");
        let before = moments.clone();

        let error = moments.push_rows(&[1.0, 2.0, 3.0, f64::NAN]).expect_err("NaN");

        assert!(matches!(error, MomentsError::NotFinite { row: 1, column: 1, .. }));
        assert_eq!(moments, before);
    }

    #[test]
    fn rows_of_another_width_are_refused() {
        let mut moments = Moments::new(2);

        let error = moments.push_rows(&[1.0, 2.0, 3.0]).expect_err("not whole rows");

        assert_eq!(error, MomentsError::Width { width: 2, got: 3 });
    }

    #[test]
    fn saved_parts_that_contradict_themselves_are_refused() {
        assert!(Moments::from_parts(1, vec![0.0], vec![]).is_err());
        assert!(Moments::from_parts(1, vec![f64::NAN], vec![0.0]).is_err());
        assert!(Moments::from_parts(1, vec![0.0], vec![-1.0]).is_err());
    }

    #[test]
    fn clipping_limits_both_sides() {
        let mut moments = Moments::new(1);
        moments.push_rows(&[-1.0, 1.0]).expect("finite");
        let mut out = [0.0; 2];

        moments.normalise_rows(&[-100.0, 100.0], 0.0, 5.0, &mut out).expect("same length");

        assert_eq!(out, [-5.0, 5.0]);
    }
}
