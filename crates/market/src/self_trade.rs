//! What happens when an account would trade with itself.

/// The rule for an incoming order that meets a resting order of its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SelfTrade {
    /// They trade like any two orders.
    Allow = 0,
    /// The resting (older) order is cancelled and the incoming one goes on.
    #[default]
    CancelResting = 1,
    /// What is left of the incoming (newer) order is cancelled.
    CancelIncoming = 2,
    /// Both lose the smaller of the two sizes without a trade.
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
