//! How portfolios are shown, traded, financed, limited and rewarded.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bar::Width;
use super::costs::Costs;
use super::execution::NO_WEIGHT;
use super::projection::{Constraints, ConstraintsError};
use super::reward::RewardRule;

/// What an observation has of the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownFeatures {
    /// All of the window.
    Window,
    /// The number of the row that the window ends with.
    Index,
}

/// What an action is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionMode {
    /// Weights of the assets, then that of cash.
    Weights,
    /// For each asset 0, 1 or 2: this much less of it, as much, this much more.
    Tilts(f64),
    /// Units of each asset to trade, NaN for none: what a broker is given, and no mandate changes.
    Orders,
}

/// At which prices weights become units to trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizing {
    /// At those of the fill.
    Fill,
    /// At the last ones known when it was decided, as an order to a broker has to be.
    Decision,
}

/// At which price of the next row orders are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillAt {
    /// At its beginning.
    NextOpen,
    /// At its end.
    NextClose,
}

/// What becomes of an order, or the part of it, that the market does not fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfilled {
    /// It is given up.
    Drop,
    /// It stands until it is filled or another order in the asset takes its place.
    Carry,
}

/// Where episodes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Starts {
    /// Anywhere that the seed says.
    Random,
    /// Where the one before ended, beginning with the episode that the seed says.
    Sequential,
    /// Always with this row.
    Fixed(u64),
}

/// What the rewards of several agents have to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardMode {
    /// Nothing.
    Own,
    /// Everybody is given the mean of all.
    Cooperative,
    /// Everybody is given how much more than the mean of the others.
    Competitive,
}

/// Whether an account may borrow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// No debts, nothing sold short.
    Cash,
    /// What is held and owed may be more than equity.
    Margin {
        /// How many times equity may be held, long and short together, when orders fill.
        leverage: f64,
        /// The least equity for each unit of value held; below it positions are sold by force.
        maintenance: f64,
    },
}

impl AccountKind {
    pub(super) fn leverage(self) -> f64 {
        match self {
            Self::Cash => 1.0,
            Self::Margin { leverage, .. } => leverage,
        }
    }
}

/// One agent's account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// Cash that an episode begins with.
    pub initial_cash: f64,
    /// Whether it may borrow.
    pub account: AccountKind,
    /// What its weights may be.
    pub constraints: Constraints,
    /// How it is rewarded.
    pub reward: RewardRule,
    /// The share of the initial cash at or below which it is ruined.
    pub ruin: f64,
}

/// Everything that episodes are made of, apart from the panel and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortfolioSettings {
    /// Rows of features that are shown.
    pub lookback: u64,
    /// How they are shown.
    pub shown: ShownFeatures,
    /// What an action is.
    pub action: ActionMode,
    /// At which price orders are filled.
    pub fill: FillAt,
    /// At which prices weights become units.
    pub sizing: Sizing,
    /// Rows that an order waits beyond the next one.
    pub delay: u64,
    /// What becomes of orders that are not filled.
    pub unfilled: Unfilled,
    /// The largest share of a row's volume that orders can have together.
    pub participation: Option<f64>,
    /// Changes smaller than this share of equity are not traded, unless they close a position.
    pub smallest_trade: f64,
    /// What everything costs.
    pub costs: Costs,
    /// Those who trade.
    pub agents: Vec<AgentSettings>,
    /// What all agents may hold together, as a multiple of their equity.
    pub shared_leverage: Option<f64>,
    /// What their rewards have to do with each other.
    pub reward_mode: RewardMode,
    /// Rows until an episode is truncated; to the end of the panel if not given.
    pub episode_rows: Option<u64>,
    /// Where episodes begin.
    pub starts: Starts,
    /// The first row that a decision may fall on.
    pub first_row: u64,
}

/// Why settings are refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PortfolioError {
    /// Constraints cannot be met.
    #[error("agent {agent}: {source}")]
    Constraints {
        /// The agent's place.
        agent: usize,
        /// What is wrong with them.
        source: ConstraintsError,
    },
    /// A setting is out of its range.
    #[error("{field} {wanted} was wanted, found {found}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What it should be.
        wanted: String,
        /// What it was.
        found: String,
    },
}

impl PortfolioSettings {
    /// Refuses settings with which no episode could run on a panel this wide and long.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self, width: Width, rows: usize) -> Result<(), PortfolioError> {
        self.check_episodes(width, rows as u64)?;
        self.check_trading(width)?;
        self.check_costs()?;
        require(!self.agents.is_empty(), "agents", "at least one", &"none")?;
        let mut agents = self.agents.iter().enumerate();
        agents.try_for_each(|(place, agent)| agent.check(place, width.assets))
    }

    /// Whether orders that wait for their row are units to trade, and not weights.
    #[inline(always)]
    pub(super) fn is_in_units(&self) -> bool {
        self.sizing == Sizing::Decision || matches!(self.action, ActionMode::Orders)
    }

    /// The first row that an episode can begin with.
    pub(super) fn earliest_row(&self) -> u64 {
        self.first_row.max(self.lookback - 1)
    }

    /// The share of equity from which on changes are traded: what is below `smallest_trade` by
    /// rounding alone is not too small.
    pub(super) fn smallest_share(&self) -> f64 {
        (self.smallest_trade - NO_WEIGHT).max(0.0)
    }

    fn check_episodes(&self, width: Width, rows: u64) -> Result<(), PortfolioError> {
        require(self.lookback >= 1, "lookback", "of at least 1 row", &self.lookback)?;
        let steps = self.episode_rows.unwrap_or(1);
        require(steps >= 1, "episode_rows", "of at least 1", &steps)?;
        let needed = self.earliest_row() + 2;
        let wanted = format!("of at least {needed} rows, for lookback, warm-up and one step,");
        require(rows >= needed, "data", &wanted, &rows)?;
        if let Starts::Fixed(row) = self.starts {
            let (first, last) = (self.earliest_row(), rows - 2);
            let wanted = format!("from row {first} to row {last}");
            require((first..=last).contains(&row), "starts", &wanted, &row)?;
        }
        let is_shown = self.shown == ShownFeatures::Index || width.features > 0;
        require(is_shown, "features", "at least one to be shown", &"none")
    }

    fn check_trading(&self, width: Width) -> Result<(), PortfolioError> {
        let has_fill = self.fill == FillAt::NextClose || width.has_open;
        let wanted = "\"next_close\", since the data has no open,";
        require(has_fill, "fill", wanted, &"\"next_open\"")?;
        require(self.delay <= 1_000, "delay", "of at most 1000 rows", &self.delay)?;
        if let Some(share) = self.participation {
            require(share > 0.0 && share <= 1.0, "participation", "above 0, at most 1", &share)?;
            require(width.has_volume, "participation", "only with volumes in the data", &share)?;
        }
        let has_sizes = self.costs.impact == 0.0 || width.has_volume;
        require(has_sizes, "impact", "of 0, since the data has no volume,", &self.costs.impact)?;
        if let ActionMode::Tilts(size) = self.action {
            require(size > 0.0 && size <= 1.0, "tilt", "above 0, at most 1", &size)?;
        }
        let smallest = self.smallest_trade;
        require((0.0..1.0).contains(&smallest), "smallest_trade", "from 0 to below 1", &smallest)?;
        let shared = self.shared_leverage.unwrap_or(1.0);
        require(shared > 0.0 && shared.is_finite(), "shared_leverage", "above 0", &shared)
    }

    fn check_costs(&self) -> Result<(), PortfolioError> {
        let costs = &self.costs;
        for (field, rate, most) in [
            ("proportional", costs.proportional, 0.5),
            ("half_spread", costs.half_spread, 0.5),
            ("delisting", costs.delisting, 1.0),
            ("fixed", costs.fixed, f64::MAX),
            ("impact", costs.impact, f64::MAX),
            ("borrow", costs.borrow, f64::MAX),
            ("financing", costs.financing, f64::MAX),
            ("interest", costs.interest, f64::MAX),
        ] {
            let wanted = if most < 2.0 { format!("from 0 to {most}") } else { "from 0".into() };
            require((0.0..=most).contains(&rate), field, &wanted, &rate)?;
        }
        Ok(())
    }
}

impl AgentSettings {
    fn check(&self, place: usize, assets: usize) -> Result<(), PortfolioError> {
        let (cash, ruin) = (self.initial_cash, self.ruin);
        require(cash > 0.0 && cash.is_finite(), "initial_cash", "above 0", &cash)?;
        require((0.0..1.0).contains(&ruin), "ruin", "from 0 to below 1", &ruin)?;
        if let AccountKind::Margin { leverage, maintenance } = self.account {
            let is_loan = leverage > 0.0 && leverage.is_finite();
            require(is_loan, "leverage", "above 0", &leverage)?;
            let is_below = (0.0..1.0).contains(&maintenance) && maintenance * leverage <= 1.0;
            let wanted = "from 0 to 1 / leverage, or orders that fill would be called at once,";
            require(is_below, "maintenance", wanted, &maintenance)?;
        }
        self.check_reward()?;
        let found = self.constraints.assets();
        require(found == assets, "constraints", &format!("for {assets} assets"), &found)?;
        self.constraints
            .check()
            .map_err(|source| PortfolioError::Constraints { agent: place, source })
    }

    fn check_reward(&self) -> Result<(), PortfolioError> {
        let RewardRule { terms, memory, risk_aversion } = &self.reward;
        let is_repeated = terms
            .iter()
            .enumerate()
            .any(|(place, (term, _))| terms[..place].iter().any(|(before, _)| before == term));
        require(!terms.is_empty(), "reward", "with at least one term", &"none")?;
        require(!is_repeated, "reward", "with each term once", &"one of them twice")?;
        let weights = terms.iter().all(|(_, weight)| weight.is_finite());
        require(weights, "reward", "with finite weights", &format!("{terms:?}"))?;
        let is_rate = *memory > 0.0 && *memory <= 1.0;
        require(is_rate, "reward_memory", "above 0 and at most 1", memory)?;
        let is_aversion = *risk_aversion >= 0.0 && risk_aversion.is_finite();
        require(is_aversion, "risk_aversion", "of at least 0", risk_aversion)
    }
}

fn require(
    holds: bool,
    field: &'static str,
    wanted: &str,
    found: &dyn std::fmt::Display,
) -> Result<(), PortfolioError> {
    if holds {
        return Ok(());
    }
    Err(PortfolioError::Setting { field, wanted: wanted.into(), found: found.to_string() })
}
