//! Episode statistics of running episodes, for Python.

use std::time::Instant;

use gym::{EpisodeClock, Episodes};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::check_memory;
use crate::result::StepResult;

struct SinceStart(Instant);

impl EpisodeClock for SinceStart {
    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Episodes that ended in a step: indices, returns, lengths and seconds.
type Ended<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
);

/// Return, length and duration of each of `batch` running episodes.
#[pyclass(module = "quant_gym_rs")]
pub(crate) struct EpisodeTotals {
    clock: SinceStart,
    episodes: Episodes,
}

#[pymethods]
impl EpisodeTotals {
    #[new]
    #[pyo3(signature = (batch=1))]
    fn new(batch: usize) -> PyResult<Self> {
        check_memory("episodes", batch, 3 * size_of::<f64>())?;
        let clock = SinceStart(Instant::now());
        let episodes = Episodes::new(batch, &clock);
        Ok(Self { clock, episodes })
    }

    /// Add a step of a batch of one; if it ended the episode, return (return, length, seconds).
    fn step_one(
        &mut self,
        py: Python<'_>,
        result: PyRef<'_, StepResult>,
    ) -> PyResult<Option<(f64, u64, f64)>> {
        self.check(1)?;
        Ok(self
            .episodes
            .step(0, result.reward(py)?, result.is_done(py), &self.clock)
            .map(|finished| (finished.episode_return, finished.length, finished.elapsed)))
    }

    /// Add one step of the whole batch; return (indices, returns, lengths, seconds) of the
    /// episodes that it ended, or None. Where `running` is false, nothing is added.
    #[pyo3(signature = (rewards, ended, running=None))]
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        rewards: PyReadonlyArray1<'py, f64>,
        ended: PyReadonlyArray1<'py, bool>,
        running: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Option<Ended<'py>>> {
        let (rewards, ended) = (rewards.as_slice()?, ended.as_slice()?);
        let running = running.as_ref().map(|array| array.as_slice()).transpose()?;
        self.check(rewards.len())?;
        self.check(ended.len())?;
        running.map_or(Ok(()), |running| self.check(running.len()))?;
        let finished =
            self.episodes.step_batch(rewards, ended, running, &self.clock).unwrap_or_default();
        if finished.is_empty() {
            return Ok(None);
        }
        Ok(Some((
            PyArray1::from_iter(py, finished.iter().map(|(index, _)| as_signed(*index as u64))),
            PyArray1::from_iter(py, finished.iter().map(|(_, outcome)| outcome.episode_return)),
            PyArray1::from_iter(py, finished.iter().map(|(_, outcome)| as_signed(outcome.length))),
            PyArray1::from_iter(py, finished.iter().map(|(_, outcome)| outcome.elapsed)),
        )))
    }

    /// Restart the episodes where `which` is true (all of them by default).
    #[pyo3(signature = (which=None))]
    fn restart(&mut self, which: Option<PyReadonlyArray1<'_, bool>>) -> PyResult<()> {
        let which = which.as_ref().map(|array| array.as_slice()).transpose()?;
        which.map_or(Ok(()), |which| self.check(which.len()))?;
        for index in 0..self.episodes.len() {
            if which.is_none_or(|which| which[index]) {
                self.episodes.restart(index, &self.clock);
            }
        }
        Ok(())
    }

    /// Rewards so far of each running episode.
    #[getter]
    fn returns<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.episodes.returns())
    }

    /// Steps so far of each running episode.
    #[getter]
    fn lengths<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.episodes.lengths().iter().copied().map(as_signed))
    }

    /// Returns, lengths and seconds so far.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = PyDict::new(py);
        state.set_item("returns", self.returns(py))?;
        state.set_item("lengths", self.lengths(py))?;
        state.set_item("elapsed", PyArray1::from_vec(py, self.episodes.elapsed(&self.clock)))?;
        Ok(state)
    }

    /// Continue from a saved state; a refused one changes nothing.
    fn load_state_dict(&mut self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let returns: Vec<f64> = state.get_item("returns")?.extract()?;
        let lengths: Vec<u64> = state.get_item("lengths")?.extract()?;
        let elapsed: Vec<f64> = state.get_item("elapsed")?.extract()?;
        if self.episodes.load(returns, lengths, &elapsed, &self.clock) {
            return Ok(());
        }
        let batch = self.episodes.len();
        Err(PyValueError::new_err(format!("expected totals of {batch} episodes")))
    }
}

impl EpisodeTotals {
    fn check(&self, got: usize) -> PyResult<()> {
        let batch = self.episodes.len();
        if got == batch {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("expected values of {batch} episodes, got {got}")))
    }
}

/// Lengths stay far below 2^63.
#[allow(clippy::cast_possible_wrap)]
fn as_signed(count: u64) -> i64 {
    count as i64
}
