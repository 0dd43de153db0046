//! Envs next to each other and their rows of everything: what one thread steps.

use market::EpisodeKey;

use crate::task::{Outcome, Task};
use crate::threads::Divisible;

/// Where a step writes, with a row for each env.
#[derive(Debug)]
pub struct StepOut<'a> {
    /// Rows of `observation_len` numbers.
    pub observations: &'a mut [f64],
    /// What the step earned.
    pub rewards: &'a mut [f64],
    /// Whether it ended the episode.
    pub terminated: &'a mut [bool],
    /// Whether the episode was cut off.
    pub truncated: &'a mut [bool],
    /// Where given, the last observations of episodes that end, and the next ones begin at once.
    pub finals: Option<&'a mut [f64]>,
}

/// An env: the episode it is in, and which one that is.
#[derive(Debug)]
pub(crate) struct Episode<T> {
    pub(crate) task: T,
    pub(crate) seed: u64,
    /// How many episodes began since that seed was given.
    pub(crate) begun: u64,
    pub(crate) steps: u64,
    pub(crate) is_running: bool,
}

impl<T: Clone> Clone for Episode<T> {
    fn clone(&self) -> Self {
        let Self { ref task, seed, begun, steps, is_running } = *self;
        Self { task: task.clone(), seed, begun, steps, is_running }
    }

    /// In the memory it has, where the task can do so.
    fn clone_from(&mut self, other: &Self) {
        self.task.clone_from(&other.task);
        (self.seed, self.begun) = (other.seed, other.begun);
        (self.steps, self.is_running) = (other.steps, other.is_running);
    }
}

impl<T: Task> Episode<T> {
    /// An env in no episode yet.
    pub(crate) fn new(task: T, seed: u64) -> Self {
        Self { task, seed, begun: 0, steps: 0, is_running: false }
    }

    /// Begins the first episode of `seed`.
    pub(crate) fn begin_first(&mut self, seed: u64, observation: &mut [f64]) {
        (self.seed, self.begun) = (seed, 0);
        self.begin_next(observation);
    }

    /// Begins the next episode of the seed in use.
    pub(crate) fn begin_next(&mut self, observation: &mut [f64]) {
        self.task.begin(EpisodeKey { seed: self.seed, episode: self.begun }, observation);
        self.begun += 1;
        (self.steps, self.is_running) = (0, true);
    }

    fn step(&mut self, action: &[T::Action], row: &mut [f64], step_limit: u64) -> Outcome {
        let mut outcome = self.task.step(action, row);
        self.steps += 1;
        outcome.truncated |= self.steps >= step_limit && !outcome.is_done();
        self.is_running = !outcome.is_done();
        outcome
    }
}

/// Envs next to each other, and their rows of everything.
pub(crate) struct Rows<'a, T: Task> {
    pub(crate) step_limit: u64,
    pub(crate) episodes: &'a mut [Episode<T>],
    pub(crate) infos: &'a mut [f64],
    pub(crate) final_infos: &'a mut [f64],
    pub(crate) actions: &'a [T::Action],
    pub(crate) out: StepOut<'a>,
    pub(crate) skip: Option<&'a [bool]>,
}

impl<T: Task> Divisible for Rows<'_, T> {
    fn len(&self) -> usize {
        self.episodes.len()
    }

    fn split(self, count: usize) -> (Self, Self) {
        let task = &self.episodes[0].task;
        let (observation_len, action_len) = (task.observation_len(), task.action_len());
        let info_len = task.info_names().len();
        let (episodes, later_episodes) = self.episodes.split_at_mut(count);
        let (infos, later_infos) = self.infos.split_at_mut(count * info_len);
        let (final_infos, later_final_infos) = self.final_infos.split_at_mut(count * info_len);
        let (actions, later_actions) = self.actions.split_at(count * action_len);
        let (out, later_out) = self.out.split(count, observation_len);
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
        let (width, action_len) = (task.observation_len(), task.action_len());
        let info_len = task.info_names().len();
        for (place, episode) in episodes.iter_mut().enumerate() {
            if skip.is_some_and(|skip| skip[place]) {
                continue;
            }
            let row = &mut out.observations[place * width..][..width];
            let action = &actions[place * action_len..][..action_len];
            let outcome = episode.step(action, row, step_limit);
            out.rewards[place] = outcome.reward;
            out.terminated[place] = outcome.terminated;
            out.truncated[place] = outcome.truncated;
            if let (true, Some(finals)) = (outcome.is_done(), &mut out.finals) {
                finals[place * width..][..width].copy_from_slice(row);
                episode.task.write_info(&mut final_infos[place * info_len..][..info_len]);
                episode.begin_next(row);
            }
            // Now, while the episode is at hand: a second pass would fetch all of them again.
            episode.task.write_info(&mut infos[place * info_len..][..info_len]);
        }
    }
}

impl StepOut<'_> {
    fn split(self, count: usize, observation_len: usize) -> (Self, Self) {
        let (observations, later) = self.observations.split_at_mut(count * observation_len);
        let (rewards, later_rewards) = self.rewards.split_at_mut(count);
        let (terminated, later_terminated) = self.terminated.split_at_mut(count);
        let (truncated, later_truncated) = self.truncated.split_at_mut(count);
        let (finals, later_finals) =
            self.finals.map(|finals| finals.split_at_mut(count * observation_len)).unzip();
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
