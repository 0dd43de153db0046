//! The features of a whole series, bar by bar.

use thiserror::Error;

use super::bar::Bar;
use super::set::Features;
use super::view::{NewsView, View};

/// What stands in each row of bars.
pub const BAR_COLUMNS: [&str; 5] = ["high", "low", "close", "volume", "trades"];

/// What stands in each row of views; NaN where it is not known.
pub const VIEW_COLUMNS: [&str; 13] = [
    "bid",
    "ask",
    "bid_volume",
    "ask_volume",
    "last",
    "buy_volume",
    "sell_volume",
    "news_sentiment",
    "news_magnitude",
    "news_elapsed",
    "news_duration",
    "sentiment",
    "fair",
];

/// Why a series was refused. Nothing has moved.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SeriesError {
    /// Arrays of different lengths, or with other columns.
    #[error("{wanted} {what} were wanted, found {found}")]
    Shape {
        /// What was counted.
        what: &'static str,
        /// How many there should be.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A value that no bar or view can have.
    #[error("{wanted} was wanted as {column} of row {row}, found {found}")]
    Value {
        /// Where the value stands.
        row: usize,
        /// What it stands for.
        column: &'static str,
        /// What it should have been.
        wanted: &'static str,
        /// What it is.
        found: f64,
    },
}

/// Pushes every bar of `bars` and writes a row after each, as [`Features::write`] or, if `raw`, as
/// [`Features::write_raw`] does. Without `views` only the close is known after a bar.
///
/// Everything is checked first; a refused series leaves the features and `out` as they were.
///
/// # Errors
/// When lengths disagree or a value is one that no bar or view can have.
pub fn series(
    features: &mut Features,
    bars: &[f64],
    views: Option<&[f64]>,
    raw: bool,
    out: &mut [f64],
) -> Result<(), SeriesError> {
    let length = bars.len() / BAR_COLUMNS.len();
    expect("values of bars", length * BAR_COLUMNS.len(), bars.len())?;
    expect("values of views", length * VIEW_COLUMNS.len(), views.map_or(length * 13, <[f64]>::len))?;
    expect("values to write", length * features.len(), out.len())?;
    let views = || views.map(|views| views.chunks_exact(VIEW_COLUMNS.len()));
    for (row, values) in bars.chunks_exact(BAR_COLUMNS.len()).enumerate() {
        Bar::read(row, values)?;
    }
    for (row, values) in views().into_iter().flatten().enumerate() {
        View::read(row, values, 1.0)?;
    }
    let mut views = views();
    let rows = out.chunks_exact_mut(features.len());
    for ((row, values), shown) in bars.chunks_exact(BAR_COLUMNS.len()).enumerate().zip(rows) {
        let bar = Bar::read(row, values)?;
        let view = match views.as_mut().and_then(Iterator::next) {
            Some(values) => View::read(row, values, bar.close)?,
            None => View::of_last(bar.close),
        };
        features.push(&bar);
        if raw { features.write_raw(&view, shown) } else { features.write(&view, shown) }
    }
    Ok(())
}

impl Bar {
    /// A bar from the values of [`BAR_COLUMNS`]; `row` is told of in errors.
    ///
    /// # Errors
    /// When there are not five values or one of them is one that no bar can have.
    pub fn read(row: usize, values: &[f64]) -> Result<Self, SeriesError> {
        expect("values of a bar", BAR_COLUMNS.len(), values.len())?;
        let wrong = |place: usize, wanted| SeriesError::Value {
            row,
            column: BAR_COLUMNS[place],
            wanted,
            found: values[place],
        };
        for place in 0..3 {
            if !(values[place].is_finite() && values[place] > 0.0) {
                return Err(wrong(place, "a price above zero"));
            }
        }
        if values[1] > values[0] {
            return Err(wrong(1, "a price not above high"));
        }
        if !(values[3].is_finite() && values[3] >= 0.0) {
            return Err(wrong(3, "a volume of at least zero"));
        }
        let trades = whole(values[4]).ok_or_else(|| wrong(4, "a whole number of trades"))?;
        Ok(Self { high: values[0], low: values[1], close: values[2], volume: values[3], trades })
    }
}

impl View {
    /// A view from the values of [`VIEW_COLUMNS`], in which the last price is `close` unless it
    /// is told; `row` is told of in errors.
    ///
    /// # Errors
    /// When there are not thirteen values or one of them is one that no view can have.
    pub fn read(row: usize, values: &[f64], close: f64) -> Result<Self, SeriesError> {
        expect("values of a view", VIEW_COLUMNS.len(), values.len())?;
        let wrong = |place: usize, wanted| SeriesError::Value {
            row,
            column: VIEW_COLUMNS[place],
            wanted,
            found: values[place],
        };
        if let Some(place) = values.iter().position(|value| value.is_infinite()) {
            return Err(wrong(place, "a number, or NaN for one that is not known,"));
        }
        let known = |place: usize| Some(values[place]).filter(|value| !value.is_nan());
        let mut view = Self {
            bid: known(0),
            ask: known(1),
            bid_volume: values[2],
            ask_volume: values[3],
            last: known(4).unwrap_or(close),
            buy_volume: values[5],
            sell_volume: values[6],
            news: None,
            sentiment: values[11],
            fair: values[12],
        };
        if let Some(duration) = known(10) {
            let ticks = "a whole number of ticks";
            view.news = Some(NewsView {
                sentiment: values[7],
                magnitude: values[8],
                elapsed: whole(values[9]).ok_or_else(|| wrong(9, ticks))?,
                duration: whole(duration).ok_or_else(|| wrong(10, ticks))?,
            });
        }
        Ok(view)
    }
}

fn expect(what: &'static str, wanted: usize, found: usize) -> Result<(), SeriesError> {
    if wanted == found { Ok(()) } else { Err(SeriesError::Shape { what, wanted, found }) }
}

/// The value as a count, if it is one.
fn whole(value: f64) -> Option<u32> {
    let counts = (0.0..=f64::from(u32::MAX)).contains(&value) && value.fract() == 0.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // just looked at
    counts.then_some(value as u32)
}
