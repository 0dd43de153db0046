//! Value traders: know roughly what a share is worth, and trade when the price is clearly wrong.

use serde::{Deserialize, Serialize};

use super::maker::account_of;
use super::turns::Turns;
use super::{Crowd, PopulationConfig, Seen, price_at, take};
use crate::id::AccountId;
use crate::market::floor::Floor;
use crate::random::Stream;
use crate::side::Side;

/// Lots of a trade.
const SIZE: u32 = 30;
/// Lots beyond which a trader adds no more.
const LIMIT: i64 = 600;
/// Ticks by which a price must be wrong.
const MARGIN: f64 = 2.0;

/// All value traders of a symbol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ValueTraders {
    turns: Turns,
    first: AccountId,
    error: f64,
}

impl ValueTraders {
    pub(super) fn new(config: &PopulationConfig, first: AccountId) -> Self {
        let turns = Turns::new(config.value, config.value_activity);
        Self { turns, first, error: config.value_error }
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        self == other
    }
}

impl Crowd for ValueTraders {
    fn act(&mut self, seen: &Seen<'_>, floor: &mut Floor, stream: &mut Stream) {
        self.turns.each(stream, |index, stream| {
            let account = account_of(self.first, index);
            let opinion = seen.fair + self.error * stream.normal();
            let held = floor.lots(account);
            let ask = floor.book.best(Side::Sell).map(|ask| f64::from(ask.0));
            let bid = floor.book.best(Side::Buy).map(|bid| f64::from(bid.0));
            if ask.is_some_and(|ask| opinion - ask > MARGIN) && held < LIMIT {
                take(floor, account, Side::Buy, price_at(opinion - MARGIN), SIZE);
            } else if bid.is_some_and(|bid| bid - opinion > MARGIN) && held > -LIMIT {
                take(floor, account, Side::Sell, price_at(libm::ceil(opinion + MARGIN)), SIZE);
            }
        });
    }
}
