//! Fair values of shares: dividends that grow for ever, discounted (Gordon), with stochastic
//! volatility and rare jumps.

use serde::{Deserialize, Serialize};

use crate::random::Stream;

/// Process of the fair value of every share, in parts of the value and per tick.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FundamentalConfig {
    /// Standard deviation of the log value over a tick, on average.
    pub volatility: f64,
    /// Persistence of log volatility: share of its departure from the mean left after a tick.
    pub volatility_persistence: f64,
    /// Standard deviation of the log volatility's own steps.
    pub volatility_of_volatility: f64,
    /// Probability of a jump in a tick.
    pub jump_rate: f64,
    /// Standard deviation of a jump of the log value.
    pub jump_size: f64,
    /// Part of the variance that all symbols share.
    pub market_share: f64,
    /// Part of the variance that the symbols of a sector share.
    pub sector_share: f64,
    /// Discount rate of investors, yearly.
    pub discount_rate: f64,
    /// Growth rate of dividends, yearly; below `discount_rate`.
    pub growth_rate: f64,
}

/// Smallest difference between discount and growth rate.
const NARROWEST_GAP: f64 = 0.005;
/// The largest: a value stays finite and above zero whatever the news.
const WIDEST_GAP: f64 = 1e6;
/// Largest standard deviation of the log value over a tick.
const MOST_VOLATILITY: f64 = 1e3;
/// Smallest and largest dividend, beyond the range of prices.
const DIVIDENDS: [f64; 2] = [1e-12, 1e12];

/// Fair value process of one share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fundamental {
    dividend: f64,
    /// Discount rate less growth rate.
    gap: f64,
    /// Log of today's volatility over its mean.
    log_volatility: f64,
}

/// Shocks that symbols share in one tick, as standard normal draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    pub(crate) market: f64,
    pub(crate) sector: f64,
    pub(crate) volatility: f64,
}

impl Fundamental {
    /// A share of fair value `price`, with a volatility drawn from its long-run distribution.
    pub(crate) fn new(config: &FundamentalConfig, price: f64, stream: &mut Stream) -> Self {
        let gap = config.discount_rate - config.growth_rate;
        Self { dividend: price * gap, gap, log_volatility: config.long_run() * stream.normal() }
    }

    /// Redraw the volatility from its long-run distribution.
    pub(crate) fn redraw_volatility(&mut self, config: &FundamentalConfig, stream: &mut Stream) {
        self.log_volatility = config.long_run() * stream.normal();
    }

    /// Fair value: discounted growing perpetuity (Gordon).
    pub(crate) fn value(&self) -> f64 {
        self.dividend / self.gap
    }

    /// Advance the dividend process by one tick.
    pub(crate) fn step(&mut self, config: &FundamentalConfig, shared: Shared, stream: &mut Stream) {
        let own = 1.0 - config.market_share - config.sector_share;
        let shock = libm::sqrt(config.market_share) * shared.market
            + libm::sqrt(config.sector_share) * shared.sector
            + libm::sqrt(own) * stream.normal();
        let volatility = config.volatility * libm::exp(self.log_volatility - config.bias());
        let volatility = volatility.min(MOST_VOLATILITY);
        let mut change = volatility * shock - 0.5 * volatility * volatility;
        if stream.bernoulli(config.jump_rate) {
            change +=
                config.jump_size * stream.normal() - 0.5 * config.jump_size * config.jump_size;
        }
        self.grow(change);
        // Half of the volatility shock is common to all symbols.
        let volatility_shock =
            std::f64::consts::FRAC_1_SQRT_2 * (shared.volatility + stream.normal());
        self.log_volatility = config.volatility_persistence * self.log_volatility
            + config.volatility_of_volatility * volatility_shock;
    }

    /// Earnings surprise: change dividends by the relative `change`.
    pub(crate) fn surprise(&mut self, change: f64) {
        self.grow(change);
    }

    /// Change log dividends by `change`.
    #[allow(clippy::manual_clamp)] // clamp would let NaN through
    fn grow(&mut self, change: f64) {
        let [least, most] = DIVIDENDS;
        self.dividend = (self.dividend * libm::exp(change)).max(least).min(most);
    }

    /// Change the gap of discount and growth rate so that the value changes by the relative
    /// `change`.
    #[allow(clippy::manual_clamp)] // clamp would let NaN through
    pub(crate) fn rerate(&mut self, change: f64) {
        self.gap = (self.gap * libm::exp(-change)).max(NARROWEST_GAP).min(WIDEST_GAP);
    }

    pub(crate) fn is_valid(&self) -> bool {
        let [least, most] = DIVIDENDS;
        (least..=most).contains(&self.dividend)
            && self.gap > 0.0
            && self.gap <= WIDEST_GAP
            && self.log_volatility.is_finite()
    }
}

impl FundamentalConfig {
    /// Long-run standard deviation of the log volatility.
    fn long_run(&self) -> f64 {
        let persistence = self.volatility_persistence;
        self.volatility_of_volatility
            / libm::sqrt((1.0 - persistence * persistence).max(f64::EPSILON))
    }

    /// The long-run variance: keeps the mean of the squared volatility at its setting.
    fn bias(&self) -> f64 {
        self.long_run() * self.long_run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::EpisodeKey;

    #[test]
    fn values_stay_numbers_however_wild_the_settings() {
        let config = FundamentalConfig {
            volatility: 1.0,
            volatility_persistence: 0.9999,
            volatility_of_volatility: 1.0,
            jump_rate: 1.0,
            jump_size: 1.0,
            ..FundamentalConfig::default()
        };
        for seed in 0..20 {
            let mut stream = EpisodeKey { seed, episode: 0 }.stream(0);
            let mut fundamental = Fundamental::new(&config, 10_000.0, &mut stream);
            for _ in 0..2_000 {
                let shared = Shared { market: 3.0, sector: -3.0, volatility: 3.0 };
                fundamental.step(&config, shared, &mut stream);
                fundamental.surprise(1e308);
                fundamental.rerate(-1e308);
                assert!(fundamental.is_valid(), "{fundamental:?}");
                assert!(fundamental.value().is_finite());
            }
        }
    }
}
