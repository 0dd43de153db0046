//! The features of a whole series, bar by bar.

use market::Pauses;
use thiserror::Error;

use super::bar::Bar;
use super::input::{BAR_COLUMNS, InputError, VIEW_COLUMNS};
use super::set::Features;
use super::view::View;

/// Why a series was refused. Nothing has moved.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum SeriesError {
    /// Arrays of different lengths, or with other columns.
    #[error("{wanted} {what} were wanted, found {found}")]
    Length {
        /// What was counted.
        what: &'static str,
        /// How many there should be.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A value that no bar or view can have.
    #[error("in row {row}: {error}")]
    Row {
        /// The row of the value.
        row: usize,
        /// What is wrong with it.
        error: InputError,
    },
}

/// Pushes every bar of `bars` (rows of [`BAR_COLUMNS`]) and writes a row after each, as
/// [`Features::write`] or, if `raw`, as [`Features::write_raw`] does. Without `views` (rows of
/// [`VIEW_COLUMNS`]) only the close is known after a bar.
///
/// # Errors
/// When lengths disagree or a value is one that no bar or view can have; the features and `out`
/// are then as they were.
pub fn series(
    features: &mut Features,
    bars: &[f64],
    views: Option<&[f64]>,
    raw: bool,
    out: &mut [f64],
) -> Result<(), SeriesError> {
    series_slices(features, bars, views, raw, out, &mut Pauses::new(&mut || true))
}

/// The same as [`series`], until it is stopped: the features have then taken in the bars whose
/// rows are written.
///
/// # Errors
/// As [`series`].
pub fn series_slices(
    features: &mut Features,
    bars: &[f64],
    views: Option<&[f64]>,
    raw: bool,
    out: &mut [f64],
    pauses: &mut Pauses<'_>,
) -> Result<(), SeriesError> {
    let length = bars.len() / BAR_COLUMNS.len();
    expect("values of bars", length * BAR_COLUMNS.len(), bars.len())?;
    if let Some(views) = views {
        expect("values of views", length * VIEW_COLUMNS.len(), views.len())?;
    }
    expect("values to write", length * features.len(), out.len())?;
    // Twice through the input, so that a refused value is found before anything moves.
    for row in 0..length {
        read(row, bars, views)?;
        if !pauses.go_on() {
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
        if !pauses.go_on() {
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

fn expect(what: &'static str, wanted: usize, found: usize) -> Result<(), SeriesError> {
    if wanted == found { Ok(()) } else { Err(SeriesError::Length { what, wanted, found }) }
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

        assert_eq!(error.to_string(), "in row 1: a price above zero was wanted as close, found -1");
    }

    #[test]
    fn arrays_of_other_lengths_are_refused() {
        assert!(matches!(refused(&BARS[..9], None, 54), SeriesError::Length { wanted: 5, .. }));
        let views = [f64::NAN; 13];
        let error = refused(&BARS, Some(&views), 108);
        assert!(matches!(error, SeriesError::Length { wanted: 26, found: 13, .. }));
        assert!(matches!(refused(&BARS, None, 54), SeriesError::Length { wanted: 108, .. }));
    }
}
