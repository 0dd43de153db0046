//! One row of a market, and what it must be to be taken in.

use thiserror::Error;

/// One row of all assets, as it is known when it is over.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    /// When it was known, in nanoseconds since 1970.
    pub time: i64,
    /// Prices at the beginning; empty where they are not known.
    pub open: &'a [f64],
    /// Prices at the end.
    pub close: &'a [f64],
    /// Units that changed hands; empty where they are not known.
    pub volume: &'a [f64],
    /// Which assets exist.
    pub listed: &'a [bool],
    /// Which of them have prices in this row.
    pub quoted: &'a [bool],
    /// In which of them orders are filled.
    pub tradable: &'a [bool],
    /// What learners are shown, all features of an asset next to each other.
    pub features: &'a [f32],
    /// Whether a decision falls on this row.
    pub decides: bool,
    /// What the benchmark returned since the row before.
    pub benchmark: f64,
}

/// How wide the rows of a panel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Assets in a row.
    pub assets: usize,
    /// Features of an asset.
    pub features: usize,
    /// Whether prices at the beginning of rows are known.
    pub has_open: bool,
    /// Whether volumes are known.
    pub has_volume: bool,
}

/// Why a row is refused. The panel is as it was.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum BarError {
    /// A column is of another length.
    #[error("{column} needs {wanted} values in a row, found {found}")]
    Length {
        /// The column.
        column: &'static str,
        /// How many values it should have.
        wanted: usize,
        /// How many it has.
        found: usize,
    },
    /// It does not come after the last one.
    #[error("a row after time {last} was wanted, found one at {found}")]
    NotLater {
        /// The time of the last row.
        last: i64,
        /// The time of the row.
        found: i64,
    },
    /// A value cannot be.
    #[error("{column} of asset {asset} must be {wanted}, was {found} at time {time}")]
    Value {
        /// The column.
        column: &'static str,
        /// The place of the asset.
        asset: usize,
        /// What it should be.
        wanted: &'static str,
        /// What it was.
        found: f64,
        /// The time of the row.
        time: i64,
    },
}

impl Bar<'_> {
    /// Refuses a row that is not `width` wide, not after `last`, or has a value that cannot be.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub(super) fn check(&self, width: Width, last: Option<i64>) -> Result<(), BarError> {
        let Width { assets, features, has_open, has_volume } = width;
        for (column, wanted, found) in [
            ("open", if has_open { assets } else { 0 }, self.open.len()),
            ("close", assets, self.close.len()),
            ("volume", if has_volume { assets } else { 0 }, self.volume.len()),
            ("listed", assets, self.listed.len()),
            ("quoted", assets, self.quoted.len()),
            ("tradable", assets, self.tradable.len()),
            ("features", assets * features, self.features.len()),
        ] {
            if wanted != found {
                return Err(BarError::Length { column, wanted, found });
            }
        }
        if let Some(last) = last.filter(|last| *last >= self.time) {
            return Err(BarError::NotLater { last, found: self.time });
        }
        (0..assets).try_for_each(|asset| self.check_asset(width, asset))?;
        let is_finite = self.features.iter().position(|value| !value.is_finite());
        let refuse = |column, asset, wanted, found| {
            Err(BarError::Value { column, asset, wanted, found, time: self.time })
        };
        if let Some(place) = is_finite {
            let found = f64::from(self.features[place]);
            return refuse("features", place / features, "finite", found);
        }
        if self.benchmark.is_finite() {
            return Ok(());
        }
        refuse("benchmark", 0, "finite", self.benchmark)
    }

    fn check_asset(&self, width: Width, asset: usize) -> Result<(), BarError> {
        let refuse = |column, wanted, found| {
            Err(BarError::Value { column, asset, wanted, found, time: self.time })
        };
        let is_price = |price: f64| price.is_finite() && price > 0.0;
        if self.quoted[asset] && !self.listed[asset] || self.tradable[asset] && !self.quoted[asset]
        {
            return refuse("quoted", "listed, and tradable only where quoted", 1.0);
        }
        if self.quoted[asset] && !is_price(self.close[asset]) {
            return refuse("close", "above 0", self.close[asset]);
        }
        if width.has_open && self.tradable[asset] && !is_price(self.open[asset]) {
            return refuse("open", "above 0", self.open[asset]);
        }
        if width.has_volume && self.volume[asset] < 0.0 {
            return refuse("volume", "at least 0", self.volume[asset]);
        }
        Ok(())
    }
}
