//! What agents are shown of the market and of their accounts.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use super::costs::Paid;
use super::lanes::Machine;
use super::settings::ShownFeatures;
use super::trader::Trader;
use super::{Portfolio, PortfolioSettings};
use crate::Shape;
use crate::portfolio::bar::Width;

crate::parts! {
    /// What a portfolio's agents are shown; several agents share the window.
    pub struct PortfolioShown, rows PortfolioRows, layout PortfolioLayout {
        /// Features: rows by assets by features, oldest first.
        windows: f32,
        /// The row that the window would end with.
        index: i64,
        /// What assets and cash are of equity.
        weights: f32,
        /// Which assets can be traded.
        mask: i8,
        /// The account in numbers, see [`ACCOUNT`].
        account: f32,
        /// Where there are several agents, what the step did to each, see [`REPORT`].
        report: f64,
    }
}

/// What the numbers of an account are called.
pub const ACCOUNT: [&str; 5] = ["growth", "drawdown", "gross", "net", "margin_call"];

/// What is told of a step and an account.
pub const INFO: [&str; 18] = [
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
    "commission",
    "fixed",
    "spread",
    "impact",
    "borrow",
    "financing",
    "delisting",
    "delisted",
];

/// What is told of each of several agents: its reward, whether the step ruined it, whether it
/// still trades, and its [`INFO`].
pub const REPORT: usize = REPORT_LEAD + INFO.len();

/// Numbers of a report in front of [`INFO`].
pub const REPORT_LEAD: usize = 3;

pub(super) fn layout(settings: &PortfolioSettings, width: Width) -> PortfolioLayout {
    let agents = settings.agents.len();
    let lookback = usize::try_from(settings.lookback).expect("rows fit memory");
    let is_window = settings.shown == ShownFeatures::Window;
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
    /// Writes what the agents see now.
    #[inline(always)]
    pub(super) fn show<M: Machine>(&self, machine: M, shown: &mut PortfolioRows<'_>) {
        let row = self.row();
        if let [index] = &mut *shown.index {
            *index = i64::try_from(row).expect("rows fit memory");
        } else {
            shown.windows.copy_from_slice(self.window());
        }
        self.show_mask(row, shown.mask);
        let width = shown.mask.len() + 1;
        for (agent, trader) in self.episode.traders.iter().enumerate() {
            let weights = &mut shown.weights[agent * width..][..width];
            trader.show_weights(machine, &self.panel, weights);
            let account = &mut shown.account[agent * ACCOUNT.len()..][..ACCOUNT.len()];
            account.copy_from_slice(&self.account(agent, trader));
        }
        for (agent, report) in shown.report.chunks_exact_mut(REPORT).enumerate() {
            self.write_report(agent, report);
        }
    }

    #[inline(always)]
    fn show_mask(&self, row: usize, shown: &mut [i8]) {
        if self.panel.all_movable(row) && self.episode.removed.is_empty() {
            return shown.fill(1);
        }
        for (mask, can) in shown.iter_mut().zip(self.panel.movable(row)) {
            *mask = i8::from(*can);
        }
        for (mask, removed) in shown.iter_mut().zip(&self.episode.removed) {
            *mask &= i8::from(!*removed);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // learners are shown single precision
    fn account(&self, agent: usize, trader: &Trader) -> [f32; ACCOUNT.len()] {
        let share = if trader.equity > 0.0 { 1.0 / trader.equity } else { 0.0 };
        let growth = trader.equity / self.settings.agents[agent].initial_cash;
        let (gross, net) = (trader.gross * share, trader.net * share);
        let called = f64::from(u8::from(trader.is_called));
        [growth, trader.drawdown(), gross, net, called].map(|number| number as f32)
    }

    /// What the last step did to an agent, see [`REPORT`].
    ///
    /// # Panics
    /// When there is no such agent.
    #[must_use]
    pub fn report(&self, agent: usize) -> [f64; REPORT] {
        let mut report = [0.0; REPORT];
        self.write_report(agent, &mut report);
        report
    }

    fn write_report(&self, agent: usize, report: &mut [f64]) {
        let trader = &self.episode.traders[agent];
        report[0] = trader.told.reward;
        report[1] = f64::from(u8::from(trader.told.is_ruined));
        report[2] = f64::from(u8::from(trader.is_alive));
        self.write_account(agent, &mut report[REPORT_LEAD..]);
    }

    /// What is told of an agent's account, a number for each of [`INFO`].
    #[allow(clippy::cast_precision_loss)] // rows are few
    pub(super) fn write_account(&self, agent: usize, info: &mut [f64]) {
        let trader = &self.episode.traders[agent];
        let told = &trader.told;
        let called = f64::from(u8::from(trader.is_called));
        info[..10].copy_from_slice(&[
            self.episode.row as f64,
            trader.equity,
            trader.cash,
            told.profit,
            told.paid.total(),
            told.turnover,
            trader.gross,
            trader.net,
            trader.drawdown(),
            called,
        ]);
        info[10..10 + Paid::KINDS].copy_from_slice(&told.paid.by_kind());
        info[10 + Paid::KINDS] = told.delisted;
    }
}
