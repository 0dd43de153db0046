//! What trading and holding costs.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use serde::{Deserialize, Serialize};

use super::lanes::{Lanes, Machine};

/// Days of the year that yearly rates are spread over.
const YEAR_DAYS: f64 = 365.0;

/// The worst impact, as a share of what is traded: a sale always brings something.
const WORST_IMPACT: f64 = 0.5;

/// Rates of all costs. Shares are of the value traded, yearly rates of the value held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Commission, as a share.
    pub proportional: f64,
    /// Commission for each order that fills at all, in currency.
    pub fixed: f64,
    /// Half of the distance between bid and ask, as a share of the price.
    pub half_spread: f64,
    /// Cost of size: this many trailing volatilities, times the root of size over mean volume.
    pub impact: f64,
    /// What lenders of assets that are sold short ask, yearly.
    pub borrow: f64,
    /// What lenders of cash ask, yearly.
    pub financing: f64,
    /// What cash that is not owed to anybody earns, yearly.
    pub interest: f64,
    /// What is lost of a position in an asset that is delisted, as a share.
    pub delisting: f64,
}

/// What a portfolio paid, by kind, in currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// Commission by value.
    pub proportional: f64,
    /// Commission by order.
    pub fixed: f64,
    /// Half spreads.
    pub spread: f64,
    /// The cost of size.
    pub impact: f64,
    /// Lent assets.
    pub borrow: f64,
    /// Lent cash, less interest earned.
    pub financing: f64,
    /// Delistings.
    pub delisting: f64,
}

impl Paid {
    /// How many kinds there are.
    pub const KINDS: usize = 7;

    /// One after the other.
    #[must_use]
    pub fn by_kind(&self) -> [f64; Self::KINDS] {
        let Self { proportional, fixed, spread, impact, borrow, financing, delisting } = *self;
        [proportional, fixed, spread, impact, borrow, financing, delisting]
    }

    /// What `by_kind` gave.
    #[must_use]
    pub fn of_kinds(kinds: [f64; Self::KINDS]) -> Self {
        let [proportional, fixed, spread, impact, borrow, financing, delisting] = kinds;
        Self { proportional, fixed, spread, impact, borrow, financing, delisting }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        let (mut kinds, more) = (self.by_kind(), more.by_kind());
        kinds.iter_mut().zip(more).for_each(|(paid, more)| *paid += more);
        Self::of_kinds(kinds)
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.by_kind().iter().sum()
    }
}

impl Costs {
    /// What each unit of value traded costs, apart from its size.
    #[must_use]
    pub fn base_rate(&self) -> f64 {
        self.proportional + self.half_spread
    }

    /// What the size of all that is traded in assets adds to that: the volatility times the root
    /// of size over volume, of which `volatility_per_root` is what each asset brings along.
    #[inline(always)]
    pub(super) fn impact_rates<M: Machine>(
        &self,
        machine: M,
        sizes: M::Lanes,
        volatility_per_root: M::Lanes,
    ) -> M::Lanes {
        let rates = machine.all(self.impact) * (sizes.sqrt() * volatility_per_root);
        rates.smaller(machine.all(WORST_IMPACT))
    }

    /// A yearly rate for some days.
    pub(super) fn for_days(rate: f64, days: f64) -> f64 {
        rate * days / YEAR_DAYS
    }
}
