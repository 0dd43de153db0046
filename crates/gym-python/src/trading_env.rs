//! `PyTradingEnv`: one trading env with the Gymnasium step API.

use gym::{Batch, BatchError, SellHoldBuy, StepOut, Task, Trading, TradingSettings};
use market::{MarketConfig, SymbolConfig};
use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::actions::ActionNumber;
use crate::batch::entropy;
use crate::errors;
use crate::market_config::refused;
use crate::native_class::exclusive;

/// Return value of a step: observation, reward, terminated, truncated, info.
type Five<'py> = (Bound<'py, PyArray1<f64>>, f64, bool, bool, Bound<'py, PyDict>);

/// Largest number of symbols.
const MOST_SYMBOLS: usize = 1_000;

/// Number of symbols per sector.
const SECTOR: usize = 4;

/// A task of the default market with these settings.
pub(crate) fn prototype(
    max_ticks: u64,
    num_symbols: usize,
    privileged: bool,
) -> PyResult<Trading<SellHoldBuy>> {
    if !(1..=MOST_SYMBOLS).contains(&num_symbols) {
        return Err(PyValueError::new_err(format!(
            "num_symbols must be from 1 to {MOST_SYMBOLS}, got {num_symbols}"
        )));
    }
    let usual = MarketConfig::default();
    let symbol = |index: usize| SymbolConfig {
        sector: u32::try_from(index / SECTOR).unwrap_or(u32::MAX),
        ..usual.symbols[0]
    };
    let symbols = (0..num_symbols).map(symbol).collect();
    let market = MarketConfig { symbols, ..usual.clone() };
    let mut settings = TradingSettings { market, max_ticks, ..TradingSettings::default() };
    settings.features.privileged = privileged;
    Trading::new(settings).map_err(|error| refused(&error))
}

/// A trading env: sell (0), hold (1) or buy (2) in an agent-based order-book market.
#[pyclass(module = "quant_gym_rs")]
pub(crate) struct PyTradingEnv {
    batch: Batch<Trading<SellHoldBuy>>,
    /// The seed of the constructor, until the first episode has begun.
    seed: Option<u64>,
    observation: Vec<f64>,
}

#[pymethods]
impl PyTradingEnv {
    #[new]
    #[pyo3(signature = (max_ticks=10_000, seed=None, num_symbols=1, privileged=false))]
    fn new(
        py: Python<'_>,
        max_ticks: u64,
        seed: Option<u64>,
        num_symbols: usize,
        privileged: bool,
    ) -> PyResult<Self> {
        let prototype = prototype(max_ticks, num_symbols, privileged)?;
        let observation = vec![0.0; prototype.layout()];
        let batch =
            Batch::try_new(&prototype, 1, Some(1), entropy(py)?).map_err(errors::of_memory)?;
        Ok(Self { batch, seed, observation })
    }

    /// Reset the env and return its first observation.
    #[pyo3(signature = (seed=None))]
    fn reset<'py>(
        slf: &Bound<'py, Self>,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let mut this = exclusive(slf)?;
        let this = &mut *this;
        let seed = seed.or(this.seed.take()).map(|seed| [seed]);
        let (batch, observation) = (&mut this.batch, &mut this.observation);
        let seeds = seed.as_ref().map(<[u64; 1]>::as_slice);
        slf.py()
            .detach(|| batch.reset(&[0], seeds, observation))
            .map_err(|error| refused(&error))?;
        this.seed = None;
        Ok(PyArray1::from_slice(slf.py(), &this.observation))
    }

    /// Step the env; return observation, reward, terminated, truncated and info.
    fn step<'py>(slf: &Bound<'py, Self>, action: &Bound<'py, PyAny>) -> PyResult<Five<'py>> {
        let py = slf.py();
        let mut this = exclusive(slf)?;
        let this = &mut *this;
        let action = actions_of(action, this.batch.task(0).action_len())?;
        let (mut reward, mut terminated, mut truncated) = ([0.0], [false], [false]);
        let (batch, observation) = (&mut this.batch, &mut this.observation);
        let stepped = py.detach(|| {
            let out = StepOut {
                observations: &mut observation[..],
                rewards: &mut reward,
                terminated: &mut terminated,
                truncated: &mut truncated,
                finals: None,
            };
            batch.step(&action, out, None)
        });
        stepped.map_err(|error| refusal(&error))?;
        let observation = PyArray1::from_slice(py, &this.observation);
        let info = info_of(py, this.batch.task(0))?;
        Ok((observation, reward[0], terminated[0], truncated[0], info))
    }

    /// A gymnasium `Box` of float64 without bounds.
    #[getter]
    fn observation_space<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        observation_space(slf.py(), exclusive(slf)?.observation.len())
    }

    /// A gymnasium `Discrete(3)`; with several symbols, a `MultiDiscrete` of them.
    #[getter]
    fn action_space<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        action_space(slf.py(), exclusive(slf)?.batch.task(0).action_len())
    }

    /// Names of the values of an observation.
    fn feature_names(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        Ok(exclusive(slf)?.batch.task(0).feature_names())
    }
}

/// One choice, or one for each symbol.
fn actions_of(action: &Bound<'_, PyAny>, symbols: usize) -> PyResult<Vec<i64>> {
    let choices = match choice_of(action) {
        Some(choice) if symbols == 1 => Some(vec![choice]),
        _ => choices_of(action, symbols),
    };
    match choices {
        Some(choices) if choices.len() == symbols => Ok(choices),
        _ if symbols == 1 => Err(PyValueError::new_err(format!(
            "action must be 0 (sell), 1 (hold), or 2 (buy), got {action}"
        ))),
        _ => Err(PyValueError::new_err(format!(
            "action must be 0 (sell), 1 (hold), or 2 (buy) for each of {symbols} symbols, got {action}"
        ))),
    }
}

/// Read an integer; bools are ints in Python, but are refused.
pub(crate) fn choice_of(action: &Bound<'_, PyAny>) -> Option<i64> {
    <i64 as ActionNumber>::read(action)
}

/// Read a sequence of choices; stops one after `expected`, which shows that there are too many.
fn choices_of(actions: &Bound<'_, PyAny>, expected: usize) -> Option<Vec<i64>> {
    let actions = actions.try_iter().ok()?.take(expected + 1);
    actions.map(|action| choice_of(&action.ok()?)).collect()
}

fn refusal(error: &BatchError) -> PyErr {
    match error {
        BatchError::Action { source, .. } => PyValueError::new_err(format!(
            "action must be 0 (sell), 1 (hold), or 2 (buy), got {}",
            source.got
        )),
        BatchError::NotRunning { begun: true, .. } => {
            PyRuntimeError::new_err("the episode is over: call reset() to begin the next one")
        }
        BatchError::NotRunning { begun: false, .. } => {
            PyRuntimeError::new_err("step() was called before reset(): call reset() first")
        }
        _ => refused(error),
    }
}

/// Info of an env, as a dict.
pub(crate) fn info_of<'py>(
    py: Python<'py>,
    task: &Trading<SellHoldBuy>,
) -> PyResult<Bound<'py, PyDict>> {
    let names = task.info_names();
    let mut row = [0.0; 16];
    task.write_info(&mut row[..names.len()]);
    dict_of(py, names, &row)
}

/// Info row as a dict; the tick is an integer.
pub(crate) fn dict_of<'py>(
    py: Python<'py>,
    names: &[&str],
    row: &[f64],
) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    for (name, value) in names.iter().zip(row) {
        #[allow(clippy::cast_possible_truncation)] // ticks are far below 2^53
        if *name == "tick" {
            info.set_item(pyo3::intern!(py, "tick"), *value as i64)?;
        } else {
            info.set_item(name, value)?;
        }
    }
    Ok(info)
}

pub(crate) fn observation_space(py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyAny>> {
    let settings = PyDict::new(py);
    settings.set_item("low", f64::NEG_INFINITY)?;
    settings.set_item("high", f64::INFINITY)?;
    settings.set_item("shape", (len,))?;
    settings.set_item("dtype", "float64")?;
    spaces(py)?.getattr("Box")?.call((), Some(&settings))
}

pub(crate) fn action_space(py: Python<'_>, symbols: usize) -> PyResult<Bound<'_, PyAny>> {
    if symbols == 1 {
        return spaces(py)?.getattr("Discrete")?.call1((3,));
    }
    spaces(py)?.getattr("MultiDiscrete")?.call1((vec![3; symbols],))
}

fn spaces(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("gymnasium.spaces").map_err(|error| {
        let missing = pyo3::exceptions::PyImportError::new_err(
            "the spaces of this env are gymnasium's: pip install '.[gymnasium]'",
        );
        missing.set_cause(py, Some(error));
        missing
    })
}
