//! Value traders: estimate the fair value with an error, and trade when the price deviates from it.

use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::maker::account_of;
use super::{AgentGroup, MarketView, PopulationConfig, price_at, take};
use crate::id::AccountId;
use crate::market::floor::Floor;
use crate::random::Stream;
use crate::side::Side;

/// Lots of a trade.
const SIZE: u32 = 30;
/// Position limit in lots: beyond it an agent adds no more.
const LIMIT: i64 = 600;
/// Least mispricing to trade on, in ticks.
const MIN_MISPRICING: f64 = 2.0;

/// All value traders of a symbol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ValueTraders {
    activation: Activation,
    first: AccountId,
    error: f64,
}

impl ValueTraders {
    pub(super) fn new(config: &PopulationConfig, first: AccountId) -> Self {
        let activation = Activation::new(config.value, config.value_activity);
        Self { activation, first, error: config.value_error }
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        self == other
    }
}

impl AgentGroup for ValueTraders {
    fn act(&mut self, view: &MarketView<'_>, floor: &mut Floor, stream: &mut Stream) {
        self.activation.each(stream, |index, stream| {
            let account = account_of(self.first, index);
            let opinion = view.fair + self.error * stream.normal();
            let held = floor.lots(account);
            let ask = floor.book.best(Side::Sell).map(|ask| f64::from(ask.0));
            let bid = floor.book.best(Side::Buy).map(|bid| f64::from(bid.0));
            if ask.is_some_and(|ask| opinion - ask > MIN_MISPRICING) && held < LIMIT {
                take(floor, account, Side::Buy, price_at(opinion - MIN_MISPRICING), SIZE);
            } else if bid.is_some_and(|bid| bid - opinion > MIN_MISPRICING) && held > -LIMIT {
                take(
                    floor,
                    account,
                    Side::Sell,
                    price_at(libm::ceil(opinion + MIN_MISPRICING)),
                    SIZE,
                );
            }
        });
    }
}
