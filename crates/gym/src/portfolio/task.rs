//! Portfolios as a task: begun, checked, stepped, told, saved and loaded.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use std::time::Instant;

use market::{EpisodeKey, SnapshotError};
use pulp::NullaryFnOnce;

#[cfg(target_arch = "x86_64")]
use super::lanes::Avx;
use super::lanes::{LANES, Machine, Plain, fetch, total};
use super::reward::combine;
use super::shown::{INFO, PortfolioLayout, PortfolioRows, PortfolioShown, layout};
use super::starts::span;
use super::trader::{Told, Trader};
use super::{ActionMode, DESK, Desk, Episode, Portfolio};
use crate::task::{ActionError, Outcome, Task};

/// Roughly what an asset costs in a step of one agent, in nanoseconds.
const ASSET_NANOSECONDS: usize = 10;
/// What a step costs apart from that, and from the window, in nanoseconds.
const STEP_NANOSECONDS: usize = 60;
/// Values of a window that are copied in a nanosecond.
const WINDOW_SPEED: usize = 2;

impl Task for Portfolio {
    type Action = f64;
    type Observation = PortfolioShown;

    const NAME: &'static str = "Portfolio";
    const VERSION: u32 = 3;

    fn step_nanoseconds(&self) -> u32 {
        let (agents, assets) = (self.settings.agents.len(), self.panel.width().assets);
        let account = agents * (STEP_NANOSECONDS + assets * ASSET_NANOSECONDS);
        u32::try_from(account + self.layout().windows.len() / WINDOW_SPEED).unwrap_or(u32::MAX)
    }

    fn bytes(&self) -> usize {
        let numbers = self
            .episode
            .traders
            .iter()
            .map(|trader| trader.units.len() + trader.orders.len() + trader.carried.len());
        let traders = self.episode.traders.len() * size_of::<Trader>();
        size_of::<Self>() + traders + numbers.sum::<usize>() * size_of::<f64>()
    }

    fn layout(&self) -> PortfolioLayout {
        layout(&self.settings, self.panel.width())
    }

    fn action_len(&self) -> usize {
        self.settings.agents.len() * self.choice_len()
    }

    fn check(&self, action: &[f64]) -> Result<(), ActionError> {
        self.check_choice(action)
    }

    fn is_over(&self) -> bool {
        let episode = &self.episode;
        let has_begun = episode.row >= self.settings.earliest_row();
        !has_begun
            || episode.row >= episode.last
            || episode.traders.iter().all(|trader| !trader.is_alive)
    }

    fn is_waiting(&self) -> bool {
        self.waits()
    }

    fn begin(&mut self, key: EpisodeKey, mut observation: PortfolioRows<'_>) {
        let span = span(&self.panel, &self.settings, key);
        self.episode.key = key;
        self.episode.row = span.first as u64;
        self.episode.last = span.last as u64;
        self.episode.removed.clear();
        self.episode.reports.clear();
        for (trader, agent) in self.episode.traders.iter_mut().zip(&self.settings.agents) {
            trader.begin(agent, span.first);
        }
        self.look_at_mandates();
        self.open_log();
        self.show(Plain, &mut observation);
    }

    fn step(&mut self, action: &[f64], mut observation: PortfolioRows<'_>) -> Outcome {
        let began = self.log.is_some().then(|| self.continue_log());
        let outcome = DESK.with_borrow_mut(|desk| {
            #[cfg(target_arch = "x86_64")]
            if let pulp::Arch::V3(machine) = desk.arch {
                let machine = Avx(machine);
                let act = Act { portfolio: self, machine, action, shown: &mut observation, desk };
                return machine.0.vectorize(act);
            }
            let act =
                Act { portfolio: self, machine: Plain, action, shown: &mut observation, desk };
            act.call()
        });
        if let Some(began) = began {
            self.note(began.elapsed().as_secs_f64());
        }
        outcome
    }

    /// Asks for all that the next step begins with at once: the step itself would wait for one
    /// after the other.
    #[inline]
    fn warm(&self) {
        let row = self.row() + 1;
        if row < self.panel.rows() {
            self.panel.fetch(row, self.settings.fill);
            self.episode.traders.iter().for_each(|trader| fetch(&trader.units));
        }
    }

    fn info_names(&self) -> &[&'static str] {
        &INFO
    }

    /// Of the first agent; where there are several, the observation's report has all.
    fn write_info(&self, row: &mut [f64]) {
        self.write_account(0, row);
    }

    fn encode_rules(&self, body: &mut Vec<u8>) {
        let settings = postcard::to_allocvec(&*self.settings).expect("settings can be written");
        body.extend(settings);
        let width = self.panel.width();
        body.extend((width.assets as u64).to_le_bytes());
        body.extend((width.features as u64).to_le_bytes());
    }

    /// The digest of what has been seen goes along: a state belongs to its history.
    fn encode(&self, body: &mut Vec<u8>) {
        body.extend(self.panel.digest(self.row()));
        let episode = postcard::to_allocvec(&self.episode).expect("an episode can be written");
        body.extend((episode.len() as u64).to_le_bytes());
        body.extend(episode);
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let short = |found: usize| SnapshotError::Length { wanted: 40, found };
        let found = body.len();
        let digest = body.split_off(..32).ok_or(short(found))?;
        let length =
            body.split_off(..8).and_then(|bytes| bytes.try_into().ok()).ok_or(short(found))?;
        let wanted = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        let found = body.len();
        let bytes = body.split_off(..wanted).ok_or(SnapshotError::Length { wanted, found })?;
        let impossible = |found| SnapshotError::Impossible { found };
        let mut episode: Episode = postcard::from_bytes(bytes)
            .map_err(|_| impossible("bytes that describe no portfolio"))?;
        if !self.is_possible(&episode) {
            return Err(impossible("a portfolio that cannot be"));
        }
        let row = usize::try_from(episode.row).unwrap_or(usize::MAX);
        if row >= self.panel.rows() || self.panel.digest(row) != digest {
            return Err(impossible("a portfolio on other data"));
        }
        let end = self.panel.rows() as u64 - 1;
        if !self.panel.is_open_ended() && episode.last > end {
            if episode.row == end {
                return Err(impossible("a portfolio at the end of this data"));
            }
            // The same history with less of a future.
            episode.last = end;
        }
        self.episode = episode;
        self.look_at_mandates();
        self.open_log();
        Ok(())
    }
}

/// A step, to be compiled for each kind of machine.
struct Act<'a, 'o, M> {
    portfolio: &'a mut Portfolio,
    machine: M,
    action: &'a [f64],
    shown: &'a mut PortfolioRows<'o>,
    desk: &'a mut Desk,
}

impl<M: Machine> NullaryFnOnce for Act<'_, '_, M> {
    type Output = Outcome;

    #[inline(always)]
    fn call(self) -> Outcome {
        let outcome = self.portfolio.act(self.machine, self.action, self.desk);
        self.portfolio.show(self.machine, self.shown);
        outcome
    }
}

impl Portfolio {
    /// Refuses what an agent, or several one after the other, cannot choose.
    ///
    /// # Errors
    /// When a number is not one that can be chosen.
    pub fn check_choice(&self, action: &[f64]) -> Result<(), ActionError> {
        let (fits, wanted) = match self.settings.action {
            ActionMode::Weights => (are_finite(action), "finite weights"),
            ActionMode::Tilts(_) => {
                (action.iter().copied().all(is_tilt), "0, 1 or 2 for each asset")
            }
            ActionMode::Orders => {
                (!action.iter().any(|units| units.is_infinite()), "finite units, or NaN for none")
            }
        };
        if fits {
            return Ok(());
        }
        Err(ActionError { wanted: wanted.into(), found: format!("{action:?}") })
    }

    /// Numbers in one agent's action.
    pub(super) fn choice_len(&self) -> usize {
        match self.settings.action {
            ActionMode::Weights => self.panel.width().assets + 1,
            ActionMode::Tilts(_) | ActionMode::Orders => self.panel.width().assets,
        }
    }

    /// Orders what was decided, and goes on to the next row with a decision.
    #[inline(always)]
    fn act<M: Machine>(&mut self, machine: M, action: &[f64], desk: &mut Desk) -> Outcome {
        let (agents, width) = (self.episode.traders.len(), self.choice_len());
        desk.orders.resize(agents * self.panel.stride(), 0.0);
        for agent in 0..agents {
            let trader = &mut self.episode.traders[agent];
            trader.told = Told::default();
            if trader.is_alive {
                self.decide(machine, agent, &action[agent * width..][..width], desk);
            }
        }
        // Rows without a decision are gone through with the orders that stand.
        while !self.advance(machine, desk) && !self.panel.decides(self.row()) {
            self.order_nothing(desk);
        }
        self.outcome()
    }

    /// Begins to log what happens from here on, if anybody asked.
    fn open_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.open(&self.episode);
        }
    }

    /// Makes sure that the step is logged, and tells when it began.
    #[cold]
    fn continue_log(&mut self) -> Instant {
        if self.log.as_ref().is_some_and(|log| log.episodes.is_empty()) {
            self.open_log();
        }
        Instant::now()
    }

    /// Logs what the step did to each account.
    fn note(&mut self, seconds: f64) {
        let mut rows = Vec::new();
        for (agent, trader) in self.episode.traders.iter().enumerate() {
            let seconds = if trader.took_part() { seconds } else { f64::NAN };
            #[allow(clippy::cast_precision_loss)] // agents are few
            rows.extend([agent as f64, trader.told.reward, seconds]);
            rows.extend([trader.told.refused, trader.told.waived]);
            let start = rows.len();
            rows.resize(start + INFO.len(), 0.0);
            self.write_account(agent, &mut rows[start..]);
            rows.extend(trader.weights(&self.panel));
        }
        if let Some(log) = &mut self.log {
            log.current().steps.append(&mut rows);
        }
    }

    fn outcome(&mut self) -> Outcome {
        combine(self.settings.reward_mode, &mut self.episode.traders);
        let traders = &self.episode.traders;
        let terminated = traders.iter().all(|trader| !trader.is_alive);
        let reward = traders.iter().map(|trader| trader.told.reward).sum();
        let truncated = !terminated && self.episode.row >= self.episode.last;
        Outcome { reward, terminated, truncated }
    }

    fn is_possible(&self, episode: &Episode) -> bool {
        let assets = self.panel.width().assets;
        let traders = episode.traders.iter().zip(&self.episode.traders);
        let sizes = episode.removed.is_empty() || episode.removed.len() == assets;
        let reports = episode.reports.iter().all(|report| self.check_report(report).is_ok());
        sizes
            && reports
            && episode.traders.len() == self.episode.traders.len()
            && traders.into_iter().all(|(trader, like)| {
                trader.is_sound(assets, like) && trader.marked as u64 <= episode.row
            })
    }
}

/// Whether numbers are finite: of what is not, no part is nothing.
fn are_finite(numbers: &[f64]) -> bool {
    let nothing = Plain.all(0.0);
    let rest = numbers.as_chunks::<LANES>().1;
    let sums = Plain.lanes(numbers).fold(nothing, |sums, four| sums + four * nothing);
    total(sums) == 0.0 && rest.iter().all(|number| number.is_finite())
}

fn is_tilt(choice: f64) -> bool {
    [0.0, 1.0, 2.0].contains(&choice)
}
