//! Update of an actor-critic: gradients of shards, clipping of their sum, and Adam.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // counts, and averages

use std::thread;

use super::distribution::ActionDistribution;
use super::{
    ActorCritic, DivergedError, Samples, TrainingState, UpdateMetrics, UpdateSettings, Work,
    on_machine,
};
use crate::functions::exp;
use crate::gradient::{Activations, BLOCK, RowsAt, padded};
use crate::lanes::Machine;

/// Rows of a shard: the unit of work of a thread.
const SHARD: usize = 4 * BLOCK;

/// Log ratios are bounded here: beyond, the ratio overflows, and is clipped anyway.
const MAX_LOG_RATIO: f32 = 20.0;

/// Least standard deviation that advantages are divided by.
const MIN_STD: f64 = 1e-6;

/// Gradient of a shard.
#[derive(Clone, Debug)]
struct Shard {
    gradient: Vec<f32>,
    metrics: UpdateMetrics,
    actor: Activations,
    critic: Activations,
}

/// An update under way.
pub(super) struct Trainer<'a> {
    networks: &'a ActorCritic,
    settings: &'a UpdateSettings,
    samples: &'a Samples<'a>,
    pub(super) parameters: Vec<f32>,
    pub(super) means: Vec<f32>,
    pub(super) squares: Vec<f32>,
    pub(super) steps: u64,
    transposed: Vec<f32>,
    pub(super) gradient: Vec<f32>,
    /// Log-probabilities before the update.
    pub(super) log_probs: Vec<f32>,
    shards: Vec<Shard>,
}

impl<'a> Trainer<'a> {
    pub(super) fn new(
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

pub(super) struct Epochs<'a, 'b> {
    pub(super) trainer: &'a mut Trainer<'b>,
    pub(super) order: &'a [usize],
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

pub(super) struct OneGradient<'a, 'b> {
    pub(super) trainer: &'a mut Trainer<'b>,
    pub(super) order: &'a [usize],
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
    let distribution = ActionDistribution::new(networks, &trainer.parameters);
    for (block, log_probs) in trainer.log_probs.chunks_mut(BLOCK).enumerate() {
        let starts: [usize; BLOCK] = std::array::from_fn(|row| (block * BLOCK + row) * width);
        let rows = RowsAt { numbers: samples.observations, starts: &starts[..log_probs.len()] };
        let memory = &mut trainer.shards[0].actor;
        let outputs = networks.actor.forward(machine, &trainer.parameters, rows, memory);
        let stride = outputs.len() / log_probs.len();
        for (row, (log_prob, output)) in
            log_probs.iter_mut().zip(outputs.chunks_exact(stride)).enumerate()
        {
            *log_prob = distribution.log_prob(samples, block * BLOCK + row, output, &mut []).0;
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
        let distribution = ActionDistribution::new(networks, self.parameters);
        for block in order.chunks(BLOCK) {
            let mut starts = [0; BLOCK];
            for (start, index) in starts.iter_mut().zip(block) {
                *start = index * width;
            }
            let rows =
                RowsAt { numbers: self.samples.observations, starts: &starts[..block.len()] };
            networks.actor.forward(machine, self.parameters, rows, &mut shard.actor);
            self.actor_deltas(&distribution, block, shard);
            let (actor, gradient) = (&mut shard.actor, &mut shard.gradient);
            networks.actor.backward(machine, self.transposed, rows, actor, gradient);
            networks.critic.forward(machine, self.parameters, rows, &mut shard.critic);
            self.critic_deltas(block, shard);
            let critic = &mut shard.critic;
            networks.critic.backward(machine, self.transposed, rows, critic, &mut shard.gradient);
        }
    }

    #[inline(always)]
    fn actor_deltas(
        &self,
        distribution: &ActionDistribution<'_>,
        block: &[usize],
        shard: &mut Shard,
    ) {
        let settings = self.settings;
        let (outputs, deltas) = self.networks.actor.outputs_and_deltas(&mut shard.actor);
        let stride = padded(self.networks.outputs());
        let log_std = &mut shard.gradient[self.networks.log_std.clone()];
        let rows = outputs.chunks_exact(stride).zip(deltas.chunks_exact_mut(stride));
        for (index, (output, delta)) in block.iter().zip(rows) {
            let (log_prob, entropy) = distribution.log_prob(self.samples, *index, output, delta);
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
            distribution.differentiate(self.samples, *index, [slope, bonus], delta, log_std);
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
