//! Batches of order execution, for Python.

use std::sync::Arc;

use gym::order_execution::{
    Direction, ExecutionError, ORDER_INFO, ObservationRows, ObservedState, OrderDay, OrderDraws,
    OrderObservation, OrderRules, OrderSource, OrderTask, OrderTaskSettings, OrderTicks,
    ParentOrder, SessionFeatures, SliceAction, SliceReward,
};
use numpy::{PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::owned;
use crate::batch::{BatchOptions, NativeBatch};
use crate::errors::{self, check_memory};
use crate::native_class::{exclusive, native_batch};
use crate::observation_parts::observation_in_parts;
use crate::order_execution::OrderMatcher;

observation_in_parts!(
    OrderObservation,
    ObservationRows {
        data_processed: f32,
        data_processed_prev: f32,
        cur_tick: i32,
        position_history: f32,
        acquiring: i64,
        cur_step: i32,
        num_step: i32,
        target: f32,
        position: f32,
    }
);

/// Ticks and features that orders of native batches are executed in.
#[pyclass(module = "quant_gym_rs._core")]
pub(crate) struct OrderTable {
    ticks: Vec<OrderTicks>,
    features: Vec<Arc<[f32]>>,
}

type Floats<'py> = PyReadonlyArray1<'py, f64>;

#[pymethods]
impl OrderTable {
    #[new]
    fn new() -> Self {
        Self { ticks: Vec::new(), features: Vec::new() }
    }

    /// Add the features of a day, ticks by columns; returns their index.
    fn add_features(&mut self, rows: PyReadonlyArray2<'_, f32>) -> PyResult<usize> {
        self.features.push(owned(&rows.as_array())?.into());
        Ok(self.features.len() - 1)
    }

    /// Add the ticks of a day, or of the days of an order; returns their index.
    #[pyo3(signature = (sell_price, buy_price, volume, *, tradable=None, current_cap=None,
        sessions=Vec::new(), features=Vec::new()))]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn add_ticks(
        &mut self,
        sell_price: Floats<'_>,
        buy_price: Option<Floats<'_>>,
        volume: Floats<'_>,
        tradable: Option<PyReadonlyArray1<'_, bool>>,
        current_cap: Option<Floats<'_>>,
        sessions: Vec<usize>,
        features: Vec<(usize, Option<usize>)>,
    ) -> PyResult<usize> {
        let sell = OrderDay {
            price: owned(&sell_price.as_array())?,
            volume: owned(&volume.as_array())?,
            tradable: tradable.map(|values| owned(&values.as_array())).transpose()?,
            current_cap: current_cap.map(|values| owned(&values.as_array())).transpose()?,
            sessions,
            ..OrderDay::default()
        };
        let buy = buy_price
            .map(|price| {
                PyResult::Ok(OrderDay { price: owned(&price.as_array())?, ..sell.clone() })
            })
            .transpose()?;
        let sell = Arc::new(sell);
        let buy = buy.map_or_else(|| Arc::clone(&sell), Arc::new);
        let features = features
            .into_iter()
            .map(|(today, yesterday)| SessionFeatures { today, yesterday })
            .collect();
        self.ticks.push(OrderTicks { sell, buy, features });
        Ok(self.ticks.len() - 1)
    }

    fn __len__(&self) -> usize {
        self.ticks.len()
    }
}

/// An order as a tuple: ticks, direction, amount, first tick and the tick after the last.
type GivenOrder = (usize, bool, f64, usize, usize);

native_batch!(
    /// Batch of order execution episodes.
    OrderExecutionBatch,
    OrderTask,
    {
        #[new]
        #[pyo3(signature = (table, settings, num_envs=1, num_threads=None,
            max_episode_steps=None, *, candidates=None, assets=1, orders=None))]
        #[allow(clippy::too_many_arguments)] // keywords in Python
        fn new(
            py: Python<'_>,
            table: &Bound<'_, OrderTable>,
            settings: &Bound<'_, PyDict>,
            num_envs: i64,
            num_threads: Option<i64>,
            max_episode_steps: Option<i64>,
            candidates: Option<Vec<Option<usize>>>,
            assets: usize,
            orders: Option<Vec<Vec<GivenOrder>>>,
        ) -> PyResult<Self> {
            let options = BatchOptions::new(num_envs, num_threads, max_episode_steps)?;
            let table = table.borrow();
            let draws = draws_of(candidates, assets, orders)?;
            let source =
                OrderSource { ticks: table.ticks.clone(), features: table.features.clone(), draws };
            let settings = settings_of(settings)?;
            let row = size_of::<f32>().saturating_mul(settings.columns.max(1));
            check_memory("ticks of a day", settings.day_ticks, row)?;
            check_memory("steps", settings.order_steps, size_of::<f64>())?;
            let task = OrderTask::new(settings, source).map_err(refused)?;
            Ok(Self(NativeBatch::new(py, &task, &options)?))
        }

        /// Names of the numbers of an order in `order_infos`.
        #[staticmethod]
        fn info_names() -> Vec<&'static str> {
            ORDER_INFO.to_vec()
        }

        /// Copy of the matcher of an order: stepping it changes nothing here.
        #[pyo3(signature = (env=0, order=0))]
        fn matcher(slf: &Bound<'_, Self>, env: i64, order: usize) -> PyResult<OrderMatcher> {
            let own = exclusive(slf)?;
            let (_, task) = own.0.batch.begun(env).map_err(|error| errors::of_batch(&error))?;
            let matcher = task.execution(order).cloned().map(OrderMatcher);
            matcher.ok_or_else(|| PyIndexError::new_err(format!("no order {order} in an episode")))
        }

        /// Current info of the orders: envs by orders by numbers.
        fn order_infos<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray3<f64>>> {
            let own = exclusive(slf)?;
            table_of(slf.py(), own.0.batch.infos(), own.0.batch.num_envs())
        }

        /// Info of the orders of episodes that ended in the last step; other rows are undefined.
        fn final_order_infos<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray3<f64>>> {
            let own = exclusive(slf)?;
            table_of(slf.py(), own.0.batch.final_infos(), own.0.batch.num_envs())
        }
    }
);

fn table_of<'py>(
    py: Python<'py>,
    rows: &[f64],
    envs: usize,
) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let orders = rows.len() / envs / ORDER_INFO.len();
    PyArray1::from_slice(py, rows).reshape([envs, orders, ORDER_INFO.len()])
}

fn draws_of(
    candidates: Option<Vec<Option<usize>>>,
    assets: usize,
    orders: Option<Vec<Vec<GivenOrder>>>,
) -> PyResult<OrderDraws> {
    let order = |(ticks, buys, amount, first, stop): GivenOrder| {
        (ticks, ParentOrder { direction: direction_of(buys), amount, first, stop })
    };
    match (candidates, orders) {
        (Some(ticks), None) => Ok(OrderDraws::Random { ticks, assets }),
        (None, Some(baskets)) => Ok(OrderDraws::Given(
            baskets.into_iter().map(|basket| basket.into_iter().map(order).collect()).collect(),
        )),
        _ => Err(PyValueError::new_err("pass either candidates or orders, got both or neither")),
    }
}

fn settings_of(settings: &Bound<'_, PyDict>) -> PyResult<OrderTaskSettings> {
    let rules = OrderRules {
        ticks_per_step: item(settings, "ticks_per_step")?,
        open_cost: item(settings, "open_cost")?,
        close_cost: item(settings, "close_cost")?,
        min_cost: item(settings, "min_cost")?,
        impact_cost: item(settings, "impact_cost")?,
        ..OrderRules::default()
    };
    let shares: Option<Vec<f64>> = item(settings, "shares")?;
    let state: String = item(settings, "state")?;
    let reward: Option<String> = item(settings, "reward")?;
    let buys: Option<bool> = item(settings, "buys")?;
    Ok(OrderTaskSettings {
        rules,
        order_steps: item(settings, "order_steps")?,
        day_ticks: item(settings, "day_ticks")?,
        columns: item(settings, "columns")?,
        state: match state.as_str() {
            "full_history" => ObservedState::FullHistory,
            "current_step" => ObservedState::CurrentStep,
            _ => ObservedState::Nothing,
        },
        action: shares.map_or(SliceAction::TwapRelative, SliceAction::Categorical),
        reward: match reward.as_deref() {
            Some("shortfall") => SliceReward::Shortfall,
            Some("pa_penalty") => SliceReward::Advantage,
            Some("ppo") => SliceReward::Score,
            _ => SliceReward::Nothing,
        },
        penalty: item(settings, "penalty")?,
        amount: item(settings, "amount")?,
        direction: buys.map(direction_of),
        basket: item(settings, "basket")?,
    })
}

fn item<'py, T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>>(
    settings: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    settings.as_any().get_item(name)?.extract().map_err(Into::into)
}

fn direction_of(buys: bool) -> Direction {
    if buys { Direction::Buy } else { Direction::Sell }
}

fn refused(error: ExecutionError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
