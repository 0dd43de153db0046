//! Bars and views from columns of numbers.

use thiserror::Error;

use super::bar::Bar;
use super::view::{NewsView, View};

/// Column names of a bar.
pub const BAR_COLUMNS: [&str; 5] = ["high", "low", "close", "volume", "trades"];

/// Column names of a view; NaN marks an unknown value.
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

/// Invalid value of a bar or view.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("expected {expected} as {column}, got {got}")]
pub struct InputError {
    /// Column of the value.
    pub column: &'static str,
    /// Expected value, in words.
    pub expected: &'static str,
    /// Actual value.
    pub got: f64,
}

impl Bar {
    /// A bar from the values of [`BAR_COLUMNS`].
    ///
    /// # Errors
    /// If a value is invalid for a bar.
    pub fn read(values: &[f64; BAR_COLUMNS.len()]) -> Result<Self, InputError> {
        let check = |index: usize, good: bool, expected| {
            let refused = InputError { column: BAR_COLUMNS[index], expected, got: values[index] };
            if good { Ok(()) } else { Err(refused) }
        };
        let [high, low, close, volume, count] = *values;
        for (index, price) in [high, low, close].into_iter().enumerate() {
            check(index, price.is_finite() && price > 0.0, "a price above zero")?;
        }
        check(1, low <= high, "a price not above high")?;
        check(3, volume.is_finite() && volume >= 0.0, "a volume of at least zero")?;
        let trades = count_of(count);
        check(4, trades.is_some(), "a whole number of trades")?;
        Ok(Self { high, low, close, volume, trades: trades.unwrap_or_default() })
    }
}

impl View {
    /// A view from the values of [`VIEW_COLUMNS`]; the last price defaults to `close`.
    ///
    /// # Errors
    /// If a value is invalid for a view.
    pub fn read(values: &[f64; VIEW_COLUMNS.len()], close: f64) -> Result<Self, InputError> {
        if let Some(index) = values.iter().position(|value| value.is_infinite()) {
            let expected = "a finite number, or NaN for one that is not known,";
            return Err(InputError { column: VIEW_COLUMNS[index], expected, got: values[index] });
        }
        let known = |index: usize| Some(values[index]).filter(|value| !value.is_nan());
        Ok(Self {
            bid: known(0),
            ask: known(1),
            bid_volume: values[2],
            ask_volume: values[3],
            last: known(4).unwrap_or(close),
            buy_volume: values[5],
            sell_volume: values[6],
            news: known(10).map(|_| news(values)).transpose()?,
            sentiment: values[11],
            fair: values[12],
        })
    }
}

fn news(values: &[f64; VIEW_COLUMNS.len()]) -> Result<NewsView, InputError> {
    let ticks = |index: usize| {
        let expected = "a whole number of ticks";
        let refused = InputError { column: VIEW_COLUMNS[index], expected, got: values[index] };
        count_of(values[index]).ok_or(refused)
    };
    let (sentiment, magnitude) = (values[7], values[8]);
    Ok(NewsView { sentiment, magnitude, elapsed: ticks(9)?, duration: ticks(10)? })
}

/// The value as a count, if it is one.
fn count_of(value: f64) -> Option<u32> {
    let counts = (0.0..=f64::from(u32::MAX)).contains(&value) && value.fract() == 0.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // just looked at
    counts.then_some(value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [f64; 5] = [101.0, 99.0, 100.0, 5.0, 2.0];

    #[test]
    fn a_bar_that_cannot_be_names_the_column() {
        assert!(Bar::read(&GOOD).is_ok());

        let cases = [
            (0, f64::INFINITY, "high"),
            (1, 102.0, "low"),
            (1, 0.0, "low"),
            (2, f64::NAN, "close"),
            (3, -1.0, "volume"),
            (4, 0.5, "trades"),
            (4, -1.0, "trades"),
            (4, 5e9, "trades"),
        ];
        for (index, value, column) in cases {
            let mut values = GOOD;
            values[index] = value;
            assert_eq!(Bar::read(&values).expect_err(column).column, column, "{value}");
        }
    }

    #[test]
    fn missing_view_values_stay_unknown() {
        let view = View::read(&[f64::NAN; 13], 7.0).expect("nothing told is nothing wrong");

        assert_eq!((view.bid, view.ask, view.news), (None, None, None));
        assert!((view.last - 7.0).abs() < f64::EPSILON);
        assert!(view.fair.is_nan() && view.sentiment.is_nan() && view.bid_volume.is_nan());
    }

    #[test]
    fn an_event_needs_whole_ticks() {
        let mut values = [f64::NAN; 13];
        values[10] = 5.0;
        assert_eq!(View::read(&values, 1.0).expect_err("no elapsed").column, "news_elapsed");

        values[9] = 2.0;
        let event = View::read(&values, 1.0).expect("an event").news.expect("told");
        assert_eq!((event.elapsed, event.duration), (2, 5));

        values[10] = 5.5;
        assert_eq!(View::read(&values, 1.0).expect_err("half a tick").column, "news_duration");
    }
}
