//! Rollouts: many steps of all envs in one call, with an actor that chooses the actions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use market::{InterruptCheck, Stream};

use crate::batch::{Batch, BatchError};
use crate::observation::{Numbers, Observation};
use crate::rows::{Episode, Rows, StepOut};
use crate::task::{RowsOf, Task};
use crate::threads::Divisible;

/// Policy of a rollout. Threads act for envs of their own, so that an action may depend on the
/// observation and the random stream of its env only.
pub trait Actor<T: Task>: Sync {
    /// Scratch memory of a thread.
    type Memory;

    /// Memory for `num_envs` envs.
    fn memory(&self, num_envs: usize) -> Self::Memory;

    /// Numbers of a policy output.
    fn width(&self) -> usize;

    /// Estimated cost of an action, in nanoseconds. Used only to choose the number of threads.
    fn nanoseconds(&self) -> u32;

    /// Act for some envs: write policy outputs into `chosen` and append their actions to `actions`.
    ///
    /// `observations` are in the order of [`Observation::numbers`].
    ///
    /// # Errors
    /// If the policy cannot read the observations: the reason.
    fn act(
        &self,
        memory: &mut Self::Memory,
        observations: &[Numbers<'_>],
        streams: &mut [Stream],
        chosen: &mut [f32],
        actions: &mut Vec<T::Action>,
    ) -> Result<(), String>;
}

/// Buffers of a rollout: rows of all envs, step after step.
#[derive(Debug)]
pub struct RolloutOut<'a, R> {
    /// Observations, of one time more than steps; the first are those to act on.
    pub observations: R,
    /// Policy outputs.
    pub chosen: &'a mut [f32],
    /// Rewards.
    pub rewards: &'a mut [f64],
    /// True where the episode terminated.
    pub terminated: &'a mut [bool],
    /// True where the episode was truncated.
    pub truncated: &'a mut [bool],
}

/// Episode that was truncated in a rollout, and not terminated.
#[derive(Clone, Debug)]
pub struct Cut<O> {
    /// Step of the rollout.
    pub step: usize,
    /// Its env.
    pub env: usize,
    /// Its final observation: one row.
    pub observation: O,
}

/// Refused action with its step and env, to report the first.
type Refusal = (usize, usize, BatchError);

impl<T: Task> Batch<T> {
    /// Step every env `steps` times with the actions of `actor`; the next episode of an env begins
    /// at once. Returns the truncated episodes by step and env. The result does not depend on the
    /// number of threads.
    ///
    /// If interrupted, envs have taken different numbers of steps.
    ///
    /// # Errors
    /// If an array is of another length, or an env is in no episode; the state is unchanged then.
    /// If an action is refused: the first one, and its env stays before that step.
    pub fn rollout<A: Actor<T>>(
        &mut self,
        actor: &A,
        steps: usize,
        out: RolloutOut<'_, RowsOf<'_, T>>,
        streams: &mut [Stream],
        interrupt: &mut InterruptCheck<'_>,
    ) -> Result<Vec<Cut<T::Observation>>, BatchError> {
        let (envs, layout) = (self.num_envs(), self.task(0).layout());
        check_lengths::<T>(&out, [steps, envs, actor.width()], &layout)?;
        if let Some(env) = self.episodes.iter().position(|episode| !episode.is_running) {
            return Err(BatchError::NotRunning { env, begun: self.episodes[env].begun > 0 });
        }
        let shared = Shared {
            actor,
            step_limit: self.step_limit.unwrap_or(u64::MAX),
            caller: thread::current().id(),
            interrupt: Mutex::new(interrupt),
            is_stopped: AtomicBool::new(false),
            cuts: Mutex::new(Vec::new()),
            refusals: Mutex::new(Vec::new()),
        };
        let each = self.task(0).step_nanoseconds().saturating_add(actor.nanoseconds());
        let nanoseconds = each.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
        let part = Part {
            shared: &shared,
            first_env: 0,
            episodes: &mut self.episodes,
            infos: &mut self.infos,
            final_infos: &mut self.final_infos,
            streams,
            steps: by_step::<T>(out, [steps, envs, actor.width()], &layout),
        };
        self.threads.run(part, nanoseconds);
        let refusals = shared.refusals.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = refusals.into_iter().min_by_key(|(step, env, _)| (*step, *env)) {
            return Err(first.2);
        }
        let mut cuts = shared.cuts.into_inner().unwrap_or_else(PoisonError::into_inner);
        cuts.sort_by_key(|cut| (cut.step, cut.env));
        Ok(cuts)
    }
}

fn check_lengths<T: Task>(
    out: &RolloutOut<'_, RowsOf<'_, T>>,
    [steps, envs, width]: [usize; 3],
    layout: &<T::Observation as Observation>::Layout,
) -> Result<(), BatchError> {
    T::Observation::check(&out.observations, "observations", layout, (steps + 1) * envs)?;
    let lengths = [
        ("chosen", steps * envs * width, out.chosen.len()),
        ("rewards", steps * envs, out.rewards.len()),
        ("terminated", steps * envs, out.terminated.len()),
        ("truncated", steps * envs, out.truncated.len()),
    ];
    let wrong = lengths.into_iter().find(|(_, expected, got)| expected != got);
    wrong.map_or(Ok(()), |(name, expected, got)| Err(BatchError::Length { name, expected, got }))
}

/// Data shared by all threads of a rollout.
struct Shared<'s, 'i, T: Task, A> {
    actor: &'s A,
    step_limit: u64,
    /// Only the calling thread can handle signals.
    caller: ThreadId,
    interrupt: Mutex<&'s mut InterruptCheck<'i>>,
    is_stopped: AtomicBool,
    cuts: Mutex<Vec<Cut<T::Observation>>>,
    refusals: Mutex<Vec<Refusal>>,
}

impl<T: Task, A> Shared<'_, '_, T, A> {
    fn should_continue(&self) -> bool {
        if thread::current().id() == self.caller
            && let Ok(mut interrupt) = self.interrupt.try_lock()
            && !interrupt.should_continue_after_piece()
        {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        !self.is_stopped.load(Ordering::Relaxed)
    }
}

/// Rows of one step, for contiguous envs.
struct Step<'a, R> {
    /// Observations after the step; those before the first step have no other numbers.
    observations: R,
    chosen: &'a mut [f32],
    rewards: &'a mut [f64],
    terminated: &'a mut [bool],
    truncated: &'a mut [bool],
}

/// Contiguous envs with the rows of all steps. The first of `steps` holds the first observations
/// alone.
struct Part<'a, 'o, 's, 'i, T: Task, A> {
    shared: &'a Shared<'s, 'i, T, A>,
    first_env: usize,
    episodes: &'a mut [Episode<T>],
    infos: &'a mut [f64],
    final_infos: &'a mut [f64],
    streams: &'a mut [Stream],
    steps: Vec<Step<'a, RowsOf<'o, T>>>,
}

fn by_step<'a, 'o, T: Task>(
    out: RolloutOut<'a, RowsOf<'o, T>>,
    [steps, envs, width]: [usize; 3],
    layout: &<T::Observation as Observation>::Layout,
) -> Vec<Step<'a, RowsOf<'o, T>>> {
    let RolloutOut { observations, chosen, rewards, terminated, truncated } = out;
    let (first, mut later) = T::Observation::split(observations, layout, envs);
    let nothing = Step {
        observations: first,
        chosen: &mut [],
        rewards: &mut [],
        terminated: &mut [],
        truncated: &mut [],
    };
    let mut parts = Vec::with_capacity(steps + 1);
    parts.push(nothing);
    let rows = chosen
        .chunks_exact_mut((envs * width).max(1))
        .zip(rewards.chunks_exact_mut(envs))
        .zip(terminated.chunks_exact_mut(envs).zip(truncated.chunks_exact_mut(envs)));
    for ((chosen, rewards), (terminated, truncated)) in rows {
        let (observations, rest) = T::Observation::split(later, layout, envs);
        later = rest;
        parts.push(Step { observations, chosen, rewards, terminated, truncated });
    }
    parts
}

impl<T: Task, A: Actor<T>> Divisible for Part<'_, '_, '_, '_, T, A> {
    fn len(&self) -> usize {
        self.episodes.len()
    }

    fn split(self, count: usize) -> (Self, Self) {
        let task = &self.episodes[0].task;
        let (layout, info_len) = (task.layout(), task.info_names().len());
        let width = self.shared.actor.width();
        let (episodes, later_episodes) = self.episodes.split_at_mut(count);
        let (infos, later_infos) = self.infos.split_at_mut(count * info_len);
        let (final_infos, later_final_infos) = self.final_infos.split_at_mut(count * info_len);
        let (streams, later_streams) = self.streams.split_at_mut(count);
        let (mut steps, mut later_steps) = (Vec::new(), Vec::new());
        for (index, step) in self.steps.into_iter().enumerate() {
            let taken = if index == 0 { 0 } else { count };
            let observations = T::Observation::split(step.observations, &layout, count);
            let chosen = step.chosen.split_at_mut(taken * width);
            let rewards = step.rewards.split_at_mut(taken);
            let terminated = step.terminated.split_at_mut(taken);
            let truncated = step.truncated.split_at_mut(taken);
            steps.push(Step {
                observations: observations.0,
                chosen: chosen.0,
                rewards: rewards.0,
                terminated: terminated.0,
                truncated: truncated.0,
            });
            later_steps.push(Step {
                observations: observations.1,
                chosen: chosen.1,
                rewards: rewards.1,
                terminated: terminated.1,
                truncated: truncated.1,
            });
        }
        let left = Self { episodes, infos, final_infos, streams, steps, ..self };
        let right = Self {
            shared: self.shared,
            first_env: self.first_env + count,
            episodes: later_episodes,
            infos: later_infos,
            final_infos: later_final_infos,
            streams: later_streams,
            steps: later_steps,
        };
        (left, right)
    }

    fn run(mut self) {
        let (envs, actor) = (self.episodes.len(), self.shared.actor);
        let layout = self.episodes[0].task.layout();
        let (mut memory, mut actions) = (actor.memory(envs), Vec::new());
        let mut finals = T::Observation::zeros(&layout, envs);
        for index in 1..self.steps.len() {
            if !self.shared.should_continue() {
                return;
            }
            let (before, now) = self.steps.split_at_mut(index);
            let (before, now) = (&before[index - 1], &mut now[0]);
            let observations = T::Observation::numbers(&before.observations);
            actions.clear();
            let acted =
                actor.act(&mut memory, &observations, self.streams, now.chosen, &mut actions);
            let checked = match acted {
                Ok(()) => check(self.episodes, &actions, self.first_env),
                Err(reason) => Err((self.first_env, BatchError::Unreadable(reason))),
            };
            if let Err((env, error)) = checked {
                let refusals = self.shared.refusals.lock();
                refusals.unwrap_or_else(PoisonError::into_inner).push((index - 1, env, error));
                return;
            }
            let rows = Rows {
                step_limit: self.shared.step_limit,
                episodes: self.episodes,
                infos: self.infos,
                final_infos: self.final_infos,
                actions: &actions,
                out: StepOut {
                    observations: T::Observation::reborrow(&mut now.observations),
                    rewards: now.rewards,
                    terminated: now.terminated,
                    truncated: now.truncated,
                    finals: Some(finals.rows()),
                },
                skip: None,
            };
            rows.run();
            for env in 0..envs {
                if now.truncated[env] && !now.terminated[env] {
                    let mut observation = T::Observation::zeros(&layout, 1);
                    let mut all = finals.rows();
                    let last = T::Observation::row(&mut all, &layout, env);
                    T::Observation::copy(&last, &mut observation.rows());
                    let cut = Cut { step: index - 1, env: self.first_env + env, observation };
                    let cuts = self.shared.cuts.lock();
                    cuts.unwrap_or_else(PoisonError::into_inner).push(cut);
                }
            }
        }
    }
}

/// Check the actions of some envs; an error has its env.
fn check<T: Task>(
    episodes: &[Episode<T>],
    actions: &[T::Action],
    first_env: usize,
) -> Result<(), (usize, BatchError)> {
    let width = episodes[0].task.action_len();
    for (index, episode) in episodes.iter().enumerate() {
        let (env, action) = (first_env + index, &actions[index * width..][..width]);
        if episode.task.is_waiting() {
            return Err((env, BatchError::Waiting { env }));
        }
        let checked = episode.task.check(action);
        checked.map_err(|source| (env, BatchError::Action { env, source }))?;
    }
    Ok(())
}
