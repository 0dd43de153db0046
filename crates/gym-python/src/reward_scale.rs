//! Reward scaling by the standard deviation of discounted returns, for Python.

use gym::RewardScale as Scale;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::check_memory;
use crate::moments::{moments_from, to_python};

/// Reward scaling of `batch` episodes by the standard deviation of their discounted returns.
#[pyclass(module = "quant_gym_rs")]
pub(crate) struct RewardScale(Scale);

#[pymethods]
impl RewardScale {
    #[new]
    #[pyo3(signature = (batch=1, gamma=0.99, epsilon=1e-8))]
    fn new(batch: usize, gamma: f64, epsilon: f64) -> PyResult<Self> {
        check_memory("episodes", batch, size_of::<f64>())?;
        Ok(Self(Scale::new(batch, gamma, epsilon)))
    }

    /// Number of returns seen, over all episodes.
    #[getter]
    fn count(&self) -> u64 {
        self.0.moments().count()
    }

    /// Population variance of the discounted returns.
    #[getter]
    fn variance(&self) -> f64 {
        self.0.moments().variance(0)
    }

    /// Scale the reward of a batch of one.
    #[pyo3(signature = (reward, finished, learn=true))]
    fn scale_one(&mut self, reward: f64, finished: bool, learn: bool) -> PyResult<f64> {
        let mut out = [0.0];
        self.0.scale(&[reward], &[finished], None, learn, &mut out).map_err(to_python)?;
        Ok(out[0])
    }

    /// Scale one step's rewards of the whole batch. Where `running` is false, the statistics are
    /// not updated.
    #[pyo3(signature = (rewards, finished, learn=true, running=None))]
    fn scale<'py>(
        &mut self,
        py: Python<'py>,
        rewards: PyReadonlyArray1<'py, f64>,
        finished: PyReadonlyArray1<'py, bool>,
        learn: bool,
        running: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (rewards, finished) = (rewards.as_slice()?, finished.as_slice()?);
        let running = running.as_ref().map(|array| array.as_slice()).transpose()?;
        let mut out = vec![0.0; rewards.len()];
        self.0.scale(rewards, finished, running, learn, &mut out).map_err(to_python)?;
        Ok(PyArray1::from_vec(py, out))
    }

    /// Restart the episodes where `which` is true (all of them by default).
    #[pyo3(signature = (which=None))]
    fn restart(&mut self, which: Option<PyReadonlyArray1<'_, bool>>) -> PyResult<()> {
        let which = which.as_ref().map(|array| array.as_slice()).transpose()?;
        for index in 0..self.0.returns().len() {
            if which.is_none_or(|which| which.get(index).copied().unwrap_or(false)) {
                self.0.restart(index);
            }
        }
        Ok(())
    }

    /// Running returns and their moments.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let moments = self.0.moments();
        let state = PyDict::new(py);
        state.set_item("returns", PyArray1::from_slice(py, self.0.returns()))?;
        state.set_item("count", moments.count())?;
        state.set_item("mean", PyArray1::from_slice(py, moments.mean()))?;
        state.set_item("squares", PyArray1::from_slice(py, moments.squares()))?;
        Ok(state)
    }

    /// Continue from a saved state; a refused one changes nothing.
    fn load_state_dict(&mut self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let returns = state.get_item("returns")?.extract()?;
        self.0.load(returns, moments_from(state)?).map_err(to_python)
    }
}
