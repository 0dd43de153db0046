//! Rollouts of native batches by native policies: the actor of `gym`, and its arguments.

use gym::{Actor, Batch, Cut, Numbers, Observation, RolloutOut, Task};
use market::{EpisodeKey, Stream};
use numpy::{PyArray1, PyReadonlyArray1};
use policy::{Actions, Head, Memory, Noise, Rows, Sampler};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::actions::ActionNumber;
use crate::arrays::writable;
use crate::batch::NativeBatch;
use crate::errors;
use crate::interrupt::interruptible;
use crate::observation::PyObservation;
use crate::policy::{Arguments, PolicyProgram, refused};
use crate::policy_actor::action_kind;

/// Component of the streams that policies draw from.
const POLICY_STREAM: u64 = 0x706f_6c69_6379;

/// Nanoseconds of this many multiplications, roughly.
const MULTIPLICATIONS: usize = 8;

/// Arguments of a rollout that name arrays.
pub(crate) struct RolloutArrays<'a, 'py> {
    pub(crate) observations: &'a Bound<'py, PyAny>,
    pub(crate) chosen: &'a Bound<'py, PyAny>,
    pub(crate) rewards: &'a Bound<'py, PyAny>,
    pub(crate) terminated: &'a Bound<'py, PyAny>,
    pub(crate) truncated: &'a Bound<'py, PyAny>,
}

/// Steps and envs of truncated episodes.
pub(crate) type CutIndices<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

impl<T: Task<Action: ActionNumber, Observation: PyObservation>> NativeBatch<T> {
    /// Step all envs with the actions of a policy; see `Batch::rollout`.
    pub(crate) fn rollout<'py>(
        &mut self,
        policy: &Bound<'py, PolicyProgram>,
        head: &Bound<'py, PyDict>,
        (key, first_env): (u64, u64),
        arrays: &RolloutArrays<'_, 'py>,
    ) -> PyResult<CutIndices<'py>> {
        let py = policy.py();
        let actor = BatchActor(sampler::<T>(policy.get(), &Arguments(head))?);
        let (envs, width) = (self.batch.num_envs(), actor.0.width());
        let steps = arrays.rewards.len()?;
        let mut observations = T::Observation::writable(
            "observations",
            arrays.observations,
            &self.layout,
            (steps + 1) * envs,
        )?;
        let mut chosen = writable::<f32>("chosen", arrays.chosen, &[steps, envs, width])?;
        let mut rewards = writable("rewards", arrays.rewards, &[steps, envs])?;
        let mut terminated = writable("terminated", arrays.terminated, &[steps, envs])?;
        let mut truncated = writable("truncated", arrays.truncated, &[steps, envs])?;
        let out = RolloutOut {
            observations: T::Observation::rows_of(&mut observations)?,
            chosen: chosen.as_slice_mut()?,
            rewards: rewards.as_slice_mut()?,
            terminated: terminated.as_slice_mut()?,
            truncated: truncated.as_slice_mut()?,
        };
        let stream = |env| EpisodeKey { seed: key, episode: first_env + env }.stream(POLICY_STREAM);
        let mut streams: Vec<Stream> = (0..envs as u64).map(stream).collect();
        let batch: &mut Batch<T> = &mut self.batch;
        let cuts = interruptible(py, |interrupt| {
            batch.rollout(&actor, steps, out, &mut streams, interrupt)
        })?;
        self.cuts = cuts.map_err(|error| errors::of_batch(&error))?;
        let indices = |index: fn(&Cut<T::Observation>) -> usize| {
            PyArray1::from_iter(py, self.cuts.iter().map(|cut| index(cut).cast_signed() as i64))
        };
        Ok((indices(|cut| cut.step), indices(|cut| cut.env)))
    }

    /// Write the final observations of the episodes that the last rollout truncated.
    pub(crate) fn write_cuts(&mut self, observations: &Bound<'_, PyAny>) -> PyResult<()> {
        let count = self.cuts.len();
        let mut arrays =
            T::Observation::writable("observations", observations, &self.layout, count)?;
        let mut rows = T::Observation::rows_of(&mut arrays)?;
        for (index, cut) in self.cuts.iter_mut().enumerate() {
            let mut row = T::Observation::row(&mut rows, &self.layout, index);
            T::Observation::copy(&cut.observation.rows(), &mut row);
        }
        Ok(())
    }
}

/// Policy as the actor of a batch.
struct BatchActor(Sampler);

/// Random stream of an env.
#[repr(transparent)]
struct StreamNoise<'a>(&'a mut Stream);

impl Noise for StreamNoise<'_> {
    fn normal(&mut self) -> f64 {
        self.0.normal()
    }

    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }
}

impl<T: Task<Action: ActionNumber>> Actor<T> for BatchActor {
    type Memory = Memory;

    fn memory(&self, num_envs: usize) -> Memory {
        self.0.memory(num_envs)
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn nanoseconds(&self) -> u32 {
        u32::try_from(self.0.work() / MULTIPLICATIONS).unwrap_or(u32::MAX)
    }

    fn act(
        &self,
        memory: &mut Memory,
        observations: &[Numbers<'_>],
        streams: &mut [Stream],
        chosen: &mut [f32],
        actions: &mut Vec<T::Action>,
    ) -> Result<(), String> {
        let rows: Vec<Rows<'_>> = observations.iter().map(|numbers| rows_of(*numbers)).collect();
        let mut noise: Vec<StreamNoise<'_>> = streams.iter_mut().map(StreamNoise).collect();
        let act = |number| actions.push(T::Action::of_number(number));
        let acted = self.0.sample(memory, &rows, &mut noise, chosen, act);
        acted.map_err(|error| error.to_string())
    }
}

fn rows_of(numbers: Numbers<'_>) -> Rows<'_> {
    match numbers {
        Numbers::F32(numbers) => Rows::F32(numbers),
        Numbers::F64(numbers) => Rows::F64(numbers),
        Numbers::I64(numbers) => Rows::I64(numbers),
        Numbers::I32(numbers) => Rows::I32(numbers),
        Numbers::I8(numbers) => Rows::I8(numbers),
        Numbers::Bool(numbers) => Rows::Bool(numbers),
    }
}

/// Policy for the observations of a task.
fn sampler<T: Task>(program: &PolicyProgram, head: &Arguments<'_, '_>) -> PyResult<Sampler> {
    let leaf = |name: &str| {
        let names = T::Observation::names();
        names.iter().position(|known| *known == name).ok_or_else(|| {
            PyValueError::new_err(format!(
                "the policy reads {name:?}, {} observes {names:?}",
                T::NAME
            ))
        })
    };
    let leaves = program.names().iter().map(|name| leaf(name)).collect::<PyResult<_>>()?;
    let masks: Vec<String> = head.get("masks")?.extract()?;
    let masks = masks.iter().map(|name| leaf(name)).collect::<PyResult<_>>()?;
    let (kind, sizes, limits) = head.get("actions")?.extract::<(String, Vec<i64>, Vec<_>)>()?;
    let actions = Actions::new(action_kind(&kind, sizes, &limits)?);
    let std: Option<PyReadonlyArray1<'_, f32>> = head.get("std")?.extract()?;
    let std = std.map(|std| std.as_slice().map(<[f32]>::to_vec)).transpose()?.unwrap_or_default();
    let mask: Option<String> = head.get("mask")?.extract()?;
    let mask = mask.map(|name| leaf(&name)).transpose()?;
    let head = Head { actions, std, mask, is_single: head.get("is_single")?.extract()? };
    Sampler::new(program.network().clone(), head, leaves, masks).map_err(refused)
}
