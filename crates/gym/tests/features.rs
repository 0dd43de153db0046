//! Laws of the features of a symbol.

#![allow(clippy::float_cmp)] // the tests compare exact results

use gym::features::{Bar, FeatureOptions, Features, NewsView, View, registry};
use proptest::collection::vec;
use proptest::prelude::*;

fn column(name: &str) -> usize {
    registry(true).iter().find(|spec| spec.name == name).expect("a feature").index
}

fn bar_at(close: f64) -> Bar {
    Bar { high: close * 1.01, low: close * 0.98, close, volume: 10.0, trades: 4 }
}

/// A view in which everything is known.
fn view_at(price: f64) -> View {
    View {
        bid: Some(price * 0.99),
        ask: Some(price * 1.01),
        bid_volume: 30.0,
        ask_volume: 10.0,
        last: price,
        buy_volume: 1.0,
        sell_volume: 3.0,
        news: Some(NewsView { sentiment: -0.8, magnitude: 2.0, elapsed: 5, duration: 20 }),
        sentiment: -0.5,
        fair: price * 0.8,
    }
}

fn row_of(features: &Features, view: &View) -> Vec<f64> {
    let mut row = vec![0.0; features.len()];
    features.write(view, &mut row);
    row
}

fn after(options: FeatureOptions, closes: &[f64]) -> Features {
    let mut features = Features::new(options);
    for &close in closes {
        features.push(&bar_at(close));
    }
    features
}

fn closes() -> Vec<f64> {
    (0..80_i32).map(|bar| 100.0 + f64::from(bar * bar % 17)).collect()
}

#[test]
fn before_the_first_bar_everything_is_neutral_but_view_features() {
    let features = Features::new(FeatureOptions { full55: true, ..FeatureOptions::default() });

    let row = row_of(&features, &View::of_last(7.0));

    assert_eq!(row[0], 7.0);
    assert!(registry(true).iter().skip(1).all(|spec| row[spec.index] == spec.neutral));
}

#[test]
fn view_values_appear_in_the_features() {
    let options = FeatureOptions { full55: true, ..FeatureOptions::default() };
    let row = row_of(&after(options, &closes()), &view_at(100.0));

    let expected = [
        ("f_mid_price", 100.0),
        ("f_has_active_news", 1.0),
        ("f_news_sentiment", -0.6),
        ("f_news_magnitude", 2.0),
        ("f_news_ticks_remaining", 15.0),
        ("f_spread_bps", 200.0),
        ("f_book_imbalance", 0.5),
        ("f_fair_value_dev", 0.25),
        ("f_price_to_fair", 1.25),
        ("f_volume_surge", 1.0),
        ("f_trade_intensity", 0.5),
        ("f_sentiment_price_gap", -0.125),
        ("f_net_order_flow", -0.5),
    ];
    for (name, value) in expected {
        let got = row[column(name)];
        assert!((got - value).abs() < 1e-12, "{name} is {got}, not {value}");
    }
}

#[test]
fn features_that_join_others_agree_with_them() {
    let row = row_of(&after(FeatureOptions::default(), &closes()), &view_at(100.0));
    let of = |name| row[column(name)];

    assert_eq!(of("f_rsi_divergence"), of("f_rsi_8") - 50.0);
    assert_eq!(of("f_vol_ratio"), of("f_realized_vol_8") / of("f_realized_vol_32"));
    assert_eq!(of("f_macd_histogram"), of("f_macd_line") - of("f_macd_signal"));
    let distance = (of("f_ema_8") - of("f_ema_16")).abs();
    assert_eq!(of("f_trend_strength"), distance / of("f_atr_8"));
}

#[test]
fn a_surge_is_measured_by_the_eight_volumes_before() {
    let mut features = Features::new(FeatureOptions::default());
    let surge =
        |features: &Features| row_of(features, &View::of_last(1.0))[column("f_volume_surge")];
    for volume in [90.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] {
        features.push(&Bar { volume, ..bar_at(1.0) });
    }
    assert_eq!(surge(&features), 8.0 / (118.0 / 8.0));

    features.push(&Bar { volume: 9.0, ..bar_at(1.0) });

    assert_eq!(surge(&features), 2.0);
}

#[test]
fn division_by_zero_is_neutral() {
    let mut features = Features::new(FeatureOptions::default());
    for bar in 0..9 {
        let volume = if bar < 8 { 0.0 } else { 5.0 };
        features.push(&Bar { volume, ..bar_at(1.0) });
    }

    let row =
        row_of(&features, &View { fair: 0.0, bid_volume: 0.0, ask_volume: 0.0, ..view_at(1.0) });

    for name in ["f_volume_surge", "f_fair_value_dev", "f_price_to_fair", "f_book_imbalance"] {
        assert_eq!(row[column(name)], registry(true)[column(name)].neutral, "{name}");
    }
}

#[test]
fn a_quote_of_one_side_has_no_spread_and_the_last_price_for_mid() {
    let view = View { ask: None, last: 50.0, ..view_at(100.0) };

    let row = row_of(&after(FeatureOptions::default(), &closes()), &view);

    assert_eq!((row[0], row[column("f_spread_bps")]), (50.0, 0.0));
}

#[test]
fn an_event_that_is_over_has_no_sentiment_left() {
    let over = NewsView { sentiment: 1.0, magnitude: 1.0, elapsed: 30, duration: 20 };
    let never = NewsView { duration: 0, ..over };
    let features = after(FeatureOptions::default(), &closes());
    for event in [over, never] {
        let row = row_of(&features, &View { news: Some(event), ..view_at(100.0) });

        assert_eq!(row[column("f_news_sentiment")], 0.0);
        assert_eq!(row[column("f_news_ticks_remaining")], 0.0);
    }
}

#[test]
fn the_gap_takes_the_deviation_before_it_is_clipped() {
    let view = View { fair: 25.0, sentiment: 0.25, ..view_at(100.0) };

    let row = row_of(&after(FeatureOptions::default(), &closes()), &view);

    assert_eq!(row[column("f_fair_value_dev")], 1.0);
    assert!((row[column("f_sentiment_price_gap")] - 0.75).abs() < 1e-12);
}

#[test]
fn unprivileged_features_do_not_depend_on_the_fair_value() {
    let options = FeatureOptions { privileged: false, ..FeatureOptions::default() };
    let features = after(options, &closes());
    let seen = after(FeatureOptions::default(), &closes());

    let hidden = row_of(&features, &view_at(100.0));
    let other = row_of(&features, &View { fair: 3.0, ..view_at(100.0) });
    let shown = row_of(&seen, &view_at(100.0));

    assert_eq!(hidden, other);
    for spec in registry(false) {
        let expected = if spec.privileged { spec.neutral } else { shown[spec.index] };
        assert_eq!(hidden[spec.index], expected, "{}", spec.name);
    }
}

#[test]
fn normalised_features_are_shares_of_mid() {
    let options = FeatureOptions { normalize: true, ..FeatureOptions::default() };
    let plain = row_of(&after(FeatureOptions::default(), &closes()), &view_at(80.0));
    let shares = row_of(&after(options, &closes()), &view_at(80.0));

    assert_eq!(registry(false).iter().filter(|spec| spec.price_level).count(), 12);
    for spec in registry(false) {
        let value = plain[spec.index];
        let expected = if spec.price_level { value / plain[0] } else { value };
        assert_eq!(shares[spec.index], expected, "{}", spec.name);
    }
}

#[test]
fn a_market_that_never_moves_is_neutral() {
    let mut features = Features::new(FeatureOptions::default());
    for _ in 0..80 {
        let still = Bar { high: 0.1, low: 0.1, close: 0.1, volume: 0.0, trades: 0 };
        features.push(&still);
    }

    let row = row_of(&features, &View::of_last(0.1));

    for spec in registry(false) {
        let level = ["f_mid_price", "f_sma", "f_ema", "f_bb_upper", "f_bb_middle", "f_bb_lower"];
        let expected =
            if level.iter().any(|name| spec.name.starts_with(name)) { 0.1 } else { spec.neutral };
        assert_eq!(row[spec.index], expected, "{}", spec.name);
    }
}

#[test]
fn a_reset_forgets_every_bar() {
    let mut features = after(FeatureOptions::default(), &closes());

    features.reset();

    assert_eq!(features.encode(), Features::new(FeatureOptions::default()).encode());
}

#[test]
#[should_panic(expected = "as many values as there are features")]
fn a_row_of_another_length_is_refused() {
    Features::new(FeatureOptions::default()).write(&View::of_last(1.0), &mut [0.0; 55]);
}

proptest! {
    #[test]
    fn a_saved_state_continues_bit_for_bit(closes in vec(1e-3..1e5f64, 2..150), cut in 0..150usize) {
        let cut = cut.min(closes.len());
        let mut original = after(FeatureOptions::default(), &closes[..cut]);
        let mut loaded = Features::decode(&original.encode()).expect("just saved");

        for &close in &closes[cut..] {
            original.push(&bar_at(close));
            loaded.push(&bar_at(close));
            prop_assert_eq!(row_of(&original, &view_at(close)), row_of(&loaded, &view_at(close)));
        }
        prop_assert_eq!(original.encode(), loaded.encode());
    }

    #[test]
    fn a_power_of_two_scales_prices_and_nothing_else(
        closes in vec(50.0..200.0f64, 2..150), power in -20..20i32
    ) {
        let factor = 2_f64.powi(power);
        let scaled: Vec<f64> = closes.iter().map(|close| close * factor).collect();
        let last = closes[closes.len() - 1];

        let plain = row_of(&after(FeatureOptions::default(), &closes), &view_at(last));
        let other = row_of(&after(FeatureOptions::default(), &scaled), &view_at(last * factor));

        for spec in registry(false) {
            let by = if spec.price_level { factor } else { 1.0 };
            prop_assert_eq!(other[spec.index], plain[spec.index] * by, "{}", spec.name);
        }
    }

    #[test]
    fn every_value_lies_in_its_range(closes in vec(1e-9..1e9f64, 1..150), seen in 1e-9..1e9f64) {
        let row = row_of(&after(FeatureOptions::default(), &closes), &view_at(seen));

        for (spec, value) in registry(false).iter().zip(row) {
            prop_assert!(value.is_finite() && (spec.low..=spec.high).contains(&value), "{}", spec.name);
        }
    }
}
