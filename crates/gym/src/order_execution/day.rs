//! A day of one asset, as one side of the market meets it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What each tick of a day offers to an order of one direction. All columns have one value a tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderDay {
    /// The price at which the order is filled; NaN or 0 where there is none.
    pub price: Vec<f64>,
    /// What the market traded; NaN where that is not known.
    pub volume: Vec<f64>,
    /// Where the asset is neither suspended nor at its limit.
    pub tradable: Option<Vec<bool>>,
    /// The most that is filled in a tick.
    pub current_cap: Option<Vec<f64>>,
    /// The most that is filled in all ticks up to and including this one.
    pub cumulative_cap: Option<Vec<f64>>,
    /// Adjusted shares times this are real ones, which come in whole units.
    pub factor: Option<Vec<f64>>,
}

/// Why a day cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DayError {
    /// There is nothing to trade in.
    #[error("a day needs at least one tick, found none")]
    Empty,
    /// A column has more or fewer values than there are prices.
    #[error("{column} needs a value for each of the {wanted} prices, found {found}")]
    Length {
        /// The column.
        column: &'static str,
        /// How many prices there are.
        wanted: usize,
        /// How many values it has.
        found: usize,
    },
    /// A factor that cannot be divided by.
    #[error("factor needs values above 0 where there is a price, found {found} at tick {tick}")]
    Factor {
        /// Where it is.
        tick: usize,
        /// What it is.
        found: f64,
    },
}

impl OrderDay {
    /// Refuses columns of other lengths and factors that are none.
    ///
    /// # Errors
    /// If a column has another length than `price`, or a factor is not above 0.
    pub fn check(&self) -> Result<(), DayError> {
        let wanted = self.price.len();
        if wanted == 0 {
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
            if let Some(found) = length.filter(|length| *length != wanted) {
                return Err(DayError::Length { column, wanted, found });
            }
        }
        self.check_factor()
    }

    fn check_factor(&self) -> Result<(), DayError> {
        for (tick, &found) in self.factor.iter().flatten().enumerate() {
            if self.is_open(tick) && !(found > 0.0 && found.is_finite()) {
                return Err(DayError::Factor { tick, found });
            }
        }
        Ok(())
    }

    /// How many ticks there are.
    #[must_use]
    pub fn ticks(&self) -> usize {
        self.price.len()
    }

    /// Whether an order can be filled at all in a tick.
    #[must_use]
    pub fn is_open(&self, tick: usize) -> bool {
        let is_priced = self.price[tick] > 0.0 && self.price[tick].is_finite();
        is_priced && self.tradable.as_ref().is_none_or(|tradable| tradable[tick])
    }

    /// The most that can be filled in a tick, `dealt` having been filled before. A cap that is
    /// not known allows nothing.
    pub(super) fn cap(&self, tick: usize, dealt: f64) -> f64 {
        let cap = |caps: &Option<Vec<f64>>| caps.as_ref().map_or(f64::INFINITY, |caps| caps[tick]);
        let current = cap(&self.current_cap);
        let cumulative = cap(&self.cumulative_cap) - dealt;
        if current.is_nan() || cumulative.is_nan() {
            return 0.0;
        }
        current.min(cumulative).max(0.0)
    }

    /// The factor of a tick; none in a day of adjusted prices, which knows no whole units.
    pub(super) fn factor(&self, tick: usize) -> Option<f64> {
        self.factor.as_ref().map(|factors| factors[tick])
    }

    /// The value of all that the market traded in a tick.
    pub(super) fn market_value(&self, tick: usize) -> f64 {
        self.volume[tick] * self.price[tick]
    }
}
