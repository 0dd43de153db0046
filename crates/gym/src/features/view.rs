//! View: quotes, depth, order flow and news of a symbol beside its bars.

/// Market data of one symbol after a bar, beside the bar itself. NaN marks an unknown number;
/// features that depend on it take their neutral value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Best bid.
    pub bid: Option<f64>,
    /// Best ask.
    pub ask: Option<f64>,
    /// Resting size on the bid side.
    pub bid_volume: f64,
    /// Resting size on the ask side.
    pub ask_volume: f64,
    /// The last price.
    pub last: f64,
    /// Volume taken by buyers in the last bar.
    pub buy_volume: f64,
    /// Volume taken by sellers in the last bar.
    pub sell_volume: f64,
    /// The first active event.
    pub news: Option<NewsView>,
    /// Sum of the effective sentiments of all active events.
    pub sentiment: f64,
    /// The fair value.
    pub fair: f64,
}

/// An active event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewsView {
    /// Bad (-1) to good (1) news.
    pub sentiment: f64,
    /// Magnitude of the event.
    pub magnitude: f64,
    /// Ticks since it began.
    pub elapsed: u32,
    /// Duration in ticks.
    pub duration: u32,
}

impl View {
    /// A view in which nothing but the last price is known.
    #[must_use]
    pub fn of_last(last: f64) -> Self {
        let unknown = f64::NAN;
        Self {
            bid: None,
            ask: None,
            bid_volume: unknown,
            ask_volume: unknown,
            last,
            buy_volume: unknown,
            sell_volume: unknown,
            news: None,
            sentiment: unknown,
            fair: unknown,
        }
    }

    /// Best bid and ask, if there are both.
    pub(super) fn quote(&self) -> Option<(f64, f64)> {
        self.bid.zip(self.ask)
    }

    /// Mid price, else the last price.
    pub(super) fn mid(&self) -> f64 {
        // Halved first: the sum of two huge prices may overflow.
        self.quote().map_or(self.last, |(bid, ask)| 0.5 * bid + 0.5 * ask)
    }
}

impl NewsView {
    /// Ticks until the event ends.
    pub(super) fn remaining(&self) -> f64 {
        f64::from(self.duration.saturating_sub(self.elapsed))
    }

    /// Sentiment, decaying linearly until the event ends.
    pub(super) fn effective(&self) -> f64 {
        self.sentiment * (self.remaining() / f64::from(self.duration))
    }
}
