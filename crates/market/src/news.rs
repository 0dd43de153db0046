//! News: earnings, guidance, rates and sector events, whose sentiment fades with time.

use serde::{Deserialize, Serialize};

use crate::random::Stream;

/// How often there is news, and how much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewsConfig {
    /// Probability of an event about one symbol, in a tick.
    pub rate: f64,
    /// Change of the value, as a part of it, that an event of magnitude 1 and full sentiment brings.
    pub impact: f64,
    /// The shortest time an event is talked about, in ticks.
    pub shortest: u32,
    /// The longest time an event is talked about, in ticks.
    pub longest: u32,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Topic {
    /// Dividends turned out otherwise than expected.
    Earnings,
    /// They will grow otherwise.
    Guidance,
    /// Interest rates moved, for every symbol.
    Rates,
    /// Something happened to a whole sector.
    Sector,
}

/// One event that people talk about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewsEvent {
    /// What it is about.
    pub topic: Topic,
    /// The symbol it is about; of wider events, the one that is named first.
    pub symbol: u32,
    /// That symbol's sector.
    pub sector: u32,
    /// From -1 (bad) to 1 (good).
    pub sentiment: f64,
    /// How much it matters: 1 on average, at most 10.
    pub magnitude: f64,
    /// The tick in which it came out.
    pub start: u32,
    /// For how many ticks it is talked about.
    pub duration: u32,
}

impl NewsEvent {
    /// An event that comes out at `start`.
    pub(crate) fn draw(
        config: &NewsConfig,
        (symbol, sector): (u32, u32),
        start: u32,
        stream: &mut Stream,
    ) -> Self {
        let topic = match stream.below(8) {
            0..=3 => Topic::Earnings,
            4 | 5 => Topic::Guidance,
            6 => Topic::Rates,
            _ => Topic::Sector,
        };
        let sentiment = 2.0 * stream.uniform() - 1.0;
        let magnitude = stream.exponential().min(10.0);
        let duration = config.shortest + stream.below(config.longest - config.shortest + 1);
        Self { topic, symbol, sector, sentiment, magnitude, start, duration }
    }

    /// Whether it matters to a symbol of a sector.
    #[must_use]
    pub fn concerns(&self, symbol: usize, sector: u32) -> bool {
        match self.topic {
            Topic::Earnings | Topic::Guidance => self.symbol as usize == symbol,
            Topic::Rates => true,
            Topic::Sector => self.sector == sector,
        }
    }

    /// The sentiment that is left at `tick`.
    #[must_use]
    pub fn sentiment_at(&self, tick: u32) -> f64 {
        let elapsed = f64::from(tick.saturating_sub(self.start).min(self.duration));
        self.sentiment * (1.0 - elapsed / f64::from(self.duration))
    }

    /// Whether people still talk about it at `tick`.
    #[must_use]
    pub fn is_active(&self, tick: u32) -> bool {
        tick < self.start.saturating_add(self.duration)
    }
}
