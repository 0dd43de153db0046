//! Observations of trading, compared with the same bars and views computed another way.

#![allow(clippy::cast_precision_loss, clippy::unwrap_used)] // volumes are small; tests may panic

use gym::features::{FeatureOptions, Features, registry, series};
use gym::{SellHoldBuy, Task, Trading, TradingSettings};
use market::{Agent, EpisodeKey, Market, MarketConfig, NewsConfig, Side, SymbolConfig};

const STEPS: usize = 600;
/// Bars after which the start has no effect on the longest average: (7/8)^300 is 4e-18.
const FORGOTTEN: usize = 300;
const TICK: f64 = 0.01;

fn task(features: FeatureOptions) -> Trading<SellHoldBuy> {
    let symbols =
        vec![SymbolConfig { price: 10_000, sector: 0 }, SymbolConfig { price: 2_500, sector: 1 }];
    let news = NewsConfig { rate: 0.01, ..NewsConfig::default() };
    let market = MarketConfig { symbols, news, ..MarketConfig::default() };
    Trading::new(TradingSettings { market, features, ..TradingSettings::default() }).unwrap()
}

/// High, low, close, volume and trades of the last tick, in currency.
fn bar(market: &Market, symbol: usize) -> [f64; 5] {
    let fills = market.symbols()[symbol].trades();
    let bar = market.symbols()[symbol].bar();
    let price = |ticks: i32| TICK * f64::from(ticks);
    let highest = fills.iter().map(|fill| fill.price.0).max().unwrap_or(bar.last.0);
    let lowest = fills.iter().map(|fill| fill.price.0).min().unwrap_or(bar.last.0);
    let volume: f64 = fills.iter().map(|fill| f64::from(fill.size.0)).sum();
    [price(highest), price(lowest), price(bar.last.0), volume, f64::from(bar.trades)]
}

/// Lots of a side, counted order by order.
fn resting(market: &Market, symbol: usize, side: Side) -> f64 {
    market.symbols()[symbol].book().orders(side).map(|order| f64::from(order.size.0)).sum()
}

fn taken(market: &Market, symbol: usize, side: Side) -> f64 {
    let fills = market.symbols()[symbol].trades().iter();
    fills.filter(|fill| fill.taker_side == side).map(|fill| f64::from(fill.size.0)).sum()
}

/// Columns of a view, NaN where unknown.
fn view(market: &Market, symbol: usize) -> [f64; 13] {
    let book = market.symbols()[symbol].book();
    let best = |side| book.best(side).map_or(f64::NAN, |price| TICK * f64::from(price.0));
    let sector = u32::try_from(symbol).unwrap();
    let events = market.news().iter().filter(|event| event.concerns(symbol, sector));
    let sentiment: f64 = events.clone().map(|event| event.sentiment_at(market.now())).sum();
    let news = events.clone().next().map_or([f64::NAN; 4], |event| {
        let age = f64::from(market.now() - event.start);
        [event.sentiment, event.magnitude, age, f64::from(event.duration)]
    });
    [
        best(Side::Buy),
        best(Side::Sell),
        resting(market, symbol, Side::Buy),
        resting(market, symbol, Side::Sell),
        f64::NAN,
        taken(market, symbol, Side::Buy),
        taken(market, symbol, Side::Sell),
        news[0],
        news[1],
        news[2],
        news[3],
        sentiment,
        TICK * market.symbols()[symbol].fair(),
    ]
}

/// Bars, views and observations of an episode, symbol after symbol.
struct Replay {
    bars: [Vec<f64>; 2],
    views: [Vec<f64>; 2],
    shown: [Vec<f64>; 2],
}

fn replay(options: FeatureOptions, seed: u64) -> Replay {
    let mut task = task(options);
    let width = registry(options.full55).len();
    let mut observation = vec![0.0; task.layout()];
    task.begin(EpisodeKey { seed, episode: 0 }, &mut observation);
    let mut replay = Replay {
        bars: [Vec::new(), Vec::new()],
        views: [Vec::new(), Vec::new()],
        shown: [Vec::new(), Vec::new()],
    };
    let mut choices = EpisodeKey { seed, episode: 77 }.stream(0);
    for _ in 0..STEPS {
        let action = [i64::from(choices.below(3)), i64::from(choices.below(3))];
        task.step(&action, &mut observation);
        for symbol in 0..2 {
            replay.bars[symbol].extend(bar(task.market(), symbol));
            replay.views[symbol].extend(view(task.market(), symbol));
            replay.shown[symbol].extend(&observation[symbol * width..][..width]);
        }
    }
    replay
}

#[test]
fn features_are_those_of_the_bars_and_books_that_the_market_had() {
    for (seed, normalize) in [(1, false), (2, true)] {
        let options = FeatureOptions { normalize, privileged: true, full55: true };
        let replay = replay(options, seed);
        for symbol in 0..2 {
            let mut features = Features::new(options);
            let mut expected = vec![0.0; replay.shown[symbol].len()];
            let (bars, views) = (&replay.bars[symbol], &replay.views[symbol]);
            series(&mut features, bars, Some(views), false, &mut expected).unwrap();

            let rows = replay.shown[symbol].chunks(55).zip(expected.chunks(55));
            for (step, (shown, expected)) in rows.enumerate().skip(FORGOTTEN) {
                for (spec, (got, value)) in registry(true).iter().zip(shown.iter().zip(expected)) {
                    let apart = (got - value).abs();
                    assert!(
                        apart <= 1e-9 * value.abs().max(1e-3),
                        "{} of symbol {symbol} at {step}: {got} for {value}",
                        spec.name
                    );
                }
            }
        }
    }
}

fn column(name: &str) -> usize {
    registry(true).iter().find(|spec| spec.name == name).unwrap().index
}

#[test]
fn book_features_follow_simple_formulas_from_the_first_step() {
    let options = FeatureOptions { normalize: false, privileged: true, full55: true };
    let replay = replay(options, 3);
    let mut with_news = 0;
    for symbol in 0..2 {
        let closes: Vec<f64> = replay.bars[symbol].chunks(5).map(|bar| bar[2]).collect();
        for step in 1..STEPS {
            let [bid, ask, bids, asks, _, bought, sold, .., sentiment, fair]: [f64; 13] =
                replay.views[symbol][13 * step..][..13].try_into().unwrap();
            let shown = &replay.shown[symbol][55 * step..][..55];
            let mid = f64::midpoint(bid, ask);
            let (now, before) = (closes[step], closes[step - 1]);
            let deviation = (mid - fair) / fair;
            with_news += usize::from(sentiment != 0.0);
            for (name, expected) in [
                ("f_mid_price", mid),
                ("f_spread_bps", 1e4 * (ask - bid) / mid),
                ("f_book_imbalance", (bids - asks) / (bids + asks)),
                ("f_price_change_1", 100.0 * (now / before - 1.0)),
                ("f_log_return_1", (now / before).ln()),
                ("f_fair_value_dev", deviation),
                ("f_price_to_fair", mid / fair),
                ("f_sentiment_price_gap", sentiment * deviation),
                (
                    "f_net_order_flow",
                    if bought + sold > 0.0 { (bought - sold) / (bought + sold) } else { 0.0 },
                ),
                ("f_trade_intensity", replay.bars[symbol][5 * step + 4] / 8.0),
            ] {
                let got = shown[column(name)];
                assert!((got - expected).abs() < 1e-9, "{name} at {step}: {got} for {expected}");
            }
        }
    }
    assert!(with_news > 100, "{with_news}");
}

#[test]
fn an_observation_is_of_the_market_after_the_tick_and_never_before() {
    let mut task = task(FeatureOptions::default());
    let mut observation = vec![0.0; task.layout()];
    task.begin(EpisodeKey { seed: 5, episode: 0 }, &mut observation);
    for step in 0..200 {
        let now = task.market().now();
        assert!((observation[0] - TICK * task.market().symbols()[0].mid()).abs() < 1e-12);
        let held = task.market().symbols()[0].holding(Agent(0)).lots;
        task.step(&[2 * (step % 2), 1], &mut observation);
        assert_eq!(task.market().now(), now + 1);
        assert_ne!(task.market().symbols()[0].holding(Agent(0)).lots, held);
    }
}
