//! Observations of a portfolio: market features and accounts.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use super::account::AgentAccount;
use super::costs::COST_KINDS;
use super::lanes::Machine;
use super::settings::ObservedFeatures;
use super::{Portfolio, PortfolioSettings};
use crate::Shape;
use crate::portfolio::bar::Width;

crate::parts! {
    /// Observation of a portfolio; several agents share the window.
    pub struct PortfolioObservation, rows PortfolioRows, layout PortfolioLayout {
        /// Features: rows by assets by features, oldest first.
        windows: f32,
        /// Last row of the window.
        index: i64,
        /// Weights of assets and cash.
        weights: f32,
        /// Mask of assets that can be traded.
        mask: i8,
        /// The account in numbers, see [`ACCOUNT`].
        account: f32,
        /// With several agents, the step report of each, see [`REPORT`].
        report: f64,
    }
}

/// Names of the numbers of an account.
pub const ACCOUNT: [&str; 5] = ["growth", "drawdown", "gross", "net", "margin_call"];

/// Info keys of a step and an account in front of the [`COST_KINDS`].
const LEADING_INFO: [&str; 10] = [
    "time_index",
    "equity",
    "cash",
    "pnl",
    "cost",
    "turnover",
    "gross",
    "net",
    "drawdown",
    "margin_call",
];

/// Info keys behind the cost kinds.
const TRAILING_INFO: [&str; 3] = ["delisted", "dividends", "compromise"];

const INFO_KEYS: usize = LEADING_INFO.len() + COST_KINDS.len() + TRAILING_INFO.len();

/// Info keys of a step and an account: the leading ones, the cost kinds, and the trailing ones.
pub const INFO: [&str; INFO_KEYS] = info_keys();

const fn info_keys() -> [&'static str; INFO_KEYS] {
    let (lead, kinds) = (LEADING_INFO.len(), COST_KINDS.len());
    let mut keys = [""; INFO_KEYS];
    let mut index = 0;
    while index < INFO_KEYS {
        keys[index] = if index < lead {
            LEADING_INFO[index]
        } else if index < lead + kinds {
            COST_KINDS[index - lead]
        } else {
            TRAILING_INFO[index - lead - kinds]
        };
        index += 1;
    }
    keys
}

/// Length of an agent's step report: its reward, a flag if the step ruined it, a flag if it still
/// trades, and its [`INFO`].
pub const REPORT: usize = REPORT_LEAD + INFO.len();

/// Numbers of a report in front of [`INFO`].
pub const REPORT_LEAD: usize = 3;

pub(super) fn layout(settings: &PortfolioSettings, width: Width) -> PortfolioLayout {
    let agents = settings.agents.len();
    let lookback = usize::try_from(settings.lookback).expect("rows fit memory");
    let is_window = settings.shown == ObservedFeatures::Window;
    // A single agent's parts have no axis of agents.
    let of_agents = |len: usize| match agents {
        1 => Shape::new([len]),
        _ => Shape::new([agents, len]),
    };
    PortfolioLayout {
        windows: if is_window {
            Shape::new([lookback, width.assets, width.features])
        } else {
            Shape::NONE
        },
        index: if is_window { Shape::NONE } else { Shape::new([1]) },
        weights: of_agents(width.assets + 1),
        mask: Shape::new([width.assets]),
        account: of_agents(ACCOUNT.len()),
        report: if agents == 1 { Shape::NONE } else { Shape::new([agents, REPORT]) },
    }
}

impl Portfolio {
    /// Write the current observation of the agents.
    #[inline(always)]
    pub(super) fn write_observation<M: Machine>(
        &self,
        machine: M,
        observation: &mut PortfolioRows<'_>,
    ) {
        let row = self.row();
        if let [index] = &mut *observation.index {
            *index = i64::try_from(row).expect("rows fit memory");
        } else {
            observation.windows.copy_from_slice(self.window());
        }
        self.write_mask(row, observation.mask);
        let width = observation.mask.len() + 1;
        for (agent, account) in self.episode.accounts.iter().enumerate() {
            let weights = &mut observation.weights[agent * width..][..width];
            account.write_weights(machine, &self.panel, weights);
            let numbers = &mut observation.account[agent * ACCOUNT.len()..][..ACCOUNT.len()];
            numbers.copy_from_slice(&self.account_numbers(agent, account));
        }
        for (agent, report) in observation.report.chunks_exact_mut(REPORT).enumerate() {
            self.write_report(agent, report);
        }
    }

    #[inline(always)]
    fn write_mask(&self, row: usize, observation: &mut [i8]) {
        if self.panel.all_movable(row) && self.episode.removed.is_empty() {
            return observation.fill(1);
        }
        for (mask, can) in observation.iter_mut().zip(self.panel.movable(row)) {
            *mask = i8::from(*can);
        }
        for (mask, removed) in observation.iter_mut().zip(&self.episode.removed) {
            *mask &= i8::from(!*removed);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // observations have single precision
    fn account_numbers(&self, agent: usize, account: &AgentAccount) -> [f32; ACCOUNT.len()] {
        let share = if account.equity > 0.0 { 1.0 / account.equity } else { 0.0 };
        let growth = account.equity / self.settings.agents[agent].initial_cash;
        let (gross, net) = (account.gross * share, account.net * share);
        let called = f64::from(u8::from(account.is_called));
        [growth, account.drawdown(), gross, net, called].map(|number| number as f32)
    }

    /// Step report of an agent, see [`REPORT`].
    ///
    /// # Panics
    /// If there is no such agent.
    #[must_use]
    pub fn report(&self, agent: usize) -> [f64; REPORT] {
        let mut report = [0.0; REPORT];
        self.write_report(agent, &mut report);
        report
    }

    fn write_report(&self, agent: usize, report: &mut [f64]) {
        let account = &self.episode.accounts[agent];
        report[0] = account.step_report.reward;
        report[1] = f64::from(u8::from(account.step_report.is_ruined));
        report[2] = f64::from(u8::from(account.is_alive));
        self.write_account(agent, &mut report[REPORT_LEAD..]);
    }

    /// Write the info of an agent's account, a number for each of [`INFO`].
    #[allow(clippy::cast_precision_loss)] // rows are few
    pub(super) fn write_account(&self, agent: usize, info: &mut [f64]) {
        let account = &self.episode.accounts[agent];
        let step_report = &account.step_report;
        let called = f64::from(u8::from(account.is_called));
        let (lead, rest) = info.split_at_mut(LEADING_INFO.len());
        lead.copy_from_slice(&[
            self.episode.row as f64,
            account.equity,
            account.cash,
            step_report.profit,
            step_report.paid.total(),
            step_report.turnover,
            account.gross,
            account.net,
            account.drawdown(),
            called,
        ]);
        rest[..COST_KINDS.len()].copy_from_slice(&step_report.paid.by_kind());
        rest[COST_KINDS.len()..].copy_from_slice(&[
            step_report.delisted,
            step_report.dividends,
            f64::from(step_report.compromise),
        ]);
    }
}
