//! The two sides of a market.

use serde::{Deserialize, Serialize};

use crate::error::OrderError;
use crate::units::Ticks;

/// Side of an order: buy or sell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Side {
    /// Bids: the highest price is the best.
    Buy = 0,
    /// Asks: the lowest price is the best.
    Sell = 1,
}

impl Side {
    /// Both sides, in the order in which the book stores them.
    pub const BOTH: [Self; 2] = [Self::Buy, Self::Sell];

    /// The side that this one trades against.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }

    /// 1 for a buyer, -1 for a seller: the direction in which a fill moves a position.
    #[must_use]
    pub fn sign(self) -> i64 {
        match self {
            Self::Buy => 1,
            Self::Sell => -1,
        }
    }

    /// Sort key of `price` on this side: the lower the key, the better the price, so that one
    /// ladder serves both sides.
    pub(crate) fn key(self, price: Ticks) -> i32 {
        match self {
            Self::Buy => -price.0,
            Self::Sell => price.0,
        }
    }

    /// Price of a sort key.
    pub(crate) fn price(self, key: i32) -> Ticks {
        Ticks(self.key(Ticks(key)))
    }
}

/// The side with this number.
impl TryFrom<i64> for Side {
    type Error = OrderError;

    fn try_from(got: i64) -> Result<Self, OrderError> {
        match got {
            0 => Ok(Self::Buy),
            1 => Ok(Self::Sell),
            _ => Err(OrderError::UnknownSide { got }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_price_has_a_lower_key_on_either_side() {
        assert!(Side::Buy.key(Ticks(101)) < Side::Buy.key(Ticks(100)));
        assert!(Side::Sell.key(Ticks(100)) < Side::Sell.key(Ticks(101)));
    }

    #[test]
    fn a_side_is_found_by_its_number() {
        for side in Side::BOTH {
            assert_eq!(Side::try_from(side as i64), Ok(side));
        }
        assert_eq!(Side::try_from(-1), Err(OrderError::UnknownSide { got: -1 }));
    }

    #[test]
    fn a_key_gives_its_price_back() {
        for side in Side::BOTH {
            assert_eq!(side.price(side.key(Ticks(7))), Ticks(7));
        }
    }
}
