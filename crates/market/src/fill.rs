//! Fills: trades between a resting and an incoming order, and their settlement.

use serde::{Deserialize, Serialize};

use crate::fees::Fees;
use crate::id::{AccountId, OrderId};
use crate::side::Side;
use crate::units::{Lots, Money, Ticks};

/// Fill; its price is the resting order's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// The resting order.
    pub maker: OrderId,
    /// Account of the resting order.
    pub maker_account: AccountId,
    /// Account of the incoming order.
    pub taker_account: AccountId,
    /// The price of the trade.
    pub price: Ticks,
    /// The size of the trade.
    pub size: Lots,
    /// Remaining lots of the resting order; at zero its id is stale.
    pub maker_left: Lots,
    /// The side of the incoming order.
    pub taker_side: Side,
}

/// Settlement of a trade between its buyer, its seller and the market; the cash adds up to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Account that receives the lots.
    pub buyer: AccountId,
    /// Account that delivers the lots.
    pub seller: AccountId,
    /// Traded lots.
    pub size: Lots,
    /// Change of the buyer's cash.
    pub buyer_cash: Money,
    /// Change of the seller's cash.
    pub seller_cash: Money,
    /// Fees earned by the market; negative if it pays more rebate than it charges.
    pub fees: Money,
}

impl Fill {
    /// Price times size.
    #[must_use]
    pub fn notional(&self) -> Money {
        Money::notional(self.price, self.size)
    }

    /// Settle the trade under the schedule `fees`.
    #[must_use]
    pub fn settle(&self, fees: &impl Fees) -> Settlement {
        let notional = self.notional();
        let maker_fee = fees.maker(self.price, self.size);
        let taker_fee = fees.taker(self.price, self.size);
        let (buyer, seller, buyer_fee, seller_fee) = match self.taker_side {
            Side::Buy => (self.taker_account, self.maker_account, taker_fee, maker_fee),
            Side::Sell => (self.maker_account, self.taker_account, maker_fee, taker_fee),
        };
        Settlement {
            buyer,
            seller,
            size: self.size,
            buyer_cash: -notional - buyer_fee,
            seller_cash: notional - seller_fee,
            fees: maker_fee + taker_fee,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fees::PerLot;

    #[test]
    fn the_taker_pays_the_taker_fee_on_either_side() {
        let fees = PerLot::new(Money(-1), Money(3)).expect("small fees");
        let sold = Fill {
            maker: OrderId::from_bits(0),
            maker_account: AccountId(1),
            taker_account: AccountId(2),
            price: Ticks(10),
            size: Lots(4),
            maker_left: Lots(0),
            taker_side: Side::Sell,
        };
        let bought = Fill { taker_side: Side::Buy, ..sold };

        let (sold, bought) = (sold.settle(&fees), bought.settle(&fees));

        assert_eq!((sold.buyer, sold.seller), (AccountId(1), AccountId(2)));
        assert_eq!((sold.buyer_cash, sold.seller_cash), (Money(-36), Money(28)));
        assert_eq!((bought.buyer, bought.seller), (AccountId(2), AccountId(1)));
        assert_eq!((bought.buyer_cash, bought.seller_cash), (Money(-52), Money(44)));
        assert_eq!((sold.fees, bought.fees), (Money(8), Money(8)));
    }
}
