//! Trading and holding costs.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use serde::{Deserialize, Serialize};

use super::lanes::{Lanes, Machine};

/// Days per year, for yearly rates.
const YEAR_DAYS: f64 = 365.0;

/// Largest impact as a share of the traded value: a sale always has proceeds.
const WORST_IMPACT: f64 = 0.5;

/// Rates of all costs. Shares are of the value traded, yearly rates of the value held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Commission, as a share.
    pub proportional: f64,
    /// Commission for each order that fills at all, in currency.
    pub fixed: f64,
    /// Half spread, as a share of the price.
    pub half_spread: f64,
    /// Impact coefficient: multiple of trailing volatility times the square root of size over mean
    /// volume.
    pub impact: f64,
    /// Borrow cost of assets sold short, yearly.
    pub borrow: f64,
    /// Financing rate of cash owed, yearly.
    pub financing: f64,
    /// Interest rate earned on cash, yearly.
    pub interest: f64,
    /// Share of a position lost if its asset is delisted.
    pub delisting: f64,
}

macro_rules! cost_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// Costs that a portfolio paid, by kind, in currency.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Paid {
            $($(#[$doc])* pub $kind: f64,)*
        }

        /// Names of the cost kinds, in the order of [`Paid::by_kind`].
        pub const COST_KINDS: [&str; Paid::KINDS] = [$($name),*];

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

// The one list of cost kinds: info keys, logs, reports and status follow from it.
cost_kinds! {
    /// Commission by value.
    proportional = "commission",
    /// Commission by order.
    fixed = "fixed",
    /// Half spreads.
    spread = "spread",
    /// Market impact.
    impact = "impact",
    /// Borrow costs of short positions.
    borrow = "borrow",
    /// Financing of cash owed, less interest earned.
    financing = "financing",
    /// Losses on delisted positions.
    delisting = "delisting",
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
}

impl Costs {
    /// Cost per unit of value traded, without market impact.
    #[must_use]
    pub fn base_rate(&self) -> f64 {
        self.proportional + self.half_spread
    }

    /// Market impact added to that: volatility times the square root of size over volume;
    /// `volatility_per_root` holds the factor of each asset.
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
