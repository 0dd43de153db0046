//! Feature registry: names, order, ranges and neutral values.
//!
//! Conventions are those of TA-Lib: an EMA begins with the mean of its first values, RSI and ATR
//! use Wilder smoothing, bands use the population standard deviation. Where definitions of a
//! formula differ, these were chosen:
//!
//! - `f_macd_*`: the fast average begins with the slow one, as in TA-Lib (see `macd.rs`); the line
//!   is available as soon as it is known, three bars before TA-Lib, which waits for the signal.
//! - `f_trend_strength` is computed from `f_ema_8` and `f_ema_16` themselves.
//! - `f_rsi_8` of a constant close is undefined, and takes its neutral value 50; TA-Lib returns 0.
//! - A division by zero is undefined, and the feature takes its neutral value.
//! - `f_sentiment_price_gap` uses the unclipped deviation from fair value; it is privileged, because
//!   together with the sentiment it reveals the fair value.

/// Features that every set has.
pub(super) const CORE: usize = 54;

/// Features in all.
pub(super) const FULL: usize = 55;

/// Feature group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Price and its changes.
    Price,
    /// Indicators of technical analysis.
    Technical,
    /// The active event.
    News,
    /// Quotes and order flow.
    Microstructure,
    /// Realised volatility.
    Volatility,
    /// Distance from fair value.
    Fundamental,
    /// Momentum quality: share of a move that is trend.
    MomentumQuality,
    /// Activity, and features across groups.
    VolumeAndCross,
}

impl Group {
    /// The name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Price => "price",
            Self::Technical => "technical",
            Self::News => "news",
            Self::Microstructure => "microstructure",
            Self::Volatility => "volatility",
            Self::Fundamental => "fundamental",
            Self::MomentumQuality => "momentum_quality",
            Self::VolumeAndCross => "volume_and_cross",
        }
    }
}

/// Static description of a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureSpec {
    /// Index in a row.
    pub index: usize,
    /// Its name.
    pub name: &'static str,
    /// Feature group.
    pub group: Group,
    /// Value used when the feature cannot be computed.
    pub neutral: f64,
    /// Lower limit of the range.
    pub low: f64,
    /// Upper limit of the range.
    pub high: f64,
    /// True if the feature depends on the fair value, which no trading agent observes.
    pub privileged: bool,
    /// True if the feature is in units of price, and divided by mid when normalised.
    pub price_level: bool,
}

/// The features in the order in which they are written: 54, or 55 with the order flow.
#[must_use]
pub const fn registry(full55: bool) -> &'static [FeatureSpec] {
    if full55 { &ALL } else { ALL.split_at(CORE).0 }
}

const INFINITE: f64 = f64::INFINITY;

const fn feature(name: &'static str, group: Group, neutral: f64, range: [f64; 2]) -> FeatureSpec {
    let [low, high] = range;
    FeatureSpec { index: 0, name, group, neutral, low, high, privileged: false, price_level: false }
}

const fn price(name: &'static str, group: Group, low: f64) -> FeatureSpec {
    FeatureSpec { price_level: true, ..feature(name, group, 0.0, [low, INFINITE]) }
}

const fn technical(name: &'static str) -> FeatureSpec {
    price(name, Group::Technical, -INFINITE)
}

const fn percent(name: &'static str) -> FeatureSpec {
    feature(name, Group::Price, 0.0, [-100.0, 100.0])
}

const fn log_return(name: &'static str) -> FeatureSpec {
    feature(name, Group::Price, 0.0, [-5.0, 5.0])
}

const fn secret(spec: FeatureSpec) -> FeatureSpec {
    FeatureSpec { privileged: true, ..spec }
}

static ALL: [FeatureSpec; FULL] = {
    let mut specs = TABLE;
    let mut index = 0;
    while index < FULL {
        specs[index].index = index;
        index += 1;
    }
    specs
};

const TABLE: [FeatureSpec; FULL] = [
    price("f_mid_price", Group::Price, -INFINITE),
    percent("f_price_change_1"),
    percent("f_price_change_2"),
    percent("f_price_change_3"),
    percent("f_price_change_4"),
    percent("f_price_change_6"),
    percent("f_price_change_8"),
    percent("f_price_change_12"),
    percent("f_price_change_16"),
    percent("f_price_change_24"),
    percent("f_price_change_32"),
    percent("f_price_change_48"),
    percent("f_price_change_64"),
    log_return("f_log_return_1"),
    log_return("f_log_return_2"),
    log_return("f_log_return_3"),
    log_return("f_log_return_4"),
    log_return("f_log_return_6"),
    log_return("f_log_return_8"),
    log_return("f_log_return_12"),
    log_return("f_log_return_16"),
    log_return("f_log_return_24"),
    log_return("f_log_return_32"),
    log_return("f_log_return_48"),
    log_return("f_log_return_64"),
    technical("f_sma_8"),
    technical("f_sma_16"),
    technical("f_ema_8"),
    technical("f_ema_16"),
    feature("f_rsi_8", Group::Technical, 50.0, [0.0, 100.0]),
    technical("f_macd_line"),
    technical("f_macd_signal"),
    technical("f_macd_histogram"),
    technical("f_bb_upper"),
    technical("f_bb_middle"),
    technical("f_bb_lower"),
    feature("f_bb_percent_b", Group::Technical, 0.5, [-2.0, 3.0]),
    price("f_atr_8", Group::Technical, 0.0),
    feature("f_has_active_news", Group::News, 0.0, [0.0, 1.0]),
    feature("f_news_sentiment", Group::News, 0.0, [-1.0, 1.0]),
    feature("f_news_magnitude", Group::News, 0.0, [0.0, 10.0]),
    feature("f_news_ticks_remaining", Group::News, 0.0, [0.0, 1000.0]),
    feature("f_spread_bps", Group::Microstructure, 0.0, [0.0, 1000.0]),
    feature("f_book_imbalance", Group::Microstructure, 0.0, [-1.0, 1.0]),
    feature("f_realized_vol_8", Group::Volatility, 0.0, [0.0, 1.0]),
    feature("f_realized_vol_32", Group::Volatility, 0.0, [0.0, 1.0]),
    feature("f_vol_ratio", Group::Volatility, 1.0, [0.0, 10.0]),
    secret(feature("f_fair_value_dev", Group::Fundamental, 0.0, [-1.0, 1.0])),
    secret(feature("f_price_to_fair", Group::Fundamental, 1.0, [0.0, 5.0])),
    feature("f_trend_strength", Group::MomentumQuality, 0.0, [0.0, 10.0]),
    feature("f_rsi_divergence", Group::MomentumQuality, 0.0, [-50.0, 50.0]),
    feature("f_volume_surge", Group::VolumeAndCross, 1.0, [0.0, 100.0]),
    feature("f_trade_intensity", Group::VolumeAndCross, 0.0, [0.0, 100.0]),
    secret(feature("f_sentiment_price_gap", Group::VolumeAndCross, 0.0, [-1.0, 1.0])),
    feature("f_net_order_flow", Group::Microstructure, 0.0, [-1.0, 1.0]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn there_are_54_features_and_a_55th() {
        assert_eq!((registry(false).len(), registry(true).len()), (54, 55));
        assert_eq!(registry(true)[54].name, "f_net_order_flow");
    }

    #[test]
    fn names_differ_and_indices_count_up() {
        let names: HashSet<_> = registry(true).iter().map(|spec| spec.name).collect();

        assert_eq!(names.len(), 55);
        assert!(registry(true).iter().enumerate().all(|(index, spec)| spec.index == index));
    }

    #[test]
    fn groups_stand_together() {
        let size = |group| registry(false).iter().filter(|spec| spec.group == group).count();
        let groups = [
            (Group::Price, 25),
            (Group::Technical, 13),
            (Group::News, 4),
            (Group::Microstructure, 2),
            (Group::Volatility, 3),
            (Group::Fundamental, 2),
            (Group::MomentumQuality, 2),
            (Group::VolumeAndCross, 3),
        ];
        let mut start = 0;
        for (group, count) in groups {
            assert_eq!(size(group), count, "{}", group.name());
            assert!(registry(false)[start..start + count].iter().all(|spec| spec.group == group));
            start += count;
        }
    }

    #[test]
    fn a_neutral_value_lies_in_its_range() {
        assert!(registry(true).iter().all(|spec| (spec.low..=spec.high).contains(&spec.neutral)));
    }
}
