//! Hold a portfolio: decide what assets and cash shall be of it, pay for the change, take what
//! prices do.
//!
//! Row t is known in full at its stamp. Agents see rows up to t and order weights, which fill in
//! row t + 1 (or later, with a delay), at its beginning or its end. Then everything is marked at
//! the end of row t + 1. Assets without a price keep their last mark and take the whole gap when
//! they are quoted again.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

mod bar;
mod costs;
mod decision;
mod execution;
mod lanes;
mod log;
mod panel;
pub mod projection;
mod report;
mod reward;
mod settings;
mod shown;
mod simplex;
mod sizing;
mod starts;
mod task;
mod trader;
mod universe;

use std::cell::RefCell;
use std::sync::Arc;

use market::EpisodeKey;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use thiserror::Error;

use crate::batch::Batch;
use decision::Universe;
use execution::{Execution, Room};
use lanes::Machine;
use log::Log;
use projection::Workspace;
use reward::Earned;
use trader::Trader;

pub use bar::{Bar, BarError, Width};
pub use costs::{Costs, Paid};
pub use log::{EpisodeLog, StepRow, Trade};
pub use panel::{Panel, SlotError};
pub use report::{Account, AccountReport, ReportError};
pub use reward::{PortfolioTerm, RewardRule, combine_rewards};
pub use settings::{
    AccountKind, ActionMode, AgentSettings, FillAt, PortfolioError, PortfolioSettings, RewardMode,
    ShownFeatures, Sizing, Starts, Unfilled,
};
pub use shown::{
    ACCOUNT, INFO, PortfolioLayout, PortfolioRows, PortfolioShown, REPORT, REPORT_LEAD,
};
pub use sizing::OrdersError;
pub use universe::{UniverseError, fill_slot};

/// What rounding can leave of nothing, as a share of what an account is or was worth.
const NOTHING: f64 = 1e-12;

/// One episode of one or more portfolios in one market.
#[derive(Clone, Debug)]
pub struct Portfolio {
    panel: Arc<Panel>,
    settings: Arc<PortfolioSettings>,
    episode: Episode,
    /// What is kept for those who want to look; nothing unless they asked.
    log: Option<Box<Log>>,
}

/// Everything that changes during an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Episode {
    /// Which one it is.
    key: EpisodeKey,
    row: u64,
    /// The row that the episode ends with, if it lasts so long.
    last: u64,
    /// One of them lies in place: a step of a single agent has one place less to fetch.
    traders: SmallVec<[Trader; 1]>,
    /// Assets that the user has taken out of the universe; empty where there are none.
    removed: Vec<bool>,
    /// What the account will be after each of the next rows, as somebody else says.
    reports: Vec<AccountReport>,
}

/// There is no such asset.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an asset from 0 to {last} was wanted, found {found}")]
pub struct NoSuchAsset {
    /// The last asset.
    pub last: usize,
    /// The asset that was asked for.
    pub found: usize,
}

/// What threads reckon in, so that nothing is allocated in a step.
#[derive(Debug, Default)]
struct Desk {
    /// The widest lanes that the machine has; the bits that come out are the same in all.
    arch: pulp::Arch,
    room: Room,
    workspace: Option<(usize, usize, Workspace)>,
    wanted: Vec<f64>,
    universe: Universe,
    /// Orders of all agents that fill in the next row; NaN where there is none.
    orders: Vec<f64>,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

impl Portfolio {
    /// Episodes on this panel with these settings.
    ///
    /// # Errors
    /// When a setting is out of its range.
    #[allow(clippy::cast_possible_truncation)] // delays are checked to be small
    pub fn new(panel: Arc<Panel>, settings: PortfolioSettings) -> Result<Self, PortfolioError> {
        // Where more rows may come, the first step needs none of those that are known.
        settings.check(panel.width(), panel.rows() + usize::from(panel.is_open_ended()))?;
        let assets = panel.width().assets;
        let trader =
            Trader::new(assets, settings.delay as usize, settings.unfilled == Unfilled::Carry);
        let traders = smallvec![trader; settings.agents.len()];
        let (key, removed, reports) = (EpisodeKey::default(), Vec::new(), Vec::new());
        let episode = Episode { key, row: 0, last: 0, traders, removed, reports };
        Ok(Self { panel, settings: Arc::new(settings), episode, log: None })
    }

    /// The row that is the last one known to the agents.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // rows fit memory
    pub fn row(&self) -> usize {
        self.episode.row as usize
    }

    /// The panel that is traded on.
    #[must_use]
    pub fn panel(&self) -> &Arc<Panel> {
        &self.panel
    }

    /// The rows of features that agents are shown now, oldest first: rows by assets by features.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // rows fit memory
    pub fn window(&self) -> &[f32] {
        self.panel.window(self.row(), self.settings.lookback as usize)
    }

    /// How many agents there are, those that are gone included.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.episode.traders.len()
    }

    /// Whether an agent still trades.
    ///
    /// # Panics
    /// When there is no such agent.
    #[must_use]
    pub fn is_alive(&self, agent: usize) -> bool {
        self.episode.traders[agent].is_alive
    }

    /// Takes an asset out of the universe until the next episode, or lets it in again. What is
    /// held of it is sold, or bought back, as soon as it can be; orders on their way that would add
    /// to it are cancelled at once.
    ///
    /// # Errors
    /// When there is no such asset.
    pub fn set_removed(&mut self, asset: usize, is_removed: bool) -> Result<(), NoSuchAsset> {
        let assets = self.panel.width().assets;
        if asset >= assets {
            return Err(NoSuchAsset { last: assets - 1, found: asset });
        }
        self.episode.removed.resize(assets, false);
        self.episode.removed[asset] = is_removed;
        if !self.episode.removed.contains(&true) {
            self.episode.removed.clear();
        }
        if is_removed {
            let is_in_units = self.settings.is_in_units();
            let traders = self.episode.traders.iter_mut();
            traders.for_each(|trader| trader.cancel_increases(asset, is_in_units));
        }
        Ok(())
    }

    /// Keeps a log from now on, or none any more.
    pub fn keep_log(&mut self, is_kept: bool) {
        self.log = is_kept.then(Box::default);
    }

    /// All episodes that were logged since this was last asked, the current one included.
    pub fn take_log(&mut self) -> Vec<EpisodeLog> {
        self.log.as_mut().map(|log| std::mem::take(&mut log.episodes)).unwrap_or_default()
    }

    /// Whether the next step has to wait for rows that are not there yet: it goes on to the next
    /// row that a decision falls on, or with which the episode ends.
    #[must_use]
    pub fn waits(&self) -> bool {
        let mut later = self.row() + 1..self.panel.rows();
        !later.any(|row| self.panel.decides(row) || row as u64 >= self.episode.last)
    }

    /// Works out once what every decision would ask of the mandates.
    fn look_at_mandates(&mut self) {
        for (trader, agent) in self.episode.traders.iter_mut().zip(&self.settings.agents) {
            trader.is_simplex = agent.constraints.is_simplex();
        }
    }

    /// A row goes by without a decision: no orders for the row in which they would be due.
    #[cold]
    fn order_nothing(&mut self, desk: &mut Desk) {
        let (row, delay) = (self.row(), self.delay());
        if delay == 0 {
            return desk.orders.fill(f64::NAN);
        }
        for trader in &mut self.episode.traders {
            let due = trader.due(row + 1 + delay);
            trader.orders[due].fill(f64::NAN);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // checked to be small
    fn delay(&self) -> usize {
        self.settings.delay as usize
    }

    /// Goes on by one row, and tells whether the episode is over.
    #[inline(always)]
    fn advance<M: Machine>(&mut self, machine: M, desk: &mut Desk) -> bool {
        if self.episode.reports.is_empty() {
            self.trade(machine, desk);
        } else {
            self.take_report(machine);
        }
        self.episode.row += 1;
        self.reward(machine);
        let is_end = self.episode.row >= self.episode.last;
        is_end || self.episode.traders.iter().all(|trader| !trader.is_alive)
    }

    /// Does to all accounts what the next row does, up to its fills.
    #[inline(always)]
    fn trade<M: Machine>(&mut self, machine: M, desk: &mut Desk) {
        let row = self.row() + 1;
        let settings = &*self.settings;
        if let Some(log) = &mut self.log {
            log.note_delisted(&self.episode.traders, &self.panel, row, settings.costs.delisting);
        }
        let traders = self.episode.traders.iter_mut().zip(&settings.agents);
        for (trader, agent) in traders.filter(|(trader, _)| trader.is_alive) {
            trader.accrue(&self.panel, row, &settings.costs, agent.account);
            trader.settle_delisted(&self.panel, row, settings, agent.account);
        }
        let removed = &self.episode.removed;
        let execution = Execution::new(machine, &self.panel, settings, row, removed);
        let trades = self.log.as_mut().map(|log| &mut log.current().trades);
        execution.run(&mut self.episode.traders, &desk.orders, &mut desk.room, trades);
    }

    /// Marks all accounts at the row that has come, and rewards them for it.
    #[inline(always)]
    fn reward<M: Machine>(&mut self, machine: M) {
        let row = self.row();
        let benchmark = self.panel.benchmark(row);
        let agents = self.settings.agents.iter();
        for (trader, agent) in self.episode.traders.iter_mut().zip(agents) {
            if !trader.is_alive {
                continue;
            }
            let before = trader.equity;
            trader.mark(machine, &self.panel, row, agent.account);
            let (cost, turnover) = trader.told.since_last_row();
            let after = trader.equity;
            let earned = Earned { before, after, cost, turnover, benchmark };
            trader.told.reward += agent.reward.reward(&mut trader.memory, earned);
            trader.told.profit += after - before;
            trader.told.is_ruined = after <= (agent.ruin + NOTHING) * agent.initial_cash;
            trader.is_alive = !trader.told.is_ruined;
        }
    }
}

/// Lets all envs of a batch know of the next row.
///
/// # Errors
/// When the row is refused; nothing has changed then.
pub fn push(batch: &mut Batch<Portfolio>, bar: &Bar<'_>) -> Result<(), BarError> {
    change_panel(batch, |panel| panel.push(bar))
}

/// Forgets rows before the last `keep` that no env looks at any more, and tells how many. Where no
/// more rows come, episodes may begin anywhere, and all rows are looked at again.
pub fn forget(batch: &mut Batch<Portfolio>, keep: usize) -> usize {
    let panel = batch.task(0).panel.clone();
    if !panel.is_open_ended() {
        return 0;
    }
    let lookback = usize::try_from(batch.task(0).settings.lookback).unwrap_or(usize::MAX);
    let looked_at = batch.tasks().map(|task| (task.row() + 1).saturating_sub(lookback)).min();
    let first = looked_at.unwrap_or(0).min(panel.rows().saturating_sub(keep));
    let rows = first.saturating_sub(panel.forgotten());
    drop(panel);
    if rows > 0 {
        change_panel(batch, |panel| panel.forget(rows));
    }
    rows
}

/// Changes what all envs look at, without a copy of it.
fn change_panel<T>(batch: &mut Batch<Portfolio>, change: impl FnOnce(&mut Panel) -> T) -> T {
    let mut panel = batch.task(0).panel.clone();
    // Nobody else may look on while rows are changed, and then no row has to be copied.
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
