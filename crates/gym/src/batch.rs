//! Batch of episodes of one task, stepped in one call into the caller's buffers.

use market::{EpisodeKey, InterruptCheck, MemoryError, check_memory};
use thiserror::Error;

use crate::observation::Observation;
use crate::rows::{Episode, Rows, StepOut};
use crate::task::{ActionError, RowsOf, Task};
use crate::threads::{Divisible, Threads};

/// Work per thread between two checks for an interrupt, in nanoseconds.
const SLICE_NANOSECONDS: u64 = 100_000_000;

/// Batch of episodes of one task.
///
/// The path of an env depends on its seed, how many episodes began since that seed, and its own
/// actions: not on the other envs, nor on the number of envs or threads.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    pub(crate) episodes: Vec<Episode<T>>,
    pub(crate) step_limit: Option<u64>,
    pub(crate) threads: Threads,
    /// Current info of each env, one row per env.
    pub(crate) infos: Vec<f64>,
    /// Final info of each env whose episode ended in the last step, one row per env.
    pub(crate) final_infos: Vec<f64>,
}

/// Error of a refused batch call; the state is unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BatchError {
    /// Invalid action.
    #[error("the action of env {env}: {source}")]
    Action {
        /// The first env with such an action.
        env: usize,
        /// Reason of the refusal.
        source: ActionError,
    },
    /// Step of an env outside an episode.
    #[error("env {env} is in no episode: {}", if *.begun { "its last one is over, call reset() to begin the next" } else { "call reset() before step()" })]
    NotRunning {
        /// The first such env.
        env: usize,
        /// True if the env has been reset before.
        begun: bool,
    },
    /// The step of an env needs data that has not been pushed yet.
    #[error("env {env} needs a row that has not come yet: push it before the step")]
    Waiting {
        /// The first such env.
        env: usize,
    },
    /// Observations that a policy cannot read.
    #[error("the policy cannot read the observations: {0}")]
    Unreadable(String),
    /// Env index out of range.
    #[error("expected an env from 0 to {last}, got {got}")]
    NoSuchEnv {
        /// Index of the last env.
        last: usize,
        /// Requested env.
        got: i64,
    },
    /// Array of the wrong length.
    #[error("{name} needs {expected} values, got {got}")]
    Length {
        /// The array.
        name: &'static str,
        /// Expected number of values.
        expected: usize,
        /// Actual number of values.
        got: usize,
    },
    /// Part of an observation of the wrong length.
    #[error("{name}[{part:?}] needs {expected} values, got {got}")]
    PartLength {
        /// The observations.
        name: &'static str,
        /// Their part.
        part: &'static str,
        /// Expected number of values.
        expected: usize,
        /// Actual number of values.
        got: usize,
    },
}

impl<T: Task> Batch<T> {
    /// `num_envs` envs like `prototype`, none of them in an episode yet. Envs without a seed take
    /// theirs from `entropy`; `threads` is `None` for one per core.
    ///
    /// # Panics
    /// If `num_envs` is 0.
    #[must_use]
    pub fn new(prototype: &T, num_envs: usize, threads: Option<usize>, entropy: u64) -> Self {
        assert!(num_envs > 0, "a batch has at least one env");
        let episode = |env| Episode::new(prototype.clone(), own_seed(entropy, env));
        let columns = prototype.info_names().len();
        Self {
            episodes: (0..num_envs).map(episode).collect(),
            step_limit: None,
            threads: Threads::new(threads),
            infos: vec![0.0; num_envs * columns],
            final_infos: vec![0.0; num_envs * columns],
        }
    }

    /// [`Batch::new`] with a memory check for a number of envs chosen by a caller.
    ///
    /// # Errors
    /// If there is not enough memory.
    ///
    /// # Panics
    /// If `num_envs` is 0.
    pub fn try_new(
        prototype: &T,
        num_envs: usize,
        threads: Option<usize>,
        entropy: u64,
    ) -> Result<Self, MemoryError> {
        let infos = 2 * size_of::<f64>() * prototype.info_names().len();
        let each = prototype.bytes().saturating_add(size_of::<Episode<T>>() + infos);
        check_memory("envs", num_envs, each)?;
        Ok(Self::new(prototype, num_envs, threads, entropy))
    }

    /// Set the time limit: truncate episodes after `steps` steps.
    #[must_use]
    pub fn with_step_limit(self, steps: Option<u64>) -> Self {
        Self { step_limit: steps, ..self }
    }

    /// Number of envs.
    #[must_use]
    pub fn num_envs(&self) -> usize {
        self.episodes.len()
    }

    /// Largest number of threads used by a step.
    #[must_use]
    pub fn num_threads(&self) -> usize {
        self.threads.count()
    }

    /// Episode of env `env`.
    ///
    /// # Panics
    /// If there is no such env.
    #[must_use]
    pub fn task(&self, env: usize) -> &T {
        &self.episodes[env].task
    }

    /// Current or last episode of env `env`, and its key.
    ///
    /// # Errors
    /// If there is no such env, or no episode has begun in it.
    pub fn begun(&self, env: i64) -> Result<(EpisodeKey, &T), BatchError> {
        let env = self.checked_env(env)?;
        let episode = &self.episodes[env];
        let begun = episode.begun.checked_sub(1);
        let number = begun.ok_or(BatchError::NotRunning { env, begun: false })?;
        Ok((EpisodeKey { seed: episode.seed, episode: number }, &episode.task))
    }

    /// Running episode of env `env`, to change between steps.
    ///
    /// # Errors
    /// If there is no such env, or it is in no episode.
    pub fn running(&mut self, env: i64) -> Result<&mut T, BatchError> {
        let env = self.checked_env(env)?;
        let episode = &mut self.episodes[env];
        if !episode.is_running {
            return Err(BatchError::NotRunning { env, begun: episode.begun > 0 });
        }
        Ok(&mut episode.task)
    }

    /// Return true if the next step of an env needs data that has not been pushed yet; false for an
    /// env outside an episode.
    ///
    /// # Errors
    /// If there is no such env.
    pub fn is_waiting(&self, env: i64) -> Result<bool, BatchError> {
        let episode = &self.episodes[self.checked_env(env)?];
        Ok(episode.is_running && episode.task.is_waiting())
    }

    /// The episodes of all envs, in order.
    pub fn tasks(&self) -> impl Iterator<Item = &T> {
        self.episodes.iter().map(|episode| &episode.task)
    }

    /// Mutable episodes of all envs, for tasks whose shared data grows between steps. Layouts and
    /// infos must not change: rows would no longer fit.
    pub fn tasks_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.episodes.iter_mut().map(|episode| &mut episode.task)
    }

    /// Estimated cost of a step of all envs on one thread, in nanoseconds.
    #[must_use]
    pub fn step_nanoseconds(&self) -> u64 {
        self.num_envs() as u64 * u64::from(self.task(0).step_nanoseconds())
    }

    /// Reset the envs `ids` and write the first observations into their rows. A seed begins its
    /// first episode; without one, the env continues with its own seed.
    ///
    /// # Errors
    /// If an env does not exist or an array is of another length.
    pub fn reset(
        &mut self,
        ids: &[i64],
        seeds: Option<&[u64]>,
        observations: RowsOf<'_, T>,
    ) -> Result<(), BatchError> {
        self.reset_slices(ids, seeds, observations, &mut InterruptCheck::new(&mut || true))
    }

    /// Interruptible [`Batch::reset`]: if interrupted, only the first of `ids` have been reset.
    ///
    /// # Errors
    /// As [`Batch::reset`].
    pub fn reset_slices(
        &mut self,
        ids: &[i64],
        seeds: Option<&[u64]>,
        mut observations: RowsOf<'_, T>,
        interrupt: &mut InterruptCheck<'_>,
    ) -> Result<(), BatchError> {
        let layout = self.task(0).layout();
        T::Observation::check(&observations, "observations", &layout, self.num_envs())?;
        check_length("seeds", ids.len(), seeds.map_or(ids.len(), <[u64]>::len))?;
        for &id in ids {
            self.checked_env(id)?;
        }
        for (index, &id) in ids.iter().enumerate() {
            let env = self.checked_env(id)?;
            let row = T::Observation::row(&mut observations, &layout, env);
            match seeds {
                Some(seeds) => self.episodes[env].begin_first(seeds[index], row),
                None => self.episodes[env].begin_next(row),
            }
            self.note_info(env);
            if !interrupt.should_continue_after_piece() {
                break;
            }
        }
        Ok(())
    }

    /// Step every env with its action, except where `skip` is true: their rows stay untouched.
    ///
    /// # Errors
    /// If an action is refused, an env is in no episode, or an array is of another length.
    pub fn step(
        &mut self,
        actions: &[T::Action],
        out: StepOut<'_, RowsOf<'_, T>>,
        skip: Option<&[bool]>,
    ) -> Result<(), BatchError> {
        self.step_slices(actions, out, skip, &mut InterruptCheck::new(&mut || true))
    }

    /// Interruptible [`Batch::step`]: if interrupted between envs, which only happens in a long
    /// step, the first of them have been stepped and the others have not.
    ///
    /// # Errors
    /// As [`Batch::step`].
    pub fn step_slices(
        &mut self,
        actions: &[T::Action],
        out: StepOut<'_, RowsOf<'_, T>>,
        skip: Option<&[bool]>,
        interrupt: &mut InterruptCheck<'_>,
    ) -> Result<(), BatchError> {
        self.check_lengths(actions, &out, skip)?;
        self.check_actions(actions, skip)?;
        let nanoseconds = self.task(0).step_nanoseconds();
        let slice = SLICE_NANOSECONDS * self.threads.count() as u64 / u64::from(nanoseconds.max(1));
        let slice = usize::try_from(slice).unwrap_or(usize::MAX).max(1);
        let mut work = Rows {
            step_limit: self.step_limit.unwrap_or(u64::MAX),
            episodes: &mut self.episodes,
            infos: &mut self.infos,
            final_infos: &mut self.final_infos,
            actions,
            out,
            skip,
        };
        while work.len() > slice {
            let (now, later) = work.split(slice);
            self.threads.run(now, nanoseconds);
            if !interrupt.should_continue_after_slice() {
                return Ok(());
            }
            work = later;
        }
        self.threads.run(work, nanoseconds);
        Ok(())
    }

    /// Copy the exact state of env `from` to env `to`: episode, random streams and seed.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub fn clone_env(&mut self, from: i64, to: i64) -> Result<(), BatchError> {
        let (from, to) = (self.checked_env(from)?, self.checked_env(to)?);
        if let Ok([from, to]) = self.episodes.get_disjoint_mut([from, to]) {
            to.clone_from(from);
        }
        self.note_info(to);
        Ok(())
    }

    /// Current info of every env, one row per env.
    #[must_use]
    pub fn infos(&self) -> &[f64] {
        &self.infos
    }

    /// Final info of every env whose episode ended in the last step, one row per env; rows of the
    /// other envs are undefined.
    #[must_use]
    pub fn final_infos(&self) -> &[f64] {
        &self.final_infos
    }

    /// Write the current info of an env.
    pub(crate) fn note_info(&mut self, env: usize) {
        let task = &self.episodes[env].task;
        let width = task.info_names().len();
        task.write_info(&mut self.infos[env * width..][..width]);
    }

    fn checked_env(&self, id: i64) -> Result<usize, BatchError> {
        let no_such_env = BatchError::NoSuchEnv { last: self.num_envs() - 1, got: id };
        match usize::try_from(id) {
            Ok(env) if env < self.num_envs() => Ok(env),
            _ => Err(no_such_env),
        }
    }

    fn check_lengths(
        &self,
        actions: &[T::Action],
        out: &StepOut<'_, RowsOf<'_, T>>,
        skip: Option<&[bool]>,
    ) -> Result<(), BatchError> {
        let (envs, layout) = (self.num_envs(), self.task(0).layout());
        check_length("actions", envs * self.task(0).action_len(), actions.len())?;
        T::Observation::check(&out.observations, "observations", &layout, envs)?;
        check_length("rewards", envs, out.rewards.len())?;
        check_length("terminated", envs, out.terminated.len())?;
        check_length("truncated", envs, out.truncated.len())?;
        if let Some(finals) = &out.finals {
            T::Observation::check(finals, "final_observations", &layout, envs)?;
        }
        skip.map_or(Ok(()), |skip| check_length("skip", envs, skip.len()))
    }

    fn check_actions(
        &self,
        actions: &[T::Action],
        skip: Option<&[bool]>,
    ) -> Result<(), BatchError> {
        let width = self.task(0).action_len();
        for (env, episode) in self.episodes.iter().enumerate() {
            if skip.is_some_and(|skip| skip[env]) {
                continue;
            }
            if !episode.is_running {
                return Err(BatchError::NotRunning { env, begun: episode.begun > 0 });
            }
            if episode.task.is_waiting() {
                return Err(BatchError::Waiting { env });
            }
            let action = &actions[env * width..][..width];
            episode.task.check(action).map_err(|source| BatchError::Action { env, source })?;
        }
        Ok(())
    }
}

/// Default seed of an env.
fn own_seed(entropy: u64, env: usize) -> u64 {
    EpisodeKey { seed: entropy, episode: env as u64 }.stream(0).bits()
}

fn check_length(name: &'static str, expected: usize, got: usize) -> Result<(), BatchError> {
    if expected == got { Ok(()) } else { Err(BatchError::Length { name, expected, got }) }
}
