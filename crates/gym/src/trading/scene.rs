//! Scene of an episode for rendering: the book, the last tick, the account and the news.

use market::{AccountId, DepthLevel, Lots, NewsEvent, Side, Ticks, Topic};

use super::Trading;
use super::decision::LEARNER;

/// Scene of one symbol of an episode. Prices are in ticks, money is in currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Number of decisions taken in this episode.
    pub tick: u64,
    /// Tick size in currency.
    pub tick_size: f64,
    /// Mid price, or the last price if a side is empty.
    pub mid: f64,
    /// Fair value of a share; only in episodes that show it to the agent as well.
    pub fair: Option<f64>,
    /// Position of the agent, in lots.
    pub lots: i64,
    /// The agent's cash.
    pub cash: f64,
    /// Equity of the agent, at mid prices.
    pub equity: f64,
    /// Initial cash.
    pub initial_cash: f64,
    /// Best bid levels, best first.
    pub bids: Vec<DepthLevel>,
    /// Best ask levels, best first.
    pub asks: Vec<DepthLevel>,
    /// Trades of the last tick in order, the agent's own included.
    pub trades: Vec<SceneTrade>,
    /// Active news events, oldest first.
    pub news: Vec<SceneNews>,
}

/// A trade of the last tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SceneTrade {
    /// Price.
    pub price: Ticks,
    /// Size.
    pub size: Lots,
    /// The side of the incoming order.
    pub taker: Side,
    /// The agent's side, if it took part.
    pub own: Option<Side>,
}

/// News event of the symbol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SceneNews {
    /// Topic of the event.
    pub topic: Topic,
    /// From -1 (bad) to 1 (good).
    pub sentiment: f64,
    /// Magnitude of the event: 1 on average.
    pub magnitude: f64,
    /// Tick of publication in the episode; negative if before its start.
    pub start: i64,
    /// Duration of the event, in ticks.
    pub duration: u32,
}

impl<D> Trading<D> {
    /// Scene of a symbol, with up to `levels` levels of each side of its book; `None` if there is
    /// no such symbol.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // for display only
    pub fn scene(&self, symbol: usize, levels: usize) -> Option<Scene> {
        let market_symbol = self.market.symbols().get(symbol)?;
        let tick_size = self.settings.tick_size;
        Some(Scene {
            tick: self.account.ticks,
            tick_size,
            mid: market_symbol.mid(),
            fair: self.settings.features.privileged.then(|| market_symbol.fair()),
            lots: market_symbol.holding(LEARNER).lots,
            cash: tick_size * self.market.cash(LEARNER).0 as f64,
            equity: self.account.equity,
            initial_cash: tick_size * self.settings.market.account.cash as f64,
            bids: market_symbol.book().levels(Side::Buy, levels),
            asks: market_symbol.book().levels(Side::Sell, levels),
            trades: market_symbol.trades().iter().map(SceneTrade::of).collect(),
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
