//! Trading and holding costs: rates with their ranges, and what was paid by kind.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use serde::{Deserialize, Serialize};

use super::lanes::{Lanes, Machine};
use super::settings::{PortfolioError, require};

/// Days per year, for yearly rates.
const YEAR_DAYS: f64 = 365.0;

/// Largest temporary impact as a share of the traded value: a sale always has proceeds.
const WORST_IMPACT: f64 = 0.5;

/// A rate of all assets, or one of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or a list with a number for each asset")]
pub enum AssetRate {
    /// The same for all.
    All(f64),
    /// One for each.
    Each(Vec<f64>),
}

impl Default for AssetRate {
    fn default() -> Self {
        Self::All(0.0)
    }
}

impl AssetRate {
    /// Rate of an asset; 0 for padding.
    #[inline(always)]
    pub(super) fn of(&self, asset: usize) -> f64 {
        match self {
            Self::All(rate) => *rate,
            Self::Each(rates) => rates.get(asset).copied().unwrap_or(0.0),
        }
    }

    /// The common rate of all assets; `None` if each has its own.
    #[inline(always)]
    pub(super) fn common(&self) -> Option<f64> {
        match self {
            Self::All(rate) => Some(*rate),
            Self::Each(_) => None,
        }
    }

    /// Return true if no asset has a rate.
    #[inline(always)]
    pub(super) fn is_zero(&self) -> bool {
        self.values().iter().all(|rate| *rate == 0.0)
    }

    /// The different numbers of the rate.
    pub(super) fn values(&self) -> &[f64] {
        match self {
            Self::All(rate) => std::slice::from_ref(rate),
            Self::Each(rates) => rates,
        }
    }

    /// Require one number for each asset, if each has its own.
    pub(super) fn check_len(
        &self,
        field: &'static str,
        assets: usize,
    ) -> Result<(), PortfolioError> {
        let got = if let Self::Each(rates) = self { rates.len() } else { assets };
        require(got == assets, field, &format!("for {assets} assets"), &got)
    }
}

/// Setting that is checked against its range.
trait Ranged {
    fn check_range(
        &self,
        field: &'static str,
        most: f64,
        assets: usize,
    ) -> Result<(), PortfolioError>;
}

impl Ranged for f64 {
    fn check_range(&self, field: &'static str, most: f64, _: usize) -> Result<(), PortfolioError> {
        let expected = if most < 2.0 { format!("from 0 to {most}") } else { "from 0".into() };
        require((0.0..=most).contains(self), field, &expected, self)
    }
}

impl Ranged for AssetRate {
    fn check_range(
        &self,
        field: &'static str,
        most: f64,
        assets: usize,
    ) -> Result<(), PortfolioError> {
        self.check_len(field, assets)?;
        self.values().iter().try_for_each(|rate| rate.check_range(field, most, assets))
    }
}

macro_rules! costs {
    (
        rates {$($(#[$rate_doc:meta])* $rate:ident: $type:ty, at most $most:expr;)*}
        kinds {$($(#[$doc:meta])* $kind:ident = $name:literal, set by $field:ident, $part:ident;)*}
    ) => {
        /// Rates of all costs. Shares are of the value traded, yearly rates of the value held.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Costs {
            $($(#[$rate_doc])* pub $rate: $type,)*
        }

        impl Costs {
            /// Validate all rates for a number of assets.
            pub(super) fn check(&self, assets: usize) -> Result<(), PortfolioError> {
                $(self.$rate.check_range(stringify!($rate), $most, assets)?;)*
                Ok(())
            }
        }

        /// Costs that a portfolio paid, by kind, in currency.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Paid {
            $($(#[$doc])* pub $kind: f64,)*
        }

        /// Names of the cost kinds, in the order of [`Paid::by_kind`].
        pub const COST_KINDS: [&str; Paid::KINDS] = [$($name),*];

        /// Rate of [`Costs`] that sets each kind, and when it is paid, in the same order.
        pub const COST_SOURCES: [(&str, CostPart); Paid::KINDS] =
            [$((stringify!($field), CostPart::$part)),*];

        impl Paid {
            /// Number of cost kinds.
            pub const KINDS: usize = [$($name),*].len();

            /// Costs as an array, in the order of [`COST_KINDS`].
            #[must_use]
            pub fn by_kind(&self) -> [f64; Self::KINDS] {
                [$(self.$kind),*]
            }

            /// Inverse of [`Paid::by_kind`].
            #[must_use]
            pub fn of_kinds([$($kind),*]: [f64; Self::KINDS]) -> Self {
                Self { $($kind),* }
            }
        }
    };
}

/// Time at which a cost is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostPart {
    /// With a fill, in proportion to its size.
    Fill,
    /// Once for an order that fills.
    Order,
    /// For holding a position or cash over time.
    Holding,
    /// At the delisting of an asset.
    Delisting,
}

// The one list of costs: settings and their ranges, info keys, logs, reports, reward functions and
// status pages follow from it.
costs! {
    rates {
        /// Commission, as a share.
        proportional: AssetRate, at most 0.5;
        /// Commission for each order that fills at all, in currency.
        fixed: f64, at most f64::MAX;
        /// Commission for each unit, in currency.
        per_share: AssetRate, at most f64::MAX;
        /// Half spread, as a share of the price.
        half_spread: AssetRate, at most 0.5;
        /// Impact coefficient: multiple of trailing volatility times the square root of size over
        /// mean volume.
        impact: AssetRate, at most f64::MAX;
        /// Permanent impact: price move as a share of the price, per currency traded.
        permanent_impact: AssetRate, at most f64::MAX;
        /// Transient impact: as permanent impact, and decays.
        transient_impact: AssetRate, at most f64::MAX;
        /// Half-life of transient impact, in rows.
        impact_half_life: f64, at most f64::MAX;
        /// Borrow cost of assets sold short, yearly.
        borrow: AssetRate, at most f64::MAX;
        /// Financing rate of cash owed, yearly.
        financing: f64, at most f64::MAX;
        /// Interest rate earned on cash, yearly.
        interest: f64, at most f64::MAX;
        /// Share of a position lost if its asset is delisted.
        delisting: f64, at most 1.0;
    }
    kinds {
        /// Commission by value.
        proportional = "commission", set by proportional, Fill;
        /// Commission by order.
        fixed = "fixed", set by fixed, Order;
        /// Commission by unit.
        per_share = "per_share", set by per_share, Fill;
        /// Half spreads.
        spread = "spread", set by half_spread, Fill;
        /// Market impact.
        impact = "impact", set by impact, Fill;
        /// Permanent impact of own trading.
        permanent_impact = "permanent_impact", set by permanent_impact, Fill;
        /// Transient impact of own trading.
        transient_impact = "transient_impact", set by transient_impact, Fill;
        /// Borrow costs of short positions.
        borrow = "borrow", set by borrow, Holding;
        /// Financing of cash owed, less interest earned.
        financing = "financing", set by financing, Holding;
        /// Losses on delisted positions.
        delisting = "delisting", set by delisting, Delisting;
    }
}

impl Paid {
    /// Sum of both.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        let (mut kinds, more) = (self.by_kind(), more.by_kind());
        kinds.iter_mut().zip(more).for_each(|(paid, more)| *paid += more);
        Self::of_kinds(kinds)
    }

    /// Total cost.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.by_kind().iter().sum()
    }

    /// Costs that were paid with fills, in proportion to their sizes.
    #[must_use]
    pub fn with_fills(&self) -> f64 {
        let kinds = self.by_kind().into_iter().zip(COST_SOURCES);
        kinds.filter(|(_, (_, part))| *part == CostPart::Fill).map(|(paid, _)| paid).sum()
    }
}

impl Costs {
    /// Cost per unit of value traded without market impact, if it is the same for all assets and
    /// prices.
    #[inline(always)]
    pub(super) fn base_rate(&self) -> Option<f64> {
        match (self.proportional.common(), self.half_spread.common(), self.impact.common()) {
            (Some(commission), Some(spread), Some(_)) if self.per_share.is_zero() => {
                Some(commission + spread)
            }
            _ => None,
        }
    }

    /// Return true if own trading moves the prices of later fills.
    #[inline(always)]
    pub(super) fn displaces(&self) -> bool {
        !self.permanent_impact.is_zero() || !self.transient_impact.is_zero()
    }

    /// Market impact added to that: volatility times the square root of size over volume;
    /// `volatility_per_root` holds the factor of each asset.
    #[inline(always)]
    pub(super) fn impact_rates<M: Machine>(
        machine: M,
        coefficients: M::Lanes,
        sizes: M::Lanes,
        volatility_per_root: M::Lanes,
    ) -> M::Lanes {
        let rates = coefficients * (sizes.sqrt() * volatility_per_root);
        rates.smaller(machine.all(WORST_IMPACT))
    }

    /// A yearly rate for some days.
    pub(super) fn for_days(rate: f64, days: f64) -> f64 {
        rate * days / YEAR_DAYS
    }
}
