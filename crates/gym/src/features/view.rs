//! What can be seen of a symbol beside its bars.

/// What can be seen of one symbol after a bar. A number that is not known is NaN, and what
/// follows from it is shown at its neutral value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Best price that somebody buys at.
    pub bid: Option<f64>,
    /// Best price that somebody sells at.
    pub ask: Option<f64>,
    /// What rests on the side of the bids.
    pub bid_volume: f64,
    /// What rests on the side of the asks.
    pub ask_volume: f64,
    /// The last price.
    pub last: f64,
    /// What buyers took in the last bar.
    pub buy_volume: f64,
    /// What sellers took in the last bar.
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
    /// How large the event is.
    pub magnitude: f64,
    /// Ticks since it began.
    pub elapsed: u32,
    /// Ticks that it lasts in all.
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

    /// Bid and ask, when there are both.
    pub(super) fn quote(&self) -> Option<(f64, f64)> {
        self.bid.zip(self.ask)
    }

    /// The middle of the quote, else the last price.
    pub(super) fn mid(&self) -> f64 {
        // Halved first: the sum of two huge prices may not be a number.
        self.quote().map_or(self.last, |(bid, ask)| 0.5 * bid + 0.5 * ask)
    }
}

impl NewsView {
    /// Ticks until the event ends.
    pub(super) fn remaining(&self) -> f64 {
        f64::from(self.duration.saturating_sub(self.elapsed))
    }

    /// The sentiment, which fades evenly until the event ends.
    pub(super) fn effective(&self) -> f64 {
        self.sentiment * (self.remaining() / f64::from(self.duration))
    }
}
