//! Training of actor-critic networks: the losses of PPO and A2C, clipping of gradients, and Adam.
//!
//! Minibatches are cut into shards of a fixed size, whose gradients are added in order, so that the
//! result does not depend on the number of threads.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // counts, and averages

mod distribution;
mod update;

use std::ops::Range;

use pulp::{Arch, NullaryFnOnce};
use thiserror::Error;

use self::update::{Epochs, OneGradient, Trainer};
use crate::gradient::{Activations, BLOCK, Perceptron, RowsAt, padded};
#[cfg(target_arch = "x86_64")]
use crate::lanes::Avx;
use crate::lanes::{Machine, Plain};
use crate::operation::Function;

/// Training stopped: the gradient is not finite. The weights are those before the step.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the gradient is not finite")]
pub struct DivergedError;

/// Architecture of an actor and a critic that share nothing.
#[derive(Clone, Debug)]
pub struct ActorCriticShape {
    /// Sizes of the actor's layers, from the inputs to the logits or means.
    pub actor: Vec<usize>,
    /// Sizes of the critic's layers, from the inputs to the value.
    pub critic: Vec<usize>,
    /// Activation of hidden layers.
    pub function: Function,
    /// Number of options of each choice; empty for Gaussian actions.
    pub choices: Vec<usize>,
    /// Means are the hyperbolic tangent of the outputs.
    pub is_bounded: bool,
}

/// Hyperparameters of an update.
#[derive(Clone, Copy, Debug)]
pub struct UpdateSettings {
    /// Logarithms of the least and the largest ratio of probabilities (PPO); `None` for the policy
    /// gradient (A2C).
    pub clip: Option<[f32; 2]>,
    /// Standardize advantages in each minibatch.
    pub normalize_advantage: bool,
    /// Entropy coefficient.
    pub ent_coef: f32,
    /// Value function coefficient.
    pub vf_coef: f32,
    /// Gradients are clipped to this norm.
    pub max_grad_norm: f32,
    /// Step size of Adam.
    pub learning_rate: f64,
    /// Added to the denominator of Adam.
    pub epsilon: f64,
    /// Decay rates of the moments of Adam.
    pub betas: [f64; 2],
    /// KL divergence above which the remaining epochs are skipped.
    pub kl_limit: Option<f64>,
    /// Rows of a minibatch.
    pub batch_size: usize,
    /// Largest number of threads.
    pub threads: usize,
}

/// Samples to train on, a row each.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// Inputs of the networks.
    pub observations: &'a [f32],
    /// Policy outputs: numbers, or indices of choices.
    pub actions: &'a [f32],
    /// Mask of allowed actions; `None` allows all.
    pub allowed: Option<&'a [bool]>,
    /// Advantages.
    pub advantages: &'a [f32],
    /// Targets of the value function.
    pub returns: &'a [f32],
}

/// Sums over samples, of which metrics are means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UpdateMetrics {
    /// Policy loss.
    pub objective: f64,
    /// Value loss.
    pub critic: f64,
    /// Entropy of the policy.
    pub entropy: f64,
    /// Approximate KL divergence.
    pub kl: f64,
    /// Share of clipped ratios.
    pub clipped: f64,
    /// Norm of the gradient.
    pub gradient_norm: f64,
    /// Number of gradient steps.
    pub steps: u64,
}

impl UpdateMetrics {
    fn add(&mut self, other: &Self, scale: f64) {
        self.objective += scale * other.objective;
        self.critic += scale * other.critic;
        self.entropy += scale * other.entropy;
        self.kl += scale * other.kl;
        self.clipped += scale * other.clipped;
        self.gradient_norm += scale * other.gradient_norm;
    }
}

/// State of training, in the order of [`ActorCritic::len`].
#[derive(Debug)]
pub struct TrainingState<'a> {
    /// Weights.
    pub parameters: &'a mut [f32],
    /// First moments of Adam.
    pub means: &'a mut [f32],
    /// Second moments of Adam.
    pub squares: &'a mut [f32],
    /// Steps of Adam so far.
    pub steps: u64,
}

/// Actor and critic that are trained.
///
/// Parameters are flat: weights (outputs by inputs) and biases of the actor's layers, the logarithms
/// of the standard deviations of Gaussian actions, and the critic's layers.
#[derive(Clone, Debug)]
pub struct ActorCritic {
    shape: ActorCriticShape,
    actor: Perceptron,
    critic: Perceptron,
    log_std: Range<usize>,
    /// Places of the flat parameters among the packed ones.
    places: Vec<usize>,
    total: usize,
    turned: usize,
}

impl ActorCritic {
    /// Networks of this shape; `None` if the sizes do not fit each other.
    #[must_use]
    pub fn new(shape: ActorCriticShape) -> Option<Self> {
        let outputs = *shape.actor.last()?;
        let is_fit = shape.actor.len() > 1
            && shape.critic.len() > 1
            && shape.critic.last() == Some(&1)
            && shape.actor[0] == shape.critic[0]
            && shape.actor.iter().chain(&shape.critic).all(|size| *size > 0)
            && (shape.choices.is_empty() || shape.choices.iter().sum::<usize>() == outputs);
        if !is_fit {
            return None;
        }
        let (mut total, mut turned) = (0, 0);
        let actor = Perceptron::new(&shape.actor, shape.function, &mut total, &mut turned);
        let count = if shape.choices.is_empty() { outputs } else { 0 };
        let log_std = total..total + count;
        total += padded(count);
        let critic = Perceptron::new(&shape.critic, shape.function, &mut total, &mut turned);
        let mut places = Vec::new();
        for layer in &actor.layers {
            places.extend(layer.places());
        }
        places.extend(log_std.clone());
        for layer in &critic.layers {
            places.extend(layer.places());
        }
        Some(Self { shape, actor, critic, log_std, places, total, turned })
    }

    /// Number of parameters.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // there are always some
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Numbers of an observation, an action and an action mask.
    #[must_use]
    pub fn widths(&self) -> [usize; 3] {
        let (choices, outputs) = (&self.shape.choices, self.outputs());
        let action = if choices.is_empty() { outputs } else { choices.len() };
        [self.shape.actor[0], action, if choices.is_empty() { 0 } else { outputs }]
    }

    /// Check that actions name options that exist.
    ///
    /// # Errors
    /// The first number that names none.
    pub fn check_actions(&self, actions: &[f32]) -> Result<(), f32> {
        let choices = &self.shape.choices;
        if choices.is_empty() {
            return Ok(());
        }
        let mut pairs = actions.iter().zip(choices.iter().cycle());
        let wrong = pairs.find(|(option, count)| !(0.0..**count as f32).contains(*option));
        wrong.map_or(Ok(()), |(option, _)| Err(*option))
    }

    fn outputs(&self) -> usize {
        self.actor.layers.last().map_or(0, |layer| layer.outputs)
    }

    fn pack(&self, flat: &[f32]) -> Vec<f32> {
        let mut packed = vec![0.0; self.total];
        for (place, number) in self.places.iter().zip(flat) {
            packed[*place] = *number;
        }
        packed
    }

    fn unpack(&self, packed: &[f32], flat: &mut [f32]) {
        for (place, number) in self.places.iter().zip(flat) {
            *number = packed[*place];
        }
    }

    /// Values of observations, written into `values`.
    pub fn values(&self, parameters: &[f32], observations: &[f32], values: &mut [f32]) {
        let packed = self.pack(parameters);
        let width = self.shape.actor[0];
        let memory = self.critic.activations();
        on_machine(Values {
            networks: self,
            parameters: &packed,
            memory,
            observations,
            width,
            values,
        });
    }

    /// Train on samples: one gradient step for each minibatch of each epoch.
    ///
    /// `order` has the indices of the samples of one epoch after another. Sizes have been compared.
    ///
    /// # Errors
    /// If a gradient is not finite. The state is that before its step.
    pub fn update(
        &self,
        state: &mut TrainingState<'_>,
        samples: &Samples<'_>,
        order: &[usize],
        settings: &UpdateSettings,
    ) -> Result<UpdateMetrics, DivergedError> {
        let mut trainer = Trainer::new(self, state, samples, settings);
        let result = on_machine(Epochs { trainer: &mut trainer, order });
        self.unpack(&trainer.parameters, state.parameters);
        self.unpack(&trainer.means, state.means);
        self.unpack(&trainer.squares, state.squares);
        state.steps = trainer.steps;
        result
    }

    /// Gradient of the loss of all samples as one minibatch, and its sums.
    #[must_use]
    pub fn gradient(
        &self,
        parameters: &[f32],
        samples: &Samples<'_>,
        old_log_probs: Option<&[f32]>,
        settings: &UpdateSettings,
    ) -> Vec<f32> {
        let zeros = || vec![0.0; self.len()];
        let (mut copy, mut means, mut squares) = (parameters.to_vec(), zeros(), zeros());
        let mut state = TrainingState {
            parameters: &mut copy,
            means: &mut means,
            squares: &mut squares,
            steps: 0,
        };
        let mut trainer = Trainer::new(self, &mut state, samples, settings);
        if let Some(log_probs) = old_log_probs {
            trainer.log_probs.copy_from_slice(log_probs);
        }
        let order: Vec<usize> = (0..samples.advantages.len()).collect();
        on_machine(OneGradient { trainer: &mut trainer, order: &order });
        let mut flat = zeros();
        self.unpack(&trainer.gradient, &mut flat);
        flat
    }
}

/// Work that is compiled for each machine.
trait Work {
    type Output;

    fn run<M: Machine>(self, machine: M) -> Self::Output;
}

struct On<M, W> {
    machine: M,
    work: W,
}

impl<M: Machine, W: Work> NullaryFnOnce for On<M, W> {
    type Output = W::Output;

    #[inline(always)]
    fn call(self) -> W::Output {
        self.work.run(self.machine)
    }
}

fn on_machine<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if let Arch::V3(machine) = Arch::new() {
        return machine.vectorize(On { machine: Avx(machine), work });
    }
    On { machine: Plain, work }.call()
}

#[allow(clippy::struct_field_names)] // values of a value function
struct Values<'a> {
    networks: &'a ActorCritic,
    parameters: &'a [f32],
    memory: Activations,
    observations: &'a [f32],
    width: usize,
    values: &'a mut [f32],
}

impl Work for Values<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) {
        let blocks = self.observations.chunks(BLOCK * self.width);
        for (numbers, values) in blocks.zip(self.values.chunks_mut(BLOCK)) {
            let starts: [usize; BLOCK] = std::array::from_fn(|row| row * self.width);
            let rows = RowsAt { numbers, starts: &starts[..values.len()] };
            let critic = &self.networks.critic;
            let outputs = critic.forward(machine, self.parameters, rows, &mut self.memory);
            let stride = outputs.len() / values.len();
            for (value, row) in values.iter_mut().zip(outputs.chunks_exact(stride)) {
                *value = row[0];
            }
        }
    }
}
