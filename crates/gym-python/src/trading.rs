//! Trading batches in a simulated market, for Python.

use gym::{Decision, SellHoldBuy, TargetWeight, Trading, TradingSettings};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{BatchOptions, NativeBatch};
use crate::errors::{check_memory, of_batch};
use crate::market::no_symbol;
use crate::market_config::{read, refused};
use crate::native_class::{exclusive, native_batch};
use crate::scene;

/// The default settings, as JSON.
#[pyfunction]
pub(crate) fn trading_defaults() -> String {
    serde_json::json!(TradingSettings::default()).to_string()
}

pub(crate) fn prototype<D: Decision>(config: &str) -> PyResult<Trading<D>> {
    let settings: TradingSettings = read(config)?;
    check_memory("markets", 1, settings.market.bytes())?;
    Trading::new(settings).map_err(|error| refused(&error))
}

/// Define the Python class of trading batches with one kind of action.
macro_rules! trading_batch {
    ($(#[$meta:meta])* $name:ident, $decision:ty) => {
        native_batch!($(#[$meta])* $name, Trading<$decision>, {
            #[new]
            #[pyo3(signature = (config, num_envs=1, num_threads=None, max_episode_steps=None))]
            fn new(
                py: Python<'_>,
                config: &str,
                num_envs: i64,
                num_threads: Option<i64>,
                max_episode_steps: Option<i64>,
            ) -> PyResult<Self> {
                let options = BatchOptions::new(num_envs, num_threads, max_episode_steps)?;
                Ok(Self(NativeBatch::new(py, &prototype(config)?, &options)?))
            }

            /// Validate the settings; raise `ValueError` if invalid.
            #[staticmethod]
            fn check(config: &str) -> PyResult<()> {
                prototype::<$decision>(config).map(|_| ())
            }

            /// Names of the values of an observation.
            fn feature_names(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
                Ok(exclusive(slf)?.0.batch.task(0).feature_names())
            }

            /// Scene of a symbol in an env for rendering, as it is now.
            #[pyo3(signature = (env=0, symbol=0, levels=20))]
            fn scene<'py>(
                slf: &Bound<'py, Self>,
                env: i64,
                symbol: usize,
                levels: usize,
            ) -> PyResult<Bound<'py, PyDict>> {
                let this = exclusive(slf)?;
                let (key, task) = this.0.batch.begun(env).map_err(|error| of_batch(&error))?;
                let scene = task.scene(symbol, levels);
                let count = task.settings().market.symbols.len();
                scene::of_trading(slf.py(), key, scene.ok_or_else(|| no_symbol(symbol, count))?)
            }
        });
    };
}

trading_batch!(
    /// Batch of trading episodes: sell, hold or buy.
    TradingBatch,
    SellHoldBuy
);

trading_batch!(
    /// Batch of trading episodes: target share of equity to hold.
    TradingWeightsBatch,
    TargetWeight
);
