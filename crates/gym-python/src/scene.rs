//! Scenes of episodes for rendering, as dicts.

use gym::{MarketMaking, OptimalExecution, Scene, SceneNews, SceneTrade, Task};
use market::{DepthLevel, EpisodeKey, Side};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Topic, sentiment, magnitude, tick of publication, duration in ticks.
type News = (String, f64, f64, i64, u32);

/// Scene of a trading episode: prices in ticks, money in currency.
pub(crate) fn of_trading(
    py: Python<'_>,
    key: EpisodeKey,
    scene: Scene,
) -> PyResult<Bound<'_, PyDict>> {
    let dict = episode(py, key, scene.tick)?;
    dict.set_item("tick_size", scene.tick_size)?;
    dict.set_item("mid", scene.mid)?;
    dict.set_item("fair", scene.fair)?;
    dict.set_item("lots", scene.lots)?;
    dict.set_item("cash", scene.cash)?;
    dict.set_item("equity", scene.equity)?;
    dict.set_item("initial_cash", scene.initial_cash)?;
    let level = |levels: &[DepthLevel], part: fn(&DepthLevel) -> i64| {
        PyArray1::from_iter(py, levels.iter().map(part))
    };
    dict.set_item("bid_price", level(&scene.bids, |level| level.price.0.into()))?;
    dict.set_item("bid_size", level(&scene.bids, |level| level.size.0.into()))?;
    dict.set_item("ask_price", level(&scene.asks, |level| level.price.0.into()))?;
    dict.set_item("ask_size", level(&scene.asks, |level| level.size.0.into()))?;
    let trade =
        |part: fn(&SceneTrade) -> i64| PyArray1::from_iter(py, scene.trades.iter().map(part));
    dict.set_item("trade_price", trade(|trade| trade.price.0.into()))?;
    dict.set_item("trade_size", trade(|trade| trade.size.0.into()))?;
    dict.set_item("trade_sign", trade(|trade| trade.taker.sign()))?;
    dict.set_item("trade_own", trade(|trade| trade.own.map_or(0, Side::sign)))?;
    dict.set_item("news", scene.news.iter().map(row).collect::<Vec<News>>())?;
    Ok(dict)
}

/// Scene of a market making episode: info and quotes.
pub(crate) fn of_market_making<'py>(
    py: Python<'py>,
    key: EpisodeKey,
    task: &MarketMaking,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = info_entries(py, key, task.steps(), task)?;
    dict.set_item("initial_cash", task.settings().initial_cash)?;
    let quotes = task.last_quotes();
    dict.set_item("bid_distance", quotes.map(|quotes| quotes.bid))?;
    dict.set_item("ask_distance", quotes.map(|quotes| quotes.ask))?;
    Ok(dict)
}

/// Scene of an optimal execution episode: info, fill price and the optimum.
pub(crate) fn of_optimal_execution<'py>(
    py: Python<'py>,
    key: EpisodeKey,
    task: &OptimalExecution,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = info_entries(py, key, task.steps(), task)?;
    // A buyer is short of the remaining size: its exposure has the opposite sign.
    let sign = -task.settings().side.sign();
    dict.set_item("sign", sign)?;
    dict.set_item("shares", task.settings().shares)?;
    dict.set_item("episode_steps", task.settings().episode_steps)?;
    dict.set_item("fill_price", task.fill_price())?;
    dict.set_item("optimal_inventory", task.optimal_inventory())?;
    Ok(dict)
}

/// Episode and info entries of a scene.
fn info_entries<'py>(
    py: Python<'py>,
    key: EpisodeKey,
    steps: u32,
    task: &impl Task,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = episode(py, key, steps.into())?;
    let names = task.info_names();
    let mut info = vec![0.0; names.len()];
    task.write_info(&mut info);
    for (name, value) in names.iter().zip(info) {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

fn episode(py: Python<'_>, key: EpisodeKey, tick: u64) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("seed", key.seed)?;
    dict.set_item("episode", key.episode)?;
    dict.set_item("tick", tick)?;
    Ok(dict)
}

fn row(news: &SceneNews) -> News {
    let topic = format!("{:?}", news.topic).to_lowercase();
    (topic, news.sentiment, news.magnitude, news.start, news.duration)
}
