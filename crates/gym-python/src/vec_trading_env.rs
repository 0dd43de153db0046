//! `PyVecTradingEnv`: many trading envs that step at once.

use std::fmt::Display;

use gym::{Batch, BatchError, SellHoldBuy, StepOut, Task, Trading};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::zeros;
use crate::batch::{entropy, thread_count};
use crate::errors;
use crate::interrupt::interruptible;
use crate::market_config::refused;
use crate::native_class::exclusive;
use crate::trading_env::{action_space, choice_of, dict_of, info_of, observation_space, prototype};

/// Return value of a step: observations, rewards, terminated, truncated, infos.
type Five<'py> = (
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<f64>>,
    Vec<bool>,
    Vec<bool>,
    Vec<Bound<'py, PyDict>>,
);

/// Many trading envs; env i of an unseeded reset has the seed `base_seed + i`.
#[pyclass(module = "quant_gym_rs")]
pub(crate) struct PyVecTradingEnv {
    batch: Batch<Trading<SellHoldBuy>>,
    base_seed: Option<u64>,
    /// Last observations of episodes, if the next ones begin at once.
    finals: Option<Vec<f64>>,
}

#[pymethods]
impl PyVecTradingEnv {
    #[new]
    #[pyo3(signature = (num_envs, max_ticks=10_000, base_seed=None, autoreset=true, num_threads=None, privileged=false))]
    fn new(
        py: Python<'_>,
        num_envs: usize,
        max_ticks: u64,
        base_seed: Option<u64>,
        autoreset: bool,
        num_threads: Option<i64>,
        privileged: bool,
    ) -> PyResult<Self> {
        if num_envs == 0 {
            return Err(PyValueError::new_err("num_envs must be at least 1, got 0"));
        }
        let num_threads = num_threads.map(thread_count).transpose()?;
        let prototype = prototype(max_ticks, 1, privileged)?;
        let batch = Batch::try_new(&prototype, num_envs, num_threads, entropy(py)?)
            .map_err(errors::of_memory)?;
        errors::check_memory("observations", num_envs, prototype.layout() * size_of::<f64>())?;
        let finals = autoreset.then(|| vec![0.0; num_envs * prototype.layout()]);
        Ok(Self { batch, base_seed, finals })
    }

    /// Reset every env and return the observations, a row for each.
    #[pyo3(signature = (seeds=None))]
    fn reset_all<'py>(
        slf: &Bound<'py, Self>,
        seeds: Option<Vec<u64>>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let py = slf.py();
        let mut this = exclusive(slf)?;
        let this = &mut *this;
        let count = this.batch.num_envs();
        if let Some(got) = seeds.as_ref().map(Vec::len).filter(|got| *got != count) {
            return Err(PyValueError::new_err(format!("expected {count} seeds, got {got}")));
        }
        let seeds = seeds.or_else(|| {
            let base = this.base_seed?;
            Some((0..count as u64).map(|env| base.wrapping_add(env)).collect())
        });
        let ids: Vec<i64> = (0i64..).take(count).collect();
        let observations = zeros(py, [count, this.width()])?;
        {
            let mut rows = observations.try_readwrite()?;
            let rows = rows.as_slice_mut()?;
            let batch = &mut this.batch;
            interruptible(py, |interrupt| {
                batch.reset_slices(&ids, seeds.as_deref(), rows, interrupt)
            })?
            .map_err(|error| refused(&error))?;
        }
        // From now on an unseeded reset begins the next episodes of these seeds.
        this.base_seed = None;
        Ok(observations)
    }

    /// Step every env once. Where an episode ends, the next one begins at once unless `autoreset`
    /// is off; its final observation is then in the info.
    fn step_all<'py>(
        slf: &Bound<'py, Self>,
        actions: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Five<'py>> {
        let py = slf.py();
        let mut this = exclusive(slf)?;
        let this = &mut *this;
        let (count, width) = (this.batch.num_envs(), this.width());
        if actions.len() != count {
            let got = actions.len();
            return Err(PyValueError::new_err(format!("expected {count} actions, got {got}")));
        }
        let choice = |(env, action)| choice_of(action).ok_or_else(|| no_choice(env, action));
        let actions = actions.iter().enumerate().map(choice).collect::<PyResult<Vec<i64>>>()?;
        let observations = zeros(py, [count, width])?;
        let (mut rewards, mut terminated, mut truncated) =
            (vec![0.0; count], vec![false; count], vec![false; count]);
        {
            let mut rows = observations.try_readwrite()?;
            let rows = rows.as_slice_mut()?;
            let (batch, finals) = (&mut this.batch, &mut this.finals);
            let stepped = interruptible(py, |interrupt| {
                let out = StepOut {
                    observations: rows,
                    rewards: &mut rewards,
                    terminated: &mut terminated,
                    truncated: &mut truncated,
                    finals: finals.as_deref_mut(),
                };
                batch.step_slices(&actions, out, None, interrupt)
            })?;
            stepped.map_err(|error| refusal(&error))?;
        }
        let ended = |env: usize| terminated[env] || truncated[env];
        let infos = (0..count).map(|env| this.info(py, env, ended(env)));
        let infos = infos.collect::<PyResult<_>>()?;
        Ok((observations, PyArray1::from_vec(py, rewards), terminated, truncated, infos))
    }

    /// Number of envs.
    #[getter]
    fn num_envs(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Ok(exclusive(slf)?.batch.num_envs())
    }

    /// A gymnasium `Box` of float64 without bounds: the space of one env's observations.
    #[getter]
    fn observation_space<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        observation_space(slf.py(), exclusive(slf)?.width())
    }

    /// A gymnasium `Discrete(3)`: the space of one env's actions.
    #[getter]
    fn action_space<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        action_space(slf.py(), 1)
    }

    /// Names of the values of an observation.
    fn feature_names(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        Ok(exclusive(slf)?.batch.task(0).feature_names())
    }
}

impl PyVecTradingEnv {
    fn width(&self) -> usize {
        self.batch.task(0).layout()
    }

    /// Info of env `env`; for an episode that has ended, its final info.
    fn info<'py>(&self, py: Python<'py>, env: usize, ended: bool) -> PyResult<Bound<'py, PyDict>> {
        let (Some(finals), true) = (&self.finals, ended) else {
            return info_of(py, self.batch.task(env));
        };
        let names = self.batch.task(env).info_names();
        let row = &self.batch.final_infos()[env * names.len()..][..names.len()];
        let info = dict_of(py, names, row)?;
        let last = &finals[env * self.width()..][..self.width()];
        info.set_item("final_observation", PyArray1::from_slice(py, last))?;
        Ok(info)
    }
}

fn no_choice(env: usize, got: impl Display) -> PyErr {
    PyValueError::new_err(format!(
        "action of env {env} must be 0 (sell), 1 (hold), or 2 (buy), got {got}"
    ))
}

fn refusal(error: &BatchError) -> PyErr {
    match error {
        BatchError::Action { env, source } => no_choice(*env, &source.got),
        BatchError::NotRunning { .. } => PyRuntimeError::new_err(
            error.to_string().replace("reset()", "reset_all()").replace("step()", "step_all()"),
        ),
        _ => refused(error),
    }
}
