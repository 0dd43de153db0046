//! Training of actor-critic networks: the losses of PPO and A2C, clipping of gradients, and Adam.
//!
//! Minibatches are cut into shards of a fixed size, whose gradients are added in order, so that the
//! result does not depend on the number of threads.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // counts, and averages

use std::ops::Range;
use std::thread;

use pulp::{Arch, NullaryFnOnce};
use thiserror::Error;

use crate::functions::{exp, tanh};
use crate::gradient::{Activations, BLOCK, Perceptron, RowsAt, padded};
#[cfg(target_arch = "x86_64")]
use crate::lanes::Avx;
use crate::lanes::{Machine, Plain};
use crate::operation::Function;

/// Rows of a shard: the unit of work of a thread.
const SHARD: usize = 4 * BLOCK;

/// Log ratios are bounded here: beyond, the ratio overflows, and is clipped anyway.
const MAX_LOG_RATIO: f32 = 20.0;

/// Least standard deviation that advantages are divided by.
const MIN_STD: f64 = 1e-6;

/// Log-probabilities of allowed options are above this.
const FORBIDDEN: f32 = -1e8;

const HALF_LOG_TWO_PI: f32 = 0.918_938_5;

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

/// Gradient of a shard.
#[derive(Clone, Debug)]
struct Shard {
    gradient: Vec<f32>,
    metrics: UpdateMetrics,
    actor: Activations,
    critic: Activations,
}

/// An update under way.
struct Trainer<'a> {
    networks: &'a ActorCritic,
    settings: &'a UpdateSettings,
    samples: &'a Samples<'a>,
    parameters: Vec<f32>,
    means: Vec<f32>,
    squares: Vec<f32>,
    steps: u64,
    transposed: Vec<f32>,
    gradient: Vec<f32>,
    /// Log-probabilities before the update.
    log_probs: Vec<f32>,
    shards: Vec<Shard>,
}

impl<'a> Trainer<'a> {
    fn new(
        networks: &'a ActorCritic,
        state: &mut TrainingState<'_>,
        samples: &'a Samples<'a>,
        settings: &'a UpdateSettings,
    ) -> Self {
        let rows = samples.advantages.len();
        let most = settings.batch_size.min(rows).div_ceil(SHARD).max(1);
        let shard = Shard {
            gradient: vec![0.0; networks.total],
            metrics: UpdateMetrics::default(),
            actor: networks.actor.activations(),
            critic: networks.critic.activations(),
        };
        let mut trainer = Self {
            parameters: networks.pack(state.parameters),
            means: networks.pack(state.means),
            squares: networks.pack(state.squares),
            steps: state.steps,
            transposed: vec![0.0; networks.turned],
            gradient: vec![0.0; networks.total],
            log_probs: vec![0.0; rows],
            shards: vec![shard; most],
            networks,
            settings,
            samples,
        };
        trainer.transpose();
        trainer
    }

    fn transpose(&mut self) {
        self.networks.actor.transpose(&self.parameters, &mut self.transposed);
        self.networks.critic.transpose(&self.parameters, &mut self.transposed);
    }

    /// Sum the gradients of a minibatch.
    #[inline(always)]
    fn accumulate<M: Machine>(&mut self, machine: M, order: &[usize]) -> UpdateMetrics {
        let advantages = Standardization::of(self.samples.advantages, order, self.settings);
        let job = Job {
            networks: self.networks,
            settings: self.settings,
            samples: self.samples,
            parameters: &self.parameters,
            transposed: &self.transposed,
            log_probs: &self.log_probs,
            advantages,
            share: 1.0 / order.len() as f32,
        };
        let parts = order.chunks(SHARD);
        let count = parts.len();
        let threads = self.settings.threads.clamp(1, count);
        if threads == 1 {
            for (part, shard) in parts.zip(&mut self.shards) {
                job.run(machine, part, shard);
            }
        } else {
            let own = count.div_ceil(threads);
            thread::scope(|scope| {
                let job = &job;
                for (order, shards) in order.chunks(own * SHARD).zip(self.shards.chunks_mut(own)) {
                    scope.spawn(move || {
                        for (part, shard) in order.chunks(SHARD).zip(shards) {
                            on_machine(OneShard { job, part, shard });
                        }
                    });
                }
            });
        }
        let mut metrics = UpdateMetrics::default();
        for (index, shard) in self.shards[..count].iter().enumerate() {
            metrics.add(&shard.metrics, 1.0 / order.len() as f64);
            if index == 0 {
                self.gradient.copy_from_slice(&shard.gradient);
            } else {
                for (sum, number) in self.gradient.iter_mut().zip(&shard.gradient) {
                    *sum += number;
                }
            }
        }
        if !self.networks.log_std.is_empty() && self.settings.ent_coef > 0.0 {
            for number in &mut self.gradient[self.networks.log_std.clone()] {
                *number -= self.settings.ent_coef;
            }
        }
        metrics
    }

    #[inline(always)]
    fn step<M: Machine>(&mut self, machine: M) -> Result<f64, DivergedError> {
        let norm = crate::lanes::dot(machine, &self.gradient, &self.gradient).sqrt();
        if !norm.is_finite() {
            return Err(DivergedError);
        }
        let most = self.settings.max_grad_norm;
        let factor = if norm > most { most / (norm + 1e-6) } else { 1.0 };
        self.steps += 1;
        let [first, second] = self.settings.betas;
        let power = self.steps as f64;
        let rate = (self.settings.learning_rate / (1.0 - libm::pow(first, power))) as f32;
        let root = libm::sqrt(1.0 - libm::pow(second, power)) as f32;
        let epsilon = self.settings.epsilon as f32;
        let (keep_mean, keep_square) = (first as f32, second as f32);
        let (new_mean, new_square) = ((1.0 - first) as f32, (1.0 - second) as f32);
        let moments = self.means.iter_mut().zip(&mut self.squares);
        let numbers = self.parameters.iter_mut().zip(&self.gradient).zip(moments);
        for ((weight, gradient), (mean, square)) in numbers {
            let gradient = gradient * factor;
            *mean = keep_mean * *mean + new_mean * gradient;
            *square = keep_square * *square + new_square * gradient * gradient;
            *weight -= rate * *mean / (square.sqrt() / root + epsilon);
        }
        self.transpose();
        Ok(f64::from(norm))
    }
}

/// Mean and inverse deviation of the advantages of a minibatch.
#[derive(Clone, Copy)]
struct Standardization {
    mean: f32,
    scale: f32,
}

impl Standardization {
    fn of(advantages: &[f32], order: &[usize], settings: &UpdateSettings) -> Self {
        if !settings.normalize_advantage || order.len() < 2 {
            return Self { mean: 0.0, scale: 1.0 };
        }
        let numbers = || order.iter().map(|index| f64::from(advantages[*index]));
        let count = order.len() as f64;
        let mean = numbers().sum::<f64>() / count;
        let squares: f64 = numbers().map(|number| (number - mean) * (number - mean)).sum();
        let std = libm::sqrt(squares / (count - 1.0)).max(MIN_STD);
        Self { mean: mean as f32, scale: (1.0 / std) as f32 }
    }
}

struct Epochs<'a, 'b> {
    trainer: &'a mut Trainer<'b>,
    order: &'a [usize],
}

impl Work for Epochs<'_, '_> {
    type Output = Result<UpdateMetrics, DivergedError>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        let Self { trainer, order } = self;
        let settings = trainer.settings;
        if settings.clip.is_some() {
            log_probs(machine, trainer);
        }
        let mut metrics = UpdateMetrics::default();
        for epoch in order.chunks(trainer.samples.advantages.len()) {
            let mut kl = 0.0;
            for minibatch in epoch.chunks(settings.batch_size) {
                let mut own = trainer.accumulate(machine, minibatch);
                own.gradient_norm = trainer.step(machine)?;
                kl = own.kl;
                metrics.add(&own, 1.0);
                metrics.steps += 1;
            }
            if settings.kl_limit.is_some_and(|limit| kl > limit) {
                break;
            }
        }
        Ok(metrics)
    }
}

struct OneGradient<'a, 'b> {
    trainer: &'a mut Trainer<'b>,
    order: &'a [usize],
}

impl Work for OneGradient<'_, '_> {
    type Output = UpdateMetrics;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> UpdateMetrics {
        self.trainer.accumulate(machine, self.order)
    }
}

struct OneShard<'a, 'b> {
    job: &'a Job<'b>,
    part: &'a [usize],
    shard: &'a mut Shard,
}

impl Work for OneShard<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        self.job.run(machine, self.part, self.shard);
    }
}

/// Log-probabilities of all samples under the present weights.
#[inline(always)]
fn log_probs<M: Machine>(machine: M, trainer: &mut Trainer<'_>) {
    let networks = trainer.networks;
    let samples = trainer.samples;
    let [width, _, _] = networks.widths();
    let policy = Policy::new(networks, &trainer.parameters);
    for (block, log_probs) in trainer.log_probs.chunks_mut(BLOCK).enumerate() {
        let starts: [usize; BLOCK] = std::array::from_fn(|row| (block * BLOCK + row) * width);
        let rows = RowsAt { numbers: samples.observations, starts: &starts[..log_probs.len()] };
        let memory = &mut trainer.shards[0].actor;
        let outputs = networks.actor.forward(machine, &trainer.parameters, rows, memory);
        let stride = outputs.len() / log_probs.len();
        for (row, (log_prob, output)) in
            log_probs.iter_mut().zip(outputs.chunks_exact(stride)).enumerate()
        {
            *log_prob = policy.log_prob(samples, block * BLOCK + row, output, &mut []).0;
        }
    }
}

/// Data shared by all shards of a minibatch.
struct Job<'a> {
    networks: &'a ActorCritic,
    settings: &'a UpdateSettings,
    samples: &'a Samples<'a>,
    parameters: &'a [f32],
    transposed: &'a [f32],
    log_probs: &'a [f32],
    advantages: Standardization,
    /// Weight of a sample: one by their number.
    share: f32,
}

impl Job<'_> {
    #[inline(always)]
    fn run<M: Machine>(&self, machine: M, order: &[usize], shard: &mut Shard) {
        shard.gradient.fill(0.0);
        shard.metrics = UpdateMetrics::default();
        let networks = self.networks;
        let [width, _, _] = networks.widths();
        let policy = Policy::new(networks, self.parameters);
        for block in order.chunks(BLOCK) {
            let mut starts = [0; BLOCK];
            for (start, index) in starts.iter_mut().zip(block) {
                *start = index * width;
            }
            let rows =
                RowsAt { numbers: self.samples.observations, starts: &starts[..block.len()] };
            networks.actor.forward(machine, self.parameters, rows, &mut shard.actor);
            self.actor_deltas(&policy, block, shard);
            let (actor, gradient) = (&mut shard.actor, &mut shard.gradient);
            networks.actor.backward(machine, self.transposed, rows, actor, gradient);
            networks.critic.forward(machine, self.parameters, rows, &mut shard.critic);
            self.critic_deltas(block, shard);
            let critic = &mut shard.critic;
            networks.critic.backward(machine, self.transposed, rows, critic, &mut shard.gradient);
        }
    }

    #[inline(always)]
    fn actor_deltas(&self, policy: &Policy<'_>, block: &[usize], shard: &mut Shard) {
        let settings = self.settings;
        let (outputs, deltas) = self.networks.actor.outputs_and_deltas(&mut shard.actor);
        let stride = padded(self.networks.outputs());
        let log_std = &mut shard.gradient[self.networks.log_std.clone()];
        let rows = outputs.chunks_exact(stride).zip(deltas.chunks_exact_mut(stride));
        for (index, (output, delta)) in block.iter().zip(rows) {
            let (log_prob, entropy) = policy.log_prob(self.samples, *index, output, delta);
            let advantage = self.samples.advantages[*index];
            let advantage = (advantage - self.advantages.mean) * self.advantages.scale;
            let slope = match settings.clip {
                None => {
                    shard.metrics.objective -= f64::from(log_prob * advantage);
                    advantage
                }
                Some([low, high]) => {
                    let log_ratio = log_prob - self.log_probs[*index];
                    let clipped = crate::functions::bounded(log_ratio, low, high);
                    let ratio = exp(log_ratio.min(MAX_LOG_RATIO));
                    let (free, bound) = (ratio * advantage, exp(clipped) * advantage);
                    shard.metrics.objective -= f64::from(free.min(bound));
                    shard.metrics.kl -= f64::from(log_ratio);
                    let is_clipped = clipped.to_bits() != log_ratio.to_bits();
                    shard.metrics.clipped += f64::from(u8::from(is_clipped));
                    let is_free = !is_clipped || (free < bound && log_ratio <= MAX_LOG_RATIO);
                    if is_free || free.is_nan() { free } else { 0.0 }
                }
            };
            shard.metrics.entropy += f64::from(entropy);
            let slope = -self.share * slope;
            let bonus = self.share * settings.ent_coef;
            policy.differentiate(self.samples, *index, [slope, bonus], delta, log_std);
        }
    }

    #[inline(always)]
    fn critic_deltas(&self, block: &[usize], shard: &mut Shard) {
        let (outputs, deltas) = self.networks.critic.outputs_and_deltas(&mut shard.critic);
        let stride = padded(1);
        let rows = outputs.chunks_exact(stride).zip(deltas.chunks_exact_mut(stride));
        for (index, (output, delta)) in block.iter().zip(rows) {
            let error = output[0] - self.samples.returns[*index];
            shard.metrics.critic += f64::from(self.settings.vf_coef * error * error);
            delta.fill(0.0);
            delta[0] = 2.0 * self.settings.vf_coef * error * self.share;
        }
    }
}

/// Distribution of actions under some weights.
struct Policy<'a> {
    networks: &'a ActorCritic,
    /// Inverse standard deviations.
    inverse: Vec<f32>,
    /// Sum of the logarithms of the standard deviations, and of the constants of the density.
    normalization: f32,
    entropy: f32,
}

impl<'a> Policy<'a> {
    fn new(networks: &'a ActorCritic, parameters: &[f32]) -> Self {
        let log_std = &parameters[networks.log_std.clone()];
        let sum: f32 = log_std.iter().sum();
        let count = log_std.len() as f32;
        Self {
            networks,
            inverse: log_std.iter().map(|log| exp(-log)).collect(),
            normalization: sum + count * HALF_LOG_TWO_PI,
            entropy: sum + count * (0.5 + HALF_LOG_TWO_PI),
        }
    }

    /// Log-probability of a sample and entropy, from padded outputs. What `differentiate` needs is
    /// written into `kept`, unless it is empty: means, or log-probabilities of all options.
    #[inline(always)]
    fn log_prob(
        &self,
        samples: &Samples<'_>,
        index: usize,
        output: &[f32],
        kept: &mut [f32],
    ) -> (f32, f32) {
        let shape = &self.networks.shape;
        if !shape.choices.is_empty() {
            return self.categorical(samples, index, output, kept);
        }
        let width = self.inverse.len();
        let actions = &samples.actions[index * width..(index + 1) * width];
        let mut sum = 0.0;
        for (number, ((action, output), inverse)) in
            actions.iter().zip(output).zip(&self.inverse).enumerate()
        {
            let mean = if shape.is_bounded { tanh(*output) } else { *output };
            let distance = (action - mean) * inverse;
            sum += distance * distance;
            if let Some(kept) = kept.get_mut(number) {
                *kept = mean;
            }
        }
        (-0.5 * sum - self.normalization, self.entropy)
    }

    #[inline(always)]
    fn categorical(
        &self,
        samples: &Samples<'_>,
        index: usize,
        output: &[f32],
        kept: &mut [f32],
    ) -> (f32, f32) {
        let choices = &self.networks.shape.choices;
        let total = self.networks.outputs();
        let allowed = samples.allowed.map(|allowed| &allowed[index * total..(index + 1) * total]);
        let (mut first, mut log_prob, mut entropy) = (0, 0.0, 0.0);
        for (choice, count) in choices.iter().enumerate() {
            let options = first..first + count;
            let is_allowed = |option: usize| allowed.is_none_or(|allowed| allowed[option]);
            let mut top = f32::NEG_INFINITY;
            for option in options.clone() {
                if is_allowed(option) {
                    top = top.max(output[option]);
                }
            }
            // Loops instead of closures, which would be compiled for narrow registers.
            let mut sum = 0.0;
            for option in options.clone() {
                if is_allowed(option) {
                    sum += exp(output[option] - top);
                }
            }
            let level = top + libm::logf(sum);
            for option in options.clone() {
                if is_allowed(option) {
                    let log = output[option] - level;
                    entropy -= exp(log) * log;
                }
            }
            let chosen = samples.actions[index * choices.len() + choice];
            log_prob += output[first + chosen as usize] - level;
            if !kept.is_empty() {
                for option in options.clone() {
                    // Probabilities of forbidden options are zero.
                    let log =
                        if is_allowed(option) { output[option] - level } else { f32::NEG_INFINITY };
                    kept[option] = log;
                }
            }
            first += count;
        }
        (log_prob, entropy)
    }

    /// Turn what `log_prob` kept into gradients of the outputs, for slopes of the loss by the
    /// log-probability and, negative, by the entropy.
    #[inline(always)]
    fn differentiate(
        &self,
        samples: &Samples<'_>,
        index: usize,
        [slope, bonus]: [f32; 2],
        delta: &mut [f32],
        log_std: &mut [f32],
    ) {
        let shape = &self.networks.shape;
        if shape.choices.is_empty() {
            let width = self.inverse.len();
            let actions = &samples.actions[index * width..(index + 1) * width];
            let numbers = delta.iter_mut().zip(actions).zip(&self.inverse).zip(log_std);
            for (((delta, action), inverse), log_std) in numbers {
                let mean = *delta;
                let distance = (action - mean) * inverse;
                *log_std += slope * (distance * distance - 1.0);
                let steepness = if shape.is_bounded { 1.0 - mean * mean } else { 1.0 };
                *delta = slope * distance * inverse * steepness;
            }
            delta[width..].fill(0.0);
            return;
        }
        let mut first = 0;
        for (choice, count) in shape.choices.iter().enumerate() {
            let logs = &mut delta[first..first + count];
            let mut entropy = 0.0;
            for log in logs.iter() {
                if *log > FORBIDDEN {
                    entropy -= exp(*log) * log;
                }
            }
            let chosen = samples.actions[index * shape.choices.len() + choice] as usize;
            for (option, delta) in logs.iter_mut().enumerate() {
                let log = *delta;
                *delta = 0.0;
                if log > FORBIDDEN {
                    let (share, hot) = (exp(log), f32::from(u8::from(option == chosen)));
                    *delta = slope * (hot - share) + bonus * share * (log + entropy);
                }
            }
            first += count;
        }
        delta[first..].fill(0.0);
    }
}
