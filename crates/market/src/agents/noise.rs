//! Noise traders: some submit market orders, most rest a limit order and replace it later.

use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::maker::account_of;
use super::{
    AgentGroup, MarketView, PopulationConfig, inventory_pressure, price_at, rest_order,
    take_within_collar,
};
use crate::id::{AccountId, OrderId};
use crate::market::floor::Floor;
use crate::order::Order;
use crate::random::Stream;
use crate::side::Side;
use crate::units::Lots;

/// Share of active agents that take liquidity at once.
const MARKET_ORDER_SHARE: f64 = 0.25;
/// Largest distance from the mid price at which the others quote, in ticks.
const MAX_DISTANCE: u32 = 20;
/// Effect of news sentiment on the probability of buying.
const SENTIMENT_EFFECT: f64 = 0.15;
/// Persistence of the herding signal per tick, and standard deviation of its innovation.
const HERD_PERSISTENCE: f64 = 0.9;
const HERD_NOISE: f64 = 0.2;
/// Position limit in lots: beyond it an agent only reduces.
const LIMIT: i64 = 200;

/// All noise traders of a symbol; each has at most one resting order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NoiseTraders {
    activation: Activation,
    first: AccountId,
    size: u32,
    /// Herding signal of impatient agents: above 0 they buy.
    herd: f64,
    resting: Vec<u64>,
}

impl NoiseTraders {
    pub(super) fn new(config: &PopulationConfig, first: AccountId) -> Self {
        Self {
            activation: Activation::new(config.noise, config.noise_activity),
            first,
            size: config.noise_size,
            herd: 0.0,
            resting: vec![u64::MAX; config.noise as usize],
        }
    }

    pub(super) fn restore(&mut self, other: &Self) {
        self.resting.clone_from(&other.resting);
        self.herd = other.herd;
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        let settings = Self { resting: self.resting.clone(), herd: self.herd, ..other.clone() };
        *self == settings && self.resting.len() == other.resting.len() && other.herd.is_finite()
    }
}

impl AgentGroup for NoiseTraders {
    fn act(&mut self, view: &MarketView<'_>, floor: &mut Floor, stream: &mut Stream) {
        self.herd = HERD_PERSISTENCE * self.herd + HERD_NOISE * stream.normal();
        let herd = self.herd.clamp(-0.5, 0.5);
        let buy_probability = 0.5 + SENTIMENT_EFFECT * view.sentiment;
        self.activation.each(stream, |index, stream| {
            let account = account_of(self.first, index);
            let is_impatient = stream.bernoulli(MARKET_ORDER_SHARE);
            let buys = buy_probability - 0.5 * inventory_pressure(floor.lots(account), LIMIT)
                + if is_impatient { herd } else { 0.0 };
            let side = if stream.bernoulli(buys) { Side::Buy } else { Side::Sell };
            let size = 1 + stream.below(2 * self.size - 1);
            // An order that has traded in the meantime is no longer there to cancel.
            let _ = floor.book.cancel(OrderId::from_bits(self.resting[index]));
            self.resting[index] = u64::MAX;
            if is_impatient {
                take_within_collar(floor, account, side, size, view);
                return;
            }
            let away = f64::from(1 + stream.below(MAX_DISTANCE));
            #[allow(clippy::cast_precision_loss)] // 1 or -1
            let price = price_at(view.mid - side.sign() as f64 * away);
            let order = Order::limit(account, side, price, Lots(size));
            self.resting[index] = rest_order(floor, order);
        });
    }
}
