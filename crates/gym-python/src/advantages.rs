//! Generalized advantage estimation, for Python.

use gym::RolloutSteps;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::arrays::{flags, readable};

/// Advantages of a rollout: times by envs.
#[pyfunction]
pub(crate) fn advantages<'py>(
    rewards: &Bound<'py, PyArray2<f32>>,
    values: &Bound<'py, PyAny>,
    next_values: &Bound<'py, PyAny>,
    done: &Bound<'py, PyAny>,
    terminated: &Bound<'py, PyAny>,
    gamma: f64,
    gae_lambda: f64,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let shape = rewards.shape().to_vec();
    let rewards = readable::<f32>("rewards", rewards, &shape)?;
    let values = readable::<f32>("values", values, &shape)?;
    let next_values = readable::<f32>("next_values", next_values, &shape)?;
    let done = flags("done", done, &shape)?;
    let terminated = flags("terminated", terminated, &shape)?;
    let steps = RolloutSteps {
        rewards: rewards.as_slice()?,
        values: values.as_slice()?,
        next_values: next_values.as_slice()?,
        done: &done,
        terminated: &terminated,
    };
    let found = gym::advantages(&steps, shape[1], gamma, gae_lambda);
    PyArray1::from_vec(rewards.py(), found).reshape([shape[0], shape[1]])
}
