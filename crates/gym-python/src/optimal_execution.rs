//! Many episodes of working an order, for Python.

use gym::{OptimalExecution, OptimalExecutionSettings, Whole};
use market::Side;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{BatchOptions, NativeBatch};
use crate::errors::of_batch;
use crate::native_class::{exclusive, native_batch};
use crate::scene;

/// The settings as they stand in `sekai.envs.OptimalExecutionConfig`.
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
                let wholes = [("rest", Whole::Rest), ("order", Whole::Order)];
                one_of("action", &config.action, wholes)?
            },
            reward_unit: config.reward_unit,
        };
        settings.check().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(settings)
    }
}

fn one_of<V: Copy>(name: &str, found: &str, known: [(&str, V); 2]) -> PyResult<V> {
    known.iter().find(|(known, _)| *known == found).map(|(_, value)| *value).ok_or_else(|| {
        let [(one, _), (other, _)] = known;
        PyValueError::new_err(format!("{name} must be {one:?} or {other:?}, was {found:?}"))
    })
}

fn count(steps: i64) -> PyResult<u32> {
    u32::try_from(steps).map_err(|_| {
        PyValueError::new_err(format!("episode_steps must be from 1 to 1000000, was {steps}"))
    })
}

native_batch!(
    /// Many episodes of working an order.
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

        /// Raise `ValueError` unless the settings make sense.
        #[staticmethod]
        fn check(config: Config) -> PyResult<()> {
            OptimalExecutionSettings::try_from(config).map(|_| ())
        }

        /// The action that is optimal now, a row for each env.
        fn optimal_action<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f64>>> {
            let this = exclusive(slf)?;
            let actions: Vec<f64> =
                this.0.batch.tasks().map(OptimalExecution::optimal_action).collect();
            let rows = [actions.len(), 1];
            PyArray1::from_vec(slf.py(), actions).reshape(rows)
        }

        /// What a picture needs to know of an env, as it is now.
        #[pyo3(signature = (env=0))]
        fn scene<'py>(slf: &Bound<'py, Self>, env: i64) -> PyResult<Bound<'py, PyDict>> {
            let this = exclusive(slf)?;
            let (key, task) = this.0.batch.begun(env).map_err(|error| of_batch(&error))?;
            scene::of_optimal_execution(slf.py(), key, task)
        }
    }
);
