//! Holdings of trading agents: cash and lots, changed by fills alone.

use serde::{Deserialize, Serialize};

use crate::units::{Money, Ticks};

/// Holding of one agent in one symbol: cash flows and position since the market opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Cash received less cash paid, fees included.
    pub cash: Money,
    /// Lots held; negative when sold short.
    pub lots: i64,
    /// Fees paid, less rebates.
    pub fees: Money,
    /// Cost basis of the open lots: negative when they were sold short.
    pub cost: Money,
    /// Profit of closed lots, before fees.
    pub realised: Money,
}

impl Holding {
    /// Book a trade of `lots` (negative when sold) at a price, without tracking profits.
    pub(crate) fn exchange(&mut self, lots: i64, price: Ticks) {
        self.cash = self.cash - Money(lots * i64::from(price.0));
        self.lots += lots;
    }

    /// Book a trade of `lots` (negative when sold) at a price, with a fee.
    pub(crate) fn trade(&mut self, lots: i64, price: Ticks, fee: Money) {
        let paid = Money(lots * i64::from(price.0));
        self.cash = self.cash - paid - fee;
        self.fees += fee;
        let closing = if lots.signum() == -self.lots.signum() {
            lots.abs().min(self.lots.abs()) * lots.signum()
        } else {
            0
        };
        if closing != 0 {
            self.close(closing, price);
        }
        let opening = lots - closing;
        self.lots += opening;
        self.cost += Money(opening * i64::from(price.0));
    }

    /// Close lots at their average cost; the remainder of the division stays with the rest.
    #[allow(clippy::cast_possible_truncation)] // no part is larger than the whole
    fn close(&mut self, lots: i64, price: Ticks) {
        let share = i128::from(self.cost.0) * i128::from(-lots) / i128::from(self.lots);
        let cost = Money(share as i64);
        self.cost = self.cost - cost;
        self.realised = self.realised - Money(lots * i64::from(price.0)) - cost;
        self.lots += lots;
    }

    /// Value of cash and lots at `price`.
    #[must_use]
    pub fn worth(&self, price: Ticks) -> Money {
        self.cash + Money(self.lots * i64::from(price.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn closing_half_a_position_realises_half_its_profit() {
        let mut holding = Holding::default();

        holding.trade(10, Ticks(100), Money(3));
        holding.trade(-5, Ticks(110), Money(2));

        assert_eq!(holding.realised, Money(50));
        assert_eq!((holding.lots, holding.cost), (5, Money(500)));
        assert_eq!((holding.cash, holding.fees), (Money(-455), Money(5)));
    }

    #[test]
    fn selling_through_zero_opens_a_short_at_the_new_price() {
        let mut holding = Holding::default();

        holding.trade(4, Ticks(100), Money(0));
        holding.trade(-10, Ticks(90), Money(0));

        assert_eq!((holding.lots, holding.cost, holding.realised), (-6, Money(-540), Money(-40)));
    }

    proptest! {
        #[test]
        fn cash_is_realised_pnl_less_open_cost_and_fees(
            trades in prop::collection::vec((-500i64..500, 1i32..100_000, -20i64..50), 1..60),
        ) {
            let mut holding = Holding::default();

            for (lots, price, fee) in trades {
                let before = holding.worth(Ticks(price));
                holding.trade(lots, Ticks(price), Money(fee));
                prop_assert_eq!(holding.worth(Ticks(price)), before - Money(fee));
                prop_assert_eq!(holding.cash, holding.realised - holding.cost - holding.fees);
                prop_assert!(holding.lots != 0 || holding.cost == Money(0));
            }
        }
    }
}
