//! Training of actor-critic networks, for Python.

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use policy::{
    ActorCritic, ActorCriticShape, Function, Samples, TrainingState, UpdateMetrics, UpdateSettings,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{flags, readable, writable};
use crate::policy::Arguments;

/// Actor and critic, multilayer perceptrons that share nothing, and their gradient steps.
#[pyclass(module = "quant_gym_rs", frozen)]
pub(crate) struct ActorCriticTrainer(ActorCritic);

#[pymethods]
impl ActorCriticTrainer {
    /// Networks with layers of these sizes, from the inputs to the outputs.
    #[new]
    fn new(
        actor: Vec<usize>,
        critic: Vec<usize>,
        activation: &str,
        choices: Vec<usize>,
        is_bounded: bool,
    ) -> PyResult<Self> {
        let function = match activation {
            "tanh" => Function::Tanh,
            "relu" => Function::Relu,
            "silu" => Function::Silu,
            _ => return Err(PyValueError::new_err(format!("unknown activation {activation:?}"))),
        };
        let shape = ActorCriticShape { actor, critic, function, choices, is_bounded };
        let described = format!("{shape:?}");
        ActorCritic::new(shape).map(Self).ok_or_else(|| {
            PyValueError::new_err(format!("sizes of networks do not fit each other: {described}"))
        })
    }

    /// Number of parameters.
    #[getter]
    fn size(&self) -> usize {
        self.0.len()
    }

    /// Values of rows of observations.
    fn values<'py>(
        &self,
        parameters: &Bound<'py, PyAny>,
        observations: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let py = parameters.py();
        let count = observations.len()?;
        let parameters = readable::<f32>("parameters", parameters, &[self.0.len()])?;
        let [width, _, _] = self.0.widths();
        let observations = readable::<f32>("observations", observations, &[count, width])?;
        let values = PyArray1::zeros(py, count, false);
        {
            let mut written = values.try_readwrite()?;
            let numbers = written.as_slice_mut()?;
            let (parameters, observations) = (parameters.as_slice()?, observations.as_slice()?);
            py.detach(|| self.0.values(parameters, observations, numbers));
        }
        Ok(values)
    }

    /// Train on samples; see `ActorCritic::update`.
    ///
    /// `state` has the arrays `parameters`, `means` and `squares`, which are changed, and `steps`.
    /// Returns the sums of metrics over gradient steps; None if the gradient is not finite.
    fn update<'py>(
        &self,
        state: &Bound<'py, PyDict>,
        samples: &Bound<'py, PyDict>,
        order: &Bound<'py, PyAny>,
        settings: &Bound<'py, PyDict>,
    ) -> PyResult<(u64, Option<Bound<'py, PyDict>>)> {
        let py = state.py();
        let settings = settings_of(&Arguments(settings))?;
        let (state, size) = (Arguments(state), self.0.len());
        let mut parameters = writable::<f32>("parameters", &state.get("parameters")?, &[size])?;
        let mut means = writable::<f32>("means", &state.get("means")?, &[size])?;
        let mut squares = writable::<f32>("squares", &state.get("squares")?, &[size])?;
        let mut state = TrainingState {
            parameters: parameters.as_slice_mut()?,
            means: means.as_slice_mut()?,
            squares: squares.as_slice_mut()?,
            steps: state.get("steps")?.extract()?,
        };
        let arrays = SampleArrays::of(&self.0, &Arguments(samples))?;
        let samples = arrays.samples()?;
        let order = indices(order, samples.advantages.len())?;
        let result = py.detach(|| self.0.update(&mut state, &samples, &order, &settings));
        let metrics = result.ok().map(|metrics| metrics_of(py, &metrics)).transpose()?;
        Ok((state.steps, metrics))
    }

    /// Gradient of the loss of all samples; `log_probs` are those before the update.
    fn gradient<'py>(
        &self,
        parameters: &Bound<'py, PyAny>,
        samples: &Bound<'py, PyDict>,
        log_probs: Option<PyReadonlyArray1<'py, f32>>,
        settings: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let py = parameters.py();
        let settings = settings_of(&Arguments(settings))?;
        let parameters = readable::<f32>("parameters", parameters, &[self.0.len()])?;
        let arrays = SampleArrays::of(&self.0, &Arguments(samples))?;
        let samples = arrays.samples()?;
        let log_probs = match &log_probs {
            Some(array) if array.len() == samples.advantages.len() => Some(array.as_slice()?),
            Some(array) => {
                return Err(PyValueError::new_err(format!(
                    "log_probs need {} numbers, got {}",
                    samples.advantages.len(),
                    array.len()
                )));
            }
            None => None,
        };
        let parameters = parameters.as_slice()?;
        let gradient = self.0.gradient(parameters, &samples, log_probs, &settings);
        Ok(PyArray1::from_vec(py, gradient))
    }
}

/// Borrowed arrays of samples.
struct SampleArrays<'py> {
    observations: numpy::PyReadonlyArrayDyn<'py, f32>,
    actions: numpy::PyReadonlyArrayDyn<'py, f32>,
    allowed: Option<Vec<bool>>,
    advantages: numpy::PyReadonlyArrayDyn<'py, f32>,
    returns: numpy::PyReadonlyArrayDyn<'py, f32>,
}

impl<'py> SampleArrays<'py> {
    fn of(networks: &ActorCritic, samples: &Arguments<'_, 'py>) -> PyResult<Self> {
        let count = samples.get("advantages")?.len()?;
        let [width, action, choices] = networks.widths();
        let allowed = samples.get("allowed")?;
        let rows =
            |name: &'static str, shape: &[usize]| readable::<f32>(name, &samples.get(name)?, shape);
        let arrays = Self {
            observations: rows("observations", &[count, width])?,
            actions: rows("actions", &[count, action])?,
            allowed: if allowed.is_none() {
                None
            } else {
                Some(flags("allowed", &allowed, &[count, choices])?)
            },
            advantages: rows("advantages", &[count])?,
            returns: rows("returns", &[count])?,
        };
        networks.check_actions(arrays.actions.as_slice()?).map_err(|option| {
            PyValueError::new_err(format!("actions have an option that does not exist: {option}"))
        })?;
        Ok(arrays)
    }

    fn samples(&self) -> PyResult<Samples<'_>> {
        Ok(Samples {
            observations: self.observations.as_slice()?,
            actions: self.actions.as_slice()?,
            allowed: self.allowed.as_deref(),
            advantages: self.advantages.as_slice()?,
            returns: self.returns.as_slice()?,
        })
    }
}

fn indices(order: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<usize>> {
    let order = readable::<i64>("order", order, &[order.len()?])?;
    let index = |index: &i64| usize::try_from(*index).ok().filter(|index| *index < count);
    order.as_slice()?.iter().map(index).collect::<Option<_>>().ok_or_else(|| {
        PyValueError::new_err(format!("order needs indices from 0 to before {count}"))
    })
}

fn settings_of(settings: &Arguments<'_, '_>) -> PyResult<UpdateSettings> {
    let clip: Option<(f32, f32)> = settings.get("clip")?.extract()?;
    let betas: (f64, f64) = settings.get("betas")?.extract()?;
    let batch_size: usize = settings.get("batch_size")?.extract()?;
    Ok(UpdateSettings {
        clip: clip.map(|(low, high)| [low, high]),
        normalize_advantage: settings.get("normalize_advantage")?.extract()?,
        ent_coef: settings.get("ent_coef")?.extract()?,
        vf_coef: settings.get("vf_coef")?.extract()?,
        max_grad_norm: settings.get("max_grad_norm")?.extract()?,
        learning_rate: settings.get("learning_rate")?.extract()?,
        epsilon: settings.get("epsilon")?.extract()?,
        betas: [betas.0, betas.1],
        kl_limit: settings.get("kl_limit")?.extract()?,
        batch_size: batch_size.max(1),
        threads: settings.get("threads")?.extract()?,
    })
}

fn metrics_of<'py>(py: Python<'py>, metrics: &UpdateMetrics) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    #[allow(clippy::cast_precision_loss)] // a few hundred at most
    let steps = metrics.steps as f64;
    for (name, sum) in [
        ("loss_objective", metrics.objective),
        ("loss_critic", metrics.critic),
        ("entropy", metrics.entropy),
        ("kl_approx", metrics.kl),
        ("clip_fraction", metrics.clipped),
        ("gradient_norm", metrics.gradient_norm),
    ] {
        dict.set_item(name, sum / steps)?;
    }
    Ok(dict)
}
