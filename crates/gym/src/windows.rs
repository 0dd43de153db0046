//! Gathering of panel windows: the last `lookback` rows up to a row.

use thiserror::Error;

use crate::threads::{Divisible, Threads};

/// Approximate bytes that one thread copies per nanosecond.
const BYTES_PER_NANOSECOND: usize = 20;

/// A panel of rows that are all of the same width, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// All values, row by row.
    pub values: &'a [f32],
    /// Values in a row: assets times features.
    pub width: usize,
}

/// Error of gathering windows; nothing was copied.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WindowsError {
    /// Empty window.
    #[error("expected a lookback of at least 1 row, got 0")]
    NoLookback,
    /// Row with too little history, or out of range.
    #[error("row must be from {first} up to {last} to have {lookback} rows of history, got {row}")]
    NoSuchWindow {
        /// Requested row.
        row: i64,
        /// The first row that has enough history.
        first: usize,
        /// The last row.
        last: i64,
        /// Rows in a window.
        lookback: usize,
    },
    /// The number of values is not a multiple of the row width.
    #[error("expected rows of {width} values, got {got} values")]
    BrokenPanel {
        /// Values in a row.
        width: usize,
        /// Actual number of values.
        got: usize,
    },
    /// Output of the wrong length.
    #[error("output needs room for {expected} values, got {got}")]
    Length {
        /// Values of all windows.
        expected: usize,
        /// Length of the output.
        got: usize,
    },
}

impl Panel<'_> {
    /// Copy for each of `rows` the window of `lookback` rows that ends with it into `out`, one
    /// after the other; on an error, `out` is unchanged.
    ///
    /// # Errors
    /// If a row has too little history or is out of range, or when lengths disagree.
    pub fn gather(
        self,
        rows: &[i64],
        lookback: usize,
        threads: &mut Threads,
        out: &mut [f32],
    ) -> Result<(), WindowsError> {
        self.check(rows, lookback, out.len())?;
        let window = lookback * self.width;
        if rows.is_empty() || window == 0 {
            return Ok(());
        }
        let cost = (window * size_of::<f32>()).div_ceil(BYTES_PER_NANOSECOND);
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        threads.run(Gathering { panel: self, lookback, rows, out }, cost);
        Ok(())
    }

    fn check(self, rows: &[i64], lookback: usize, got: usize) -> Result<(), WindowsError> {
        if lookback == 0 {
            return Err(WindowsError::NoLookback);
        }
        if self.width == 0 || !self.values.len().is_multiple_of(self.width) {
            let got = self.values.len();
            return Err(WindowsError::BrokenPanel { width: self.width, got });
        }
        let (first, count) = (lookback - 1, self.values.len() / self.width);
        let is_there =
            |&row: &i64| usize::try_from(row).is_ok_and(|row| (first..count).contains(&row));
        if let Some(&row) = rows.iter().find(|row| !is_there(row)) {
            let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
            return Err(WindowsError::NoSuchWindow { row, first, last, lookback });
        }
        match rows.len().checked_mul(lookback).and_then(|all| all.checked_mul(self.width)) {
            Some(expected) if expected == got => Ok(()),
            expected => Err(WindowsError::Length { expected: expected.unwrap_or(usize::MAX), got }),
        }
    }
}

/// Contiguous windows to copy; their rows have been validated.
struct Gathering<'a> {
    panel: Panel<'a>,
    lookback: usize,
    rows: &'a [i64],
    out: &'a mut [f32],
}

impl Divisible for Gathering<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn split(self, count: usize) -> (Self, Self) {
        let Self { panel, lookback, rows, out } = self;
        let (rows, later_rows) = rows.split_at(count);
        let (out, later_out) = out.split_at_mut(count * lookback * panel.width);
        let later = Self { panel, lookback, rows: later_rows, out: later_out };
        (Self { panel, lookback, rows, out }, later)
    }

    fn run(self) {
        let window = self.lookback * self.panel.width;
        for (&row, target) in self.rows.iter().zip(self.out.chunks_exact_mut(window)) {
            let end = usize::try_from(row).expect("rows were checked") + 1;
            let from = (end - self.lookback) * self.panel.width;
            target.copy_from_slice(&self.panel.values[from..from + window]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(count: usize) -> Vec<f32> {
        (0..u16::try_from(count).expect("few")).map(f32::from).collect()
    }

    proptest! {
        #[test]
        fn a_window_is_the_rows_that_end_with_its_own(
            width in 1..5usize,
            lookback in 1..6usize,
            more in 0..40usize,
            picks in prop::collection::vec(0..1000usize, 0..90),
            threads in 1..4usize,
        ) {
            let count = lookback + more;
            let values = numbers(count * width);
            let rows: Vec<usize> =
                picks.iter().map(|pick| lookback - 1 + pick % (more + 1)).collect();
            let expected: Vec<f32> = rows
                .iter()
                .flat_map(|row| &values[(row + 1 - lookback) * width..(row + 1) * width])
                .copied()
                .collect();
            let rows: Vec<i64> = rows.iter().map(|&row| i64::try_from(row).expect("few")).collect();

            let mut out = vec![-1.0; rows.len() * lookback * width];
            let mut threads = Threads::new(Some(threads));
            Panel { values: &values, width }.gather(&rows, lookback, &mut threads, &mut out)?;

            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn large_gathers_are_shared_by_threads_and_stay_the_same() {
        let values = numbers(2000);
        let rows: Vec<i64> = (0..3000).map(|index| 99 + index * 7 % 101).collect();
        let panel = Panel { values: &values, width: 10 };
        let gathered = |threads| {
            let mut out = vec![0.0; rows.len() * 1000];
            let gathering = panel.gather(&rows, 100, &mut Threads::new(Some(threads)), &mut out);
            gathering.map(|()| out)
        };

        assert_eq!(gathered(1), gathered(3));
    }

    #[test]
    fn refused_windows_leave_the_output_unchanged() {
        let values = numbers(12);
        let panel = Panel { values: &values, width: 3 };
        let mut out = vec![-1.0; 6];
        let mut refused = |panel: Panel<'_>, rows: &[i64], lookback| {
            let error = panel.gather(rows, lookback, &mut Threads::new(Some(1)), &mut out);
            assert!(out.iter().all(|value| value.to_bits() == (-1.0_f32).to_bits()));
            error.expect_err("it must be refused")
        };

        let outside = |row| WindowsError::NoSuchWindow { row, first: 1, last: 3, lookback: 2 };
        assert_eq!(refused(panel, &[0], 2), outside(0));
        assert_eq!(refused(panel, &[4], 2), outside(4));
        assert_eq!(refused(panel, &[-1], 2), outside(-1));
        assert_eq!(refused(panel, &[i64::MIN], 2), outside(i64::MIN));
        assert_eq!(refused(panel, &[1], 0), WindowsError::NoLookback);
        assert_eq!(refused(panel, &[1, 2], 2), WindowsError::Length { expected: 12, got: 6 });
        let broken = Panel { values: &values, width: 5 };
        assert_eq!(refused(broken, &[1], 2), WindowsError::BrokenPanel { width: 5, got: 12 });
    }
}
