//! Named portfolio agents: dicts of actions in, dicts of results out.

use gym::ActionError;
use gym::portfolio::{ACCOUNT, INFO, Portfolio, REPORT_LEAD};
use numpy::{PyArray1, PyArrayMethods, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PySlice, PyString};
use pyo3::{intern, types::PyMapping};

use crate::actions;
use crate::batch::{NativeBatch, dict_for};
use crate::errors::InvalidActionError;

/// Names of the agents, and the features that each of them observes.
#[pyclass(module = "quant_gym_rs", frozen)]
pub(crate) struct PortfolioAgents {
    names: Vec<Py<PyString>>,
    /// Template dict with all names.
    template: Py<PyDict>,
    windows: Vec<Window>,
    /// Index of the window that each agent observes; empty if all observe the row number.
    shown: Vec<usize>,
}

/// Window over an array of features; agents with the same features share one view of it. Without an
/// array, for open-ended panels, rows are copied from the env.
struct Window {
    features: Option<Py<PyAny>>,
    lookback: usize,
}

/// Results of a step for all agents that took part, by name; infos as one flat array, because dicts
/// would cost as much as the rest of the step; and the remaining agents, if any are gone.
pub(crate) type Stepped<'py> = (
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    Bound<'py, PyArray1<f64>>,
    Option<Bound<'py, PyList>>,
);

#[pymethods]
impl PortfolioAgents {
    /// `windows` are arrays of rows by anything, or `None` for the rows of the env, each with its
    /// lookback; `shown` is the window index of each agent, and empty if all observe the row
    /// number.
    #[new]
    fn new(
        py: Python<'_>,
        names: Vec<Py<PyString>>,
        windows: Vec<(Option<Py<PyAny>>, usize)>,
        shown: Vec<usize>,
    ) -> PyResult<Self> {
        let is_known = shown.iter().all(|window| *window < windows.len());
        let is_whole = shown.is_empty() || shown.len() == names.len();
        if !(is_known && is_whole) {
            return Err(PyValueError::new_err(format!(
                "expected one of {} windows for each of {} agents, got {shown:?}",
                windows.len(),
                names.len()
            )));
        }
        let windows =
            windows.into_iter().map(|(features, lookback)| Window { features, lookback }).collect();
        Ok(Self { template: dict_for(py, &names)?, names, windows, shown })
    }
}

impl PortfolioAgents {
    /// Reset: observation and info of each agent.
    pub(crate) fn reset<'py>(
        &self,
        batch: &mut NativeBatch<Portfolio>,
        seed: Option<&Bound<'py, PyAny>>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        self.check_number(batch)?;
        batch.begin_one(seed)?;
        let scene = Scene::new(self, batch, py)?;
        let (observations, infos) = (PyDict::new(py), PyDict::new(py));
        for (agent, name) in self.names.iter().enumerate() {
            let report = batch.batch.task(0).report(agent);
            observations.set_item(name, scene.observation(batch, agent)?)?;
            infos.set_item(name, batch.info_dict(py, &report[REPORT_LEAD..])?)?;
        }
        Ok((observations, infos))
    }

    /// Step all agents that still trade.
    pub(crate) fn step<'py>(
        &self,
        batch: &mut NativeBatch<Portfolio>,
        actions: &Bound<'py, PyAny>,
    ) -> PyResult<Stepped<'py>> {
        let py = actions.py();
        self.check_number(batch)?;
        self.read(batch, actions)?;
        let acted: Vec<usize> = alive(batch.batch.task(0)).collect();
        let outcome = batch.step_read(py)?;
        let scene = Scene::new(self, batch, py)?;
        let is_complete = acted.len() == self.names.len();
        let by_name =
            || if is_complete { self.template.bind(py).copy() } else { Ok(PyDict::new(py)) };
        let (observations, rewards) = (by_name()?, by_name()?);
        let (terminated, truncated) = (by_name()?, by_name()?);
        let mut infos = Vec::with_capacity(acted.len() * INFO.len());
        let mut left = 0;
        for &agent in &acted {
            let (name, report) = (&self.names[agent], batch.batch.task(0).report(agent));
            let [reward, ruined, ..] = report;
            let is_ruined = ruined > 0.0;
            observations.set_item(name, scene.observation(batch, agent)?)?;
            rewards.set_item(name, PyFloat::new(py, reward))?;
            terminated.set_item(name, PyBool::new(py, is_ruined))?;
            truncated.set_item(name, PyBool::new(py, outcome.truncated && !is_ruined))?;
            infos.extend_from_slice(&report[REPORT_LEAD..]);
            left += usize::from(!is_ruined);
        }
        let is_over = outcome.terminated || outcome.truncated;
        let survivors = if is_over {
            Some(PyList::empty(py))
        } else if left < acted.len() {
            let names = alive(batch.batch.task(0)).map(|agent| &self.names[agent]);
            Some(PyList::new(py, names.collect::<Vec<_>>())?)
        } else {
            None
        };
        let infos = PyArray1::from_vec(py, infos);
        Ok((observations, rewards, terminated, truncated, infos, survivors))
    }

    /// Concatenate the actions of agents that still trade.
    fn read(
        &self,
        batch: &mut NativeBatch<Portfolio>,
        by_agent: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = by_agent.py();
        let by_agent = match by_agent.cast::<PyDict>() {
            Ok(dict) => dict.clone(),
            Err(_) => dict_of(by_agent)?,
        };
        let (row, task) = (&mut batch.action, batch.batch.task(0));
        let length = row.len() / self.names.len();
        let mut got = 0;
        row.fill(0.0);
        for agent in alive(task) {
            let name = self.names[agent].bind(py);
            let Some(action) = by_agent.get_item(name)? else {
                return Err(self.mismatch(task, &by_agent));
            };
            let choice = &mut row[agent * length..][..length];
            actions::of_single(&action, choice).map_err(|error| of_agent(name, &error))?;
            task.check_choice(choice).map_err(|error| refused(name, &error))?;
            got += 1;
        }
        if got == by_agent.len() { Ok(()) } else { Err(self.mismatch(task, &by_agent)) }
    }

    /// Describe missing names, names of agents that are gone, and unknown names.
    fn mismatch(&self, task: &Portfolio, by_agent: &Bound<'_, PyDict>) -> PyErr {
        let py = by_agent.py();
        let expected: Vec<String> =
            alive(task).map(|agent| self.names[agent].bind(py).to_string()).collect();
        let all: Vec<String> = self.names.iter().map(|name| name.bind(py).to_string()).collect();
        let got: Vec<String> = by_agent.keys().iter().map(|name| name.to_string()).collect();
        let missing: Vec<_> = expected.iter().filter(|name| !got.contains(name)).collect();
        let (gone, strange): (Vec<_>, Vec<_>) =
            got.iter().filter(|name| !expected.contains(name)).partition(|name| all.contains(name));
        let words = [("missing", missing), ("gone already", gone), ("unknown", strange)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(word, names)| format!("{word} are {names:?}"))
            .collect::<Vec<_>>();
        InvalidActionError::new_err(format!(
            "expected actions of the agents {expected:?}, got those of {got:?}: {}",
            words.join(", ")
        ))
    }

    fn check_number(&self, batch: &NativeBatch<Portfolio>) -> PyResult<()> {
        let expected = batch.batch.task(0).agents();
        if expected == self.names.len() {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "expected {expected} agents, as the batch has, got {}",
            self.names.len()
        )))
    }
}

/// Market observation of all agents in one row.
struct Scene<'a, 'py> {
    agents: &'a PortfolioAgents,
    py: Python<'py>,
    views: Vec<Bound<'py, PyAny>>,
    row: usize,
    mask: Bound<'py, PyArray1<i8>>,
}

impl<'a, 'py> Scene<'a, 'py> {
    fn new(
        agents: &'a PortfolioAgents,
        batch: &NativeBatch<Portfolio>,
        py: Python<'py>,
    ) -> PyResult<Self> {
        let row = batch.batch.task(0).row();
        let view = |window: &Window| {
            let Some(features) = &window.features else {
                return own_window(batch.batch.task(0), window.lookback, py);
            };
            let (end, lookback) = (row + 1, window.lookback);
            let first = isize::try_from(end.saturating_sub(lookback))?;
            features.bind(py).get_item(PySlice::new(py, first, isize::try_from(end)?, 1))
        };
        let views = agents.windows.iter().map(view).collect::<PyResult<_>>()?;
        let mask = batch.observation.mask.to_pyarray(py);
        lock(mask.as_any())?;
        Ok(Self { agents, py, views, row, mask })
    }

    fn observation(
        &self,
        batch: &NativeBatch<Portfolio>,
        agent: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, shown) = (self.py, &batch.observation);
        let width = shown.mask.len() + 1;
        let dict = PyDict::new(py);
        if let Some(view) = self.agents.shown.get(agent) {
            dict.set_item(intern!(py, "windows"), &self.views[*view])?;
        } else {
            let row = i64::try_from(self.row)?;
            dict.set_item(intern!(py, "index"), PyArray1::from_slice(py, &[row]))?;
        }
        let weights = PyArray1::from_slice(py, &shown.weights[agent * width..][..width]);
        let account = &shown.account[agent * ACCOUNT.len()..][..ACCOUNT.len()];
        dict.set_item(intern!(py, "weights"), weights)?;
        dict.set_item(intern!(py, "mask"), &self.mask)?;
        dict.set_item(intern!(py, "account"), PyArray1::from_slice(py, account))?;
        Ok(dict)
    }
}

/// A copy of the env's current feature window.
fn own_window<'py>(
    task: &Portfolio,
    lookback: usize,
    py: Python<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let width = task.panel().width();
    let rows = task.window();
    let first = rows.len().saturating_sub(lookback * width.assets * width.features);
    let copy = PyArray1::from_slice(py, &rows[first..]);
    let window = copy.reshape([lookback, width.assets, width.features])?.into_any();
    lock(&window)?;
    Ok(window)
}

/// Make an array read-only, because all agents share it.
fn lock(array: &Bound<'_, PyAny>) -> PyResult<()> {
    array.call_method1(intern!(array.py(), "setflags"), (false,))?;
    Ok(())
}

/// Indices of agents that still trade.
fn alive(task: &Portfolio) -> impl Iterator<Item = usize> + '_ {
    (0..task.agents()).filter(|agent| task.is_alive(*agent))
}

fn dict_of<'py>(by_agent: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(by_agent.py());
    let Ok(mapping) = by_agent.cast::<PyMapping>() else {
        return Err(InvalidActionError::new_err(format!(
            "expected a mapping of names of agents to their actions, got {}",
            by_agent.repr()?
        )));
    };
    dict.update(mapping)?;
    Ok(dict)
}

fn of_agent(name: &Bound<'_, PyString>, error: &PyErr) -> PyErr {
    let words = error.value(name.py()).to_string();
    InvalidActionError::new_err(words.replacen("the action", &action_label(name), 1))
}

fn refused(name: &Bound<'_, PyString>, error: &ActionError) -> PyErr {
    InvalidActionError::new_err(format!("{} does not fit: {error}", action_label(name)))
}

fn action_label(name: &Bound<'_, PyString>) -> String {
    format!("the action of {:?}", name.to_string())
}
