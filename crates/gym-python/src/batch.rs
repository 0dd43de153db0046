//! Batches of any task, for Python: the protocol `sekai.vector.NativeBatch`, and a fast path for a
//! single env.

use gym::{Batch, BatchError, Cut, MOST_THREADS, Observation, Outcome, RowsOf, StepOut, Task};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBool, PyBytes, PyDict, PyFloat, PySlice, PyString};

use crate::actions::{self, ActionNumber};
use crate::arrays::{flags, readable, writable};
use crate::errors::{self, NotReadyError, ResetRequired, StateError};
use crate::interrupt::interruptible;
use crate::observation::PyObservation;
use crate::result::{ResetResult, StepResult};

/// Call duration above which the GIL is released.
const WORTH_DETACHING_NANOSECONDS: u64 = 5_000;

/// Key of the state bytes in its dict.
const STATE_KEY: &str = "native";

/// Options of a batch, beside the settings of its task.
pub(crate) struct BatchOptions {
    num_envs: usize,
    num_threads: Option<usize>,
    max_episode_steps: Option<u64>,
}

impl BatchOptions {
    pub(crate) fn new(
        num_envs: i64,
        num_threads: Option<i64>,
        max_episode_steps: Option<i64>,
    ) -> PyResult<Self> {
        Ok(Self {
            num_envs: at_least_one("num_envs", num_envs)?,
            num_threads: num_threads.map(thread_count).transpose()?,
            max_episode_steps: max_episode_steps
                .map(|steps| at_least_one("max_episode_steps", steps).map(|steps| steps as u64))
                .transpose()?,
        })
    }
}

fn at_least_one(name: &str, value: i64) -> PyResult<usize> {
    usize::try_from(value)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| PyValueError::new_err(format!("{name} must be at least 1, got {value}")))
}

/// Validate the number of threads.
pub(crate) fn thread_count(threads: i64) -> PyResult<usize> {
    usize::try_from(threads).ok().filter(|count| (1..=MOST_THREADS).contains(count)).ok_or_else(
        || {
            PyValueError::new_err(format!(
                "num_threads must be from 1 to {MOST_THREADS}, got {threads}"
            ))
        },
    )
}

/// Native batch, with reusable buffers for a single env.
pub(crate) struct NativeBatch<T: Task> {
    pub(crate) batch: Batch<T>,
    names: Vec<Py<PyString>>,
    pub(crate) layout: <T::Observation as Observation>::Layout,
    /// Observation and outcome buffers of a batch of one.
    pub(crate) observation: T::Observation,
    pub(crate) action: Vec<T::Action>,
    /// Template of an info dict.
    info_template: Py<PyDict>,
    /// A copy of the actions of all envs.
    actions: Vec<T::Action>,
    /// Episodes that the last rollout truncated.
    pub(crate) cuts: Vec<Cut<T::Observation>>,
}

/// Array arguments of a step.
pub(crate) struct StepArrays<'a, 'py> {
    pub(crate) actions: &'a Bound<'py, PyAny>,
    pub(crate) observations: &'a Bound<'py, PyAny>,
    pub(crate) rewards: &'a Bound<'py, PyAny>,
    pub(crate) terminated: &'a Bound<'py, PyAny>,
    pub(crate) truncated: &'a Bound<'py, PyAny>,
    pub(crate) final_observations: Option<&'a Bound<'py, PyAny>>,
    pub(crate) skip: Option<&'a Bound<'py, PyAny>>,
}

/// Random bits from the operating system, for envs without a seed.
pub(crate) fn entropy(py: Python<'_>) -> PyResult<u64> {
    let bytes: [u8; 8] = py.import("os")?.call_method1("urandom", (8,))?.extract()?;
    Ok(u64::from_le_bytes(bytes))
}

impl<T: Task<Action: ActionNumber, Observation: PyObservation>> NativeBatch<T> {
    pub(crate) fn new(py: Python<'_>, prototype: &T, options: &BatchOptions) -> PyResult<Self> {
        let (envs, threads) = (options.num_envs, options.num_threads);
        let batch =
            Batch::try_new(prototype, envs, threads, entropy(py)?).map_err(errors::of_memory)?;
        let (names, layout) = (prototype.info_names(), prototype.layout());
        let names: Vec<_> = names.iter().map(|name| PyString::intern(py, name).unbind()).collect();
        Ok(Self {
            batch: batch.with_step_limit(options.max_episode_steps),
            info_template: dict_for(py, &names)?,
            names,
            observation: T::Observation::zeros(&layout, 1),
            layout,
            action: vec![T::Action::default(); prototype.action_len()],
            actions: Vec::new(),
            cuts: Vec::new(),
        })
    }

    pub(crate) fn reset<'py>(
        &mut self,
        ids: &Bound<'py, PyAny>,
        seeds: Option<&Bound<'py, PyAny>>,
        observations: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let py = ids.py();
        let count = ids.len()?;
        if let Some(options) = options {
            for option in options.try_iter()? {
                check_options(&option?)?;
            }
        }
        let ids = readable::<i64>("ids", ids, &[count])?.as_slice()?.to_vec();
        let seeds = seeds
            .map(|seeds| {
                PyResult::Ok(readable::<u64>("seeds", seeds, &[count])?.as_slice()?.to_vec())
            })
            .transpose()?;
        let num_envs = self.batch.num_envs();
        let mut observations =
            T::Observation::writable("observations", observations, &self.layout, num_envs)?;
        let observations = T::Observation::rows_of(&mut observations)?;
        let batch = &mut self.batch;
        interruptible(py, |interrupt| {
            batch.reset_slices(&ids, seeds.as_deref(), observations, interrupt)
        })?
        .map_err(|error| errors::of_batch(&error))
    }

    pub(crate) fn step<'py>(
        &mut self,
        py: Python<'py>,
        arrays: &StepArrays<'_, 'py>,
    ) -> PyResult<()> {
        let num_envs = self.batch.num_envs();
        let shown = |name, array| T::Observation::writable(name, array, &self.layout, num_envs);
        actions::of_batch(arrays.actions, num_envs, self.action.len(), &mut self.actions)?;
        let mut observations = shown("observations", arrays.observations)?;
        let mut rewards = writable("rewards", arrays.rewards, &[num_envs])?;
        let mut terminated = writable("terminated", arrays.terminated, &[num_envs])?;
        let mut truncated = writable("truncated", arrays.truncated, &[num_envs])?;
        let mut finals = arrays
            .final_observations
            .map(|finals| shown("final_observations", finals))
            .transpose()?;
        let skip = arrays.skip.map(|skip| flags("skip", skip, &[num_envs])).transpose()?;
        let out = StepOut {
            observations: T::Observation::rows_of(&mut observations)?,
            rewards: rewards.as_slice_mut()?,
            terminated: terminated.as_slice_mut()?,
            truncated: truncated.as_slice_mut()?,
            finals: finals.as_mut().map(T::Observation::rows_of).transpose()?,
        };
        step_slices(py, &mut self.batch, &self.actions, out, skip.as_deref())?
            .map_err(|error| errors::of_batch(&error))
    }

    /// Reset a batch of one.
    pub(crate) fn reset_one(
        &mut self,
        py: Python<'_>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ResetResult> {
        self.begin_one(seed)?;
        Ok(ResetResult::of(self.observation.to_python(py, &self.layout)?, self.info(py)?))
    }

    /// Reset a batch of one, and write its observation into `observation`.
    pub(crate) fn begin_one(&mut self, seed: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.check_single()?;
        let seed = seed.map(seed_of).transpose()?.map(|seed| [seed]);
        let seeds = seed.as_ref().map(<[u64; 1]>::as_slice);
        self.batch
            .reset(&[0], seeds, self.observation.rows())
            .map_err(|error| errors::of_batch(&error))
    }

    /// Step a batch of one.
    pub(crate) fn step_one(
        &mut self,
        py: Python<'_>,
        action: &Bound<'_, PyAny>,
    ) -> PyResult<StepResult> {
        actions::of_single(action, &mut self.action)?;
        let Outcome { reward, terminated, truncated } = self.step_read(py)?;
        let shown = self.observation.to_python(py, &self.layout)?;
        Ok(StepResult::of(shown, reward, terminated, truncated, self.info(py)?))
    }

    /// Step a batch of one with `action`, and write its observation into `observation`.
    pub(crate) fn step_read(&mut self, py: Python<'_>) -> PyResult<Outcome> {
        self.check_single()?;
        let (mut reward, mut terminated, mut truncated) = ([0.0], [false], [false]);
        let out = StepOut {
            observations: self.observation.rows(),
            rewards: &mut reward,
            terminated: &mut terminated,
            truncated: &mut truncated,
            finals: None,
        };
        step_slices(py, &mut self.batch, &self.action, out, None)?
            .map_err(|error| of_single_env(&error))?;
        let ([reward], [terminated], [truncated]) = (reward, terminated, truncated);
        Ok(Outcome { reward, terminated, truncated })
    }

    pub(crate) fn clone_env(&mut self, source: i64, target: i64) -> PyResult<()> {
        self.batch.clone_env(source, target).map_err(|error| errors::of_batch(&error))
    }

    pub(crate) fn infos<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.columns_of(py, self.batch.infos())
    }

    pub(crate) fn final_infos<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.columns_of(py, self.batch.final_infos())
    }

    pub(crate) fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = PyDict::new(py);
        state.set_item(STATE_KEY, PyBytes::new(py, &py.detach(|| self.batch.encode())))?;
        Ok(state)
    }

    pub(crate) fn load_state_dict(&mut self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = state.get_item(STATE_KEY).ok();
        let bytes = bytes.as_ref().and_then(|bytes| bytes.cast::<PyBytes>().ok());
        let Some(bytes) = bytes.filter(|_| state.len().is_ok_and(|count| count == 1)) else {
            return Err(StateError::new_err(format!(
                "a state of {} has the key {STATE_KEY:?} and bytes under it, got another value",
                T::NAME
            )));
        };
        let (batch, bytes) = (&mut self.batch, bytes.as_bytes());
        state.py().detach(|| batch.decode(bytes)).map_err(|error| errors::of_state(&error))
    }

    /// Info of a batch of one.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.info_dict(py, self.batch.infos())
    }

    /// Info dict of named numbers.
    pub(crate) fn info_dict<'py>(
        &self,
        py: Python<'py>,
        numbers: &[f64],
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = self.info_template.bind(py).copy()?;
        for (name, number) in self.names.iter().zip(numbers) {
            dict.set_item(name.bind(py), PyFloat::new(py, *number))?;
        }
        Ok(dict)
    }

    /// Info rows as an array for each name: all of them views of one copy.
    fn columns_of<'py>(&self, py: Python<'py>, rows: &[f64]) -> PyResult<Bound<'py, PyDict>> {
        let (width, count) = (self.names.len(), self.batch.num_envs());
        let table = PyArray1::from_slice(py, rows).reshape([count, width])?;
        let everywhere = PySlice::full(py);
        let columns = (0..width).map(|index| table.get_item((&everywhere, index)));
        self.dict_of(py, columns.collect::<PyResult<Vec<_>>>()?.into_iter())
    }

    fn dict_of<'py>(
        &self,
        py: Python<'py>,
        values: impl Iterator<Item = impl IntoPyObject<'py>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.names.iter().zip(values) {
            dict.set_item(name.bind(py), value)?;
        }
        Ok(dict)
    }

    fn check_single(&self) -> PyResult<()> {
        match self.batch.num_envs() {
            1 => Ok(()),
            count => Err(PyValueError::new_err(format!(
                "expected a batch of one env for a single step or reset, got {count}"
            ))),
        }
    }
}

/// A dict with these keys and no values: copying it is faster than growing a dict.
pub(crate) fn dict_for(py: Python<'_>, names: &[Py<PyString>]) -> PyResult<Py<PyDict>> {
    Ok(names.iter().map(|name| (name, py.None())).into_py_dict(py)?.unbind())
}

/// Step a batch, releasing the GIL if that takes long.
fn step_slices<T: Task>(
    py: Python<'_>,
    batch: &mut Batch<T>,
    actions: &[T::Action],
    out: StepOut<'_, RowsOf<'_, T>>,
    skip: Option<&[bool]>,
) -> PyResult<Result<(), BatchError>> {
    if batch.step_nanoseconds() < WORTH_DETACHING_NANOSECONDS {
        return Ok(batch.step(actions, out, skip));
    }
    interruptible(py, |interrupt| batch.step_slices(actions, out, skip, interrupt))
}

/// Convert an error of a batch of one, without the env index.
fn of_single_env(error: &BatchError) -> PyErr {
    match error {
        BatchError::Action { source, .. } => actions::refused(source),
        BatchError::Waiting { .. } => NotReadyError::new_err(
            "the next row has not come yet: push() it before step(), or await async_step()",
        ),
        BatchError::NotRunning { begun: true, .. } => {
            ResetRequired::new_err("the episode is over: call reset() to begin the next one")
        }
        BatchError::NotRunning { begun: false, .. } => {
            ResetRequired::new_err("step() was called before reset(): call reset() first")
        }
        _ => errors::of_batch(error),
    }
}

fn seed_of(seed: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number = if seed.is_instance_of::<PyBool>() { None } else { seed.extract().ok() };
    number.ok_or_else(|| {
        PyValueError::new_err(format!(
            "seed must be a whole number from 0 to 2**64 - 1, or None; was {seed}"
        ))
    })
}

fn check_options(options: &Bound<'_, PyAny>) -> PyResult<()> {
    if !options.is_truthy()? {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("this env takes no options for reset(), got {options}")))
}
