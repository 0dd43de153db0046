//! Portfolio task: choose target weights of assets and cash, pay trading costs, earn asset returns.
//!
//! Row t is known in full at its timestamp. Agents observe rows up to t and order weights, which
//! fill in row t + 1 (or later, with a delay), at its open or close. Then everything is marked at
//! the close of row t + 1. Assets without a price keep their last mark and take the full gap when
//! they are quoted again.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

mod account;
mod bar;
mod costs;
mod decision;
mod execution;
mod lanes;
mod log;
mod observation;
mod panel;
pub mod projection;
mod report;
mod reward;
mod settings;
mod simplex;
mod sizing;
mod starts;
mod task;
mod universe;

use std::cell::RefCell;
use std::sync::Arc;

use market::{EpisodeKey, SnapshotError};
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use thiserror::Error;

use crate::batch::Batch;
use account::AgentAccount;
use decision::Universe;
use execution::{Buffers, Displacement, Execution};
use lanes::Machine;
use log::Log;
use projection::Workspace;
use reward::Earned;

pub use bar::{Bar, BarError, Width};
pub use costs::{AssetRate, COST_KINDS, COST_SOURCES, CostPart, Costs, Paid};
pub use log::{EpisodeLog, StepRow, Trade};
pub use observation::{
    ACCOUNT, INFO, PortfolioLayout, PortfolioObservation, PortfolioRows, REPORT, REPORT_LEAD,
};
pub use panel::{Panel, SlotError};
pub use report::{Account, AccountReport, ReportError};
pub use reward::{PortfolioTerm, RewardRule, combine_rewards};
pub use settings::{
    AccountKind, ActionMode, AgentSettings, FillAt, ObservedFeatures, PortfolioError,
    PortfolioSettings, RewardMode, Sizing, Starts, Unfilled,
};
pub use sizing::OrdersError;
pub use universe::{UniverseError, fill_slot};

/// Rounding residue of zero, as a share of what an account is or was worth.
const NOTHING: f64 = 1e-12;

/// One episode of one or more portfolios in one market.
#[derive(Clone, Debug)]
pub struct Portfolio {
    panel: Arc<Panel>,
    settings: Arc<PortfolioSettings>,
    episode: Episode,
    /// Episode log; `None` unless recording was requested.
    log: Option<Box<Log>>,
}

/// Mutable state of an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Episode {
    /// Key of the episode.
    key: EpisodeKey,
    row: u64,
    /// Last row of the episode.
    last: u64,
    /// The first is stored inline: a step of a single agent has one cache miss less.
    accounts: SmallVec<[AgentAccount; 1]>,
    /// Displacement of fill prices by permanent and transient impact.
    displacement: Displacement,
    /// Mask of assets removed from the universe by the user; empty if there are none.
    removed: Vec<bool>,
    /// Account states after each of the next rows, as reported by the broker.
    reports: Vec<AccountReport>,
}

/// Asset index out of range.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("expected an asset from 0 to {last}, got {got}")]
pub struct NoSuchAsset {
    /// Index of the last asset.
    pub last: usize,
    /// Requested asset.
    pub got: usize,
}

/// Scratch memory of a thread, so that nothing is allocated in a step.
#[derive(Debug, Default)]
struct Scratch {
    /// Widest SIMD lanes of the machine; results are bit-identical in all.
    arch: pulp::Arch,
    buffers: Buffers,
    workspace: Option<(usize, usize, Workspace)>,
    target: Vec<f64>,
    universe: Universe,
    /// Orders of all agents that fill in the next row; NaN where there is none.
    orders: Vec<f64>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Portfolio {
    /// Episodes on this panel with these settings.
    ///
    /// # Errors
    /// If a setting is out of its range.
    #[allow(clippy::cast_possible_truncation)] // delays are checked to be small
    pub fn new(panel: Arc<Panel>, settings: PortfolioSettings) -> Result<Self, PortfolioError> {
        // With an open-ended panel, the first step needs none of the known rows.
        settings.check(panel.width(), panel.rows() + usize::from(panel.is_open_ended()))?;
        let assets = panel.width().assets;
        let account = AgentAccount::new(
            assets,
            settings.delay as usize,
            settings.unfilled == Unfilled::Carry,
        );
        let accounts = smallvec![account; settings.agents.len()];
        let (key, removed, reports) = (EpisodeKey::default(), Vec::new(), Vec::new());
        let displacement = Displacement::new(&settings.costs, panel.stride());
        let episode = Episode { key, row: 0, last: 0, accounts, displacement, removed, reports };
        Ok(Self { panel, settings: Arc::new(settings), episode, log: None })
    }

    /// Last row known to the agents.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // rows fit memory
    pub fn row(&self) -> usize {
        self.episode.row as usize
    }

    /// Panel of the portfolio.
    #[must_use]
    pub fn panel(&self) -> &Arc<Panel> {
        &self.panel
    }

    /// Current feature window, oldest first: rows by assets by features.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // rows fit memory
    pub fn window(&self) -> &[f32] {
        self.panel.window(self.row(), self.settings.lookback as usize)
    }

    /// Number of agents, those that are gone included.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.episode.accounts.len()
    }

    /// Return true if an agent still trades.
    ///
    /// # Panics
    /// If there is no such agent.
    #[must_use]
    pub fn is_alive(&self, agent: usize) -> bool {
        self.episode.accounts[agent].is_alive
    }

    /// Remove an asset from the universe until the next episode, or add it again. Its position is
    /// closed as soon as possible; pending orders that would increase it are cancelled at once.
    ///
    /// # Errors
    /// If there is no such asset.
    pub fn set_removed(&mut self, asset: usize, is_removed: bool) -> Result<(), NoSuchAsset> {
        let assets = self.panel.width().assets;
        if asset >= assets {
            return Err(NoSuchAsset { last: assets - 1, got: asset });
        }
        self.episode.removed.resize(assets, false);
        self.episode.removed[asset] = is_removed;
        if !self.episode.removed.contains(&true) {
            self.episode.removed.clear();
        }
        if is_removed {
            let is_in_units = self.settings.is_in_units();
            let accounts = self.episode.accounts.iter_mut();
            accounts.for_each(|account| account.cancel_increases(asset, is_in_units));
        }
        Ok(())
    }

    /// Enable or disable the episode log.
    pub fn keep_log(&mut self, is_kept: bool) {
        self.log = is_kept.then(Box::default);
    }

    /// Episodes logged since the last call, the current one included.
    pub fn take_log(&mut self) -> Vec<EpisodeLog> {
        self.log.as_mut().map(|log| std::mem::take(&mut log.episodes)).unwrap_or_default()
    }

    /// Return true if the next step has to wait for rows that are not known yet: it advances to the
    /// next decision row, or to the end of the episode.
    #[must_use]
    pub fn waits(&self) -> bool {
        let mut later = self.row() + 1..self.panel.rows();
        !later.any(|row| self.panel.decides(row) || row as u64 >= self.episode.last)
    }

    /// Return true if episodes of all seeds are the same rows.
    #[must_use]
    pub fn has_one_start(&self) -> bool {
        starts::has_one_start(&self.panel, &self.settings)
    }

    /// Cache properties of the mandates that every decision needs.
    fn look_at_mandates(&mut self) {
        for (account, agent) in self.episode.accounts.iter_mut().zip(&self.settings.agents) {
            account.is_simplex = agent.constraints.is_simplex();
        }
    }

    /// Process a row without a decision: no orders for the row in which they would be due.
    #[cold]
    fn order_nothing(&mut self, scratch: &mut Scratch) {
        let (row, delay) = (self.row(), self.delay());
        if delay == 0 {
            return scratch.orders.fill(f64::NAN);
        }
        for account in &mut self.episode.accounts {
            let due = account.due(row + 1 + delay);
            account.orders[due].fill(f64::NAN);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // checked to be small
    fn delay(&self) -> usize {
        self.settings.delay as usize
    }

    /// Advance by one row, and return true if the episode is over.
    #[inline(always)]
    fn advance<M: Machine>(&mut self, machine: M, scratch: &mut Scratch) -> bool {
        self.episode.displacement.decay(self.settings.costs.impact_half_life);
        if self.episode.reports.is_empty() {
            self.trade(machine, scratch);
        } else {
            self.take_report(machine);
        }
        self.episode.row += 1;
        self.reward(machine);
        let is_end = self.episode.row >= self.episode.last;
        is_end || self.episode.accounts.iter().all(|account| !account.is_alive)
    }

    /// Process the next row for all accounts: accruals, delistings and fills.
    #[inline(always)]
    fn trade<M: Machine>(&mut self, machine: M, scratch: &mut Scratch) {
        let row = self.row() + 1;
        let settings = &*self.settings;
        if let Some(log) = &mut self.log {
            log.note_delisted(&self.episode.accounts, &self.panel, row, settings.costs.delisting);
        }
        let accounts = self.episode.accounts.iter_mut().zip(&settings.agents);
        for (account, agent) in accounts.filter(|(account, _)| account.is_alive) {
            account.accrue(&self.panel, row, &settings.costs, agent.account);
            account.settle_delisted(&self.panel, row, settings, agent.account);
        }
        if !self.panel.actions(row).is_empty() {
            self.apply_actions(row, &mut scratch.orders);
        }
        let settings = &*self.settings;
        let Episode { accounts, displacement, removed, .. } = &mut self.episode;
        let execution = Execution::new(machine, &self.panel, settings, row, removed);
        let trades = self.log.as_mut().map(|log| &mut log.current().trades);
        execution.run(accounts, &scratch.orders, displacement, &mut scratch.buffers, trades);
    }

    /// Apply dividends and splits to all accounts, and splits to the orders that are due.
    #[cold]
    fn apply_actions(&mut self, row: usize, orders: &mut [f64]) {
        let is_in_units = self.settings.is_in_units();
        for account in self.episode.accounts.iter_mut().filter(|account| account.is_alive) {
            account.apply_actions(&self.panel, row, is_in_units);
        }
        if !is_in_units {
            return;
        }
        for orders in orders.chunks_exact_mut(self.panel.stride()) {
            for (_, asset, action) in self.panel.actions(row) {
                orders[*asset] *= action.split;
            }
        }
    }

    /// Mark all accounts at the new row, and compute their rewards.
    #[inline(always)]
    fn reward<M: Machine>(&mut self, machine: M) {
        let row = self.row();
        let benchmark = self.panel.benchmark(row);
        let agents = self.settings.agents.iter();
        for (account, agent) in self.episode.accounts.iter_mut().zip(agents) {
            if !account.is_alive {
                continue;
            }
            let before = account.equity;
            account.mark(machine, &self.panel, row, agent.account);
            let (cost, turnover) = account.step_report.since_last_row();
            let after = account.equity;
            let earned = Earned { before, after, cost, turnover, benchmark };
            account.step_report.reward += agent.reward.reward(&mut account.memory, earned);
            account.step_report.profit += after - before;
            account.step_report.is_ruined = after <= (agent.ruin + NOTHING) * agent.initial_cash;
            account.is_alive = !account.step_report.is_ruined;
        }
    }
}

/// Push the next row to all envs of a batch.
///
/// # Errors
/// If the row is refused; nothing has changed then.
pub fn push(batch: &mut Batch<Portfolio>, bar: &Bar<'_>) -> Result<(), BarError> {
    change_panel(batch, |panel| panel.push(bar))
}

/// Drop rows before the last `keep` that no env needs any more, and return their number. If no more
/// rows come, episodes may begin anywhere, and all rows are needed.
pub fn forget(batch: &mut Batch<Portfolio>, keep: usize) -> usize {
    let panel = batch.task(0).panel.clone();
    if !panel.is_open_ended() {
        return 0;
    }
    let rows = first_needed(batch, keep).saturating_sub(panel.forgotten());
    drop(panel);
    if rows > 0 {
        change_panel(batch, |panel| panel.forget(rows));
    }
    rows
}

/// First row that an env still looks at, and at least the last `keep`.
fn first_needed(batch: &Batch<Portfolio>, keep: usize) -> usize {
    let lookback = usize::try_from(batch.task(0).settings.lookback).unwrap_or(usize::MAX);
    let looked_at = batch.tasks().map(|task| (task.row() + 1).saturating_sub(lookback)).min();
    looked_at.unwrap_or(0).min(batch.task(0).panel.rows().saturating_sub(keep))
}

/// Bytes of the last `keep` rows, of rows that an env still looks at, and of all that later rows
/// depend on: `load_rows` continues from them without any earlier row.
#[must_use]
pub fn save_rows(batch: &Batch<Portfolio>, keep: usize) -> Vec<u8> {
    batch.task(0).panel.encode_rows(first_needed(batch, keep))
}

/// Replace the panel of all envs by the rows of `save_rows`; load a state of the envs next.
///
/// # Errors
/// If the bytes do not hold rows of such a panel; the state is unchanged then.
pub fn load_rows(batch: &mut Batch<Portfolio>, bytes: &[u8]) -> Result<(), SnapshotError> {
    let panel = Arc::new(batch.task(0).panel.decode_rows(bytes)?);
    for task in batch.tasks_mut() {
        task.panel = panel.clone();
    }
    Ok(())
}

/// Change the shared panel of all envs without a copy.
fn change_panel<T>(batch: &mut Batch<Portfolio>, change: impl FnOnce(&mut Panel) -> T) -> T {
    let mut panel = batch.task(0).panel.clone();
    // While rows are changed no other reference may exist; then no row has to be copied.
    let nothing = Arc::new(Panel::new(panel.width(), true));
    for task in batch.tasks_mut() {
        task.panel = nothing.clone();
    }
    let changed = change(Arc::make_mut(&mut panel));
    for task in batch.tasks_mut() {
        task.panel = panel.clone();
    }
    changed
}
