//! Task implementation of portfolios: begin, check, step, info, encode and decode.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use std::time::Instant;

use market::{EpisodeKey, SnapshotError};
use pulp::NullaryFnOnce;

use super::account::{AgentAccount, StepReport};
#[cfg(target_arch = "x86_64")]
use super::lanes::Avx;
use super::lanes::{LANES, Machine, Plain, fetch, total};
use super::observation::{INFO, PortfolioLayout, PortfolioObservation, PortfolioRows, layout};
use super::reward::combine;
use super::settings::Starts;
use super::starts::span;
use super::{ActionMode, Episode, Portfolio, SCRATCH, Scratch};
use crate::task::{ActionError, Outcome, Task};

/// Estimated cost per asset in a step of one agent, in nanoseconds.
const ASSET_NANOSECONDS: usize = 10;
/// Cost of a step apart from that, and from the window, in nanoseconds.
const STEP_NANOSECONDS: usize = 60;
/// Window values copied per nanosecond.
const WINDOW_SPEED: usize = 2;

impl Task for Portfolio {
    type Action = f64;
    type Observation = PortfolioObservation;

    const NAME: &'static str = "Portfolio";
    const VERSION: u32 = 5;

    fn step_nanoseconds(&self) -> u32 {
        let (agents, assets) = (self.settings.agents.len(), self.panel.width().assets);
        let accounts = agents * (STEP_NANOSECONDS + assets * ASSET_NANOSECONDS);
        u32::try_from(accounts + self.layout().windows.len() / WINDOW_SPEED).unwrap_or(u32::MAX)
    }

    fn bytes(&self) -> usize {
        let numbers = self
            .episode
            .accounts
            .iter()
            .map(|account| account.units.len() + account.orders.len() + account.carried.len());
        let accounts = self.episode.accounts.len() * size_of::<AgentAccount>();
        size_of::<Self>() + accounts + numbers.sum::<usize>() * size_of::<f64>()
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
            || episode.accounts.iter().all(|account| !account.is_alive)
    }

    fn is_waiting(&self) -> bool {
        self.waits()
    }

    fn ends_with_data(&self) -> bool {
        self.settings.episode_rows.is_none()
    }

    fn begin(&mut self, key: EpisodeKey, mut observation: PortfolioRows<'_>) {
        let span = span(&self.panel, &self.settings, key);
        self.episode.key = key;
        self.episode.row = span.first as u64;
        self.episode.last = span.last as u64;
        self.episode.displacement.clear();
        self.episode.removed.clear();
        self.episode.reports.clear();
        for (account, agent) in self.episode.accounts.iter_mut().zip(&self.settings.agents) {
            account.begin(agent, span.first);
        }
        self.look_at_mandates();
        self.open_log();
        self.write_observation(Plain, &mut observation);
    }

    fn step(&mut self, action: &[f64], mut observation: PortfolioRows<'_>) -> Outcome {
        let began = self.log.is_some().then(|| self.continue_log());
        let outcome = SCRATCH.with_borrow_mut(|scratch| {
            #[cfg(target_arch = "x86_64")]
            if let pulp::Arch::V3(machine) = scratch.arch {
                let machine = Avx(machine);
                let act =
                    Act { portfolio: self, machine, action, shown: &mut observation, scratch };
                return machine.0.vectorize(act);
            }
            let act =
                Act { portfolio: self, machine: Plain, action, shown: &mut observation, scratch };
            act.call()
        });
        if let Some(began) = began {
            self.note(began.elapsed().as_secs_f64());
        }
        outcome
    }

    /// Prefetch the data that the next step begins with: the step itself would wait for each in
    /// turn.
    #[inline]
    fn warm(&self) {
        let row = self.row() + 1;
        if row < self.panel.rows() {
            self.panel.fetch(row, self.settings.fill);
            self.episode.accounts.iter().for_each(|account| fetch(&account.units));
        }
    }

    fn info_names(&self) -> &[&'static str] {
        &INFO
    }

    /// Info of the first agent; with several agents, the observation's report has all.
    fn write_info(&self, row: &mut [f64]) {
        self.write_account(0, row);
    }

    /// Start rows are not a rule of a running episode: a back-test may continue on a stream.
    fn encode_rules(&self, body: &mut Vec<u8>) {
        let mut rules = (*self.settings).clone();
        (rules.starts, rules.first_row) = (Starts::Random, 0);
        let settings = postcard::to_allocvec(&rules).expect("settings can be written");
        body.extend(settings);
        let width = self.panel.width();
        body.extend((width.assets as u64).to_le_bytes());
        body.extend((width.features as u64).to_le_bytes());
    }

    /// The digest of the known rows is included: a state belongs to its history.
    fn encode(&self, body: &mut Vec<u8>) {
        body.extend(self.panel.digest(self.row()));
        let episode = postcard::to_allocvec(&self.episode).expect("an episode can be written");
        body.extend((episode.len() as u64).to_le_bytes());
        body.extend(episode);
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let short = |got: usize| SnapshotError::Length { expected: 40, got };
        let got = body.len();
        let digest = body.split_off(..32).ok_or(short(got))?;
        let length =
            body.split_off(..8).and_then(|bytes| bytes.try_into().ok()).ok_or(short(got))?;
        let expected = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        let got = body.len();
        let bytes = body.split_off(..expected).ok_or(SnapshotError::Length { expected, got })?;
        let impossible = |got| SnapshotError::Impossible { got };
        let mut episode: Episode = postcard::from_bytes(bytes)
            .map_err(|_| impossible("bytes that do not hold a portfolio"))?;
        if !self.is_valid(&episode) {
            return Err(impossible("an invalid portfolio"));
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
            // Same history, shorter future.
            episode.last = end;
        } else if self.ends_with_data() {
            // Same history, possibly with more rows after it.
            episode.last = if self.panel.is_open_ended() { u64::MAX } else { end };
        }
        self.episode = episode;
        self.look_at_mandates();
        self.open_log();
        Ok(())
    }
}

/// Step, compiled for each kind of machine.
struct Act<'a, 'o, M> {
    portfolio: &'a mut Portfolio,
    machine: M,
    action: &'a [f64],
    shown: &'a mut PortfolioRows<'o>,
    scratch: &'a mut Scratch,
}

impl<M: Machine> NullaryFnOnce for Act<'_, '_, M> {
    type Output = Outcome;

    #[inline(always)]
    fn call(self) -> Outcome {
        let outcome = self.portfolio.act(self.machine, self.action, self.scratch);
        self.portfolio.write_observation(self.machine, self.shown);
        outcome
    }
}

impl Portfolio {
    /// Validate the action of an agent, or of several one after the other.
    ///
    /// # Errors
    /// If a number is invalid.
    pub fn check_choice(&self, action: &[f64]) -> Result<(), ActionError> {
        let (fits, expected) = match self.settings.action {
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
        Err(ActionError { expected: expected.into(), got: format!("{action:?}") })
    }

    /// Length of one agent's action.
    pub(super) fn choice_len(&self) -> usize {
        match self.settings.action {
            ActionMode::Weights => self.panel.width().assets + 1,
            ActionMode::Tilts(_) | ActionMode::Orders => self.panel.width().assets,
        }
    }

    /// Submit the orders of an action, and advance to the next decision row.
    #[inline(always)]
    fn act<M: Machine>(&mut self, machine: M, action: &[f64], scratch: &mut Scratch) -> Outcome {
        let (agents, width) = (self.episode.accounts.len(), self.choice_len());
        scratch.orders.resize(agents * self.panel.stride(), 0.0);
        for agent in 0..agents {
            let account = &mut self.episode.accounts[agent];
            account.step_report = StepReport::default();
            if account.is_alive {
                self.decide(machine, agent, &action[agent * width..][..width], scratch);
            }
        }
        // Rows without a decision are processed with the pending orders.
        while !self.advance(machine, scratch) && !self.panel.decides(self.row()) {
            self.order_nothing(scratch);
        }
        self.outcome()
    }

    /// Begin the log, if requested.
    fn open_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.open(&self.episode);
        }
    }

    /// Prepare the log of the step, and return its start time.
    #[cold]
    fn continue_log(&mut self) -> Instant {
        if self.log.as_ref().is_some_and(|log| log.episodes.is_empty()) {
            self.open_log();
        }
        let (agents, assets) = (self.agents(), self.panel.width().assets);
        if let Some(log) = &mut self.log {
            log.begin_step(agents, assets);
        }
        Instant::now()
    }

    /// Log the step of each account.
    fn note(&mut self, seconds: f64) {
        let mut rows = Vec::new();
        for (agent, account) in self.episode.accounts.iter().enumerate() {
            let seconds = if account.took_part() { seconds } else { f64::NAN };
            #[allow(clippy::cast_precision_loss)] // agents are few
            rows.extend([agent as f64, account.step_report.reward, seconds]);
            rows.extend([account.step_report.refused, account.step_report.waived]);
            let start = rows.len();
            rows.resize(start + INFO.len(), 0.0);
            self.write_account(agent, &mut rows[start..]);
            rows.extend(account.weights(&self.panel));
        }
        if let Some(log) = &mut self.log {
            log.note_step(&mut rows);
        }
    }

    fn outcome(&mut self) -> Outcome {
        combine(self.settings.reward_mode, &mut self.episode.accounts);
        let accounts = &self.episode.accounts;
        let terminated = accounts.iter().all(|account| !account.is_alive);
        let reward = accounts.iter().map(|account| account.step_report.reward).sum();
        let truncated = !terminated && self.episode.row >= self.episode.last;
        Outcome { reward, terminated, truncated }
    }

    fn is_valid(&self, episode: &Episode) -> bool {
        let assets = self.panel.width().assets;
        let accounts = episode.accounts.iter().zip(&self.episode.accounts);
        let sizes = episode.removed.is_empty() || episode.removed.len() == assets;
        let reports = episode.reports.iter().all(|report| self.check_report(report).is_ok());
        sizes
            && reports
            && episode.displacement.is_valid(&self.episode.displacement)
            && episode.accounts.len() == self.episode.accounts.len()
            && accounts.into_iter().all(|(account, like)| {
                account.is_valid(assets, like) && account.marked as u64 <= episode.row
            })
    }
}

/// Return true if all numbers are finite: a share of an infinite number is not defined.
fn are_finite(numbers: &[f64]) -> bool {
    let nothing = Plain.all(0.0);
    let rest = numbers.as_chunks::<LANES>().1;
    let sums = Plain.lanes(numbers).fold(nothing, |sums, four| sums + four * nothing);
    total(sums) == 0.0 && rest.iter().all(|number| number.is_finite())
}

fn is_tilt(choice: f64) -> bool {
    [0.0, 1.0, 2.0].contains(&choice)
}
