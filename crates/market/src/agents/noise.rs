//! Traders without a reason: some take at once, most leave an order and come back to it later.

use serde::{Deserialize, Serialize};

use super::maker::account_of;
use super::turns::Turns;
use super::{Crowd, PopulationConfig, Seen, fullness, leave, price_at, take_near};
use crate::id::{AccountId, OrderId};
use crate::market::floor::Floor;
use crate::order::Order;
use crate::random::Stream;
use crate::side::Side;
use crate::units::Lots;

/// Of those who act, how many take at once.
const IMPATIENT: f64 = 0.25;
/// How far from the middle the others wait, in ticks.
const FARTHEST: u32 = 20;
/// How much good news moves the probability of buying.
const MOOD: f64 = 0.15;
/// How much of the herd's mood is left after a tick, and how much comes anew.
const LOYALTY: f64 = 0.9;
const HERDING: f64 = 0.2;
/// Lots at which a trader can only go back.
const LIMIT: i64 = 200;

/// All noise traders of a symbol; each has at most one order waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NoiseTraders {
    turns: Turns,
    first: AccountId,
    size: u32,
    /// What impatient traders copy from each other: above 0 they buy.
    herd: f64,
    waiting: Vec<u64>,
}

impl NoiseTraders {
    pub(super) fn new(config: &PopulationConfig, first: AccountId) -> Self {
        Self {
            turns: Turns::new(config.noise, config.noise_activity),
            first,
            size: config.noise_size,
            herd: 0.0,
            waiting: vec![u64::MAX; config.noise as usize],
        }
    }

    pub(super) fn restore(&mut self, other: &Self) {
        self.waiting.clone_from(&other.waiting);
        self.herd = other.herd;
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        let settings = Self { waiting: self.waiting.clone(), herd: self.herd, ..other.clone() };
        *self == settings && self.waiting.len() == other.waiting.len() && other.herd.is_finite()
    }
}

impl Crowd for NoiseTraders {
    fn act(&mut self, seen: &Seen<'_>, floor: &mut Floor, stream: &mut Stream) {
        self.herd = LOYALTY * self.herd + HERDING * stream.normal();
        let herd = self.herd.clamp(-0.5, 0.5);
        let mood = 0.5 + MOOD * seen.sentiment;
        self.turns.each(stream, |index, stream| {
            let account = account_of(self.first, index);
            let is_impatient = stream.chance(IMPATIENT);
            let buys = mood - 0.5 * fullness(floor.lots(account), LIMIT)
                + if is_impatient { herd } else { 0.0 };
            let side = if stream.chance(buys) { Side::Buy } else { Side::Sell };
            let size = 1 + stream.below(2 * self.size - 1);
            // An order that has traded in the meantime is no longer there to cancel.
            let _ = floor.book.cancel(OrderId::from_bits(self.waiting[index]));
            self.waiting[index] = u64::MAX;
            if is_impatient {
                take_near(floor, account, side, size, seen);
                return;
            }
            let away = f64::from(1 + stream.below(FARTHEST));
            #[allow(clippy::cast_precision_loss)] // 1 or -1
            let price = price_at(seen.mid - side.sign() as f64 * away);
            let order = Order::limit(account, side, price, Lots(size));
            self.waiting[index] = leave(floor, order);
        });
    }
}
