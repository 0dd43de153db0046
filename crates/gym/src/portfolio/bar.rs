//! Rows of a panel and their validation.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::panel::ActionColumns;

/// One row of all assets, known at its timestamp.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    /// Timestamp of the row, in nanoseconds since 1970.
    pub time: i64,
    /// Open prices; empty if unknown.
    pub open: &'a [f64],
    /// Close prices.
    pub close: &'a [f64],
    /// Volumes in units; empty if unknown.
    pub volume: &'a [f64],
    /// Mask of listed assets.
    pub listed: &'a [bool],
    /// Mask of assets with prices in this row.
    pub quoted: &'a [bool],
    /// Mask of tradable assets.
    pub tradable: &'a [bool],
    /// Dividends and splits, which apply before trading in this row.
    pub actions: ActionColumns<'a>,
    /// Features of the observation, all features of an asset next to each other.
    pub features: &'a [f32],
    /// True if a decision is made in this row.
    pub decides: bool,
    /// Return of the benchmark since the previous row.
    pub benchmark: f64,
}

/// Width of the rows of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Width {
    /// Assets in a row.
    pub assets: usize,
    /// Features of an asset.
    pub features: usize,
    /// True if open prices are known.
    pub has_open: bool,
    /// True if volumes are known.
    pub has_volume: bool,
}

/// Error of a refused row; the panel is unchanged.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum BarError {
    /// Column of the wrong length.
    #[error("{column} needs {expected} values in a row, got {got}")]
    Length {
        /// The column.
        column: &'static str,
        /// Expected number of values.
        expected: usize,
        /// Actual number of values.
        got: usize,
    },
    /// Timestamp not after the last row.
    #[error("expected a row after time {last}, got one at {got}")]
    NotLater {
        /// The time of the last row.
        last: i64,
        /// The time of the row.
        got: i64,
    },
    /// Invalid value.
    #[error("{column} of asset {asset} must be {expected}, got {got} at time {time}")]
    Value {
        /// The column.
        column: &'static str,
        /// Index of the asset.
        asset: usize,
        /// Expected value, in words.
        expected: &'static str,
        /// Actual value.
        got: f64,
        /// The time of the row.
        time: i64,
    },
}

impl Bar<'_> {
    /// Validate a row: width, timestamp after `last`, and values.
    ///
    /// # Errors
    /// If the row is invalid; reports the first flaw.
    pub(super) fn check(&self, width: Width, last: Option<i64>) -> Result<(), BarError> {
        let Width { assets, features, has_open, has_volume } = width;
        for (column, expected, got) in [
            ("open", if has_open { assets } else { 0 }, self.open.len()),
            ("close", assets, self.close.len()),
            ("volume", if has_volume { assets } else { 0 }, self.volume.len()),
            ("listed", assets, self.listed.len()),
            ("quoted", assets, self.quoted.len()),
            ("tradable", assets, self.tradable.len()),
            ("features", assets * features, self.features.len()),
        ] {
            if expected != got {
                return Err(BarError::Length { column, expected, got });
            }
        }
        for (column, values) in self.action_columns() {
            if !values.is_empty() && values.len() != assets {
                return Err(BarError::Length { column, expected: assets, got: values.len() });
            }
        }
        if let Some(last) = last.filter(|last| *last >= self.time) {
            return Err(BarError::NotLater { last, got: self.time });
        }
        (0..assets).try_for_each(|asset| self.check_asset(width, asset))?;
        let is_finite = self.features.iter().position(|value| !value.is_finite());
        let refuse = |column, asset, expected, got| {
            Err(BarError::Value { column, asset, expected, got, time: self.time })
        };
        if let Some(index) = is_finite {
            let got = f64::from(self.features[index]);
            return refuse("features", index / features, "finite", got);
        }
        if self.benchmark.is_finite() {
            return Ok(());
        }
        refuse("benchmark", 0, "finite", self.benchmark)
    }

    fn action_columns(&self) -> [(&'static str, &[f64]); 2] {
        [("dividend", self.actions.dividend), ("split", self.actions.split)]
    }

    fn check_asset(&self, width: Width, asset: usize) -> Result<(), BarError> {
        let refuse = |column, expected, got| {
            Err(BarError::Value { column, asset, expected, got, time: self.time })
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
        for (column, values) in self.action_columns() {
            let value = values.get(asset).copied().unwrap_or(0.0);
            if value < 0.0 || value.is_infinite() {
                return refuse(column, "finite and at least 0, or NaN for none", value);
            }
        }
        Ok(())
    }
}
