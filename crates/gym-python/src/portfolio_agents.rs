//! Several agents in one market by their names: dicts of actions in, dicts of results out.

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

/// What agents are called, and what each of them is shown of the features.
#[pyclass(module = "quant_gym_rs", frozen)]
pub(crate) struct PortfolioAgents {
    names: Vec<Py<PyString>>,
    /// A dict with the names of all.
    everybody: Py<PyDict>,
    windows: Vec<Window>,
    /// Which of the windows an agent sees; none where all see the number of the row.
    shown: Vec<usize>,
}

/// The last rows of an array of features; those who see the same share one view of it. Without an
/// array, where rows are still to come, they are copied from those that the env has.
struct Window {
    features: Option<Py<PyAny>>,
    lookback: usize,
}

/// What a step gave to all who took part, by name; their infos one after the other, which few read
/// and dicts of which would cost as much as all the rest; and who is left, if somebody has gone.
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
    /// `windows` are arrays of rows by anything, or none for the rows that the env has, with how
    /// many of their rows are shown; `shown` says for each agent which of them it sees, and is
    /// empty where all see the row's number.
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
                "one of {} windows was wanted for each of {} agents, found {shown:?}",
                windows.len(),
                names.len()
            )));
        }
        let windows =
            windows.into_iter().map(|(features, lookback)| Window { features, lookback }).collect();
        Ok(Self { everybody: dict_for(py, &names)?, names, windows, shown })
    }
}

impl PortfolioAgents {
    /// Begins an episode: what each agent sees and is told.
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
            infos.set_item(name, batch.told(py, &report[REPORT_LEAD..])?)?;
        }
        Ok((observations, infos))
    }

    /// Lets all who still trade act once.
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
        let is_everybody = acted.len() == self.names.len();
        let by_name =
            || if is_everybody { self.everybody.bind(py).copy() } else { Ok(PyDict::new(py)) };
        let (observations, rewards) = (by_name()?, by_name()?);
        let (terminated, truncated) = (by_name()?, by_name()?);
        let mut told = Vec::with_capacity(acted.len() * INFO.len());
        let mut left = 0;
        for &agent in &acted {
            let (name, report) = (&self.names[agent], batch.batch.task(0).report(agent));
            let [reward, ruined, ..] = report;
            let is_ruined = ruined > 0.0;
            observations.set_item(name, scene.observation(batch, agent)?)?;
            rewards.set_item(name, PyFloat::new(py, reward))?;
            terminated.set_item(name, PyBool::new(py, is_ruined))?;
            truncated.set_item(name, PyBool::new(py, outcome.truncated && !is_ruined))?;
            told.extend_from_slice(&report[REPORT_LEAD..]);
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
        let told = PyArray1::from_vec(py, told);
        Ok((observations, rewards, terminated, truncated, told, survivors))
    }

    /// Puts the agents' actions one after the other; none of those who are gone.
    fn read(&self, batch: &mut NativeBatch<Portfolio>, given: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = given.py();
        let given = match given.cast::<PyDict>() {
            Ok(dict) => dict.clone(),
            Err(_) => dict_of(given)?,
        };
        let (row, task) = (&mut batch.action, batch.batch.task(0));
        let length = row.len() / self.names.len();
        let mut found = 0;
        row.fill(0.0);
        for agent in alive(task) {
            let name = self.names[agent].bind(py);
            let Some(action) = given.get_item(name)? else {
                return Err(self.misfit(task, &given));
            };
            let choice = &mut row[agent * length..][..length];
            actions::of_single(&action, choice).map_err(|error| of_agent(name, &error))?;
            task.check_choice(choice).map_err(|error| refused(name, &error))?;
            found += 1;
        }
        if found == given.len() { Ok(()) } else { Err(self.misfit(task, &given)) }
    }

    /// Which names are missing, which are of agents that are gone, and which of none at all.
    fn misfit(&self, task: &Portfolio, given: &Bound<'_, PyDict>) -> PyErr {
        let py = given.py();
        let wanted: Vec<String> =
            alive(task).map(|agent| self.names[agent].bind(py).to_string()).collect();
        let all: Vec<String> = self.names.iter().map(|name| name.bind(py).to_string()).collect();
        let found: Vec<String> = given.keys().iter().map(|name| name.to_string()).collect();
        let missing: Vec<_> = wanted.iter().filter(|name| !found.contains(name)).collect();
        let (gone, strange): (Vec<_>, Vec<_>) =
            found.iter().filter(|name| !wanted.contains(name)).partition(|name| all.contains(name));
        let words = [("missing", missing), ("gone already", gone), ("unknown", strange)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(word, names)| format!("{word} are {names:?}"))
            .collect::<Vec<_>>();
        InvalidActionError::new_err(format!(
            "actions of the agents {wanted:?} were wanted, found those of {found:?}: {}",
            words.join(", ")
        ))
    }

    fn check_number(&self, batch: &NativeBatch<Portfolio>) -> PyResult<()> {
        let wanted = batch.batch.task(0).agents();
        if wanted == self.names.len() {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "{wanted} agents were wanted, as the batch has, found {}",
            self.names.len()
        )))
    }
}

/// What all agents see of the market in one row.
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

/// A copy of the last rows that an env has of the features.
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

/// Everybody is shown the same array, so nobody may change it.
fn lock(array: &Bound<'_, PyAny>) -> PyResult<()> {
    array.call_method1(intern!(array.py(), "setflags"), (false,))?;
    Ok(())
}

/// The places of those who still trade.
fn alive(task: &Portfolio) -> impl Iterator<Item = usize> + '_ {
    (0..task.agents()).filter(|agent| task.is_alive(*agent))
}

fn dict_of<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(given.py());
    let Ok(mapping) = given.cast::<PyMapping>() else {
        return Err(InvalidActionError::new_err(format!(
            "a mapping of names of agents to their actions was wanted, found {}",
            given.repr()?
        )));
    };
    dict.update(mapping)?;
    Ok(dict)
}

fn of_agent(name: &Bound<'_, PyString>, error: &PyErr) -> PyErr {
    let words = error.value(name.py()).to_string();
    InvalidActionError::new_err(words.replacen("the action", &whose(name), 1))
}

fn refused(name: &Bound<'_, PyString>, error: &ActionError) -> PyErr {
    InvalidActionError::new_err(format!("{} does not fit: {error}", whose(name)))
}

fn whose(name: &Bound<'_, PyString>) -> String {
    format!("the action of {:?}", name.to_string())
}
