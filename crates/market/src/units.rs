//! Prices, sizes and money as integers that cannot be mixed up.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

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

/// An amount of cash in units of one tick times one lot; negative when paid.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Money(pub i64);

impl Money {
    /// What `size` lots cost at `price`, exactly.
    #[must_use]
    pub fn notional(price: Ticks, size: Lots) -> Self {
        Self(i64::from(price.0) * i64::from(size.0))
    }
}

// A wrapped sum would invent money in silence, so every sum is checked, in release builds too.
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
