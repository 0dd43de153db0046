//! Validation and feasibility check of constraints.

use thiserror::Error;

use super::beta::MISSED;
use super::reach::{Room, attainable_sums};
use super::{Constraints, TARGET_LIMIT, TOLERANCE};

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
    /// Rules of positions that leave cash outside its bounds for any weights.
    #[error(
        "{rules} allows no weights with cash from {lower} to {upper} within the bounds and caps of \
         assets, got cash of {nearest} at best: raise max_names, lower min_weight, or widen one of \
         the others"
    )]
    Positions {
        /// The rules, with their values.
        rules: String,
        /// The attainable weight of cash that is nearest to its bounds.
        nearest: f64,
        /// The lower bound of cash.
        lower: f64,
        /// The upper bound of cash.
        upper: f64,
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
        self.check_attainable_positions()?;
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

    /// Refuse rules of positions that no choice of names can meet. Exact without short positions
    /// and beta bounds; with them, and with short positions of a least size, only what is certain
    /// is refused.
    fn check_attainable_positions(&self) -> Result<(), ConstraintsError> {
        if self.is_convex() {
            return Ok(());
        }
        let (lower, upper) = self.cash_bounds();
        let names = self.max_names.unwrap_or(usize::MAX);
        let longs = self.largest_sums(names, &self.upper);
        let shorts: Vec<f64> = self.lower.iter().map(|lower| -lower).collect();
        let shorts = self.largest_sums(names, &shorts);
        let most_short = shorts[shorts.len() - 1];
        let mut nearest = f64::INFINITY;
        #[allow(clippy::cast_precision_loss)] // names are few
        for (count, most) in longs.iter().enumerate() {
            // Short positions fill the gaps between numbers of names.
            let least = if most_short > 0.0 { 0.0 } else { count as f64 * self.min_weight };
            let (low, high) = (1.0 - most, 1.0 - least + most_short);
            if upper >= low - TOLERANCE && lower <= high + TOLERANCE {
                return Ok(());
            }
            let cash = if upper < low { low } else { high };
            let distance = |cash: f64| (lower - cash).max(cash - upper);
            nearest = if distance(cash) < distance(nearest) { cash } else { nearest };
        }
        let names = self.max_names.map(|most| format!("max_names {most}"));
        let sizes = (self.min_weight > 0.0).then(|| format!("min_weight {}", self.min_weight));
        let rules = names.into_iter().chain(sizes).collect::<Vec<_>>().join(" with ");
        Err(ConstraintsError::Positions { rules, nearest, lower, upper })
    }

    /// Largest sum of absolute weights of each number of names, at most `names`, on one side.
    ///
    /// The next name adds the less the more names its sector has, so that the largest additions
    /// are the best choice for every number.
    fn largest_sums(&self, names: usize, caps: &[f64]) -> Vec<f64> {
        let least = self.min_weight;
        let leverage = self.leverage.unwrap_or(f64::INFINITY);
        let mut order: Vec<usize> = (0..caps.len()).collect();
        order.retain(|&asset| caps[asset] > 0.0 && caps[asset] >= least);
        order.sort_by(|&first, &second| caps[second].total_cmp(&caps[first]));
        let mut rooms: Vec<(f64, usize)> =
            self.sector_caps.iter().map(|cap| (cap.unwrap_or(f64::INFINITY), 0)).collect();
        let mut additions = Vec::new();
        for asset in order {
            let cap = caps[asset].min(TARGET_LIMIT);
            let Some(sector) = self.sectors.get(asset).copied().flatten() else {
                additions.push(cap);
                continue;
            };
            let (room, count) = &mut rooms[sector];
            let most = self.sector_caps[sector].unwrap_or(f64::INFINITY);
            #[allow(clippy::cast_precision_loss)] // names are few
            if (*count + 1) as f64 * least <= most + TOLERANCE {
                let added = cap.min(*room);
                (*room, *count) = (*room - added, *count + 1);
                additions.push(added);
            }
        }
        additions.sort_by(|first, second| second.total_cmp(first));
        let mut sums = vec![0.0];
        for (index, added) in additions.into_iter().take(names).enumerate() {
            #[allow(clippy::cast_precision_loss)] // names are few
            if (index + 1) as f64 * least > leverage + TOLERANCE {
                break;
            }
            sums.push((sums[index] + added).min(leverage));
        }
        sums
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
