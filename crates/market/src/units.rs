//! Prices, sizes and money as integers that cannot be mixed up.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

use crate::error::OrderError;
use serde::{Deserialize, Serialize};

/// A price in ticks. Integers keep books exact and runs identical on every machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ticks(pub i32);

impl Ticks {
    /// The lowest price an order may have.
    pub const MIN: Self = Self(1);
    /// The highest price an order may have; it leaves notional plus fee room in 64 bits.
    pub const MAX: Self = Self(1 << 30);
}

/// The size of an order, or of a part of one, in lots.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Lots(pub u32);

impl Lots {
    /// The smallest size an order may have.
    pub const MIN: Self = Self(1);
    /// The largest size an order may have.
    pub const MAX: Self = Self(u32::MAX);
}

/// An amount of cash in units of one tick times one lot; negative when paid.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Money(pub i64);

/// A price that a book can hold.
impl TryFrom<i64> for Ticks {
    type Error = OrderError;

    fn try_from(got: i64) -> Result<Self, OrderError> {
        let price = i32::try_from(got).ok().map(Self);
        price
            .filter(|price| (Self::MIN..=Self::MAX).contains(price))
            .ok_or(OrderError::PriceOutOfRange { got })
    }
}

/// A size that an order can have.
impl TryFrom<i64> for Lots {
    type Error = OrderError;

    fn try_from(got: i64) -> Result<Self, OrderError> {
        let size = u32::try_from(got).ok().map(Self);
        size.filter(|size| *size >= Self::MIN).ok_or(OrderError::SizeOutOfRange { got })
    }
}

impl Money {
    /// Cost of `size` lots at `price`, exactly.
    #[must_use]
    pub fn notional(price: Ticks, size: Lots) -> Self {
        Self(i64::from(price.0) * i64::from(size.0))
    }
}

// A wrapped sum would silently create money, so every sum is checked, in release builds too.
impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("cash stays within 64 bits"))
    }
}

impl Sub for Money {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("cash stays within 64 bits"))
    }
}

impl Neg for Money {
    type Output = Self;

    fn neg(self) -> Self {
        Self::default() - self
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Ticks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Lots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_price_or_a_size_only_within_its_range() {
        let beyond = i64::from(Ticks::MAX.0) + 1;
        let too_many = i64::from(u32::MAX) + 1;

        assert_eq!(Ticks::try_from(beyond - 1), Ok(Ticks::MAX));
        assert_eq!(Lots::try_from(too_many - 1), Ok(Lots::MAX));
        for got in [0, -1, beyond, i64::MAX] {
            assert_eq!(Ticks::try_from(got), Err(OrderError::PriceOutOfRange { got }));
        }
        for got in [0, -1, too_many, i64::MIN] {
            assert_eq!(Lots::try_from(got), Err(OrderError::SizeOutOfRange { got }));
        }
    }

    #[test]
    fn the_largest_notional_fits_twice_into_money() {
        let largest = Money::notional(Ticks::MAX, Lots(u32::MAX));

        assert_eq!((largest + largest).0, 2 * (1 << 30) * i64::from(u32::MAX));
    }

    #[test]
    #[should_panic(expected = "cash stays within 64 bits")]
    fn a_sum_beyond_64_bits_is_never_silent() {
        let _ = Money(i64::MAX) + Money(1);
    }
}
