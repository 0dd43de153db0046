//! Observations of trading: the features of every symbol, and the agent's account if enabled.

use market::{Market, Side, Symbol};
use serde::{Deserialize, Serialize};

use super::decision::LEARNER;
use super::settings::TradingSettings;
use crate::features::{Bar, Features, NewsView, View, registry};

/// Feature sets of all symbols, as of the last complete tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FeatureSets {
    pub(super) symbols: Vec<Features>,
}

impl FeatureSets {
    pub(super) fn new(settings: &TradingSettings) -> Self {
        let features = |_| Features::new(settings.features);
        Self { symbols: settings.market.symbols.iter().map(features).collect() }
    }

    /// Push the last complete tick of the market.
    pub(super) fn push(&mut self, market: &Market, settings: &TradingSettings) {
        for (features, symbol) in self.symbols.iter_mut().zip(market.symbols()) {
            features.push(&bar_of(symbol, settings.tick_size));
        }
    }

    /// Return true if both have the same symbols and options, and are in reachable states.
    pub(super) fn fits(&self, other: &Self) -> bool {
        self.symbols.len() == other.symbols.len()
            && self
                .symbols
                .iter()
                .zip(&other.symbols)
                .all(|(mine, its)| mine.options() == its.options() && mine.is_valid())
    }

    /// Write the observation. `left` is the remaining share of the episode.
    pub(super) fn write(
        &self,
        market: &Market,
        settings: &TradingSettings,
        left: f64,
        observation: &mut [f64],
    ) {
        let width = self.symbols[0].len();
        let (rows, account) = observation.split_at_mut(width * self.symbols.len());
        for (index, (features, row)) in
            self.symbols.iter().zip(rows.chunks_exact_mut(width)).enumerate()
        {
            features.write(&view_of(market, index, settings.tick_size), row);
        }
        if settings.agent {
            write_account(market, left, account);
        }
    }
}

/// Length of an observation.
pub(super) fn observation_len(settings: &TradingSettings) -> usize {
    let symbols = settings.market.symbols.len();
    let features = registry(settings.features.full55).len();
    symbols * features + if settings.agent { 2 * symbols + 2 } else { 0 }
}

/// Names of the values of an observation; with several symbols, each name ends in its symbol.
pub(super) fn names(settings: &TradingSettings) -> Vec<String> {
    let symbols = settings.market.symbols.len();
    let of = |symbol: usize, name: &str| {
        if symbols == 1 { name.to_string() } else { format!("{name}@{symbol}") }
    };
    let features = registry(settings.features.full55);
    let mut names: Vec<String> = (0..symbols)
        .flat_map(|symbol| features.iter().map(move |spec| of(symbol, spec.name)))
        .collect();
    if settings.agent {
        for name in ["a_position", "a_unrealised"] {
            names.extend((0..symbols).map(|symbol| of(symbol, name)));
        }
        names.extend(["a_cash_share".to_string(), "a_time_left".to_string()]);
    }
    names
}

/// Position as a share of its limit, unrealised profit and cash as shares of equity, time left.
#[allow(clippy::cast_precision_loss)] // lots and cash are far below 2^53
fn write_account(market: &Market, left: f64, account: &mut [f64]) {
    let config = market.config();
    let equity = market.equity(LEARNER).max(1.0);
    let count = market.symbols().len();
    for (index, symbol) in market.symbols().iter().enumerate() {
        let holding = symbol.holding(LEARNER);
        let limit =
            if holding.lots < 0 { config.account.most_short } else { config.account.most_long };
        let lots = holding.lots as f64;
        account[index] = lots / f64::from(limit.max(1));
        account[count + index] = (lots * symbol.mid() - holding.cost.0 as f64) / equity;
    }
    account[2 * count] = market.cash(LEARNER).0 as f64 / equity;
    account[2 * count + 1] = left;
}

#[allow(clippy::cast_precision_loss)] // volumes are far below 2^53
fn bar_of(symbol: &Symbol, tick_size: f64) -> Bar {
    let bar = symbol.bar();
    Bar {
        high: tick_size * f64::from(bar.high.0),
        low: tick_size * f64::from(bar.low.0),
        close: tick_size * f64::from(bar.last.0),
        volume: bar.volume() as f64,
        trades: bar.trades,
    }
}

#[allow(clippy::cast_precision_loss)] // volumes are far below 2^53
fn view_of(market: &Market, index: usize, tick_size: f64) -> View {
    let symbol = &market.symbols()[index];
    let (book, bar) = (symbol.book(), symbol.bar());
    let best = |side| book.best(side).map(|price| tick_size * f64::from(price.0));
    let (event, sentiment) = market.news_of(index);
    View {
        bid: best(Side::Buy),
        ask: best(Side::Sell),
        bid_volume: book.volume(Side::Buy) as f64,
        ask_volume: book.volume(Side::Sell) as f64,
        last: tick_size * f64::from(bar.last.0),
        buy_volume: bar.bought as f64,
        sell_volume: bar.sold as f64,
        news: event.map(|event| NewsView {
            sentiment: event.sentiment,
            magnitude: event.magnitude,
            elapsed: market.now() - event.start,
            duration: event.duration,
        }),
        sentiment,
        fair: tick_size * symbol.fair(),
    }
}
