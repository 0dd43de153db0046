//! Results of reset and step: frozen records that cost little more than a tuple, and unpack like
//! one.
//!
//! `sekai.core.result` gives them the rest of the dataclass protocol (fields, equality by value,
//! representation, pickling), because none of it is needed in a step.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyIterator, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

/// Result of one step.
#[pyclass(frozen, subclass, generic, module = "sekai.core.result")]
pub(crate) struct StepResult {
    #[pyo3(get)]
    observation: Py<PyAny>,
    #[pyo3(get)]
    reward: Py<PyAny>,
    #[pyo3(get)]
    terminated: Py<PyAny>,
    #[pyo3(get)]
    truncated: Py<PyAny>,
    #[pyo3(get)]
    info: Py<PyAny>,
    // Stored: every loop reads it, and a stored member is read three times as fast as a computed
    // one.
    #[pyo3(get)]
    done: Py<PyBool>,
}

#[pymethods]
impl StepResult {
    #[new]
    fn new(
        py: Python<'_>,
        observation: Py<PyAny>,
        reward: Py<PyAny>,
        terminated: Py<PyAny>,
        truncated: Py<PyAny>,
        info: Py<PyAny>,
    ) -> PyResult<Self> {
        let done = flag(py, "terminated", &terminated)? || flag(py, "truncated", &truncated)?;
        let done = PyBool::new(py, done).to_owned().unbind();
        Ok(Self { observation, reward, terminated, truncated, info, done })
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let fields =
            [&self.observation, &self.reward, &self.terminated, &self.truncated, &self.info];
        PyTuple::new(py, fields)?.try_iter()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.observation)?;
        visit.call(&self.reward)?;
        visit.call(&self.terminated)?;
        visit.call(&self.truncated)?;
        visit.call(&self.info)
    }
}

impl StepResult {
    /// The result of a native env.
    pub(crate) fn of(
        observation: Bound<'_, PyAny>,
        reward: f64,
        terminated: bool,
        truncated: bool,
        info: Bound<'_, PyDict>,
    ) -> Self {
        let py = observation.py();
        let flag = |value| PyBool::new(py, value).to_owned();
        Self {
            observation: observation.unbind(),
            reward: PyFloat::new(py, reward).into_any().unbind(),
            terminated: flag(terminated).into_any().unbind(),
            truncated: flag(truncated).into_any().unbind(),
            info: info.into_any().unbind(),
            done: flag(terminated || truncated).unbind(),
        }
    }

    pub(crate) fn reward(&self, py: Python<'_>) -> PyResult<f64> {
        self.reward.extract(py)
    }

    pub(crate) fn is_done(&self, py: Python<'_>) -> bool {
        self.done.bind(py).is_true()
    }
}

/// Result of one reset.
#[pyclass(frozen, subclass, generic, module = "sekai.core.result")]
pub(crate) struct ResetResult {
    #[pyo3(get)]
    observation: Py<PyAny>,
    #[pyo3(get)]
    info: Py<PyAny>,
}

#[pymethods]
impl ResetResult {
    #[new]
    fn new(observation: Py<PyAny>, info: Py<PyAny>) -> Self {
        Self { observation, info }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyTuple::new(py, [&self.observation, &self.info])?.try_iter()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.observation)?;
        visit.call(&self.info)
    }
}

impl ResetResult {
    /// The result of a native env.
    pub(crate) fn of(observation: Bound<'_, PyAny>, info: Bound<'_, PyDict>) -> Self {
        Self { observation: observation.unbind(), info: info.into_any().unbind() }
    }
}

fn flag(py: Python<'_>, name: &str, value: &Py<PyAny>) -> PyResult<bool> {
    value.is_truthy(py).map_err(|cause| {
        let kind = value.bind(py).get_type();
        let error = PyTypeError::new_err(format!("{name} must be a bool, got {kind}"));
        error.set_cause(py, Some(cause));
        error
    })
}

/// Columns of the step results of several envs: observations, rewards, terminated, truncated, infos.
///
/// Observations and infos are lists of the objects themselves; the rest are new arrays.
#[pyfunction]
pub(crate) fn split_steps<'py>(results: &Bound<'py, PyList>) -> PyResult<StepColumns<'py>> {
    let py = results.py();
    let count = results.len();
    let rewards = PyArray1::<f64>::zeros(py, count, false);
    let terminated = PyArray1::<bool>::zeros(py, count, false);
    let truncated = PyArray1::<bool>::zeros(py, count, false);
    let mut observations = Vec::with_capacity(count);
    let mut infos = Vec::with_capacity(count);
    {
        let (mut rewards, mut terminated, mut truncated) =
            (rewards.readwrite(), terminated.readwrite(), truncated.readwrite());
        let rewards = rewards.as_slice_mut()?;
        let terminated = terminated.as_slice_mut()?;
        let truncated = truncated.as_slice_mut()?;
        for (index, item) in results.iter().enumerate() {
            let Ok(result) = item.cast::<StepResult>() else {
                let kind = item.get_type();
                return Err(PyTypeError::new_err(format!(
                    "step must return a sekai.StepResult, got {kind}"
                )));
            };
            let result = result.get();
            rewards[index] = result.reward(py)?;
            terminated[index] = result.terminated.is_truthy(py)?;
            truncated[index] = result.truncated.is_truthy(py)?;
            observations.push(result.observation.clone_ref(py));
            infos.push(result.info.clone_ref(py));
        }
    }
    let (observations, infos) = (PyList::new(py, observations)?, PyList::new(py, infos)?);
    Ok((observations, rewards, terminated, truncated, infos))
}

type StepColumns<'py> = (
    Bound<'py, PyList>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyList>,
);
