//! Market data of one session or several for order execution.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Market data of one day, or of the days of an order, per tick and for an order of one direction.
/// All columns have one value per tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderDay {
    /// Fill price; NaN or 0 where there is none.
    pub price: Vec<f64>,
    /// Market volume; NaN if unknown.
    pub volume: Vec<f64>,
    /// True in ticks in which the asset is neither suspended nor at its price limit.
    pub tradable: Option<Vec<bool>>,
    /// Volume cap of a tick.
    pub current_cap: Option<Vec<f64>>,
    /// Cumulative volume cap up to and including this tick.
    pub cumulative_cap: Option<Vec<f64>>,
    /// Adjustment factor: adjusted shares times this are real shares, traded in whole units.
    pub factor: Option<Vec<f64>>,
    /// First tick of each session after the first; empty for one session.
    pub sessions: Vec<usize>,
}

/// Invalid market data of a day.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DayError {
    /// No ticks.
    #[error("a day needs at least one tick, got none")]
    Empty,
    /// A column has more or fewer values than there are prices.
    #[error("{column} needs a value for each of the {expected} prices, got {got}")]
    Length {
        /// The column.
        column: &'static str,
        /// Number of prices.
        expected: usize,
        /// Number of values in the column.
        got: usize,
    },
    /// Invalid factor.
    #[error("factor needs values above 0 where there is a price, got {got} at tick {tick}")]
    Factor {
        /// Tick of the value.
        tick: usize,
        /// Actual value.
        got: f64,
    },
    /// Invalid first ticks of sessions.
    #[error("sessions must begin at ascending ticks from 1 to {last}, got {got:?}")]
    Sessions {
        /// The last tick.
        last: usize,
        /// Actual values.
        got: Vec<usize>,
    },
}

impl OrderDay {
    /// Validate the lengths of columns and the factors.
    ///
    /// # Errors
    /// If a column has another length than `price`, or a factor is not above 0.
    pub fn check(&self) -> Result<(), DayError> {
        let expected = self.price.len();
        if expected == 0 {
            return Err(DayError::Empty);
        }
        let lengths = [
            ("volume", Some(self.volume.len())),
            ("tradable", self.tradable.as_ref().map(Vec::len)),
            ("current_cap", self.current_cap.as_ref().map(Vec::len)),
            ("cumulative_cap", self.cumulative_cap.as_ref().map(Vec::len)),
            ("factor", self.factor.as_ref().map(Vec::len)),
        ];
        for (column, length) in lengths {
            if let Some(got) = length.filter(|length| *length != expected) {
                return Err(DayError::Length { column, expected, got });
            }
        }
        let ends = self.sessions.iter().skip(1).copied().chain([expected]);
        let is_ascending = self.sessions.iter().zip(ends).all(|(begin, end)| *begin < end);
        if !is_ascending || self.sessions.first() == Some(&0) {
            let got = self.sessions.clone();
            return Err(DayError::Sessions { last: expected - 1, got });
        }
        self.check_factor()
    }

    /// Ticks of the session of `tick`.
    #[must_use]
    #[inline]
    pub fn session(&self, tick: usize) -> Range<usize> {
        let later = self.session_index(tick);
        let start = if later == 0 { 0 } else { self.sessions[later - 1] };
        start..self.sessions.get(later).copied().unwrap_or(self.price.len())
    }

    /// Index of the session of `tick`.
    #[must_use]
    #[inline]
    pub fn session_index(&self, tick: usize) -> usize {
        self.sessions.partition_point(|begin| *begin <= tick)
    }

    fn check_factor(&self) -> Result<(), DayError> {
        for (tick, &got) in self.factor.iter().flatten().enumerate() {
            if self.is_open(tick) && !(got > 0.0 && got.is_finite()) {
                return Err(DayError::Factor { tick, got });
            }
        }
        Ok(())
    }

    /// Number of ticks.
    #[must_use]
    pub fn ticks(&self) -> usize {
        self.price.len()
    }

    /// Return true if an order can be filled in a tick.
    #[must_use]
    pub fn is_open(&self, tick: usize) -> bool {
        let is_priced = self.price[tick] > 0.0 && self.price[tick].is_finite();
        is_priced && self.tradable.as_ref().is_none_or(|tradable| tradable[tick])
    }

    /// Volume cap of a tick after `filled_before` has been filled. An unknown cap allows nothing.
    pub(super) fn cap(&self, tick: usize, filled_before: f64) -> f64 {
        let cap = |caps: &Option<Vec<f64>>| caps.as_ref().map_or(f64::INFINITY, |caps| caps[tick]);
        let current = cap(&self.current_cap);
        let cumulative = cap(&self.cumulative_cap) - filled_before;
        if current.is_nan() || cumulative.is_nan() {
            return 0.0;
        }
        current.min(cumulative).max(0.0)
    }

    /// Factor of a tick; `None` for a day of adjusted prices without trade units.
    pub(super) fn factor(&self, tick: usize) -> Option<f64> {
        self.factor.as_ref().map(|factors| factors[tick])
    }

    /// Market turnover of a tick, in currency.
    pub(super) fn market_value(&self, tick: usize) -> f64 {
        self.volume[tick] * self.price[tick]
    }
}
