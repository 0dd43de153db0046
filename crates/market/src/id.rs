//! Ids of accounts and of resting orders.

use std::fmt;

use crate::error::OrderError;
use serde::{Deserialize, Serialize};

/// Account of the order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AccountId(pub u32);

/// Unique id of a resting order: slots are reused, their generations never are, so a stale id
/// cannot refer to another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OrderId {
    /// Number of orders that used the slot before.
    pub(crate) generation: u32,
    /// Slot of the order in the slab.
    pub(crate) slot: u32,
}

impl OrderId {
    /// Number of generations of a slot: few enough for an id to be a positive `i64`, the integer
    /// type that most arrays hold.
    pub(crate) const GENERATIONS: u32 = 1 << 31;

    /// The id as one number below 2^63, for columns of ids.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The id from the number of [`OrderId::to_bits`]. Any number is safe: an unknown id is refused
    /// on use.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the two halves of the number
    pub fn from_bits(bits: u64) -> Self {
        Self { generation: (bits >> 32) as u32, slot: bits as u32 }
    }
}

/// The account with this number.
impl TryFrom<i64> for AccountId {
    type Error = OrderError;

    fn try_from(got: i64) -> Result<Self, OrderError> {
        u32::try_from(got).map(Self).map_err(|_| OrderError::UnknownAccount { got })
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bits().cast_signed().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_as_its_number() {
        assert_eq!(OrderId { generation: 1, slot: 2 }.to_string(), "4294967298");
    }

    #[test]
    fn an_account_is_any_number_of_32_bits() {
        let beyond = i64::from(u32::MAX) + 1;

        assert_eq!(AccountId::try_from(beyond - 1), Ok(AccountId(u32::MAX)));
        for got in [-1, beyond] {
            assert_eq!(AccountId::try_from(got), Err(OrderError::UnknownAccount { got }));
        }
    }

    #[test]
    fn an_id_survives_as_a_number() {
        let id = OrderId { generation: 7, slot: u32::MAX - 1 };

        assert_eq!(OrderId::from_bits(id.to_bits()), id);
    }
}
