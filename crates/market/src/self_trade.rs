//! Self-trade prevention: rules for an account that would trade with itself.

/// Self-trade prevention rule for an incoming order that matches a resting order of its own
/// account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SelfTrade {
    /// Trade like any two orders.
    Allow = 0,
    /// Cancel the resting (older) order and continue with the incoming one.
    #[default]
    CancelResting = 1,
    /// Cancel the rest of the incoming (newer) order.
    CancelIncoming = 2,
    /// Reduce both by the smaller of the two sizes without a trade.
    DecrementBoth = 3,
}

impl SelfTrade {
    /// Every rule, at the index of its number.
    pub const ALL: [Self; 4] =
        [Self::Allow, Self::CancelResting, Self::CancelIncoming, Self::DecrementBoth];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_stands_at_the_index_of_its_number() {
        for (index, rule) in SelfTrade::ALL.into_iter().enumerate() {
            assert_eq!(rule as usize, index);
        }
    }
}
