//! Whether constraints make sense, and can be met at all.

use thiserror::Error;

use super::reach::{Room, attainable_sums};
use super::{Constraints, TOLERANCE};

/// Why constraints are refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ConstraintsError {
    /// There is no asset.
    #[error("at least one asset was wanted, found none")]
    NoAssets,
    /// Columns differ in length.
    #[error("{name} needs an entry for each of {wanted} assets, found {found}")]
    Length {
        /// The column.
        name: &'static str,
        /// How many assets there are.
        wanted: usize,
        /// Entries that were found.
        found: usize,
    },
    /// Bounds that an empty position does not keep.
    #[error(
        "bounds of asset {asset} must allow nothing of it, lower <= 0 <= upper, found {lower} and \
         {upper}"
    )]
    Bounds {
        /// The asset.
        asset: usize,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// Bounds of cash that no number keeps.
    #[error("cash needs cash_lower <= cash_upper, not NaN, found {lower} and {upper}")]
    Cash {
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// A cap that is not a number, or negative.
    #[error("{name} must be at least 0, found {found}; leave it out for no cap")]
    Cap {
        /// The cap.
        name: &'static str,
        /// What was found.
        found: f64,
    },
    /// An asset of a sector that there is not.
    #[error("asset {asset} is in sector {sector}, but sector_caps has only {sectors} entries")]
    Sector {
        /// The asset.
        asset: usize,
        /// Its sector.
        sector: usize,
        /// How many sectors there are.
        sectors: usize,
    },
    /// Caps that leave cash outside its bounds whatever is held.
    #[error(
        "assets can bring cash only from {least} to {most} within their bounds and caps, but \
         cash_lower is {lower} and cash_upper {upper}: widen one of them"
    )]
    Unattainable {
        /// The least cash that assets leave.
        least: f64,
        /// The most cash that assets leave.
        most: f64,
        /// The lower bound of cash.
        lower: f64,
        /// The upper bound of cash.
        upper: f64,
    },
}

impl Constraints {
    /// Whether the constraints make sense, and can be met when everything can be traded.
    ///
    /// # Errors
    /// When they do not or cannot: which, what was wanted and what was found.
    pub fn check(&self) -> Result<(), ConstraintsError> {
        self.check_lengths()?;
        for (asset, (&lower, &upper)) in self.lower.iter().zip(&self.upper).enumerate() {
            if !(lower <= 0.0 && upper >= 0.0) {
                return Err(ConstraintsError::Bounds { asset, lower, upper });
            }
        }
        let (lower, upper) = (self.cash_lower, self.cash_upper);
        let some_number = lower <= upper && lower < f64::INFINITY && upper > f64::NEG_INFINITY;
        if !some_number {
            return Err(ConstraintsError::Cash { lower, upper });
        }
        check_cap("leverage", self.leverage)?;
        check_cap("turnover", self.turnover)?;
        self.sector_caps.iter().try_for_each(|&cap| check_cap("a cap of sector_caps", cap))?;
        self.check_attainable()
    }

    fn check_lengths(&self) -> Result<(), ConstraintsError> {
        let wanted = self.assets();
        let length = |name, found| match found {
            found if found == wanted => Ok(()),
            found => Err(ConstraintsError::Length { name, wanted, found }),
        };
        if wanted == 0 {
            return Err(ConstraintsError::NoAssets);
        }
        length("upper", self.upper.len())?;
        if !(self.sectors.is_empty() && self.sector_caps.is_empty()) {
            length("sectors", self.sectors.len())?;
        }
        let sectors = self.sector_caps.len();
        let unknown = |sector: &Option<usize>| sector.is_some_and(|sector| sector >= sectors);
        match self.sectors.iter().enumerate().find(|(_, sector)| unknown(sector)) {
            Some((asset, &Some(sector))) => {
                Err(ConstraintsError::Sector { asset, sector, sectors })
            }
            _ => Ok(()),
        }
    }

    fn check_attainable(&self) -> Result<(), ConstraintsError> {
        let room_of = |sector: Option<usize>| {
            let cap = sector.and_then(|sector| self.sector_caps[sector]).unwrap_or(f64::INFINITY);
            let mut room = Room::new(cap);
            for (asset, (lower, upper)) in self.lower.iter().zip(&self.upper).enumerate() {
                if self.sectors.get(asset).copied().flatten() == sector {
                    room.add(*lower, *upper);
                }
            }
            room
        };
        let sectors = (0..self.sector_caps.len()).map(Some).chain([None]);
        let leverage = self.leverage.unwrap_or(f64::INFINITY);
        let sums = attainable_sums(sectors.map(room_of), leverage);
        let (least, most) = (1.0 - sums.most, 1.0 - sums.least);
        let (lower, upper) = (self.cash_lower, self.cash_upper);
        if upper < least - TOLERANCE || lower > most + TOLERANCE {
            return Err(ConstraintsError::Unattainable { least, most, lower, upper });
        }
        Ok(())
    }
}

fn check_cap(name: &'static str, cap: Option<f64>) -> Result<(), ConstraintsError> {
    match cap {
        Some(found) if found.is_nan() || found < 0.0 => Err(ConstraintsError::Cap { name, found }),
        _ => Ok(()),
    }
}
