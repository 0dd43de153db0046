//! Settlement of many trades, as columns.

use crate::book::batch::BatchError;
use crate::error::OrderError;
use crate::fees::Fees;
use crate::fill::Fill;
use crate::id::{AccountId, OrderId};
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Changes of cash and lots, trade by trade. In every row the lots of both add up to zero, and
/// so do the cash of both and the fees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Change of the cash of the maker.
    pub maker_cash: Vec<i64>,
    /// Change of the cash of the taker.
    pub taker_cash: Vec<i64>,
    /// Change of the lots of the maker.
    pub maker_lots: Vec<i64>,
    /// Change of the lots of the taker.
    pub taker_lots: Vec<i64>,
    /// Fees earned by the market; negative if it pays more rebate than it charges.
    pub fees: Vec<i64>,
}

/// Settle trades of equally long columns under the schedule `fees`.
///
/// # Errors
/// If a column is shorter or longer than the others, or a number is not a valid price, size or side.
pub fn settle_columns(
    price: &[i64],
    size: &[i64],
    taker_side: &[i8],
    fees: &impl Fees,
) -> Result<Settled, BatchError> {
    let expected = price.len();
    for (column, got) in [("size", size.len()), ("taker_side", taker_side.len())] {
        if got != expected {
            return Err(BatchError::Length { column, expected, got });
        }
    }
    let mut settled = Settled::default();
    for row in 0..expected {
        let refused = |column| move |reason: OrderError| BatchError::Value { column, row, reason };
        let price = Ticks::try_from(price[row]).map_err(refused("price"))?;
        let size = Lots::try_from(size[row]).map_err(refused("size"))?;
        let side = Side::try_from(i64::from(taker_side[row])).map_err(refused("taker_side"))?;
        settled.push(price, size, side, fees);
    }
    Ok(settled)
}

impl Settled {
    fn push(&mut self, price: Ticks, size: Lots, taker_side: Side, fees: &impl Fees) {
        let fill = Fill {
            // The caller has the accounts; the settlement does not depend on them.
            maker: OrderId::from_bits(0),
            maker_account: AccountId(0),
            taker_account: AccountId(0),
            price,
            size,
            maker_left: Lots(0),
            taker_side,
        };
        let settlement = fill.settle(fees);
        let (maker_cash, taker_cash) = match taker_side {
            Side::Buy => (settlement.seller_cash, settlement.buyer_cash),
            Side::Sell => (settlement.buyer_cash, settlement.seller_cash),
        };
        let taker_lots = taker_side.sign() * i64::from(size.0);
        self.maker_cash.push(maker_cash.0);
        self.taker_cash.push(taker_cash.0);
        self.maker_lots.push(-taker_lots);
        self.taker_lots.push(taker_lots);
        self.fees.push(settlement.fees.0);
    }
}
