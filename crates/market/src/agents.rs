//! Population of trading agents of one symbol, and the order in which they act.

mod activation;
mod maker;
mod noise;
mod pool;
mod technical;
mod value;

use serde::{Deserialize, Serialize};

use crate::fees::Free;
use crate::id::{AccountId, OrderId};
use crate::market::floor::Floor;
use crate::market::signals::Signals;
use crate::order::Order;
use crate::random::{EpisodeKey, Stream};
use crate::side::Side;
use crate::units::{Lots, Ticks};

use maker::Makers;
use noise::NoiseTraders;
use pool::Pool;
use technical::{Rule, TechnicalTraders};
use value::ValueTraders;

/// Smallest price collar of market orders around the mid price, in ticks.
const NEAREST_COLLAR: f64 = 5.0;
/// Price collar in multiples of the volatility of one tick.
const COLLAR: f64 = 4.0;

/// Number of trading agents of each kind in one symbol, and their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationConfig {
    /// Market makers.
    pub makers: u32,
    /// Noise traders.
    pub noise: u32,
    /// Value traders.
    pub value: u32,
    /// Momentum traders (RSI).
    pub momentum: u32,
    /// Trend followers (SMA).
    pub trend: u32,
    /// Convergence traders (MACD).
    pub convergence: u32,
    /// Mean-reversion traders (Bollinger bands).
    pub reversion: u32,
    /// Agents represented by the statistical pool; their number costs nothing.
    pub pool: u32,
    /// Quote size of a market maker on each side, in lots.
    pub maker_size: u32,
    /// Smallest half spread of a market maker's quotes, in ticks.
    pub maker_half_spread: f64,
    /// Widening of the quotes per tick of volatility, in ticks.
    pub maker_caution: f64,
    /// Inventory skew of the quotes per hundred lots, in ticks.
    pub maker_skew: f64,
    /// Weight of the fair value in the centre of quotes; the rest is the mid price.
    pub maker_insight: f64,
    /// Probability that a noise trader acts in a tick.
    pub noise_activity: f64,
    /// Mean size of a noise trader's order, in lots.
    pub noise_size: u32,
    /// Probability that a value trader acts in a tick.
    pub value_activity: f64,
    /// Standard deviation of a value trader's estimation error, in ticks.
    pub value_error: f64,
    /// Probability that a technical trader acts in a tick.
    pub technical_activity: f64,
}

impl PopulationConfig {
    /// Number of accounts of the population: one per agent and one for the pool.
    #[must_use]
    pub fn accounts(&self) -> usize {
        let kinds = [self.makers, self.noise, self.value, self.momentum];
        let more = [self.trend, self.convergence, self.reversion, u32::from(self.pool > 0)];
        kinds.iter().chain(&more).map(|&count| count as usize).sum()
    }
}

/// Market data that an agent observes at the beginning of a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarketView<'a> {
    /// Mid price, or the last price if a side is empty, in ticks.
    pub(crate) mid: f64,
    /// Fair value of a share, in ticks; only informed agents use it.
    pub(crate) fair: f64,
    /// News sentiment, from -1 to 1.
    pub(crate) sentiment: f64,
    pub(crate) signals: &'a Signals,
}

/// Group of trading agents of one kind: steps those selected in a tick.
///
/// A new kind is a file with a struct that implements this trait, a field of `Population` and a
/// number in `PopulationConfig`.
pub(crate) trait AgentGroup {
    fn act(&mut self, view: &MarketView<'_>, floor: &mut Floor, stream: &mut Stream);
}

/// All trading agents of one symbol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Population {
    makers: Makers,
    noise: NoiseTraders,
    value: ValueTraders,
    technical: [TechnicalTraders; 4],
    pool: Pool,
    stream: Stream,
}

impl Population {
    /// A population whose accounts follow the first `external` ones.
    pub(crate) fn new(config: &PopulationConfig, external: usize, mut stream: Stream) -> Self {
        let mut accounts = Accounts(u32::try_from(external).expect("few agents learn at once"));
        let makers = Makers::new(config, accounts.take(config.makers), &mut stream);
        let noise = NoiseTraders::new(config, accounts.take(config.noise));
        let value = ValueTraders::new(config, accounts.take(config.value));
        let technical = [
            (Rule::Momentum, config.momentum),
            (Rule::Trend, config.trend),
            (Rule::Convergence, config.convergence),
            (Rule::Reversion, config.reversion),
        ]
        .map(|(rule, count)| TechnicalTraders::new(rule, config, accounts.take(count), count));
        let pool = Pool::new(config.pool, accounts.take(1));
        Self { makers, noise, value, technical, pool, stream }
    }

    /// Continue with the random streams of another episode.
    pub(crate) fn rekey(&mut self, key: EpisodeKey, component: u64) {
        self.stream = key.stream(component);
    }

    /// Step all agents once. Quotes come first, so that takers meet current quotes.
    pub(crate) fn act(&mut self, view: &MarketView<'_>, floor: &mut Floor) {
        self.makers.act(view, floor, &mut self.stream);
        let view = &MarketView { mid: mid_of(floor), ..*view };
        self.noise.act(view, floor, &mut self.stream);
        self.value.act(view, floor, &mut self.stream);
        for traders in &mut self.technical {
            traders.act(view, floor, &mut self.stream);
        }
        self.pool.act(view, floor, &mut self.stream);
    }

    /// Copy `other` into the existing allocations.
    pub(crate) fn restore(&mut self, other: &Self) {
        self.makers.restore(&other.makers);
        self.noise.restore(&other.noise);
        self.value.clone_from(&other.value);
        self.technical.clone_from(&other.technical);
        self.pool.restore(&other.pool);
        self.stream.clone_from(&other.stream);
    }

    /// Return true if both are populations of the same kinds and sizes.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        self.makers.fits(&other.makers)
            && self.noise.fits(&other.noise)
            && self.value.fits(&other.value)
            && self.technical.iter().zip(&other.technical).all(|(mine, its)| mine.fits(its))
            && self.pool.fits(&other.pool)
    }
}

/// Allocator of account ids, one kind of agent after the other.
struct Accounts(u32);

impl Accounts {
    fn take(&mut self, count: u32) -> AccountId {
        let first = self.0;
        self.0 += count;
        AccountId(first)
    }
}

/// Mid price; the last price when a side is empty.
pub(crate) fn mid_of(floor: &Floor) -> f64 {
    match (floor.book.best(Side::Buy), floor.book.best(Side::Sell)) {
        (Some(bid), Some(ask)) => 0.5 * (f64::from(bid.0) + f64::from(ask.0)),
        _ => f64::from(floor.tape.last.0),
    }
}

/// The valid price nearest to `ticks`; the lowest if `ticks` is NaN.
#[allow(clippy::cast_possible_truncation)] // limited first
#[allow(clippy::manual_clamp)] // clamp would let NaN through
fn price_at(ticks: f64) -> Ticks {
    Ticks(ticks.max(f64::from(Ticks::MIN.0)).min(f64::from(Ticks::MAX.0)) as i32)
}

/// Rest an order in the book and return its id. If the level is full, the order is dropped and the
/// agent tries again in a later tick.
fn rest_order(floor: &mut Floor, order: Order) -> u64 {
    let id = floor.place(order, &Free).ok().and_then(|placement| placement.id);
    id.map_or(u64::MAX, OrderId::to_bits)
}

/// Take up to `size` lots no worse than at `price`; a partial fill is accepted.
fn take(floor: &mut Floor, account: AccountId, side: Side, price: Ticks, size: u32) {
    if size > 0 {
        let order = Order::immediate_or_cancel(account, side, price, Lots(size));
        floor.place(order, &Free).expect("a size and a price in range are never refused");
    }
}

/// Take up to `size` lots within the price collar around the mid, so that no order empties the
/// book.
fn take_within_collar(
    floor: &mut Floor,
    account: AccountId,
    side: Side,
    size: u32,
    view: &MarketView<'_>,
) {
    let collar = NEAREST_COLLAR + COLLAR * view.signals.volatility();
    #[allow(clippy::cast_precision_loss)] // 1 or -1
    let price = price_at(view.mid + side.sign() as f64 * collar);
    take(floor, account, side, price, size);
}

/// Inventory pressure: from -1 to 1 as `lots` go to `limit` or beyond.
#[allow(clippy::cast_precision_loss)] // positions are small
fn inventory_pressure(lots: i64, limit: i64) -> f64 {
    (lots as f64 / limit as f64).clamp(-1.0, 1.0)
}
