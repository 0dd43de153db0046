//! What a market charges for a trade.

use thiserror::Error;

use crate::units::{Lots, Money, Ticks};

/// Prices the two sides of a trade. A fee is positive when charged, negative when paid out, and
/// never larger than [`Fees::LIMIT_PER_LOT`] a lot, so that every settlement fits into 64 bits.
pub trait Fees {
    /// The largest fee or rebate for one lot.
    const LIMIT_PER_LOT: Money = Money(Ticks::MAX.0 as i64);

    /// The fee of the order that rested.
    fn maker(&self, price: Ticks, size: Lots) -> Money;

    /// The fee of the order that came in.
    fn taker(&self, price: Ticks, size: Lots) -> Money;
}

/// Why a fee was refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FeesError {
    /// A fee for one lot is too large.
    #[error("a fee of at most {limit} a lot was wanted, charged or paid, found {found}")]
    PerLot {
        /// The largest fee.
        limit: Money,
        /// The fee that was given.
        found: Money,
    },
    /// A rate is above the whole notional.
    #[error("a rate of at most 1,000,000 millionths was wanted, charged or paid, found {found}")]
    Rate {
        /// The rate that was given, in millionths.
        found: i32,
    },
}

/// Nothing is charged: an upper bound on what a strategy earns.
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

/// A fixed fee for each lot, whatever its price: cheap prices pay relatively more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerLot {
    maker: Money,
    taker: Money,
}

impl PerLot {
    /// Charges `maker` and `taker` a lot; negative amounts are rebates.
    ///
    /// # Errors
    /// When an amount is beyond [`Fees::LIMIT_PER_LOT`].
    pub fn new(maker: Money, taker: Money) -> Result<Self, FeesError> {
        let limit = Self::LIMIT_PER_LOT;
        match [maker, taker].into_iter().find(|fee| fee.0.unsigned_abs() > limit.0.unsigned_abs()) {
            Some(found) => Err(FeesError::PerLot { limit, found }),
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

/// A part of a notional, in millionths: 100 are one basis point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(i32);

impl Rate {
    const WHOLE: i32 = 1_000_000;

    /// A rate in millionths of the notional; negative for a rebate.
    ///
    /// # Errors
    /// When it is more than the whole notional.
    pub fn from_millionths(millionths: i32) -> Result<Self, FeesError> {
        if millionths.unsigned_abs() > Self::WHOLE.unsigned_abs() {
            return Err(FeesError::Rate { found: millionths });
        }
        Ok(Self(millionths))
    }

    /// A rate in basis points of the notional; negative for a rebate.
    ///
    /// # Errors
    /// When it is more than the whole notional.
    pub fn from_basis_points(basis_points: i32) -> Result<Self, FeesError> {
        Self::from_millionths(basis_points.saturating_mul(100))
    }

    /// The rate's part of `notional`, rounded up: a fraction of a unit goes to the market, so
    /// that splitting an order never saves fees.
    #[allow(clippy::cast_possible_truncation)] // at most the notional itself
    fn of(self, notional: Money) -> Money {
        let (product, whole) =
            (i128::from(notional.0) * i128::from(self.0), i128::from(Self::WHOLE));
        Money(-(-product).div_euclid(whole) as i64)
    }
}

/// A part of the notional, rounded up in favour of the market: small trades pay relatively more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfNotional {
    /// The rate of the order that rested.
    pub maker: Rate,
    /// The rate of the order that came in.
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
    fn fees_beyond_the_limit_say_what_was_found() {
        let rate = Rate::from_basis_points(10_001).expect_err("above the notional");
        let per_lot = PerLot::new(Money(0), Money(i64::MIN)).expect_err("above the limit");

        assert!(rate.to_string().ends_with("found 1000100"));
        assert!(per_lot.to_string().ends_with("found -9223372036854775808"));
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
