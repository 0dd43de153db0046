//! What a reset or a step gave back: frozen records that cost little more than a tuple, and unpack
//! like one.
//!
//! `sekai.core.result` gives them the rest of the dataclass protocol (fields, equality by value,
//! representation, pickling), because none of it is needed on the way through a step.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyIterator, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

/// What one step gave back.
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
    // Worked out once: every loop asks for it, and a stored member is read three times as fast
    // as a computed one.
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
    /// What a native env gave back.
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

/// What one reset gave back.
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
    /// What a native env gave back.
    pub(crate) fn of(observation: Bound<'_, PyAny>, info: Bound<'_, PyDict>) -> Self {
        Self { observation: observation.unbind(), info: info.into_any().unbind() }
    }
}

fn flag(py: Python<'_>, name: &str, value: &Py<PyAny>) -> PyResult<bool> {
    value.is_truthy(py).map_err(|cause| {
        let kind = value.bind(py).get_type();
        let error = PyTypeError::new_err(format!("{name} must be a bool, was of {kind}"));
        error.set_cause(py, Some(cause));
        error
    })
}
