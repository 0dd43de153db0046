//! Portfolios on panels of market data, for Python.

use std::borrow::Cow;
use std::sync::Arc;

use gym::panel::ActionColumns;
use gym::portfolio::{
    self, ACCOUNT, Bar, COST_KINDS, COST_SOURCES, CostPart, INFO, Panel, Portfolio,
    PortfolioObservation, PortfolioRows, PortfolioSettings, RewardMode, StepRow, Width,
};
use numpy::{
    Element, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arrays::{flat, readable, strided, writable};
use crate::batch::{BatchOptions, NativeBatch};
use crate::errors::{StateError, check_memory, of_batch};
use crate::market_config::{read, refused};
use crate::native_class::{exclusive, native_batch};
use crate::observation_parts::observation_in_parts;
use crate::portfolio_account;
use crate::portfolio_agents::{PortfolioAgents, Stepped};

observation_in_parts!(
    PortfolioObservation,
    PortfolioRows { windows: f32, index: i64, weights: f32, mask: i8, account: f32, report: f64 }
);

/// Panel of market data, shared by all batches on it.
#[pyclass(module = "quant_gym_rs", frozen)]
pub(crate) struct PortfolioPanel(Arc<Panel>);

/// Column arguments of panel rows.
struct Columns<'py> {
    width: Width,
    times: PyReadonlyArrayDyn<'py, i64>,
    open: Option<PyReadonlyArrayDyn<'py, f64>>,
    close: PyReadonlyArrayDyn<'py, f64>,
    volume: Option<PyReadonlyArrayDyn<'py, f64>>,
    listed: PyReadonlyArrayDyn<'py, bool>,
    quoted: PyReadonlyArrayDyn<'py, bool>,
    tradable: PyReadonlyArrayDyn<'py, bool>,
    dividend: Option<PyReadonlyArrayDyn<'py, f64>>,
    split: Option<PyReadonlyArrayDyn<'py, f64>>,
    features: Option<PyReadonlyArrayDyn<'py, f32>>,
    decides: PyReadonlyArrayDyn<'py, bool>,
    benchmark: PyReadonlyArrayDyn<'py, f64>,
}

impl<'py> Columns<'py> {
    /// The columns of a dict of arrays whose first axis is time; unknown columns are left out.
    fn of(columns: &Bound<'py, PyDict>) -> PyResult<Self> {
        let close = required_column(columns, "close")?;
        let shape: Vec<usize> = close.getattr("shape")?.extract()?;
        let [rows, assets] = shape[..] else {
            return Err(PyValueError::new_err(format!(
                "close needs an array of rows by assets, got one of shape {shape:?}"
            )));
        };
        let features = columns.get_item("features")?;
        let depth = features
            .as_ref()
            .map_or(Ok(0), |array| array.getattr("shape")?.get_item(2)?.extract::<usize>())?;
        let (open, volume) = (columns.get_item("open")?, columns.get_item("volume")?);
        let width = Width {
            assets,
            features: depth,
            has_open: open.is_some(),
            has_volume: volume.is_some(),
        };
        let panel = [rows, assets];
        Ok(Self {
            width,
            times: column(columns, "times", &[rows])?,
            open: open.map(|array| strided("open", &array, &panel)).transpose()?,
            close: strided("close", &close, &panel)?,
            volume: volume.map(|array| strided("volume", &array, &panel)).transpose()?,
            listed: column(columns, "listed", &panel)?,
            quoted: column(columns, "quoted", &panel)?,
            tradable: column(columns, "tradable", &panel)?,
            dividend: optional_column(columns, "dividend", &panel)?,
            split: optional_column(columns, "split", &panel)?,
            features: features
                .map(|array| strided("features", &array, &[rows, assets, depth]))
                .transpose()?,
            decides: column(columns, "decides", &[rows])?,
            benchmark: column(columns, "benchmark", &[rows])?,
        })
    }

    /// Call `push` with each row in order.
    fn each(&self, mut push: impl FnMut(&Bar<'_>) -> PyResult<()>) -> PyResult<()> {
        let Width { assets, features, .. } = self.width;
        check_memory("rows", self.times.len(), Panel::row_bytes(self.width))?;
        let (open, volume) =
            (flat_or_none(self.open.as_ref())?, flat_or_none(self.volume.as_ref())?);
        let (close, shown) = (flat(self.close.as_array())?, flat_or_none(self.features.as_ref())?);
        let dividend = flat_or_none(self.dividend.as_ref())?;
        let split = flat_or_none(self.split.as_ref())?;
        let listed = &flat(self.listed.as_array())?;
        let quoted = &flat(self.quoted.as_array())?;
        let tradable = &flat(self.tradable.as_array())?;
        let decides = flat(self.decides.as_array())?;
        let benchmark = flat(self.benchmark.as_array())?;
        for (row, time) in flat(self.times.as_array())?.iter().enumerate() {
            push(&Bar {
                time: *time,
                open: row_of(&open, row, assets),
                close: row_of(&close, row, assets),
                volume: row_of(&volume, row, assets),
                listed: row_of(listed, row, assets),
                quoted: row_of(quoted, row, assets),
                tradable: row_of(tradable, row, assets),
                actions: ActionColumns {
                    dividend: row_of(&dividend, row, assets),
                    split: row_of(&split, row, assets),
                },
                features: row_of(&shown, row, assets * features),
                decides: decides[row],
                benchmark: benchmark[row],
            })?;
        }
        Ok(())
    }
}

fn required_column<'py>(columns: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    columns.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("missing column {name}")))
}

fn column<'py, E: Element>(
    columns: &Bound<'py, PyDict>,
    name: &str,
    shape: &[usize],
) -> PyResult<PyReadonlyArrayDyn<'py, E>> {
    strided(name, &required_column(columns, name)?, shape)
}

fn optional_column<'py>(
    columns: &Bound<'py, PyDict>,
    name: &str,
    shape: &[usize],
) -> PyResult<Option<PyReadonlyArrayDyn<'py, f64>>> {
    columns.get_item(name)?.map(|array| strided(name, &array, shape)).transpose()
}

fn flat_or_none<'a, E: Element + Copy>(
    column: Option<&'a PyReadonlyArrayDyn<'_, E>>,
) -> PyResult<Cow<'a, [E]>> {
    column.map_or(Ok(Cow::Borrowed(&[])), |column| flat(column.as_array()))
}

/// Row of a column; empty if the column is unknown.
fn row_of<E>(column: &[E], row: usize, width: usize) -> &[E] {
    if column.is_empty() { column } else { &column[row * width..][..width] }
}

#[pymethods]
impl PortfolioPanel {
    #[new]
    #[pyo3(signature = (columns, open_ended=false))]
    fn new(columns: &Bound<'_, PyDict>, open_ended: bool) -> PyResult<Self> {
        let columns = Columns::of(columns)?;
        let mut panel = Panel::new(columns.width, open_ended);
        columns.each(|bar| panel.push(bar).map_err(|error| refused(&error)))?;
        Ok(Self(Arc::new(panel)))
    }

    /// Number of known rows.
    #[getter]
    fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Number of assets in a row.
    #[getter]
    fn assets(&self) -> usize {
        self.0.width().assets
    }

    /// Number of features of an asset.
    #[getter]
    fn features(&self) -> usize {
        self.0.width().features
    }
}

fn prototype(panel: &PortfolioPanel, config: &str) -> PyResult<Portfolio> {
    let settings: PortfolioSettings = read(config)?;
    Portfolio::new(panel.0.clone(), settings).map_err(|error| refused(&error))
}

native_batch!(
    /// Batch of portfolio episodes.
    PortfolioBatch,
    Portfolio,
    {
        #[new]
        #[pyo3(signature = (panel, config, num_envs=1, num_threads=None, max_episode_steps=None))]
        fn new(
            py: Python<'_>,
            panel: &PortfolioPanel,
            config: &str,
            num_envs: i64,
            num_threads: Option<i64>,
            max_episode_steps: Option<i64>,
        ) -> PyResult<Self> {
            let options = BatchOptions::new(num_envs, num_threads, max_episode_steps)?;
            Ok(Self(NativeBatch::new(py, &prototype(panel, config)?, &options)?))
        }

        /// Validate the settings for the panel; raise `ValueError` if invalid.
        #[staticmethod]
        fn check(panel: &PortfolioPanel, config: &str) -> PyResult<()> {
            prototype(panel, config).map(|_| ())
        }

        /// Reset a batch of one with named agents.
        #[pyo3(signature = (agents, seed=None))]
        fn reset_agents<'py>(
            slf: &Bound<'py, Self>,
            agents: &PortfolioAgents,
            seed: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
            agents.reset(&mut exclusive(slf)?.0, seed, slf.py())
        }

        /// Step a batch of one with the actions of all agents that still trade, by name.
        fn step_agents<'py>(
            slf: &Bound<'py, Self>,
            agents: &PortfolioAgents,
            actions: &Bound<'py, PyAny>,
        ) -> PyResult<Stepped<'py>> {
            agents.step(&mut exclusive(slf)?.0, actions)
        }

        /// Number of known rows.
        #[getter]
        fn rows(slf: &Bound<'_, Self>) -> PyResult<usize> {
            Ok(exclusive(slf)?.0.batch.task(0).panel().rows())
        }

        /// True if episodes of all seeds are the same rows.
        #[getter]
        fn has_one_start(slf: &Bound<'_, Self>) -> PyResult<bool> {
            Ok(exclusive(slf)?.0.batch.task(0).has_one_start())
        }

        /// Last known row of each env.
        fn seen<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray1<u64>>> {
            let this = exclusive(slf)?;
            let rows = this.0.batch.tasks().map(|task| task.row() as u64);
            Ok(PyArray1::from_vec(slf.py(), rows.collect()))
        }

        /// Return True if the next step of an env has to wait for a row.
        #[pyo3(signature = (env=0))]
        fn waits(slf: &Bound<'_, Self>, env: i64) -> PyResult<bool> {
            exclusive(slf)?.0.batch.is_waiting(env).map_err(|error| of_batch(&error))
        }

        /// Push the next rows to all envs.
        fn push(slf: &Bound<'_, Self>, columns: &Bound<'_, PyDict>) -> PyResult<()> {
            let columns = Columns::of(columns)?;
            let mut this = exclusive(slf)?;
            let batch = &mut this.0.batch;
            columns.each(|bar| portfolio::push(batch, bar).map_err(|error| refused(&error)))
        }

        /// Drop rows before the last `keep` that no env needs any more, and return their number.
        fn forget(slf: &Bound<'_, Self>, keep: usize) -> PyResult<usize> {
            Ok(portfolio::forget(&mut exclusive(slf)?.0.batch, keep))
        }

        /// Bytes of the last `keep` rows, and of all that later rows depend on.
        fn save_rows<'py>(slf: &Bound<'py, Self>, keep: usize) -> PyResult<Bound<'py, PyBytes>> {
            let bytes = portfolio::save_rows(&exclusive(slf)?.0.batch, keep);
            Ok(PyBytes::new(slf.py(), &bytes))
        }

        /// Replace all rows by those of `save_rows`; load a state of the envs next.
        fn load_rows(slf: &Bound<'_, Self>, rows: &[u8]) -> PyResult<()> {
            let loaded = portfolio::load_rows(&mut exclusive(slf)?.0.batch, rows);
            loaded.map_err(|error| StateError::new_err(error.to_string()))
        }

        /// List an asset in a free slot of the panel, with all known rows.
        fn fill_slot(
            slf: &Bound<'_, Self>,
            place: usize,
            asset: &PortfolioPanel,
            config: &str,
        ) -> PyResult<()> {
            let settings: PortfolioSettings = read(config)?;
            let batch = &mut exclusive(slf)?.0.batch;
            portfolio::fill_slot(batch, place, &asset.0, settings).map_err(|error| refused(&error))
        }

        /// Remove an asset from an env's universe until its next episode, or add it again.
        fn set_removed(
            slf: &Bound<'_, Self>,
            env: i64,
            asset: usize,
            removed: bool,
        ) -> PyResult<()> {
            let mut this = exclusive(slf)?;
            let batch = &mut this.0.batch;
            batch.begun(env).map_err(|error| of_batch(&error))?;
            let task = usize::try_from(env).ok().and_then(|env| batch.tasks_mut().nth(env));
            let task = task.ok_or_else(|| PyValueError::new_err("no such env"))?;
            task.set_removed(asset, removed).map_err(|error| refused(&error))
        }

        /// Orders in units for an action of an env at current prices; NaN for none.
        fn orders<'py>(
            slf: &Bound<'py, Self>,
            env: i64,
            action: &Bound<'py, PyAny>,
        ) -> PyResult<Bound<'py, PyArray1<f64>>> {
            portfolio_account::orders(&mut exclusive(slf)?.0, env, action)
        }

        /// Report the account of an env after the next row without a report.
        #[allow(clippy::too_many_arguments)] // an account has so many parts
        fn report(
            slf: &Bound<'_, Self>,
            env: i64,
            cash: f64,
            units: &Bound<'_, PyAny>,
            open_units: &Bound<'_, PyAny>,
            paid: &Bound<'_, PyAny>,
            traded: f64,
        ) -> PyResult<()> {
            let mut this = exclusive(slf)?;
            let report = portfolio_account::read(&this.0, cash, units, open_units, paid, traded)?;
            portfolio_account::report(&mut this.0, env, report)
        }

        /// Account of an env's first agent, and the changes of the last step.
        fn account<'py>(
            slf: &Bound<'py, Self>,
            env: i64,
        ) -> PyResult<portfolio_account::Account<'py>> {
            portfolio_account::account(&exclusive(slf)?.0, env, slf.py())
        }

        /// Enable or disable the episode log of every env.
        fn keep_log(slf: &Bound<'_, Self>, kept: bool) -> PyResult<()> {
            let mut this = exclusive(slf)?;
            this.0.batch.tasks_mut().for_each(|task| task.keep_log(kept));
            Ok(())
        }

        /// Episodes logged since the last call, with the env of each.
        fn take_log<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
            let (py, mut this) = (slf.py(), exclusive(slf)?);
            let assets = this.0.batch.task(0).panel().width().assets;
            let logs = PyList::empty(py);
            for (env, task) in this.0.batch.tasks_mut().enumerate() {
                for log in task.take_log() {
                    logs.append(logged(py, env, assets, log)?)?;
                }
            }
            Ok(logs)
        }

        /// Trades of the first env since the last call of this or `take_log`: asset, units, price
        /// and cost rate.
        fn take_trades(slf: &Bound<'_, Self>) -> PyResult<Vec<(usize, f64, f64, f64)>> {
            let mut this = exclusive(slf)?;
            let logs = this.0.batch.tasks_mut().next().map(Portfolio::take_log);
            let trades = logs.into_iter().flatten().flat_map(|log| log.trades);
            Ok(trades.map(|trade| (trade.asset, trade.units, trade.price, trade.rate)).collect())
        }
    }
);

/// One episode as a dict of arrays.
fn logged(
    py: Python<'_>,
    env: usize,
    assets: usize,
    log: portfolio::EpisodeLog,
) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("env", env)?;
    dict.set_item("seed", log.key.seed)?;
    dict.set_item("episode", log.key.episode)?;
    dict.set_item("opening_row", log.row)?;
    dict.set_item("opening_cash", PyArray1::from_vec(py, log.cash))?;
    dict.set_item("opening_units", PyArray1::from_vec(py, log.units))?;
    let column = |value: fn(&portfolio::Trade) -> u64| -> Vec<u64> {
        log.trades.iter().map(value).collect()
    };
    dict.set_item("row", PyArray1::from_vec(py, column(|trade| trade.row)))?;
    dict.set_item("agent", PyArray1::from_vec(py, column(|trade| trade.agent as u64)))?;
    dict.set_item("asset", PyArray1::from_vec(py, column(|trade| trade.asset as u64)))?;
    let number = |value: fn(&portfolio::Trade) -> f64| -> Vec<f64> {
        log.trades.iter().map(value).collect()
    };
    dict.set_item("units", PyArray1::from_vec(py, number(|trade| trade.units)))?;
    dict.set_item("price", PyArray1::from_vec(py, number(|trade| trade.price)))?;
    dict.set_item("rate", PyArray1::from_vec(py, number(|trade| trade.rate)))?;
    let width = StepRow::len(assets);
    let steps = PyArray1::from_vec(py, log.steps);
    let rows = steps.len() / width;
    let table: Bound<'_, PyArray2<f64>> = steps.reshape([rows, width])?;
    dict.set_item("steps", table)?;
    let ordered = PyArray1::from_vec(py, log.ordered).reshape([rows, assets + 1])?;
    dict.set_item("ordered", ordered)?;
    Ok(dict)
}

/// Cost kinds in the order in which costs are written: the name, the rate that sets it, and if it
/// is paid for trades.
#[pyfunction]
pub(crate) fn cost_kinds() -> Vec<(&'static str, &'static str, bool)> {
    let kinds = COST_KINDS.into_iter().zip(COST_SOURCES);
    kinds.map(|(kind, (rate, part))| (kind, rate, part != CostPart::Holding)).collect()
}

/// Names of the numbers of an observation's account, and info keys.
#[pyfunction]
pub(crate) fn portfolio_names() -> (Vec<&'static str>, Vec<&'static str>) {
    (ACCOUNT.to_vec(), INFO.to_vec())
}

/// Combine the rewards of the agents of each env that took part in a step, in place: rows of envs
/// by agents.
#[pyfunction]
pub(crate) fn combine_rewards(
    mode: &str,
    rewards: &Bound<'_, PyAny>,
    took_part: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let mode: RewardMode = read(&format!("{mode:?}"))?;
    let shape: Vec<usize> = rewards.getattr("shape")?.extract()?;
    let agents = shape.last().copied().filter(|agents| *agents > 0).unwrap_or(1);
    let mut rewards = writable::<f64>("rewards", rewards, &shape)?;
    let took_part = readable::<bool>("took_part", took_part, &shape)?;
    let rows = rewards.as_slice_mut()?.chunks_exact_mut(agents);
    for (rewards, took_part) in rows.zip(took_part.as_slice()?.chunks_exact(agents)) {
        portfolio::combine_rewards(mode, rewards, took_part);
    }
    Ok(())
}
