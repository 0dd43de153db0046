//! Validation and feasibility check of constraints.

use thiserror::Error;

use super::beta::MISSED;
use super::reach::{Room, attainable_sums};
use super::{Constraints, TOLERANCE};

/// Invalid constraints.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ConstraintsError {
    /// No assets.
    #[error("expected at least one asset, got none")]
    NoAssets,
    /// Columns differ in length.
    #[error("{name} needs an entry for each of {expected} assets, got {got}")]
    Length {
        /// The column.
        name: &'static str,
        /// Number of assets.
        expected: usize,
        /// Actual number of entries.
        got: usize,
    },
    /// Bounds that exclude an empty position.
    #[error(
        "bounds of asset {asset} must allow nothing of it, lower <= 0 <= upper, got {lower} and \
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
    /// Infeasible bounds of cash.
    #[error("cash needs cash_lower <= cash_upper, not NaN, got {lower} and {upper}")]
    Cash {
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// Negative or NaN cap.
    #[error("{name} must be at least 0, got {got}; leave it out for no cap")]
    Cap {
        /// The cap.
        name: &'static str,
        /// Actual value.
        got: f64,
    },
    /// Sector out of range.
    #[error("asset {asset} is in sector {sector}, but sector_caps has only {sectors} entries")]
    Sector {
        /// The asset.
        asset: usize,
        /// Its sector.
        sector: usize,
        /// Number of sectors.
        sectors: usize,
    },
    /// Caps that leave cash outside its bounds for any weights.
    #[error(
        "assets can bring cash only from {least} to {most} within their bounds and caps, but \
         cash_lower is {lower} and cash_upper {upper}: widen one of them"
    )]
    Unattainable {
        /// Least attainable cash.
        least: f64,
        /// Largest attainable cash.
        most: f64,
        /// The lower bound of cash.
        lower: f64,
        /// The upper bound of cash.
        upper: f64,
    },
    /// Bounds of an exposure that leave nothing.
    #[error("{name} needs finite bounds, lower <= upper, got {lower} and {upper}")]
    Exposure {
        /// The exposure.
        name: &'static str,
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// Bounds of net exposure that contradict those of cash.
    #[error(
        "net exposure is one less cash: net_exposure from {lower} to {upper} leaves no weight of \
         cash within its bounds; widen one of them"
    )]
    NetExposure {
        /// The lower bound of the net exposure.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// Invalid beta.
    #[error("beta of asset {asset} must be finite, got {got}")]
    Beta {
        /// The asset.
        asset: usize,
        /// Actual value.
        got: f64,
    },
    /// Bounds of beta exposure outside of what is attainable.
    #[error(
        "assets can bring beta exposure only from {least} to {most} within their bounds and caps, \
         but beta_exposure is from {lower} to {upper}: widen one of them"
    )]
    BetaExposure {
        /// Least attainable exposure.
        least: f64,
        /// Largest attainable exposure.
        most: f64,
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// No position can be as large as required.
    #[error("min_weight {got} exceeds the caps of all assets, at most {most}: lower it")]
    MinWeight {
        /// The largest cap.
        most: f64,
        /// Actual value.
        got: f64,
    },
    /// No position is allowed.
    #[error("max_names must be at least 1, got 0; leave it out for no limit")]
    MaxNames,
}

impl Constraints {
    /// Check that the constraints are valid and feasible when everything can be traded.
    ///
    /// # Errors
    /// If they are invalid or infeasible: the constraint, the expected and the actual value.
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
        self.check_exposures()?;
        self.check_positions()?;
        self.check_attainable()?;
        self.check_attainable_beta()
    }

    fn check_exposures(&self) -> Result<(), ConstraintsError> {
        for (name, bounds) in [("net_exposure", self.net), ("beta_exposure", self.beta)] {
            let (lower, upper) = bounds.unwrap_or_default();
            if !(lower <= upper && lower.is_finite() && upper.is_finite()) {
                return Err(ConstraintsError::Exposure { name, lower, upper });
            }
        }
        let (least, most) = self.cash_bounds();
        if let Some((lower, upper)) = self.net.filter(|_| least > most + TOLERANCE) {
            return Err(ConstraintsError::NetExposure { lower, upper });
        }
        match self.betas.iter().enumerate().find(|(_, beta)| !beta.is_finite()) {
            Some((asset, &got)) => Err(ConstraintsError::Beta { asset, got }),
            None => Ok(()),
        }
    }

    fn check_positions(&self) -> Result<(), ConstraintsError> {
        check_cap("tolerance", Some(self.tolerance))?;
        check_cap("min_weight", Some(self.min_weight))?;
        let caps = self.lower.iter().map(|lower| -lower).chain(self.upper.iter().copied());
        let (most, got) = (caps.fold(0.0, f64::max), self.min_weight);
        if got > most {
            return Err(ConstraintsError::MinWeight { most, got });
        }
        if self.max_names == Some(0) { Err(ConstraintsError::MaxNames) } else { Ok(()) }
    }

    fn check_lengths(&self) -> Result<(), ConstraintsError> {
        let expected = self.assets();
        let length = |name, got| match got {
            got if got == expected => Ok(()),
            got => Err(ConstraintsError::Length { name, expected, got }),
        };
        if expected == 0 {
            return Err(ConstraintsError::NoAssets);
        }
        length("upper", self.upper.len())?;
        if self.beta.is_some() {
            length("betas", self.betas.len())?;
        }
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
        let (lower, upper) = self.cash_bounds();
        if upper < least - TOLERANCE || lower > most + TOLERANCE {
            return Err(ConstraintsError::Unattainable { least, most, lower, upper });
        }
        Ok(())
    }

    fn check_attainable_beta(&self) -> Result<(), ConstraintsError> {
        let Some((lower, upper)) = self.beta else { return Ok(()) };
        let (least, most) = self.attainable_beta();
        if upper < least - MISSED || lower > most + MISSED {
            return Err(ConstraintsError::BetaExposure { least, most, lower, upper });
        }
        Ok(())
    }
}

fn check_cap(name: &'static str, cap: Option<f64>) -> Result<(), ConstraintsError> {
    match cap {
        Some(got) if got.is_nan() || got < 0.0 => Err(ConstraintsError::Cap { name, got }),
        _ => Ok(()),
    }
}
