//! Distributions of actions: log-probabilities, entropies and their gradients.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them
#![allow(clippy::cast_precision_loss)] // counts
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // options, which are checked

use super::{ActorCritic, Samples};
use crate::functions::{exp, tanh};

/// Log-probabilities of allowed options are above this.
const FORBIDDEN: f32 = -1e8;

const HALF_LOG_TWO_PI: f32 = 0.918_938_5;

/// Distribution of actions under some weights.
pub(super) struct ActionDistribution<'a> {
    networks: &'a ActorCritic,
    /// Inverse standard deviations.
    inverse: Vec<f32>,
    /// Sum of the logarithms of the standard deviations, and of the constants of the density.
    normalization: f32,
    entropy: f32,
}

impl<'a> ActionDistribution<'a> {
    pub(super) fn new(networks: &'a ActorCritic, parameters: &[f32]) -> Self {
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
    pub(super) fn log_prob(
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
    pub(super) fn differentiate(
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
