//! The population of one symbol: who trades, and in which order they take their turns.

mod maker;
mod noise;
mod pool;
mod technical;
mod turns;
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

/// Ticks from the middle within which impatient traders take, at least.
const NEAREST_COLLAR: f64 = 5.0;
/// The same, in moves of one tick's volatility.
const COLLAR: f64 = 4.0;

/// How many traders of each kind trade one symbol, and how they are set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationConfig {
    /// Market makers.
    pub makers: u32,
    /// Traders without a reason.
    pub noise: u32,
    /// Traders who know roughly what a share is worth.
    pub value: u32,
    /// Traders who follow strength (RSI).
    pub momentum: u32,
    /// Traders who follow averages (SMA).
    pub trend: u32,
    /// Traders who follow converging averages (MACD).
    pub convergence: u32,
    /// Traders who bet on a return to the average (Bollinger).
    pub reversion: u32,
    /// Traders whom a statistical pool stands for; their number costs nothing.
    pub pool: u32,
    /// Lots that a market maker offers on each side.
    pub maker_size: u32,
    /// The least distance of a market maker's quotes from the centre, in ticks.
    pub maker_half_spread: f64,
    /// Ticks that a quote moves away for each tick of volatility.
    pub maker_caution: f64,
    /// Ticks that quotes move for each hundred lots of inventory.
    pub maker_skew: f64,
    /// Weight of the fair value in the centre of quotes; the rest is the mid price.
    pub maker_insight: f64,
    /// Probability that a noise trader acts in a tick.
    pub noise_activity: f64,
    /// Mean size of a noise trader's order, in lots.
    pub noise_size: u32,
    /// Probability that a value trader looks at the market in a tick.
    pub value_activity: f64,
    /// Ticks by which a value trader may be wrong (standard deviation).
    pub value_error: f64,
    /// Probability that a technical trader looks at the market in a tick.
    pub technical_activity: f64,
}

impl PopulationConfig {
    /// Accounts that the population needs: one for each trader and one for the pool.
    #[must_use]
    pub fn accounts(&self) -> usize {
        let kinds = [self.makers, self.noise, self.value, self.momentum];
        let more = [self.trend, self.convergence, self.reversion, u32::from(self.pool > 0)];
        kinds.iter().chain(&more).map(|&count| count as usize).sum()
    }
}

/// What a trader sees when a tick begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The middle of the best prices, or the last price, in ticks.
    pub(crate) mid: f64,
    /// What a share is worth, in ticks; only some may look.
    pub(crate) fair: f64,
    /// What the news sounds like, from -1 to 1.
    pub(crate) sentiment: f64,
    pub(crate) signals: &'a Signals,
}

/// A kind of trader: lets those act whose turn it is.
///
/// A new kind is a file with a struct that fulfils this, a field of `Population` and a number in
/// `PopulationConfig`.
pub(crate) trait Crowd {
    fn act(&mut self, seen: &Seen<'_>, floor: &mut Floor, stream: &mut Stream);
}

/// Everybody who trades one symbol.
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
    /// The population, with accounts behind the first `external` ones.
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

    /// Continues in the streams of another episode.
    pub(crate) fn rekey(&mut self, key: EpisodeKey, component: u64) {
        self.stream = key.stream(component);
    }

    /// Lets everybody act once. Quotes come first, so that a taker never sees last tick's alone.
    pub(crate) fn act(&mut self, seen: &Seen<'_>, floor: &mut Floor) {
        self.makers.act(seen, floor, &mut self.stream);
        let seen = &Seen { mid: mid_of(floor), ..*seen };
        self.noise.act(seen, floor, &mut self.stream);
        self.value.act(seen, floor, &mut self.stream);
        for traders in &mut self.technical {
            traders.act(seen, floor, &mut self.stream);
        }
        self.pool.act(seen, floor, &mut self.stream);
    }

    /// Becomes `other` in the memory it has.
    pub(crate) fn restore(&mut self, other: &Self) {
        self.makers.restore(&other.makers);
        self.noise.restore(&other.noise);
        self.value.clone_from(&other.value);
        self.technical.clone_from(&other.technical);
        self.pool.restore(&other.pool);
        self.stream.clone_from(&other.stream);
    }

    /// Whether both are populations of the same kind and size.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        self.makers.fits(&other.makers)
            && self.noise.fits(&other.noise)
            && self.value.fits(&other.value)
            && self.technical.iter().zip(&other.technical).all(|(mine, its)| mine.fits(its))
            && self.pool.fits(&other.pool)
    }
}

/// Hands out accounts one kind after the other.
struct Accounts(u32);

impl Accounts {
    fn take(&mut self, count: u32) -> AccountId {
        let first = self.0;
        self.0 += count;
        AccountId(first)
    }
}

/// The middle of the best prices; the last price when a side is empty.
pub(crate) fn mid_of(floor: &Floor) -> f64 {
    match (floor.book.best(Side::Buy), floor.book.best(Side::Sell)) {
        (Some(bid), Some(ask)) => 0.5 * (f64::from(bid.0) + f64::from(ask.0)),
        _ => f64::from(floor.tape.last.0),
    }
}

/// A price as near to `ticks` as a book takes it; the lowest where `ticks` is no number.
#[allow(clippy::cast_possible_truncation)] // limited first
#[allow(clippy::manual_clamp)] // which would let NaN through
fn price_at(ticks: f64) -> Ticks {
    Ticks(ticks.max(f64::from(Ticks::MIN.0)).min(f64::from(Ticks::MAX.0)) as i32)
}

/// Leaves an order in the book and tells its number. A level that is full takes no more, and its
/// trader comes back in a later tick.
fn leave(floor: &mut Floor, order: Order) -> u64 {
    let id = floor.place(order, &Free).ok().and_then(|placement| placement.id);
    id.map_or(u64::MAX, OrderId::to_bits)
}

/// Takes up to `size` lots no worse than at `price`. Nobody minds when there are fewer.
fn take(floor: &mut Floor, account: AccountId, side: Side, price: Ticks, size: u32) {
    if size > 0 {
        let order = Order::immediate_or_cancel(account, side, price, Lots(size));
        floor.place(order, &Free).expect("a size and a price in range are never refused");
    }
}

/// Takes up to `size` lots within a few moves of the middle: nobody empties a book on purpose.
fn take_near(floor: &mut Floor, account: AccountId, side: Side, size: u32, seen: &Seen<'_>) {
    let collar = NEAREST_COLLAR + COLLAR * seen.signals.volatility();
    #[allow(clippy::cast_precision_loss)] // 1 or -1
    let price = price_at(seen.mid + side.sign() as f64 * collar);
    take(floor, account, side, price, size);
}

/// How a position pulls its owner back: from -1 to 1 as `lots` go to `limit` or beyond.
#[allow(clippy::cast_precision_loss)] // positions are small
fn fullness(lots: i64, limit: i64) -> f64 {
    (lots as f64 / limit as f64).clamp(-1.0, 1.0)
}
