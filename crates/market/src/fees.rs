//! Fee schedules of a market.

use thiserror::Error;

use crate::units::{Lots, Money, Ticks};

/// Fee schedule for the two sides of a trade. A fee is positive when charged, negative when paid
/// out, and never larger than [`Fees::LIMIT_PER_LOT`] a lot, so that every settlement fits into 64
/// bits.
pub trait Fees {
    /// The largest fee or rebate for one lot.
    const LIMIT_PER_LOT: Money = Money(Ticks::MAX.0 as i64);

    /// Maker fee.
    fn maker(&self, price: Ticks, size: Lots) -> Money;

    /// Taker fee.
    fn taker(&self, price: Ticks, size: Lots) -> Money;
}

/// Invalid fee.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FeesError {
    /// A fee for one lot is too large.
    #[error("fee per lot must be within +-{limit}, got {got}")]
    PerLot {
        /// The largest fee.
        limit: Money,
        /// Rejected fee.
        got: Money,
    },
    /// A rate is above the whole notional.
    #[error("rate must be within +-1,000,000 millionths, got {got}")]
    Rate {
        /// Rejected rate, in millionths.
        got: i32,
    },
}

/// No fees: an upper bound on the profit of a strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free;

impl Fees for Free {
    fn maker(&self, _price: Ticks, _size: Lots) -> Money {
        Money(0)
    }

    fn taker(&self, _price: Ticks, _size: Lots) -> Money {
        Money(0)
    }
}

/// Fixed fee per lot, whatever its price: low prices pay relatively more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerLot {
    maker: Money,
    taker: Money,
}

impl PerLot {
    /// A schedule of `maker` and `taker` fees per lot; negative amounts are rebates.
    ///
    /// # Errors
    /// If an amount is beyond [`Fees::LIMIT_PER_LOT`].
    pub fn new(maker: Money, taker: Money) -> Result<Self, FeesError> {
        let limit = Self::LIMIT_PER_LOT;
        match [maker, taker].into_iter().find(|fee| fee.0.unsigned_abs() > limit.0.unsigned_abs()) {
            Some(got) => Err(FeesError::PerLot { limit, got }),
            None => Ok(Self { maker, taker }),
        }
    }
}

impl Fees for PerLot {
    fn maker(&self, _price: Ticks, size: Lots) -> Money {
        Money(self.maker.0 * i64::from(size.0))
    }

    fn taker(&self, _price: Ticks, size: Lots) -> Money {
        Money(self.taker.0 * i64::from(size.0))
    }
}

/// Fee rate: a share of the notional, in millionths (100 are one basis point).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(i32);

impl Rate {
    const WHOLE: i32 = 1_000_000;

    /// A rate in millionths of the notional; negative for a rebate.
    ///
    /// # Errors
    /// If it is more than the whole notional.
    pub fn from_millionths(millionths: i32) -> Result<Self, FeesError> {
        if millionths.unsigned_abs() > Self::WHOLE.unsigned_abs() {
            return Err(FeesError::Rate { got: millionths });
        }
        Ok(Self(millionths))
    }

    /// A rate in basis points of the notional; negative for a rebate.
    ///
    /// # Errors
    /// If it is more than the whole notional.
    pub fn from_basis_points(basis_points: i32) -> Result<Self, FeesError> {
        Self::from_millionths(basis_points.saturating_mul(100))
    }

    /// Fee on `notional`, rounded up in favour of the market, so that splitting an order never
    /// saves fees.
    #[allow(clippy::cast_possible_truncation)] // at most the notional itself
    fn of(self, notional: Money) -> Money {
        let (product, divisor) =
            (i128::from(notional.0) * i128::from(self.0), i128::from(Self::WHOLE));
        Money(-(-product).div_euclid(divisor) as i64)
    }
}

/// Fees as a share of the notional, rounded up in favour of the market: small trades pay relatively
/// more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfNotional {
    /// Maker rate.
    pub maker: Rate,
    /// Taker rate.
    pub taker: Rate,
}

impl Fees for OfNotional {
    fn maker(&self, price: Ticks, size: Lots) -> Money {
        self.maker.of(Money::notional(price, size))
    }

    fn taker(&self, price: Ticks, size: Lots) -> Money {
        self.taker.of(Money::notional(price, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn basis_points(maker: i32, taker: i32) -> OfNotional {
        let rate = |points| Rate::from_basis_points(points).expect("below the notional");
        OfNotional { maker: rate(maker), taker: rate(taker) }
    }

    #[test]
    fn basis_points_are_exact_where_they_can_be() {
        let fees = basis_points(-1, 5);

        assert_eq!(fees.taker(Ticks(10_000), Lots(30)), Money(150));
        assert_eq!(fees.maker(Ticks(10_000), Lots(30)), Money(-30));
    }

    #[test]
    fn a_fraction_goes_to_the_market() {
        let fees = basis_points(-1, 1);

        assert_eq!(fees.taker(Ticks(10_001), Lots(1)), Money(2));
        assert_eq!(fees.maker(Ticks(19_999), Lots(1)), Money(-1));
    }

    #[test]
    fn the_largest_fee_fits() {
        let fees = basis_points(-10_000, 10_000);
        let notional = Money::notional(Ticks::MAX, Lots(u32::MAX));

        assert_eq!(fees.taker(Ticks::MAX, Lots(u32::MAX)), notional);
        assert_eq!(fees.maker(Ticks::MAX, Lots(u32::MAX)), -notional);
    }

    #[test]
    fn fees_beyond_the_limit_report_the_fee() {
        let rate = Rate::from_basis_points(10_001).expect_err("above the notional");
        let per_lot = PerLot::new(Money(0), Money(i64::MIN)).expect_err("above the limit");

        assert!(rate.to_string().ends_with("got 1000100"));
        assert!(per_lot.to_string().ends_with("got -9223372036854775808"));
    }

    proptest! {
        #[test]
        fn splitting_an_order_never_saves_fees(
            price in 1..=Ticks::MAX.0, first in 1..1_000_000u32, second in 1..1_000_000u32,
            points in -10_000..=10_000i32,
        ) {
            let (fees, price) = (basis_points(points, points), Ticks(price));

            let split = fees.taker(price, Lots(first)) + fees.taker(price, Lots(second));

            prop_assert!(split >= fees.taker(price, Lots(first + second)));
        }
    }
}
