//! Trading floor of one symbol: its book, the holdings of its agents, and the tape of the tick.

use serde::{Deserialize, Serialize};

use crate::book::OrderBook;
use crate::error::OrderError;
use crate::fees::Fees;
use crate::fill::Fill;
use crate::id::{AccountId, OrderId};
use crate::market::account::Holding;
use crate::order::{Order, Placement, Resting};
use crate::self_trade::SelfTrade;
use crate::side::Side;
use crate::units::{Lots, Money, Ticks};

/// Trades of one tick, aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tape {
    /// The highest trade, or the last price if there was none.
    pub high: Ticks,
    /// The lowest trade, or the last price if there was none.
    pub low: Ticks,
    /// The last price traded, in this tick or before.
    pub last: Ticks,
    /// Lots taken by buyers.
    pub bought: u64,
    /// Lots taken by sellers.
    pub sold: u64,
    /// Incoming orders that traded.
    pub trades: u32,
}

impl Tape {
    /// An empty tape after this last price.
    #[must_use]
    pub fn new(last: Ticks) -> Self {
        Self { high: last, low: last, last, bought: 0, sold: 0, trades: 0 }
    }

    /// Lots that traded.
    #[must_use]
    pub fn volume(&self) -> u64 {
        self.bought + self.sold
    }

    fn begin(&mut self) {
        *self = Self::new(self.last);
    }

    fn note(&mut self, fill: &Fill) {
        let is_first = self.volume() == 0;
        self.high = if is_first { fill.price } else { self.high.max(fill.price) };
        self.low = if is_first { fill.price } else { self.low.min(fill.price) };
        self.last = fill.price;
        match fill.taker_side {
            Side::Buy => self.bought += u64::from(fill.size.0),
            Side::Sell => self.sold += u64::from(fill.size.0),
        }
    }
}

/// Order book of one symbol with the accounts that trade in it.
///
/// Accounts `0..external` belong to learning agents and pay fees; those after them belong to the
/// population. Each fill is zero-sum together with the fees of the market.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Floor {
    pub(crate) book: OrderBook,
    pub(crate) holdings: Vec<Holding>,
    /// Resting lots of each learning agent, by side.
    pub(crate) resting_lots: Vec<[u64; 2]>,
    pub(crate) external: usize,
    /// Fees earned by the market.
    pub(crate) earned: Money,
    pub(crate) tape: Tape,
    pub(crate) fills: Vec<Fill>,
}

impl Floor {
    pub(crate) fn new(external: usize, population: usize, price: Ticks) -> Self {
        Self {
            book: OrderBook::new(SelfTrade::CancelResting),
            holdings: vec![Holding::default(); external + population],
            resting_lots: vec![[0; 2]; external],
            external,
            earned: Money(0),
            tape: Tape::new(price),
            fills: Vec::new(),
        }
    }

    /// Clear the trades of the last tick.
    pub(crate) fn begin_tick(&mut self) {
        self.tape.begin();
        self.fills.clear();
    }

    /// Submit an order and settle its fills.
    pub(crate) fn place(
        &mut self,
        order: Order,
        fees: &impl Fees,
    ) -> Result<Placement, OrderError> {
        let before = self.fills.len();
        let placement = self.book.place(order, &mut self.fills)?;
        self.settle_from(before, fees);
        self.update_resting(order.account, order.side, &placement);
        Ok(placement)
    }

    /// Cancel a resting order.
    pub(crate) fn cancel(&mut self, id: OrderId) -> Result<Resting, OrderError> {
        let order = self.book.cancel(id)?;
        if let Some(resting_lots) = self.resting_lots.get_mut(order.account.0 as usize) {
            resting_lots[order.side as usize] -= u64::from(order.size.0);
        }
        Ok(order)
    }

    /// Replace the price and size of a resting order of the population, and settle its fills.
    pub(crate) fn replace(
        &mut self,
        id: OrderId,
        price: Ticks,
        size: Lots,
        fees: &impl Fees,
    ) -> Result<Placement, OrderError> {
        let before = self.fills.len();
        let placement = self.book.replace(id, price, size, &mut self.fills)?;
        self.settle_from(before, fees);
        Ok(placement)
    }

    /// Position of an account, in lots.
    pub(crate) fn lots(&self, account: AccountId) -> i64 {
        self.holdings[account.0 as usize].lots
    }

    /// Copy `other` into the existing allocations.
    pub(crate) fn restore(&mut self, other: &Self) {
        self.book.clone_from(&other.book);
        self.holdings.clone_from(&other.holdings);
        self.resting_lots.clone_from(&other.resting_lots);
        self.fills.clone_from(&other.fills);
        (self.external, self.earned, self.tape) = (other.external, other.earned, other.tape);
    }

    fn settle_from(&mut self, first: usize, fees: &impl Fees) {
        self.tape.trades += u32::from(first < self.fills.len());
        for index in first..self.fills.len() {
            let fill = self.fills[index];
            self.tape.note(&fill);
            let lots = fill.taker_side.sign() * i64::from(fill.size.0);
            let (taker, maker) = (fill.taker_account.0 as usize, fill.maker_account.0 as usize);
            self.settle(taker, lots, &fill, || fees.taker(fill.price, fill.size));
            self.settle(maker, -lots, &fill, || fees.maker(fill.price, fill.size));
            if let Some(resting_lots) = self.resting_lots.get_mut(maker) {
                resting_lots[fill.taker_side.opposite() as usize] -= u64::from(fill.size.0);
            }
        }
    }

    /// Update the resting lots of a learning agent after an order rested or self-trade prevention
    /// removed some.
    fn update_resting(&mut self, account: AccountId, side: Side, placement: &Placement) {
        if let Some(resting_lots) = self.resting_lots.get_mut(account.0 as usize) {
            resting_lots[side as usize] += u64::from(placement.resting.0);
            resting_lots[side.opposite() as usize] -= placement.prevented;
        }
    }

    /// The population pays no fees and its profits are not tracked.
    fn settle(&mut self, account: usize, lots: i64, fill: &Fill, fee: impl FnOnce() -> Money) {
        if account >= self.external {
            return self.holdings[account].exchange(lots, fill.price);
        }
        let fee = fee();
        self.holdings[account].trade(lots, fill.price, fee);
        self.earned += fee;
    }

    /// Total cash of all accounts and the market's fees.
    pub(crate) fn total_cash(&self) -> Money {
        self.holdings.iter().map(|holding| holding.cash).sum::<Money>() + self.earned
    }
}
