//! Market makers: quote both sides, skew quotes by inventory, widen them with volatility.

use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::{AgentGroup, MarketView, PopulationConfig, price_at, rest_order};
use crate::fees::Free;
use crate::id::{AccountId, OrderId};
use crate::market::floor::Floor;
use crate::order::Order;
use crate::random::Stream;
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Probability that a maker updates its quotes in a tick; the others stay stale.
const UPDATE_PROBABILITY: f64 = 0.875;
/// Inventory, in quote sizes, at which a maker stops adding to it.
const INVENTORY_LIMIT: i64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Maker {
    /// Resting quotes by side, as numbers; the id of a filled quote is stale and harmless.
    quotes: [u64; 2],
    half_spread: f64,
}

/// All market makers of a symbol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Makers {
    activation: Activation,
    first: AccountId,
    size: u32,
    caution: f64,
    skew: f64,
    insight: f64,
    all: Vec<Maker>,
}

impl Makers {
    pub(super) fn new(config: &PopulationConfig, first: AccountId, stream: &mut Stream) -> Self {
        let draw = |_| Maker {
            quotes: [u64::MAX; 2],
            half_spread: config.maker_half_spread * (1.0 + stream.uniform()),
        };
        Self {
            activation: Activation::new(config.makers, UPDATE_PROBABILITY),
            first,
            size: config.maker_size,
            caution: config.maker_caution,
            skew: config.maker_skew / 100.0,
            insight: config.maker_insight,
            all: (0..config.makers).map(draw).collect(),
        }
    }

    pub(super) fn restore(&mut self, other: &Self) {
        self.all.clone_from(&other.all);
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        let is_same = *self == Self { all: self.all.clone(), ..other.clone() };
        is_same
            && self.all.len() == other.all.len()
            && other.all.iter().all(|maker| (0.0..=1e6).contains(&maker.half_spread))
    }
}

impl AgentGroup for Makers {
    fn act(&mut self, view: &MarketView<'_>, floor: &mut Floor, stream: &mut Stream) {
        let middle = view.mid + self.insight * (view.fair - view.mid);
        let caution = self.caution * view.signals.volatility();
        let limit = INVENTORY_LIMIT * i64::from(self.size);
        self.activation.each(stream, |index, _| {
            let maker = &mut self.all[index];
            let account = account_of(self.first, index);
            let inventory = floor.lots(account);
            #[allow(clippy::cast_precision_loss)] // inventories are small
            let centre = middle - self.skew * inventory as f64;
            let half = maker.half_spread + caution;
            for (side, price) in
                [(Side::Buy, libm::floor(centre - half)), (Side::Sell, libm::ceil(centre + half))]
            {
                let expected = if side.sign() * inventory < limit { self.size } else { 0 };
                let quote = &mut maker.quotes[side as usize];
                *quote = requote(floor, account, side, *quote, price_at(price), expected);
            }
        });
    }
}

/// Move a quote to its target price; a quote already there keeps its queue position.
fn requote(
    floor: &mut Floor,
    account: AccountId,
    side: Side,
    quote: u64,
    price: Ticks,
    expected: u32,
) -> u64 {
    let id = OrderId::from_bits(quote);
    let resting = floor.book.order(id);
    let replaced = match resting {
        Some(_) if expected == 0 => {
            floor.book.cancel(id).expect("the order was just seen");
            return u64::MAX;
        }
        Some(order) if order.price == price && 2 * order.size.0 >= expected => return quote,
        Some(_) => floor.replace(id, price, Lots(expected), &Free),
        None if expected == 0 => return u64::MAX,
        None => return rest_order(floor, Order::limit(account, side, price, Lots(expected))),
    };
    // If the new level is full, the quote stays at the old one.
    replaced.map_or(quote, |placement| placement.id.map_or(u64::MAX, OrderId::to_bits))
}

pub(super) fn account_of(first: AccountId, index: usize) -> AccountId {
    AccountId(first.0 + u32::try_from(index).expect("populations are counted in 32 bits"))
}
