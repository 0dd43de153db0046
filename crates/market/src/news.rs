//! News: earnings, guidance, rates and sector events, whose sentiment fades with time.

use serde::{Deserialize, Serialize};

use crate::random::Stream;

/// Frequency and magnitude of news events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewsConfig {
    /// Probability of an event about one symbol, in a tick.
    pub rate: f64,
    /// Relative change of the fair value for an event of magnitude 1 and full sentiment.
    pub impact: f64,
    /// Shortest duration of an event, in ticks.
    pub shortest: u32,
    /// Longest duration of an event, in ticks.
    pub longest: u32,
}

/// Topic of a news event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Topic {
    /// Earnings surprise: a change of dividends.
    Earnings,
    /// Guidance: a change of dividend growth.
    Guidance,
    /// Interest rates changed, for every symbol.
    Rates,
    /// Sector event.
    Sector,
}

/// News event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewsEvent {
    /// Topic of the event.
    pub topic: Topic,
    /// Symbol of the event; for wider events, the first one affected.
    pub symbol: u32,
    /// That symbol's sector.
    pub sector: u32,
    /// From -1 (bad) to 1 (good).
    pub sentiment: f64,
    /// Magnitude: 1 on average, at most 10.
    pub magnitude: f64,
    /// Tick of publication.
    pub start: u32,
    /// Duration of the event, in ticks.
    pub duration: u32,
}

impl NewsEvent {
    /// Draw an event published at `start`.
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

    /// Return true if the event affects a symbol of a sector.
    #[must_use]
    pub fn concerns(&self, symbol: usize, sector: u32) -> bool {
        match self.topic {
            Topic::Earnings | Topic::Guidance => self.symbol as usize == symbol,
            Topic::Rates => true,
            Topic::Sector => self.sector == sector,
        }
    }

    /// Remaining sentiment at `tick`.
    #[must_use]
    pub fn sentiment_at(&self, tick: u32) -> f64 {
        let elapsed = f64::from(tick.saturating_sub(self.start).min(self.duration));
        self.sentiment * (1.0 - elapsed / f64::from(self.duration))
    }

    /// Return true if the event is active at `tick`.
    #[must_use]
    pub fn is_active(&self, tick: u32) -> bool {
        tick < self.start.saturating_add(self.duration)
    }
}
