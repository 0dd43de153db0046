//! Simulated market: symbols with books, fair values, news and a population of trading agents, and
//! learning agents that trade beside it.

pub(crate) mod account;
pub(crate) mod floor;
pub(crate) mod recording;
pub(crate) mod signals;
mod state;
pub(crate) mod trading;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agents::{MarketView, Population, mid_of};
use crate::config::{MarketConfig, SymbolConfig};
use crate::fees::OfNotional;
use crate::fill::Fill;
use crate::fundamental::{Fundamental, Shared};
use crate::market::floor::{Floor, Tape};
use crate::market::signals::Signals;
use crate::news::{NewsEvent, Topic};
use crate::random::{EpisodeKey, Stream};
use crate::units::Ticks;

/// Components of the random streams; every symbol has its own from `SYMBOLS` on.
const MARKET: u64 = 0;
const NEWS: u64 = 1;
const SYMBOLS: u64 = 16;

/// Lowest fair value: below it ticks are too coarse for quotes.
const LOWEST_VALUE: f64 = 20.0;

/// One symbol of the market.
#[derive(Clone, Serialize, Deserialize)]
pub struct Symbol {
    pub(crate) floor: Floor,
    pub(crate) population: Population,
    pub(crate) fundamental: Fundamental,
    pub(crate) signals: Signals,
    pub(crate) stream: Stream,
    /// Tape of the last complete tick.
    pub(crate) bar: Tape,
    /// Fills of that tick, in order.
    pub(crate) trades: Vec<Fill>,
    pub(crate) sector: u32,
}

/// Running market. It advances by [`Market::tick`] alone; between ticks, learning agents may trade.
#[derive(Clone)]
pub struct Market {
    pub(crate) config: Arc<MarketConfig>,
    pub(crate) fees: OfNotional,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) news: Vec<NewsEvent>,
    pub(crate) shared: Stream,
    pub(crate) newsroom: Stream,
    pub(crate) tick: u32,
    /// Shocks of sectors in this tick.
    sector_shocks: Vec<f64>,
}

impl Market {
    /// A new market: books are empty until the first tick.
    ///
    /// # Panics
    /// If the configuration would not pass [`MarketConfig::check`].
    #[must_use]
    pub fn new(config: Arc<MarketConfig>, key: EpisodeKey) -> Self {
        config.check().expect("a configuration is checked before it is used");
        let external = config.external as usize;
        let open = |(index, symbol): (usize, &SymbolConfig)| {
            let price = Ticks(symbol.price);
            let mut stream = key.stream(component(index, 0));
            let fundamental = Fundamental::new(&config.fundamental, price.0.into(), &mut stream);
            Symbol {
                floor: Floor::new(external, config.population.accounts(), price),
                population: Population::new(
                    &config.population,
                    external,
                    key.stream(component(index, 1)),
                ),
                fundamental,
                signals: Signals::new(price.0.into()),
                stream,
                bar: Tape::new(price),
                trades: Vec::new(),
                sector: symbol.sector,
            }
        };
        let symbols: Vec<Symbol> = config.symbols.iter().enumerate().map(open).collect();
        let sectors = symbols.iter().map(|symbol| symbol.sector as usize + 1).max().unwrap_or(0);
        Self {
            fees: config.fees().expect("the configuration was checked"),
            symbols,
            news: Vec::with_capacity(16),
            shared: key.stream(MARKET),
            newsroom: key.stream(NEWS),
            tick: 0,
            sector_shocks: vec![0.0; sectors],
            config,
        }
    }

    /// Configuration of the market.
    #[must_use]
    pub fn config(&self) -> &Arc<MarketConfig> {
        &self.config
    }

    /// Continue with the random streams of another episode and redrawn volatilities.
    pub fn rekey(&mut self, key: EpisodeKey) {
        (self.shared, self.newsroom) = (key.stream(MARKET), key.stream(NEWS));
        for (index, symbol) in self.symbols.iter_mut().enumerate() {
            symbol.stream = key.stream(component(index, 0));
            symbol.population.rekey(key, component(index, 1));
            symbol.fundamental.redraw_volatility(&self.config.fundamental, &mut symbol.stream);
        }
    }

    /// Copy `other`, a market of the same configuration, into the existing allocations.
    pub fn restore(&mut self, other: &Self) {
        self.config.clone_from(&other.config);
        self.fees = other.fees;
        for (mine, its) in self.symbols.iter_mut().zip(&other.symbols) {
            mine.floor.restore(&its.floor);
            mine.trades.clone_from(&its.trades);
            mine.population.restore(&its.population);
            mine.fundamental = its.fundamental;
            mine.signals.clone_from(&its.signals);
            mine.stream.clone_from(&its.stream);
            (mine.bar, mine.sector) = (its.bar, its.sector);
        }
        self.news.clone_from(&other.news);
        self.shared.clone_from(&other.shared);
        self.newsroom.clone_from(&other.newsroom);
        self.tick = other.tick;
    }

    /// Advance the market by one tick: news, fair values, then the orders of all agents.
    pub fn tick(&mut self) {
        self.tick += 1;
        self.update_news();
        self.move_values();
        let tick = self.tick;
        for (index, symbol) in self.symbols.iter_mut().enumerate() {
            let sentiment = sentiment_of(&self.news, index, symbol.sector, tick);
            let view = MarketView {
                mid: mid_of(&symbol.floor),
                fair: symbol.fair(),
                sentiment: sentiment.clamp(-1.0, 1.0),
                signals: &symbol.signals,
            };
            symbol.population.act(&view, &mut symbol.floor);
            symbol.signals.update(mid_of(&symbol.floor));
            symbol.close_tick();
        }
    }

    /// Drop expired news and draw new events.
    fn update_news(&mut self) {
        let tick = self.tick;
        self.news.retain(|event| event.is_active(tick));
        for index in 0..self.symbols.len() {
            if !self.newsroom.bernoulli(self.config.news.rate) {
                continue;
            }
            let about = (u32::try_from(index).expect("few symbols"), self.symbols[index].sector);
            let event = NewsEvent::draw(&self.config.news, about, tick, &mut self.newsroom);
            self.apply_news(&event);
            self.news.push(event);
        }
    }

    /// Update fair values with a news event.
    fn apply_news(&mut self, event: &NewsEvent) {
        let change = self.config.news.impact * event.sentiment * event.magnitude;
        for (index, symbol) in self.symbols.iter_mut().enumerate() {
            if event.concerns(index, symbol.sector) {
                match event.topic {
                    Topic::Earnings | Topic::Sector => symbol.fundamental.surprise(change),
                    Topic::Guidance | Topic::Rates => symbol.fundamental.rerate(change),
                }
            }
        }
    }

    fn move_values(&mut self) {
        let market = self.shared.normal();
        let volatility = self.shared.normal();
        for shock in &mut self.sector_shocks {
            *shock = self.shared.normal();
        }
        for symbol in &mut self.symbols {
            let sector = self.sector_shocks[symbol.sector as usize];
            let shared = Shared { market, sector, volatility };
            symbol.fundamental.step(&self.config.fundamental, shared, &mut symbol.stream);
        }
    }
}

impl Symbol {
    /// Fair value of a share, in ticks.
    #[must_use]
    pub fn fair(&self) -> f64 {
        self.fundamental.value().max(LOWEST_VALUE)
    }

    /// Complete the tick: its tape becomes the bar, and a new tape begins.
    fn close_tick(&mut self) {
        self.bar = self.floor.tape;
        std::mem::swap(&mut self.trades, &mut self.floor.fills);
        self.floor.begin_tick();
    }
}

/// Index of the random stream `part` of a symbol.
fn component(symbol: usize, part: u64) -> u64 {
    SYMBOLS + 2 * symbol as u64 + part
}

/// News sentiment of a symbol: all events combined.
pub(crate) fn sentiment_of(news: &[NewsEvent], symbol: usize, sector: u32, tick: u32) -> f64 {
    news.iter()
        .filter(|event| event.concerns(symbol, sector))
        .map(|event| event.sentiment_at(tick))
        .sum()
}
