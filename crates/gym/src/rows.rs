//! Contiguous envs and their rows: the unit of work of one thread.

use market::EpisodeKey;

use crate::observation::Observation;
use crate::task::{Outcome, RowsOf, Task};
use crate::threads::Divisible;

/// Output buffers of a step, with a row for each env; `R` are rows of observations.
#[derive(Debug)]
pub struct StepOut<'a, R> {
    /// Observations.
    pub observations: R,
    /// Rewards.
    pub rewards: &'a mut [f64],
    /// True where the episode terminated.
    pub terminated: &'a mut [bool],
    /// True where the episode was truncated.
    pub truncated: &'a mut [bool],
    /// Final observations of episodes that end; if present, the next episodes begin at once.
    pub finals: Option<R>,
}

/// Env: its episode, seed and episode number.
#[derive(Debug)]
pub(crate) struct Episode<T> {
    pub(crate) task: T,
    pub(crate) seed: u64,
    /// Number of episodes begun since the seed was set.
    pub(crate) begun: u64,
    pub(crate) steps: u64,
    pub(crate) is_running: bool,
}

impl<T: Clone> Clone for Episode<T> {
    fn clone(&self) -> Self {
        let Self { ref task, seed, begun, steps, is_running } = *self;
        Self { task: task.clone(), seed, begun, steps, is_running }
    }

    /// Reuses the existing allocations, if the task can.
    fn clone_from(&mut self, other: &Self) {
        self.task.clone_from(&other.task);
        (self.seed, self.begun) = (other.seed, other.begun);
        (self.steps, self.is_running) = (other.steps, other.is_running);
    }
}

impl<T: Task> Episode<T> {
    /// An env outside an episode.
    pub(crate) fn new(task: T, seed: u64) -> Self {
        Self { task, seed, begun: 0, steps: 0, is_running: false }
    }

    /// Begin the first episode of `seed`.
    pub(crate) fn begin_first(&mut self, seed: u64, observation: RowsOf<'_, T>) {
        (self.seed, self.begun) = (seed, 0);
        self.begin_next(observation);
    }

    /// Begin the next episode of the seed in use.
    pub(crate) fn begin_next(&mut self, observation: RowsOf<'_, T>) {
        self.task.begin(EpisodeKey { seed: self.seed, episode: self.begun }, observation);
        self.begun += 1;
        (self.steps, self.is_running) = (0, true);
    }

    fn step(&mut self, action: &[T::Action], row: RowsOf<'_, T>, step_limit: u64) -> Outcome {
        let mut outcome = self.task.step(action, row);
        self.steps += 1;
        outcome.truncated |= self.steps >= step_limit && !outcome.is_done();
        self.is_running = !outcome.is_done();
        outcome
    }
}

/// Contiguous envs and their rows. Observations have a lifetime `'o` of their own, since that of an
/// associated type cannot be shortened to fit the others.
pub(crate) struct Rows<'a, 'o, T: Task> {
    pub(crate) step_limit: u64,
    pub(crate) episodes: &'a mut [Episode<T>],
    pub(crate) infos: &'a mut [f64],
    pub(crate) final_infos: &'a mut [f64],
    pub(crate) actions: &'a [T::Action],
    pub(crate) out: StepOut<'a, RowsOf<'o, T>>,
    pub(crate) skip: Option<&'a [bool]>,
}

impl<T: Task> Divisible for Rows<'_, '_, T> {
    fn len(&self) -> usize {
        self.episodes.len()
    }

    fn split(self, count: usize) -> (Self, Self) {
        let task = &self.episodes[0].task;
        let (layout, action_len) = (task.layout(), task.action_len());
        let info_len = task.info_names().len();
        let (episodes, later_episodes) = self.episodes.split_at_mut(count);
        let (infos, later_infos) = self.infos.split_at_mut(count * info_len);
        let (final_infos, later_final_infos) = self.final_infos.split_at_mut(count * info_len);
        let (actions, later_actions) = self.actions.split_at(count * action_len);
        let (out, later_out) = self.out.split::<T::Observation>(count, &layout);
        let (skip, later_skip) = self.skip.map(|skip| skip.split_at(count)).unzip();
        let left = Self { episodes, infos, final_infos, actions, out, skip, ..self };
        let right = Self {
            step_limit: self.step_limit,
            episodes: later_episodes,
            infos: later_infos,
            final_infos: later_final_infos,
            actions: later_actions,
            out: later_out,
            skip: later_skip,
        };
        (left, right)
    }

    fn run(self) {
        let Self { step_limit, episodes, infos, final_infos, actions, mut out, skip } = self;
        let task = &episodes[0].task;
        let (layout, action_len) = (task.layout(), task.action_len());
        let info_len = task.info_names().len();
        let mut left = episodes;
        for index in 0.. {
            let Some((episode, later)) = left.split_first_mut() else { break };
            if let Some(next) = later.first() {
                next.task.warm();
            }
            left = later;
            if skip.is_some_and(|skip| skip[index]) {
                continue;
            }
            let row = T::Observation::row(&mut out.observations, &layout, index);
            let action = &actions[index * action_len..][..action_len];
            let outcome = episode.step(action, row, step_limit);
            out.rewards[index] = outcome.reward;
            out.terminated[index] = outcome.terminated;
            out.truncated[index] = outcome.truncated;
            if let (true, Some(finals)) = (outcome.is_done(), &mut out.finals) {
                let last = T::Observation::row(&mut out.observations, &layout, index);
                T::Observation::copy(&last, &mut T::Observation::row(finals, &layout, index));
                episode.task.write_info(&mut final_infos[index * info_len..][..info_len]);
                episode.begin_next(last);
            }
            // Written while the episode is in cache: a second pass would fetch all of them again.
            episode.task.write_info(&mut infos[index * info_len..][..info_len]);
        }
    }
}

impl<R> StepOut<'_, R> {
    fn split<'o, O>(self, count: usize, layout: &O::Layout) -> (Self, Self)
    where
        O: Observation<Rows<'o> = R>,
    {
        let (observations, later) = O::split(self.observations, layout, count);
        let (rewards, later_rewards) = self.rewards.split_at_mut(count);
        let (terminated, later_terminated) = self.terminated.split_at_mut(count);
        let (truncated, later_truncated) = self.truncated.split_at_mut(count);
        let (finals, later_finals) =
            self.finals.map(|finals| O::split(finals, layout, count)).unzip();
        let right = Self {
            observations: later,
            rewards: later_rewards,
            terminated: later_terminated,
            truncated: later_truncated,
            finals: later_finals,
        };
        (Self { observations, rewards, terminated, truncated, finals }, right)
    }
}
