//! Portfolio settings: observation, trading, costs, constraints and reward.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bar::Width;
use super::costs::{AssetRate, Costs};
use super::execution::NO_WEIGHT;
use super::projection::{Constraints, ConstraintsError};
use super::reward::RewardRule;

/// Features of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservedFeatures {
    /// The full feature window.
    Window,
    /// Row number of the last row of the window.
    Index,
}

/// Kind of action.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionMode {
    /// Weights of the assets, then that of cash.
    Weights,
    /// Tilts: for each asset 0, 1 or 2 to decrease, keep or increase its weight by this much.
    Tilts(f64),
    /// Orders: units of each asset to trade, NaN for none; not projected to the mandate.
    Orders,
}

/// Order sizing: prices at which weights become units to trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizing {
    /// At the fill prices.
    Fill,
    /// At the last known prices at the decision, as for an order to a broker.
    Decision,
}

/// Fill price: open or close of the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillAt {
    /// At the open.
    NextOpen,
    /// At the close.
    NextClose,
}

/// Handling of orders, or parts of orders, that the market does not fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfilled {
    /// Drop the unfilled part.
    Drop,
    /// Keep it until it is filled or replaced by another order in the asset.
    Carry,
}

/// Start rows of episodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Starts {
    /// Random, from the seed.
    Random,
    /// At the row at which the previous episode ended; the seed chooses the first one.
    Sequential,
    /// Always at this row.
    Fixed(u64),
}

/// Relation of the rewards of several agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardMode {
    /// Zero.
    Own,
    /// Mean reward of all agents.
    Cooperative,
    /// Reward less the mean of the others.
    Competitive,
}

/// Account kind: cash or margin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// Cash account: no debts, no short positions.
    Cash,
    /// Account that can borrow.
    Margin {
        /// Largest leverage when orders fill: gross exposure over equity.
        leverage: f64,
        /// Maintenance margin: least equity per unit of gross exposure; below it a margin call
        /// reduces positions.
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

/// Settings of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// Initial cash.
    pub initial_cash: f64,
    /// Account kind: cash or margin.
    pub account: AccountKind,
    /// Constraints on its weights.
    pub constraints: Constraints,
    /// Reward rule.
    pub reward: RewardRule,
    /// Ruin threshold of equity, as a share of the initial cash.
    pub ruin: f64,
}

/// Settings of portfolio episodes, without the panel and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortfolioSettings {
    /// Lookback: feature rows in an observation.
    pub lookback: u64,
    /// Features of an observation.
    pub shown: ObservedFeatures,
    /// Kind of action.
    pub action: ActionMode,
    /// Fill price of orders.
    pub fill: FillAt,
    /// Order sizing.
    pub sizing: Sizing,
    /// Order delay in rows beyond the next one.
    pub delay: u64,
    /// Handling of unfilled orders.
    pub unfilled: Unfilled,
    /// Participation cap: largest share of a row's volume for all orders together.
    pub participation: Option<f64>,
    /// Changes smaller than this share of equity are not traded, unless they close a position.
    pub smallest_trade: f64,
    /// Lot size: orders are whole multiples of it; by default units are fractional.
    pub lot_size: Option<AssetRate>,
    /// Trading and holding costs.
    pub costs: Costs,
    /// Settings of each agent.
    pub agents: Vec<AgentSettings>,
    /// Cap on the gross exposure of all agents together, as a multiple of their equity.
    pub shared_leverage: Option<f64>,
    /// Relation of the agents' rewards.
    pub reward_mode: RewardMode,
    /// Rows until an episode is truncated; by default the end of the panel.
    pub episode_rows: Option<u64>,
    /// Start rows of episodes.
    pub starts: Starts,
    /// First possible decision row.
    pub first_row: u64,
}

/// Invalid settings.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PortfolioError {
    /// Infeasible constraints.
    #[error("agent {agent}: {source}")]
    Constraints {
        /// Index of the agent.
        agent: usize,
        /// Reason of the refusal.
        source: ConstraintsError,
    },
    /// Setting out of range.
    #[error("expected {field} {expected}, got {got}")]
    Setting {
        /// Name of the setting.
        field: &'static str,
        /// Expected value, in words.
        expected: String,
        /// Actual value.
        got: String,
    },
}

impl PortfolioSettings {
    /// Validate the settings for a panel of this width and length.
    ///
    /// # Errors
    /// If a setting is out of its range; reports the first.
    pub fn check(&self, width: Width, rows: usize) -> Result<(), PortfolioError> {
        self.check_episodes(width, rows as u64)?;
        self.check_trading(width)?;
        self.costs.check(width.assets)?;
        require(!self.agents.is_empty(), "agents", "at least one", &"none")?;
        let mut agents = self.agents.iter().enumerate();
        agents.try_for_each(|(index, agent)| agent.check(index, width.assets))
    }

    /// Return true if pending orders are units to trade, and not weights.
    #[inline(always)]
    pub(super) fn is_in_units(&self) -> bool {
        self.sizing == Sizing::Decision || matches!(self.action, ActionMode::Orders)
    }

    /// First possible start row of an episode.
    pub(super) fn earliest_row(&self) -> u64 {
        self.first_row.max(self.lookback - 1)
    }

    /// Smallest traded share of equity: `smallest_trade` less a rounding tolerance.
    pub(super) fn smallest_share(&self) -> f64 {
        (self.smallest_trade - NO_WEIGHT).max(0.0)
    }

    fn check_episodes(&self, width: Width, rows: u64) -> Result<(), PortfolioError> {
        require(self.lookback >= 1, "lookback", "of at least 1 row", &self.lookback)?;
        let steps = self.episode_rows.unwrap_or(1);
        require(steps >= 1, "episode_rows", "of at least 1", &steps)?;
        let needed = self.earliest_row() + 2;
        let expected = format!("of at least {needed} rows, for lookback, warm-up and one step,");
        require(rows >= needed, "data", &expected, &rows)?;
        if let Starts::Fixed(row) = self.starts {
            let (first, last) = (self.earliest_row(), rows - 2);
            let expected = format!("from row {first} to row {last}");
            require((first..=last).contains(&row), "starts", &expected, &row)?;
        }
        let is_shown = self.shown == ObservedFeatures::Index || width.features > 0;
        require(is_shown, "features", "at least one to be shown", &"none")
    }

    fn check_trading(&self, width: Width) -> Result<(), PortfolioError> {
        let has_fill = self.fill == FillAt::NextClose || width.has_open;
        let expected = "\"next_close\", since the data has no open,";
        require(has_fill, "fill", expected, &"\"next_open\"")?;
        require(self.delay <= 1_000, "delay", "of at most 1000 rows", &self.delay)?;
        if let Some(share) = self.participation {
            require(share > 0.0 && share <= 1.0, "participation", "above 0, at most 1", &share)?;
            require(width.has_volume, "participation", "only with volumes in the data", &share)?;
        }
        let impact = &self.costs.impact;
        let has_sizes = impact.is_zero() || width.has_volume;
        let got = impact.values().iter().copied().fold(0.0, f64::max);
        require(has_sizes, "impact", "of 0, since the data has no volume,", &got)?;
        let half_life = self.costs.impact_half_life;
        let decays = self.costs.transient_impact.is_zero() || half_life > 0.0;
        require(decays, "impact_half_life", "above 0, with transient_impact,", &half_life)?;
        self.check_lots(width)?;
        if let ActionMode::Tilts(size) = self.action {
            require(size > 0.0 && size <= 1.0, "tilt", "above 0, at most 1", &size)?;
        }
        let smallest = self.smallest_trade;
        require((0.0..1.0).contains(&smallest), "smallest_trade", "from 0 to below 1", &smallest)?;
        let shared = self.shared_leverage.unwrap_or(1.0);
        require(shared > 0.0 && shared.is_finite(), "shared_leverage", "above 0", &shared)
    }

    fn check_lots(&self, width: Width) -> Result<(), PortfolioError> {
        let Some(lots) = &self.lot_size else { return Ok(()) };
        lots.check_len("lot_size", width.assets)?;
        lots.values()
            .iter()
            .try_for_each(|lot| require(*lot > 0.0 && lot.is_finite(), "lot_size", "above 0", lot))
    }
}

impl AgentSettings {
    fn check(&self, index: usize, assets: usize) -> Result<(), PortfolioError> {
        let (cash, ruin) = (self.initial_cash, self.ruin);
        require(cash > 0.0 && cash.is_finite(), "initial_cash", "above 0", &cash)?;
        require((0.0..1.0).contains(&ruin), "ruin", "from 0 to below 1", &ruin)?;
        if let AccountKind::Margin { leverage, maintenance } = self.account {
            let is_loan = leverage > 0.0 && leverage.is_finite();
            require(is_loan, "leverage", "above 0", &leverage)?;
            let is_below = (0.0..1.0).contains(&maintenance) && maintenance * leverage <= 1.0;
            let expected = "from 0 to 1 / leverage, or orders that fill would be called at once,";
            require(is_below, "maintenance", expected, &maintenance)?;
        }
        self.check_reward()?;
        let got = self.constraints.assets();
        require(got == assets, "constraints", &format!("for {assets} assets"), &got)?;
        self.constraints
            .check()
            .map_err(|source| PortfolioError::Constraints { agent: index, source })
    }

    fn check_reward(&self) -> Result<(), PortfolioError> {
        let RewardRule { terms, memory, risk_aversion } = &self.reward;
        let is_repeated = terms
            .iter()
            .enumerate()
            .any(|(index, (term, _))| terms[..index].iter().any(|(before, _)| before == term));
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

pub(super) fn require(
    holds: bool,
    field: &'static str,
    expected: &str,
    got: &dyn std::fmt::Display,
) -> Result<(), PortfolioError> {
    if holds {
        return Ok(());
    }
    Err(PortfolioError::Setting { field, expected: expected.into(), got: got.to_string() })
}
