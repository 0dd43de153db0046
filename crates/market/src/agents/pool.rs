//! Statistical pool: thousands of small trading agents as a few orders per tick, whatever their
//! number.
//!
//! Large investors among them split parent orders into many child orders, so that order signs are
//! autocorrelated; volume is self-exciting; and patient agents keep the book deep.

use serde::{Deserialize, Serialize};

use super::{AgentGroup, MarketView, inventory_pressure, price_at, rest_order, take_within_collar};
use crate::id::{AccountId, OrderId};
use crate::market::floor::Floor;
use crate::order::Order;
use crate::random::Stream;
use crate::side::Side;
use crate::units::Lots;

/// Number of investors that work a parent order at the same time.
const INVESTORS: usize = 3;
/// Probability that an investor trades in a tick.
const TRADE_PROBABILITY: f64 = 0.3;
/// Child orders of the smallest parent order; the number has a tail with exponent 1.5.
const MIN_CHILDREN: f64 = 3.0;
/// Child orders of the largest parent order.
const MAX_CHILDREN: f64 = 300.0;
/// Number of patient orders resting on each side.
const RESTING_ORDERS: usize = 16;
/// Largest distance from the mid price at which they quote, in ticks.
const MAX_DISTANCE: u32 = 30;
/// Decay of the excitement per tick.
const EXCITEMENT_DECAY: f64 = 0.9;
/// Position limit per lot of a child order: beyond it parent orders only reduce.
const LIMIT: i64 = 100;
/// Number of agents per resting lot, or per ten traded lots.
const AGENTS_PER_LOT: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Investor {
    side: Side,
    children: u32,
}

/// The pool of one symbol; it trades for one account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pool {
    account: AccountId,
    agents: u32,
    investors: [Investor; INVESTORS],
    /// Recent volume in excess of the usual, as a multiple.
    excitement: f64,
    resting: [Vec<u64>; 2],
    oldest: u32,
}

impl Pool {
    pub(super) fn new(agents: u32, account: AccountId) -> Self {
        Self {
            account,
            agents,
            investors: [Investor { side: Side::Buy, children: 0 }; INVESTORS],
            excitement: 0.0,
            resting: [vec![u64::MAX; RESTING_ORDERS], vec![u64::MAX; RESTING_ORDERS]],
            oldest: 0,
        }
    }

    pub(super) fn restore(&mut self, other: &Self) {
        for (mine, its) in self.resting.iter_mut().zip(&other.resting) {
            mine.clone_from(its);
        }
        (self.investors, self.excitement) = (other.investors, other.excitement);
        self.oldest = other.oldest;
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        self.account == other.account
            && self.agents == other.agents
            && other.resting.iter().all(|orders| orders.len() == RESTING_ORDERS)
            && (other.oldest as usize) < RESTING_ORDERS
            && other.excitement.is_finite()
    }

    fn lots(&self) -> u32 {
        (self.agents / AGENTS_PER_LOT).max(1)
    }

    /// Continue a parent order, or begin the next one.
    fn invest(
        &mut self,
        index: usize,
        view: &MarketView<'_>,
        floor: &mut Floor,
        stream: &mut Stream,
    ) {
        let size = 1 + stream.below(2 * self.lots());
        let full = inventory_pressure(floor.lots(self.account), LIMIT * i64::from(self.lots()));
        let investor = &mut self.investors[index];
        if investor.children == 0 {
            let tail = libm::pow(1.0 - stream.uniform(), -1.0 / 1.5);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small
            let children = (MIN_CHILDREN * tail).min(MAX_CHILDREN) as u32;
            let side = if stream.bernoulli(0.5 - 0.5 * full) { Side::Buy } else { Side::Sell };
            *investor = Investor { side, children };
        }
        investor.children -= 1;
        take_within_collar(floor, self.account, investor.side, size, view);
    }

    /// Replace the oldest patient order of a side by a new one.
    fn wait(&mut self, side: Side, view: &MarketView<'_>, floor: &mut Floor, stream: &mut Stream) {
        let lots = self.lots();
        let entry = &mut self.resting[side as usize][self.oldest as usize];
        // An order that has traded in the meantime is no longer there to cancel.
        let _ = floor.book.cancel(OrderId::from_bits(*entry));
        let away = f64::from(2 + stream.below(MAX_DISTANCE));
        #[allow(clippy::cast_precision_loss)] // 1 or -1
        let price = price_at(view.mid - side.sign() as f64 * away);
        let size = Lots(1 + stream.below(4 * lots));
        let order = Order::limit(self.account, side, price, size);
        *entry = rest_order(floor, order);
    }
}

impl AgentGroup for Pool {
    fn act(&mut self, view: &MarketView<'_>, floor: &mut Floor, stream: &mut Stream) {
        if self.agents == 0 {
            return;
        }
        let volume = f64::from(u32::try_from(floor.tape.volume()).unwrap_or(u32::MAX));
        let usual = f64::from(20 * self.lots());
        self.excitement = EXCITEMENT_DECAY * self.excitement
            + (1.0 - EXCITEMENT_DECAY) * (volume / usual).min(4.0);
        let pace = TRADE_PROBABILITY * (0.5 + self.excitement);
        for index in 0..INVESTORS {
            if stream.bernoulli(pace) {
                self.invest(index, view, floor, stream);
            }
        }
        for side in Side::BOTH {
            self.wait(side, view, floor, stream);
        }
        self.oldest = (self.oldest + 1) % u32::try_from(RESTING_ORDERS).expect("few");
    }
}
