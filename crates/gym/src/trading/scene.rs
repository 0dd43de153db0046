//! What a picture needs to know of an episode: the book, the last tick, the account and the news.

use market::{AccountId, DepthLevel, Lots, NewsEvent, Side, Ticks, Topic};

use super::Trading;
use super::decision::LEARNER;

/// One symbol of an episode as it is now. Prices are in ticks, money is in currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Decisions taken in this episode.
    pub tick: u64,
    /// The currency that one tick of price stands for.
    pub tick_size: f64,
    /// The middle of the best prices, or the last price.
    pub mid: f64,
    /// What a share is worth; only in episodes that show it to the agent as well.
    pub fair: Option<f64>,
    /// Lots that the agent holds.
    pub lots: i64,
    /// The agent's cash.
    pub cash: f64,
    /// The agent's cash and lots of all symbols at mid prices.
    pub equity: f64,
    /// The cash that the episode began with.
    pub initial_cash: f64,
    /// The best levels of the buyers, best first.
    pub bids: Vec<DepthLevel>,
    /// The best levels of the sellers, best first.
    pub asks: Vec<DepthLevel>,
    /// What traded in the last tick, the agent's decision included, one after the other.
    pub trades: Vec<SceneTrade>,
    /// What people talk about, oldest first.
    pub news: Vec<SceneNews>,
}

/// A trade of the last tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SceneTrade {
    /// Its price.
    pub price: Ticks,
    /// Its size.
    pub size: Lots,
    /// The side of the incoming order.
    pub taker: Side,
    /// The agent's side, if it took part.
    pub own: Option<Side>,
}

/// An event that concerns the symbol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SceneNews {
    /// What it is about.
    pub topic: Topic,
    /// From -1 (bad) to 1 (good).
    pub sentiment: f64,
    /// How much it matters: 1 on average.
    pub magnitude: f64,
    /// The tick of the episode in which it came out; below 0 if that was before it began.
    pub start: i64,
    /// For how many ticks it is talked about.
    pub duration: u32,
}

impl<D> Trading<D> {
    /// One symbol as it is now, with up to `levels` levels of each side of its book; `None` if
    /// there is no such symbol.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // shown, not counted with
    pub fn scene(&self, symbol: usize, levels: usize) -> Option<Scene> {
        let shown = self.market.symbols().get(symbol)?;
        let tick_size = self.settings.tick_size;
        Some(Scene {
            tick: self.account.ticks,
            tick_size,
            mid: shown.mid(),
            fair: self.settings.features.privileged.then(|| shown.fair()),
            lots: shown.holding(LEARNER).lots,
            cash: tick_size * self.market.cash(LEARNER).0 as f64,
            equity: self.account.equity,
            initial_cash: tick_size * self.settings.market.account.cash as f64,
            bids: shown.book().levels(Side::Buy, levels),
            asks: shown.book().levels(Side::Sell, levels),
            trades: shown.trades().iter().map(SceneTrade::of).collect(),
            news: self.news_about(symbol),
        })
    }

    fn news_about(&self, symbol: usize) -> Vec<SceneNews> {
        let sector = self.settings.market.symbols[symbol].sector;
        let tick = i64::try_from(self.account.ticks).unwrap_or(i64::MAX);
        let began = i64::from(self.market.now()) - tick;
        let about = |event: &&NewsEvent| event.concerns(symbol, sector);
        let news = self.market.news().iter().filter(about);
        news.map(|event| SceneNews {
            topic: event.topic,
            sentiment: event.sentiment,
            magnitude: event.magnitude,
            start: i64::from(event.start) - began,
            duration: event.duration,
        })
        .collect()
    }
}

impl SceneTrade {
    fn of(fill: &market::Fill) -> Self {
        let learner = AccountId(LEARNER.0);
        let own = if fill.taker_account == learner {
            Some(fill.taker_side)
        } else if fill.maker_account == learner {
            Some(fill.taker_side.opposite())
        } else {
            None
        };
        Self { price: fill.price, size: fill.size, taker: fill.taker_side, own }
    }
}
