//! Names of accounts and of resting orders.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whose order it is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AccountId(pub u32);

/// Names one resting order for ever: a slot is used again, its generation never is, so a stale
/// id cannot touch a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OrderId {
    /// How many orders used the slot before.
    pub(crate) generation: u32,
    /// Where the order is stored.
    pub(crate) slot: u32,
}

impl OrderId {
    /// The id as one number, for columns of ids.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The id that [`OrderId::to_bits`] wrote down. Any number is safe: one that names no
    /// resting order is refused where it is used.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the two halves of the number
    pub fn from_bits(bits: u64) -> Self {
        Self { generation: (bits >> 32) as u32, slot: bits as u32 }
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.slot, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_as_a_number() {
        let id = OrderId { generation: 7, slot: u32::MAX - 1 };

        assert_eq!(OrderId::from_bits(id.to_bits()), id);
    }
}
