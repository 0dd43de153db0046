//! Optimal execution batches, for Python.

use gym::{ActionUnit, OptimalExecution, OptimalExecutionSettings, OptimalTrajectory};
use market::Side;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{BatchOptions, NativeBatch};
use crate::errors::{check_memory, of_batch};
use crate::native_class::{exclusive, native_batch};
use crate::scene;

/// Settings of `sekai.envs.OptimalExecutionConfig`.
#[derive(FromPyObject)]
struct Config {
    side: String,
    shares: f64,
    initial_price: f64,
    horizon: f64,
    episode_steps: i64,
    volatility: f64,
    temporary_impact: f64,
    permanent_impact: f64,
    half_spread: f64,
    risk_aversion: f64,
    action: String,
    reward_unit: Option<f64>,
}

impl TryFrom<Config> for OptimalExecutionSettings {
    type Error = PyErr;

    fn try_from(config: Config) -> PyResult<Self> {
        let settings = Self {
            side: one_of("side", &config.side, [("sell", Side::Sell), ("buy", Side::Buy)])?,
            shares: config.shares,
            initial_price: config.initial_price,
            horizon: config.horizon,
            episode_steps: count(config.episode_steps)?,
            volatility: config.volatility,
            temporary_impact: config.temporary_impact,
            permanent_impact: config.permanent_impact,
            half_spread: config.half_spread,
            risk_aversion: config.risk_aversion,
            action: {
                let wholes = [("rest", ActionUnit::Rest), ("order", ActionUnit::Order)];
                one_of("action", &config.action, wholes)?
            },
            reward_unit: config.reward_unit,
        };
        settings.check().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(settings)
    }
}

fn one_of<V: Copy>(name: &str, got: &str, known: [(&str, V); 2]) -> PyResult<V> {
    known.iter().find(|(known, _)| *known == got).map(|(_, value)| *value).ok_or_else(|| {
        let [(first, _), (second, _)] = known;
        PyValueError::new_err(format!("{name} must be {first:?} or {second:?}, got {got:?}"))
    })
}

fn count(steps: i64) -> PyResult<u32> {
    u32::try_from(steps).map_err(|_| {
        PyValueError::new_err(format!("episode_steps must be from 1 to 1000000, got {steps}"))
    })
}

native_batch!(
    /// Batch of optimal execution episodes.
    OptimalExecutionBatch,
    OptimalExecution,
    {
        #[new]
        #[pyo3(signature = (config, num_envs=1, num_threads=None, max_episode_steps=None))]
        fn new(
            py: Python<'_>,
            config: Config,
            num_envs: i64,
            num_threads: Option<i64>,
            max_episode_steps: Option<i64>,
        ) -> PyResult<Self> {
            let options = BatchOptions::new(num_envs, num_threads, max_episode_steps)?;
            let prototype = OptimalExecution::new(config.try_into()?)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(Self(NativeBatch::new(py, &prototype, &options)?))
        }

        /// Validate the settings; raise `ValueError` if invalid.
        #[staticmethod]
        fn check(config: Config) -> PyResult<()> {
            OptimalExecutionSettings::try_from(config).map(|_| ())
        }

        /// Optimal actions, a row for each env.
        fn optimal_action<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f64>>> {
            let this = exclusive(slf)?;
            let actions: Vec<f64> =
                this.0.batch.tasks().map(OptimalExecution::optimal_action).collect();
            let rows = [actions.len(), 1];
            PyArray1::from_vec(slf.py(), actions).reshape(rows)
        }

        /// Scene of an env for rendering, as it is now.
        #[pyo3(signature = (env=0))]
        fn scene<'py>(slf: &Bound<'py, Self>, env: i64) -> PyResult<Bound<'py, PyDict>> {
            let this = exclusive(slf)?;
            let (key, task) = this.0.batch.begun(env).map_err(|error| of_batch(&error))?;
            scene::of_optimal_execution(slf.py(), key, task)
        }
    }
);

/// Decay in a step, and optimal holdings after 0, 1, ... steps and trades as shares of the rest.
type Trajectory<'py> = (f64, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// Optimal execution trajectory of Almgren and Chriss, as shares of the order.
#[pyfunction]
pub(crate) fn optimal_trajectory(
    py: Python<'_>,
    steps: i64,
    step_time: f64,
    volatility: f64,
    risk_aversion: f64,
    effective_impact: f64,
) -> PyResult<Trajectory<'_>> {
    let steps = count(steps)?;
    check_memory("steps", steps as usize + 1, 2 * size_of::<f64>())?;
    let optimum =
        OptimalTrajectory::new(steps, step_time, volatility, risk_aversion, effective_impact);
    let left: Vec<f64> = (0..=steps).map(|done| optimum.share_left(done)).collect();
    let traded: Vec<f64> = (0..steps).map(|done| optimum.share_of_rest(steps - done)).collect();
    Ok((optimum.decay(), left.into_pyarray(py), traded.into_pyarray(py)))
}
