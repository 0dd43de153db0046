//! Simulated market, for Python.

use std::sync::{Arc, Mutex, MutexGuard};

use market::{Agent, EpisodeKey, Kind, MarketConfig, Recording, Side, TradeError, open, seal};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::check_memory;
use crate::interrupt::{self, interruptible_in};
use crate::market_config::{read, refused};
use crate::order_arguments::{Direction, Force, Id, Levels, Price, Size};
use crate::order_columns::{DepthColumns, depth_columns};
use crate::order_error::{OrderError, refusal, unreadable};
use crate::order_records::{Placement, Resting};

const MARKET: Kind = Kind { magic: *b"SKMK", version: 1, name: "a market" };

/// Running simulated market, with learning agents that trade in it.
///
/// Thread-safe: calls are serialized by a lock.
#[pyclass(frozen, subclass, module = "quant_gym_rs._core")]
pub(crate) struct Market(Mutex<market::Market>);

/// Cash and equity in ticks times lots; lots, realised profit and fees of each symbol.
type AccountColumns = (i64, f64, Vec<i64>, Vec<i64>, Vec<i64>);

/// Topic, symbol, sentiment, magnitude, age and duration in ticks.
type News = (String, u32, f64, f64, u32, u32);

#[pymethods]
impl Market {
    #[new]
    #[pyo3(signature = (config, seed=0, episode=0))]
    fn new(config: &str, seed: u64, episode: u64) -> PyResult<Self> {
        let config: MarketConfig = read(config)?;
        config.check().map_err(|error| refused(&error))?;
        check_memory("markets", 1, config.bytes())?;
        let market = market::Market::new(Arc::new(config), EpisodeKey { seed, episode });
        Ok(Self(Mutex::new(market)))
    }

    /// Advance the market by `ticks` ticks; other Python threads run meanwhile.
    #[pyo3(signature = (ticks=1))]
    fn tick(&self, py: Python<'_>, ticks: usize) -> PyResult<()> {
        let mut market = self.lock(py)?;
        interruptible_in(py, &self.0, &mut market, |market, interrupt| market.run(ticks, interrupt))
    }

    /// Advance the market and return the recording: arrays of (ticks, symbols), and a row for each
    /// trade.
    fn record_columns<'py>(&self, py: Python<'py>, ticks: usize) -> PyResult<Bound<'py, PyDict>> {
        let mut market = self.lock(py)?;
        let symbols = market.symbols().len();
        check_memory("recorded ticks", ticks, symbols * Recording::TICK_BYTES)?;
        let recording = interruptible_in(py, &self.0, &mut market, |market, interrupt| {
            market.record_slices(ticks, interrupt)
        })?;
        drop(market);
        columns_of(py, recording, [ticks, symbols])
    }

    /// Submit an agent's order; raise `OrderError` if its account or the book refuses it.
    #[pyo3(signature = (agent, symbol, side, price, size, time_in_force))]
    #[allow(clippy::too_many_arguments)] // an order has so many parts
    fn place_order(
        &self,
        py: Python<'_>,
        agent: u32,
        symbol: usize,
        side: Direction,
        price: Price,
        size: Size,
        time_in_force: Force,
    ) -> PyResult<Placement> {
        let mut market = self.lock_for(py, Some(agent), symbol)?;
        let placed = market.trade(Agent(agent), symbol, side.0, price.0, size.0, time_in_force.0);
        placed.map(|placement| Placement::of(placement, &[])).map_err(refused_trade)
    }

    /// Submit a market order of up to `size` lots, as far as the account and the book allow; return
    /// the filled lots.
    fn take(
        &self,
        py: Python<'_>,
        agent: u32,
        symbol: usize,
        side: Direction,
        size: Size,
    ) -> PyResult<u32> {
        Ok(self.lock_for(py, Some(agent), symbol)?.take(Agent(agent), symbol, side.0, size.0).0)
    }

    /// Cancel an agent's own order.
    fn cancel(&self, py: Python<'_>, agent: u32, symbol: usize, id: Id) -> PyResult<Resting> {
        let cancelled = self.lock_for(py, Some(agent), symbol)?.cancel(Agent(agent), symbol, id.0);
        cancelled.map(Resting::from).map_err(refused_trade)
    }

    /// Lots that an agent may still trade on a side before its position limit.
    fn room(&self, py: Python<'_>, agent: u32, symbol: usize, side: Direction) -> PyResult<u32> {
        Ok(self.lock_for(py, Some(agent), symbol)?.room(Agent(agent), symbol, side.0).0)
    }

    /// The order of a symbol's book with this id, if it rests.
    #[pyo3(signature = (id, symbol=0))]
    fn order(&self, py: Python<'_>, id: Id, symbol: usize) -> PyResult<Option<Resting>> {
        let market = self.lock_for(py, None, symbol)?;
        Ok(market.symbols()[symbol].book().order(id.0).map(Resting::from))
    }

    /// The best bid and ask of a symbol, in ticks.
    #[pyo3(signature = (symbol=0))]
    fn quote(&self, py: Python<'_>, symbol: usize) -> PyResult<(Option<i32>, Option<i32>)> {
        let market = self.lock_for(py, None, symbol)?;
        let book = market.symbols()[symbol].book();
        let best = |side| book.best(side).map(|price| price.0);
        Ok((best(Side::Buy), best(Side::Sell)))
    }

    /// Mid price of a symbol, or its last price if a side is empty, in ticks.
    #[pyo3(signature = (symbol=0))]
    fn mid(&self, py: Python<'_>, symbol: usize) -> PyResult<f64> {
        Ok(self.lock_for(py, None, symbol)?.symbols()[symbol].mid())
    }

    /// Fair value of a share, in ticks.
    #[pyo3(signature = (symbol=0))]
    fn fair(&self, py: Python<'_>, symbol: usize) -> PyResult<f64> {
        Ok(self.lock_for(py, None, symbol)?.symbols()[symbol].fair())
    }

    /// Price, size and orders of the best `levels` levels of a side, zeros where there are none.
    fn depth_columns<'py>(
        &self,
        py: Python<'py>,
        symbol: usize,
        side: Direction,
        levels: Levels,
    ) -> PyResult<DepthColumns<'py>> {
        let market = self.lock_for(py, None, symbol)?;
        depth_columns(py, &market.symbols()[symbol].book().levels(side.0, levels.0), levels.0)
    }

    /// An agent's account: cash, equity, and lots, realised profit and fees of each symbol.
    fn account_columns(&self, py: Python<'_>, agent: u32) -> PyResult<AccountColumns> {
        let market = self.lock_for(py, Some(agent), 0)?;
        let agent = Agent(agent);
        let holdings = || market.symbols().iter().map(|symbol| symbol.holding(agent));
        Ok((
            market.cash(agent).0,
            market.equity(agent),
            holdings().map(|holding| holding.lots).collect(),
            holdings().map(|holding| holding.realised.0).collect(),
            holdings().map(|holding| holding.fees.0).collect(),
        ))
    }

    /// Active news: topic, symbol, sentiment, magnitude, age and duration.
    fn news_rows(&self, py: Python<'_>) -> PyResult<Vec<News>> {
        let market = self.lock(py)?;
        let row = |event: &market::NewsEvent| {
            let age = market.now() - event.start;
            let topic = format!("{:?}", event.topic).to_lowercase();
            (topic, event.symbol, event.sentiment, event.magnitude, age, event.duration)
        };
        Ok(market.news().iter().map(row).collect())
    }

    /// Total cash of all accounts and the market: always 0.
    #[getter]
    fn total_cash(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.lock(py)?.total_cash().0)
    }

    /// Total lots of all accounts of a symbol: always 0.
    #[pyo3(signature = (symbol=0))]
    fn total_lots(&self, py: Python<'_>, symbol: usize) -> PyResult<i64> {
        Ok(self.lock_for(py, None, symbol)?.total_lots(symbol))
    }

    /// Ticks since the market opened.
    #[getter]
    fn now(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.lock(py)?.now())
    }

    /// Encode the full state as bytes with version and checksum.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut body = Vec::new();
        self.lock(py)?.encode(&mut body);
        Ok(PyBytes::new(py, &seal(MARKET, &body)))
    }

    /// Restore the state of `encode`; invalid bytes change nothing.
    fn decode(&self, py: Python<'_>, state: &[u8]) -> PyResult<()> {
        let mut body = open(MARKET, state).map_err(unreadable)?;
        let mut market = self.lock(py)?;
        let mut loaded = market.clone();
        loaded.decode(&mut body).map_err(unreadable)?;
        if !body.is_empty() {
            let got = "bytes behind the end of a market";
            return Err(unreadable(market::SnapshotError::Impossible { got }));
        }
        *market = loaded;
        Ok(())
    }
}

impl Market {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, market::Market>> {
        interrupt::lock(py, &self.0)?.ok_or_else(broken)
    }

    /// Lock the market, after checking the agent and the symbol.
    fn lock_for(
        &self,
        py: Python<'_>,
        agent: Option<u32>,
        symbol: usize,
    ) -> PyResult<MutexGuard<'_, market::Market>> {
        let market = self.lock(py)?;
        let (agents, symbols) = (market.config().external, market.symbols().len());
        if symbol >= symbols {
            return Err(no_symbol(symbol, symbols));
        }
        if let Some(agent) = agent.filter(|agent| *agent >= agents) {
            return Err(PyIndexError::new_err(format!(
                "expected one of {agents} agents, got number {agent}"
            )));
        }
        Ok(market)
    }
}

fn columns_of(
    py: Python<'_>,
    recording: Recording,
    shape: [usize; 2],
) -> PyResult<Bound<'_, PyDict>> {
    let columns = PyDict::new(py);
    for (name, values) in
        [("mid", recording.mid), ("fair", recording.fair), ("sentiment", recording.sentiment)]
    {
        columns.set_item(name, PyArray1::from_vec(py, values).reshape(shape)?)?;
    }
    for (name, values) in [
        ("high", recording.high),
        ("low", recording.low),
        ("close", recording.close),
        ("bought", recording.bought),
        ("sold", recording.sold),
        ("trades", recording.trades),
        ("spread", recording.spread),
    ] {
        columns.set_item(name, PyArray1::from_vec(py, values).reshape(shape)?)?;
    }
    for (name, values) in [
        ("trade_tick", recording.trade_tick),
        ("trade_symbol", recording.trade_symbol),
        ("trade_sign", recording.trade_sign),
        ("trade_price", recording.trade_price),
        ("trade_size", recording.trade_size),
    ] {
        columns.set_item(name, PyArray1::from_vec(py, values))?;
    }
    Ok(columns)
}

fn refused_trade(error: TradeError) -> PyErr {
    match error {
        TradeError::Order(reason) => refusal(reason),
        _ => OrderError::new_err((error.to_string(), None::<i8>)),
    }
}

/// Error of a symbol index out of range.
pub(crate) fn no_symbol(got: usize, count: usize) -> PyErr {
    PyIndexError::new_err(format!("expected a symbol from 0 to {}, got {got}", count - 1))
}

fn broken() -> PyErr {
    PyRuntimeError::new_err(
        "the market is unusable because its last call failed; create a new one or load a state",
    )
}
