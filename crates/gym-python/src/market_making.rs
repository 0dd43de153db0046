//! Market making batches, for Python.

use gym::{MarketMaking, MarketMakingSettings};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{BatchOptions, NativeBatch};
use crate::errors::{check_memory, of_batch};
use crate::native_class::{exclusive, native_batch};
use crate::scene;

/// Settings of `sekai.envs.MarketMakingConfig`.
#[derive(FromPyObject)]
struct Config {
    initial_mid: f64,
    initial_cash: f64,
    volatility: f64,
    horizon: f64,
    episode_steps: i64,
    fill_rate: f64,
    fill_decay: f64,
    inventory_limit: i64,
    min_distance: f64,
    max_distance: f64,
    risk_aversion: f64,
    running_penalty: f64,
    liquidation_penalty: f64,
    ruin_wealth: Option<f64>,
}

impl TryFrom<Config> for MarketMakingSettings {
    type Error = PyErr;

    fn try_from(config: Config) -> PyResult<Self> {
        let settings = Self {
            initial_mid: config.initial_mid,
            initial_cash: config.initial_cash,
            volatility: config.volatility,
            horizon: config.horizon,
            episode_steps: count("episode_steps", config.episode_steps)?,
            fill_rate: config.fill_rate,
            fill_decay: config.fill_decay,
            inventory_limit: count("inventory_limit", config.inventory_limit)?,
            min_distance: config.min_distance,
            max_distance: config.max_distance,
            risk_aversion: config.risk_aversion,
            running_penalty: config.running_penalty,
            liquidation_penalty: config.liquidation_penalty,
            ruin_wealth: config.ruin_wealth,
        };
        settings.check().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(settings)
    }
}

fn count(name: &str, value: i64) -> PyResult<u32> {
    u32::try_from(value).map_err(|_| {
        PyValueError::new_err(format!("{name} must be from 1 to 1000000, got {value}"))
    })
}

/// Check that the table of the optimum fits memory and takes a bounded time.
fn check_optimum(task: &MarketMaking) -> PyResult<()> {
    task.settings().check_optimum().map_err(|error| PyValueError::new_err(error.to_string()))?;
    let MarketMakingSettings { episode_steps, inventory_limit, .. } = *task.settings();
    let inventories = 2 * inventory_limit as usize + 1;
    check_memory("steps of the optimum", episode_steps as usize + 1, inventories * size_of::<f64>())
}

native_batch!(
    /// Batch of market making episodes.
    MarketMakingBatch,
    MarketMaking,
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
            let prototype = MarketMaking::new(config.try_into()?)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(Self(NativeBatch::new(py, &prototype, &options)?))
        }

        /// Validate the settings; raise `ValueError` if invalid.
        #[staticmethod]
        fn check(config: Config) -> PyResult<()> {
            MarketMakingSettings::try_from(config).map(|_| ())
        }

        /// Optimal quote distances, a row for each env.
        fn optimal_action<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f64>>> {
            let this = exclusive(slf)?;
            check_optimum(this.0.batch.task(0))?;
            let rows = PyArray2::zeros(slf.py(), [this.0.batch.num_envs(), 2], false);
            {
                let mut view = numpy::PyArrayMethods::try_readwrite(&rows)?;
                for (row, task) in view.as_slice_mut()?.chunks_exact_mut(2).zip(this.0.batch.tasks()) {
                    let quotes = task.optimal_quotes();
                    row.copy_from_slice(&[quotes.bid, quotes.ask]);
                }
            }
            Ok(rows)
        }

        /// Certainty equivalent of optimal quoting until the end, for each env.
        fn certainty_equivalent<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray1<f64>>> {
            let this = exclusive(slf)?;
            check_optimum(this.0.batch.task(0))?;
            let values = this.0.batch.tasks().map(MarketMaking::certainty_equivalent);
            Ok(PyArray1::from_iter(slf.py(), values))
        }

        /// Scene of an env for rendering, as it is now.
        #[pyo3(signature = (env=0))]
        fn scene<'py>(slf: &Bound<'py, Self>, env: i64) -> PyResult<Bound<'py, PyDict>> {
            let this = exclusive(slf)?;
            let (key, task) = this.0.batch.begun(env).map_err(|error| of_batch(&error))?;
            scene::of_market_making(slf.py(), key, task)
        }
    }
);
