//! Market configuration, with presets for realistic markets.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::agents::PopulationConfig;
use crate::fees::{OfNotional, Rate};
use crate::fundamental::FundamentalConfig;
use crate::news::NewsConfig;
use crate::units::Ticks;

/// Configuration of one symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SymbolConfig {
    /// Initial price and fair value of a share, in ticks.
    pub price: i32,
    /// Sector of the symbol.
    pub sector: u32,
}

/// Initial state and limits of a learning agent's account.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountConfig {
    /// Initial cash, in ticks times lots.
    pub cash: i64,
    /// Largest long position per symbol, in lots.
    pub most_long: u32,
    /// Largest short position per symbol, in lots.
    pub most_short: u32,
    /// Ruin threshold of equity, as a share of the initial cash.
    pub ruin: f64,
    /// Maker fee, in millionths of the notional; negative is a rebate.
    pub maker_fee: i32,
    /// Taker fee, in millionths of the notional.
    pub taker_fee: i32,
}

/// Configuration of a market, without its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketConfig {
    /// The symbols.
    pub symbols: Vec<SymbolConfig>,
    /// Population of trading agents of each symbol.
    pub population: PopulationConfig,
    /// Process of the fair values.
    pub fundamental: FundamentalConfig,
    /// News process.
    pub news: NewsConfig,
    /// Number of learning agents that trade beside the population.
    #[serde(rename = "agents")]
    pub external: u32,
    /// Accounts of the learning agents.
    pub account: AccountConfig,
}

/// Preset market regime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// Half the normal volatility, deep books.
    Calm,
    /// Normal volatility and depth.
    Normal,
    /// Twice the normal volatility, more jumps, thinner books.
    Volatile,
    /// Four times the normal volatility, many jumps, thin books, wide quotes.
    Crisis,
}

/// Invalid market configuration.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("expected {field} {expected}, got {got}")]
pub struct ConfigError {
    /// Name of the setting.
    pub field: &'static str,
    /// Expected value, in words.
    pub expected: &'static str,
    /// Actual value.
    pub got: f64,
}

impl PopulationConfig {
    /// Preset of one hundred trading agents.
    #[must_use]
    pub fn light() -> Self {
        Self {
            makers: 10,
            noise: 56,
            value: 16,
            momentum: 4,
            trend: 5,
            convergence: 4,
            reversion: 5,
            pool: 1_000,
            maker_size: 30,
            maker_half_spread: 0.3,
            maker_caution: 0.55,
            maker_skew: 1.0,
            maker_insight: 0.8,
            noise_activity: 0.25,
            noise_size: 8,
            value_activity: 0.1,
            value_error: 2.0,
            technical_activity: 0.1,
        }
    }

    /// Preset of four hundred trading agents, and a pool that represents ten thousand.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            makers: 30,
            noise: 240,
            value: 60,
            momentum: 16,
            trend: 20,
            convergence: 16,
            reversion: 18,
            pool: 10_000,
            ..Self::light()
        }
    }
}

impl Default for FundamentalConfig {
    fn default() -> Self {
        Self {
            volatility: 1e-4,
            volatility_persistence: 0.995,
            volatility_of_volatility: 0.06,
            jump_rate: 5e-4,
            jump_size: 2e-3,
            market_share: 0.3,
            sector_share: 0.2,
            discount_rate: 0.08,
            growth_rate: 0.03,
        }
    }
}

impl Default for NewsConfig {
    fn default() -> Self {
        Self { rate: 5e-4, impact: 1e-3, shortest: 50, longest: 400 }
    }
}

impl Default for AccountConfig {
    fn default() -> Self {
        Self {
            cash: 10_000_000,
            most_long: 900,
            most_short: 900,
            ruin: 0.0,
            maker_fee: 0,
            taker_fee: 50,
        }
    }
}

impl Default for MarketConfig {
    fn default() -> Self {
        Self {
            symbols: vec![SymbolConfig { price: 10_000, sector: 0 }],
            population: PopulationConfig::light(),
            fundamental: FundamentalConfig::default(),
            news: NewsConfig::default(),
            external: 1,
            account: AccountConfig::default(),
        }
    }
}

/// Lowest initial price: below, ticks are too coarse for quotes and indicators.
const LOWEST_PRICE: i32 = 100;
/// Approximate memory of a symbol without its accounts: two ladders and their indicators, in bytes.
const SYMBOL_BYTES: usize = 48 << 10;
/// Approximate memory of an account: its holdings, and its resting orders, in bytes.
const ACCOUNT_BYTES: usize = 160;
/// Largest number of agents of a kind, symbols, or learning agents: keeps accounts within 32 bits.
const MOST: u32 = 1_000_000;

impl MarketConfig {
    /// This configuration in another market regime.
    #[must_use]
    pub fn in_regime(mut self, regime: Regime) -> Self {
        let (moves, jumps, depth) = match regime {
            Regime::Calm => (0.5, 0.5, 1.5),
            Regime::Normal => (1.0, 1.0, 1.0),
            Regime::Volatile => (2.0, 2.0, 0.7),
            Regime::Crisis => (4.0, 4.0, 0.4),
        };
        self.fundamental.volatility *= moves;
        self.fundamental.jump_rate = (self.fundamental.jump_rate * jumps).min(1.0);
        self.fundamental.jump_size *= libm::sqrt(moves);
        self.news.rate = (self.news.rate * jumps).min(1.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive and small
        let size = (f64::from(self.population.maker_size) * depth) as u32;
        self.population.maker_size = size.max(1);
        self
    }

    /// The fee schedule of learning agents.
    ///
    /// # Errors
    /// If a fee is more than the whole notional.
    pub fn fees(&self) -> Result<OfNotional, ConfigError> {
        let rate = |field, millionths: i32| {
            Rate::from_millionths(millionths).map_err(|_| ConfigError {
                field,
                expected: "from -1,000,000 to 1,000,000 millionths",
                got: f64::from(millionths),
            })
        };
        Ok(OfNotional {
            maker: rate("maker_fee", self.account.maker_fee)?,
            taker: rate("taker_fee", self.account.taker_fee)?,
        })
    }

    /// Validate the settings.
    ///
    /// # Errors
    /// If a setting is out of its range; reports the first.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_symbols()?;
        self.check_population()?;
        self.check_fundamental()?;
        self.check_news()?;
        self.check_account()?;
        self.fees().map(|_| ())
    }

    fn check_symbols(&self) -> Result<(), ConfigError> {
        let count = u32::try_from(self.symbols.len()).unwrap_or(u32::MAX);
        within("symbols", "from 1 to 1,000", f64::from(count), 1.0, 1e3)?;
        within("agents", "from 0 to 1,000,000", f64::from(self.external), 0.0, MOST.into())?;
        for symbol in &self.symbols {
            let (low, high) = (f64::from(LOWEST_PRICE), f64::from(Ticks::MAX.0 >> 4));
            within("sector", "from 0 to 999", symbol.sector.into(), 0.0, 999.0)?;
            within("price", "from 100 to 67,108,864 ticks", symbol.price.into(), low, high)?;
        }
        Ok(())
    }

    fn check_population(&self) -> Result<(), ConfigError> {
        let population = &self.population;
        for (field, count) in [
            ("makers", population.makers),
            ("noise", population.noise),
            ("value", population.value),
            ("momentum", population.momentum),
            ("trend", population.trend),
            ("convergence", population.convergence),
            ("reversion", population.reversion),
        ] {
            within(field, "from 0 to 1,000,000 traders", count.into(), 0.0, MOST.into())?;
        }
        within("pool", "from 0 to 100,000,000 traders", population.pool.into(), 0.0, 1e8)?;
        for (field, lots) in
            [("maker_size", population.maker_size), ("noise_size", population.noise_size)]
        {
            within(field, "from 1 to 1,000,000 lots", lots.into(), 1.0, MOST.into())?;
        }
        for (field, ticks) in [
            ("maker_half_spread", population.maker_half_spread),
            ("maker_caution", population.maker_caution),
            ("maker_skew", population.maker_skew),
            ("value_error", population.value_error),
        ] {
            within(field, "from 0 to 1,000 ticks", ticks, 0.0, 1e3)?;
        }
        for (field, probability) in [
            ("maker_insight", population.maker_insight),
            ("noise_activity", population.noise_activity),
            ("value_activity", population.value_activity),
            ("technical_activity", population.technical_activity),
        ] {
            within(field, "from 0 to 1", probability, 0.0, 1.0)?;
        }
        Ok(())
    }

    fn check_fundamental(&self) -> Result<(), ConfigError> {
        let fundamental = &self.fundamental;
        for (field, size) in [
            ("volatility", fundamental.volatility),
            ("volatility_of_volatility", fundamental.volatility_of_volatility),
            ("jump_size", fundamental.jump_size),
        ] {
            within(field, "from 0 to 1", size, 0.0, 1.0)?;
        }
        let persistence = fundamental.volatility_persistence;
        within("volatility_persistence", "from 0 to 0.9999", persistence, 0.0, 0.9999)?;
        within("jump_rate", "from 0 to 1", fundamental.jump_rate, 0.0, 1.0)?;
        within("market_share", "from 0 to 1", fundamental.market_share, 0.0, 1.0)?;
        let left = 1.0 - fundamental.market_share;
        let expected = "from 0 to what market_share leaves of 1";
        within("sector_share", expected, fundamental.sector_share, 0.0, left)?;
        within("discount_rate", "from 0.01 to 1", fundamental.discount_rate, 0.01, 1.0)?;
        let most = fundamental.discount_rate - 0.005;
        let expected = "at least 0.005 below discount_rate, and not below -1,";
        within("growth_rate", expected, fundamental.growth_rate, -1.0, most)
    }

    fn check_news(&self) -> Result<(), ConfigError> {
        let news = &self.news;
        within("rate", "from 0 to 1", news.rate, 0.0, 1.0)?;
        within("impact", "from 0 to 0.1", news.impact, 0.0, 0.1)?;
        within("shortest", "from 1 to 1,000 ticks", news.shortest.into(), 1.0, 1e3)?;
        let expected = "from `shortest` to 1,000 ticks";
        within("longest", expected, news.longest.into(), news.shortest.into(), 1e3)
    }

    #[allow(clippy::cast_precision_loss)] // only compared
    fn check_account(&self) -> Result<(), ConfigError> {
        let account = &self.account;
        within("cash", "from 1 to 2^53 ticks times lots", account.cash as f64, 1.0, 2f64.powi(53))?;
        for (field, lots) in [("most_long", account.most_long), ("most_short", account.most_short)]
        {
            within(field, "from 0 to 1,000,000 lots", lots.into(), 0.0, MOST.into())?;
        }
        within("ruin", "from 0 to 0.99", account.ruin, 0.0, 0.99)
    }

    /// Bytes that a market of this configuration occupies, roughly.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let accounts = self.population.accounts().saturating_add(self.external as usize);
        let symbol = accounts.saturating_mul(ACCOUNT_BYTES).saturating_add(SYMBOL_BYTES);
        self.symbols.len().saturating_mul(symbol)
    }

    /// Equity at or below which an agent is ruined.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // cash is below 2^53
    pub fn ruin_level(&self) -> f64 {
        self.account.ruin * self.account.cash as f64
    }
}

fn within(
    field: &'static str,
    expected: &'static str,
    got: f64,
    low: f64,
    high: f64,
) -> Result<(), ConfigError> {
    if (low..=high).contains(&got) {
        return Ok(());
    }
    Err(ConfigError { field, expected, got })
}
