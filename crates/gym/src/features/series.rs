//! Features of a series of bars.

use market::InterruptCheck;
use thiserror::Error;

use super::bar::Bar;
use super::input::{BAR_COLUMNS, InputError, VIEW_COLUMNS};
use super::set::Features;
use super::view::View;

/// Error of a refused series; the state is unchanged.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum SeriesError {
    /// Arrays of different lengths, or with wrong columns.
    #[error("expected {expected} {what}, got {got}")]
    Length {
        /// Name of the counted items.
        what: &'static str,
        /// Expected number of items.
        expected: usize,
        /// Actual number of items.
        got: usize,
    },
    /// Invalid value of a bar or view.
    #[error("in row {row}: {error}")]
    Row {
        /// The row of the value.
        row: usize,
        /// Reason of the refusal.
        error: InputError,
    },
}

/// Push every bar of `bars` (rows of [`BAR_COLUMNS`]) and write a row after each, as
/// [`Features::write`] or, if `raw`, as [`Features::write_raw`] does. Without `views` (rows of
/// [`VIEW_COLUMNS`]) only the close is known after a bar.
///
/// # Errors
/// If lengths disagree or a value is invalid for a bar or view; the features and `out` are then
/// unchanged.
pub fn series(
    features: &mut Features,
    bars: &[f64],
    views: Option<&[f64]>,
    raw: bool,
    out: &mut [f64],
) -> Result<(), SeriesError> {
    series_slices(features, bars, views, raw, out, &mut InterruptCheck::new(&mut || true))
}

/// Interruptible [`series`]: if interrupted, exactly the bars whose rows are written have been
/// pushed.
///
/// # Errors
/// As [`series`].
pub fn series_slices(
    features: &mut Features,
    bars: &[f64],
    views: Option<&[f64]>,
    raw: bool,
    out: &mut [f64],
    interrupt: &mut InterruptCheck<'_>,
) -> Result<(), SeriesError> {
    let length = bars.len() / BAR_COLUMNS.len();
    expect("values of bars", length * BAR_COLUMNS.len(), bars.len())?;
    if let Some(views) = views {
        expect("values of views", length * VIEW_COLUMNS.len(), views.len())?;
    }
    expect("values to write", length * features.len(), out.len())?;
    // Validate all input first, so that a refused value changes nothing.
    for row in 0..length {
        read(row, bars, views)?;
        if !interrupt.should_continue() {
            return Ok(());
        }
    }
    for (row, shown) in out.chunks_exact_mut(features.len()).enumerate() {
        let (bar, view) = read(row, bars, views)?;
        features.push(&bar);
        if raw {
            features.write_raw(&view, shown);
        } else {
            features.write(&view, shown);
        }
        if !interrupt.should_continue() {
            break;
        }
    }
    Ok(())
}

fn read(row: usize, bars: &[f64], views: Option<&[f64]>) -> Result<(Bar, View), SeriesError> {
    let at_row = |error| SeriesError::Row { row, error };
    let bar = Bar::read(nth(row, bars)).map_err(at_row)?;
    let view = match views {
        Some(views) => View::read(nth(row, views), bar.close).map_err(at_row)?,
        None => View::of_last(bar.close),
    };
    Ok((bar, view))
}

/// Row `row` of rows of `N` values.
fn nth<const N: usize>(row: usize, values: &[f64]) -> &[f64; N] {
    values[row * N..].first_chunk().expect("lengths were compared before")
}

fn expect(what: &'static str, expected: usize, got: usize) -> Result<(), SeriesError> {
    if expected == got { Ok(()) } else { Err(SeriesError::Length { what, expected, got }) }
}

#[cfg(test)]
mod tests {
    use super::super::set::FeatureOptions;
    use super::*;

    const BARS: [f64; 10] = [101.0, 99.0, 100.0, 5.0, 2.0, 102.0, 100.0, 101.0, 6.0, 3.0];

    fn refused(bars: &[f64], views: Option<&[f64]>, length: usize) -> SeriesError {
        let mut features = Features::new(FeatureOptions::default());
        let before = features.encode();
        let mut out = vec![7.0; length];

        let error = series(&mut features, bars, views, false, &mut out).expect_err("wrong input");

        assert_eq!(features.encode(), before);
        assert!(out.iter().all(|value| value.to_bits() == 7_f64.to_bits()));
        error
    }

    #[test]
    fn a_series_writes_what_single_bars_write() {
        let mut features = Features::new(FeatureOptions::default());
        let mut out = [0.0; 108];
        series(&mut features.clone(), &BARS, None, false, &mut out).expect("good bars");

        for (row, shown) in out.chunks_exact(54).enumerate() {
            let bar = Bar::read(nth(row, &BARS)).expect("a good bar");
            let mut single = [0.0; 54];
            features.push(&bar);
            features.write(&View::of_last(bar.close), &mut single);
            assert!(
                shown.iter().zip(single).all(|(left, right)| left.to_bits() == right.to_bits())
            );
        }
    }

    #[test]
    fn a_bad_value_in_the_last_row_moves_nothing() {
        let mut bars = BARS;
        bars[7] = -1.0;

        let error = refused(&bars, None, 108);

        assert_eq!(error.to_string(), "in row 1: expected a price above zero as close, got -1");
    }

    #[test]
    fn arrays_of_other_lengths_are_refused() {
        assert!(matches!(refused(&BARS[..9], None, 54), SeriesError::Length { expected: 5, .. }));
        let views = [f64::NAN; 13];
        let error = refused(&BARS, Some(&views), 108);
        assert!(matches!(error, SeriesError::Length { expected: 26, got: 13, .. }));
        assert!(matches!(refused(&BARS, None, 54), SeriesError::Length { expected: 108, .. }));
    }
}
