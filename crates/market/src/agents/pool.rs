//! The statistical pool: thousands of small traders as a few orders a tick, whatever their number.
//!
//! Large investors among them split what they want into many children, so that buys follow buys;
//! trading breeds trading; and a crowd of patient ones keeps the book deep.

use serde::{Deserialize, Serialize};

use super::{Crowd, Seen, fullness, leave, price_at, take_near};
use crate::id::{AccountId, OrderId};
use crate::market::floor::Floor;
use crate::order::Order;
use crate::random::Stream;
use crate::side::Side;
use crate::units::Lots;

/// Investors who work a large order at the same time.
const INVESTORS: usize = 3;
/// Probability that such an investor trades in a tick.
const PACE: f64 = 0.3;
/// Children of the smallest large order; the number has a tail with exponent 1.5.
const FEWEST_CHILDREN: f64 = 3.0;
/// Children of the largest large order.
const MOST_CHILDREN: f64 = 300.0;
/// Patient orders that wait on each side.
const WAITING: usize = 16;
/// How far from the middle they wait, in ticks.
const FARTHEST: u32 = 30;
/// How much of the excitement is left after a tick.
const CALMING: f64 = 0.9;
/// Lots, for each lot of a child, at which large orders only go back.
const LIMIT: i64 = 100;
/// Traders for whom one lot waits, or one lot in ten trades.
const TRADERS_PER_LOT: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Investor {
    side: Side,
    children: u32,
}

/// The pool of one symbol; it trades for one account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pool {
    account: AccountId,
    traders: u32,
    investors: [Investor; INVESTORS],
    /// How much more than usual has traded lately, as a multiple.
    excitement: f64,
    waiting: [Vec<u64>; 2],
    oldest: u32,
}

impl Pool {
    pub(super) fn new(traders: u32, account: AccountId) -> Self {
        Self {
            account,
            traders,
            investors: [Investor { side: Side::Buy, children: 0 }; INVESTORS],
            excitement: 0.0,
            waiting: [vec![u64::MAX; WAITING], vec![u64::MAX; WAITING]],
            oldest: 0,
        }
    }

    pub(super) fn restore(&mut self, other: &Self) {
        for (mine, its) in self.waiting.iter_mut().zip(&other.waiting) {
            mine.clone_from(its);
        }
        (self.investors, self.excitement) = (other.investors, other.excitement);
        self.oldest = other.oldest;
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        self.account == other.account
            && self.traders == other.traders
            && other.waiting.iter().all(|orders| orders.len() == WAITING)
            && (other.oldest as usize) < WAITING
            && other.excitement.is_finite()
    }

    fn lots(&self) -> u32 {
        (self.traders / TRADERS_PER_LOT).max(1)
    }

    /// One of the large orders goes on, or the next one begins.
    fn invest(&mut self, index: usize, seen: &Seen<'_>, floor: &mut Floor, stream: &mut Stream) {
        let size = 1 + stream.below(2 * self.lots());
        let full = fullness(floor.lots(self.account), LIMIT * i64::from(self.lots()));
        let investor = &mut self.investors[index];
        if investor.children == 0 {
            let tail = libm::pow(1.0 - stream.uniform(), -1.0 / 1.5);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small
            let children = (FEWEST_CHILDREN * tail).min(MOST_CHILDREN) as u32;
            let side = if stream.chance(0.5 - 0.5 * full) { Side::Buy } else { Side::Sell };
            *investor = Investor { side, children };
        }
        investor.children -= 1;
        take_near(floor, self.account, investor.side, size, seen);
    }

    /// The oldest patient order of a side makes room for one somewhere else.
    fn wait(&mut self, side: Side, seen: &Seen<'_>, floor: &mut Floor, stream: &mut Stream) {
        let lots = self.lots();
        let place = &mut self.waiting[side as usize][self.oldest as usize];
        // An order that has traded in the meantime is no longer there to cancel.
        let _ = floor.book.cancel(OrderId::from_bits(*place));
        let away = f64::from(2 + stream.below(FARTHEST));
        #[allow(clippy::cast_precision_loss)] // 1 or -1
        let price = price_at(seen.mid - side.sign() as f64 * away);
        let size = Lots(1 + stream.below(4 * lots));
        let order = Order::limit(self.account, side, price, size);
        *place = leave(floor, order);
    }
}

impl Crowd for Pool {
    fn act(&mut self, seen: &Seen<'_>, floor: &mut Floor, stream: &mut Stream) {
        if self.traders == 0 {
            return;
        }
        let volume = f64::from(u32::try_from(floor.tape.volume()).unwrap_or(u32::MAX));
        let usual = f64::from(20 * self.lots());
        self.excitement = CALMING * self.excitement + (1.0 - CALMING) * (volume / usual).min(4.0);
        let pace = PACE * (0.5 + self.excitement);
        for index in 0..INVESTORS {
            if stream.chance(pace) {
                self.invest(index, seen, floor, stream);
            }
        }
        for side in Side::BOTH {
            self.wait(side, seen, floor, stream);
        }
        self.oldest = (self.oldest + 1) % u32::try_from(WAITING).expect("few");
    }
}
