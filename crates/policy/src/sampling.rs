//! Sampling of actions: a policy network with the distribution of its outputs.

use crate::functions::{bounded, exp};
use crate::{InputError, Network, PolicyError, Rows};

/// Differences of logits beyond this have a probability of zero; masked logits are beyond.
const IMPOSSIBLE: f32 = -87.0;

/// Random numbers of one env.
pub trait Noise {
    /// A draw of the standard normal distribution.
    fn normal(&mut self) -> f64;

    /// A number from 0 (included) to 1 (excluded).
    fn uniform(&mut self) -> f64;
}

/// Distribution of a policy, and the actions that its samples stand for.
#[derive(Clone, Debug)]
pub enum Head {
    /// Independent choices: the number of options of each, and its first action.
    Choices(Vec<(usize, i64)>),
    /// Gaussian numbers.
    Gaussian {
        /// Standard deviations.
        std: Vec<f32>,
        /// Leaf with the mask of the first numbers: the unused have no noise.
        mask: Option<usize>,
        /// Actions of the numbers.
        actions: Actions,
    },
}

/// Actions of an env by numbers near [-1, 1].
#[derive(Clone, Debug)]
pub enum Actions {
    /// Numbers with bounds.
    Bounded(Vec<Bounds>),
    /// Shares that sum to one: the softmax of the numbers times `reach`.
    Simplex {
        /// Bound of the logits.
        reach: f64,
        /// Rounded to single precision.
        is_single: bool,
    },
}

/// Bounds of one number.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// True if the number is rescaled; an unbounded one is passed through.
    pub is_bounded: bool,
    /// Middle of the range.
    pub middle: f64,
    /// Half of the range.
    pub half: f64,
    /// Least action.
    pub low: f64,
    /// Greatest action.
    pub high: f64,
    /// Rounded to single precision.
    pub is_single: bool,
}

/// Policy that samples actions.
#[derive(Clone, Debug)]
pub struct Sampler {
    network: Network,
    head: Head,
    /// Leaves of the action mask.
    masks: Vec<usize>,
    /// Leaves of the network.
    leaves: Vec<usize>,
}

/// Scratch memory of a thread.
#[derive(Clone, Debug)]
pub struct Memory {
    network: Network,
    outputs: Vec<f32>,
    allowed: Vec<bool>,
}

impl Sampler {
    /// A policy that reads the leaves `leaves` of an observation for its network, and `masks` for
    /// the mask of allowed actions.
    ///
    /// # Errors
    /// If the outputs of the network do not fit the distribution.
    pub fn new(
        network: Network,
        head: Head,
        leaves: Vec<usize>,
        masks: Vec<usize>,
    ) -> Result<Self, PolicyError> {
        let expected = match &head {
            Head::Choices(choices) => choices.iter().map(|(count, _)| count).sum(),
            Head::Gaussian { std, .. } => std.len(),
        };
        let bounds = match &head {
            Head::Gaussian { actions: Actions::Bounded(bounds), .. } => bounds.len(),
            _ => expected,
        };
        let got = network.widths().iter().sum();
        if network.widths().len() != 1 || got != expected || bounds != expected {
            return Err(PolicyError::Outputs { expected, got });
        }
        Ok(Self { network, head, masks, leaves })
    }

    /// Numbers of a policy output.
    #[must_use]
    pub fn width(&self) -> usize {
        match &self.head {
            Head::Choices(choices) => choices.len(),
            Head::Gaussian { std, .. } => std.len(),
        }
    }

    /// Multiplications of one action, roughly.
    #[must_use]
    pub fn work(&self) -> usize {
        self.network.work()
    }

    /// Memory for `count` rows.
    #[must_use]
    pub fn memory(&self, count: usize) -> Memory {
        let outputs = count * self.network.widths().iter().sum::<usize>();
        Memory { network: self.network.clone(), outputs: vec![0.0; outputs], allowed: Vec::new() }
    }

    /// Sample actions from observations, a row for each of `noise`.
    ///
    /// Policy outputs are written to `chosen`, the numbers of actions are passed to `act`.
    ///
    /// # Errors
    /// If inputs have other sizes, or categories out of range.
    pub fn sample<N: Noise>(
        &self,
        memory: &mut Memory,
        observations: &[Rows<'_>],
        noise: &mut [N],
        chosen: &mut [f32],
        mut act: impl FnMut(f64),
    ) -> Result<(), InputError> {
        let count = noise.len();
        let leaf = |leaf: &usize| {
            let missing = InputError::Leaves { expected: leaf + 1, got: observations.len() };
            observations.get(*leaf).copied().ok_or(missing)
        };
        let inputs = self.leaves.iter().map(leaf).collect::<Result<Vec<_>, _>>()?;
        let masks = self.masks.iter().map(leaf).collect::<Result<Vec<_>, _>>()?;
        let allowed = (!masks.is_empty()).then(|| {
            join(&masks, count, &mut memory.allowed);
            &memory.allowed[..]
        });
        memory.network.forward(count, &inputs, allowed, &mut [&mut memory.outputs[..]])?;
        let width = memory.outputs.len() / count.max(1);
        let rows = memory.outputs.chunks_exact(width.max(1)).zip(noise);
        let rows = rows.zip(chosen.chunks_exact_mut(self.width().max(1))).enumerate();
        match &self.head {
            Head::Choices(choices) => {
                for (_, ((logits, noise), chosen)) in rows {
                    choose(choices, logits, noise, chosen, &mut act);
                }
            }
            Head::Gaussian { std, mask, actions } => {
                let mask = mask.as_ref().map(leaf).transpose()?;
                let slots = mask.map_or(0, |mask| mask.len() / count.max(1));
                for (row, ((means, noise), chosen)) in rows {
                    let is_used = |index: usize| {
                        index >= slots || mask.is_none_or(|mask| mask.is_set(row * slots + index))
                    };
                    let numbers = chosen.iter_mut().zip(means).zip(std).enumerate();
                    for (index, ((chosen, mean), std)) in numbers {
                        // Drawn for all, so that draws do not depend on the mask.
                        #[allow(clippy::cast_possible_truncation)]
                        let drawn = noise.normal() as f32;
                        *chosen = if is_used(index) { std.mul_add(drawn, *mean) } else { *mean };
                    }
                    actions.write(chosen, is_used, &mut act);
                }
            }
        }
        Ok(())
    }
}

/// Masks side by side, row by row.
fn join(masks: &[Rows<'_>], count: usize, allowed: &mut Vec<bool>) {
    allowed.clear();
    for row in 0..count {
        for mask in masks {
            let size = mask.len() / count;
            allowed.extend((row * size..(row + 1) * size).map(|index| mask.is_set(index)));
        }
    }
}

/// Sample each choice by inversion of its distribution function.
fn choose(
    choices: &[(usize, i64)],
    mut logits: &[f32],
    noise: &mut impl Noise,
    chosen: &mut [f32],
    act: &mut impl FnMut(f64),
) {
    for ((count, first), chosen) in choices.iter().zip(chosen) {
        let (own, rest) = logits.split_at(*count);
        logits = rest;
        let top = own.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: f32| {
            let distance = logit - top;
            if distance > IMPOSSIBLE { f64::from(exp(distance)) } else { 0.0 }
        };
        let total: f64 = own.iter().map(|logit| weight(*logit)).sum();
        let mut left = noise.uniform() * total;
        // Rounding can leave a rest after the last: then it is the last possible one.
        let mut choice = 0;
        for (index, logit) in own.iter().enumerate() {
            let weight = weight(*logit);
            if weight > 0.0 {
                choice = index;
                left -= weight;
                if left < 0.0 {
                    break;
                }
            }
        }
        #[allow(clippy::cast_precision_loss)]
        let (number, first) = (choice as f32, *first as f64);
        *chosen = number;
        act(first + f64::from(number));
    }
}

impl Actions {
    #[allow(clippy::cast_possible_truncation)] // the env's own precision
    fn write(&self, chosen: &[f32], is_used: impl Fn(usize) -> bool, act: &mut impl FnMut(f64)) {
        match self {
            Self::Bounded(bounds) => {
                for (index, (number, bounds)) in chosen.iter().zip(bounds).enumerate() {
                    let number = f64::from(*number);
                    let inside = if bounds.is_bounded { clamp(number, -1.0, 1.0) } else { number };
                    let action = bounds.middle + bounds.half * inside;
                    let action = if is_used(index) { action } else { 0.0 };
                    let action = clamp(action, bounds.low, bounds.high);
                    act(if bounds.is_single { f64::from(action as f32) } else { action });
                }
            }
            Self::Simplex { reach, is_single } => {
                // Weights sum to one: without any number in use, all are.
                let none = !(0..chosen.len()).any(&is_used);
                let weight = |(index, number): (usize, &f32)| {
                    let logit = reach * f64::from(bounded(*number, -1.0, 1.0));
                    if none || is_used(index) { libm::exp(logit) } else { 0.0 }
                };
                let total: f64 = chosen.iter().enumerate().map(weight).sum();
                for pair in chosen.iter().enumerate() {
                    let share = weight(pair) / total;
                    act(if *is_single { f64::from(share as f32) } else { share });
                }
            }
        }
    }
}

/// Number within bounds; NaN stays.
fn clamp(number: f64, low: f64, high: f64) -> f64 {
    let raised = if number < low { low } else { number };
    if raised > high { high } else { raised }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Matrix, Operation};

    /// Random numbers from a linear congruence.
    struct Drawn(u64);

    impl Noise for Drawn {
        #[allow(clippy::cast_precision_loss)]
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            self.uniform() + 1.0
        }
    }

    /// A network whose outputs are the first `outputs` numbers of its only leaf.
    fn identity(outputs: usize, leaf: usize) -> Vec<Operation> {
        let mut numbers = vec![0.0; outputs * leaf];
        for output in 0..outputs {
            numbers[output * leaf + output] = 1.0;
        }
        let weight = Matrix { rows: outputs, columns: leaf, numbers };
        vec![Operation::Input { leaf: 0 }, Operation::Linear { input: 0, weight, bias: Vec::new() }]
    }

    fn counts(logits: &[f32], allowed: Option<&[i8]>, draws: usize) -> Vec<usize> {
        let mut operations = identity(logits.len(), logits.len());
        operations.push(Operation::MaskLogits { input: 1, mask: None, masked: -1e9 });
        let network = Network::new(vec![logits.len()], operations, vec![2]).expect("sizes fit");
        let head = Head::Choices(vec![(logits.len(), 10)]);
        let masks = if allowed.is_some() { vec![1] } else { Vec::new() };
        let sampler = Sampler::new(network, head, vec![0], masks).expect("sizes fit");
        let mut observations = vec![Rows::F32(logits)];
        observations.extend(allowed.map(Rows::I8));
        let (mut memory, mut noise) = (sampler.memory(1), [Drawn(7)]);
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            let (mut chosen, mut actions) = ([0.0], Vec::new());
            sampler
                .sample(&mut memory, &observations, &mut noise, &mut chosen, |n| actions.push(n))
                .expect("sizes fit");
            assert!((actions[0] - f64::from(chosen[0]) - 10.0).abs() < 1e-12);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let index = chosen[0] as usize;
            counts[index] += 1;
        }
        counts
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn choices_have_the_probabilities_of_the_softmax() {
        let logits = [0.0, 1.0, -1.0, 0.5];
        let total: f32 = logits.iter().map(|logit: &f32| logit.exp()).sum();

        let counts = counts(&logits, None, 40_000);

        for (count, logit) in counts.iter().zip(logits) {
            assert!((*count as f32 / 40_000.0 - logit.exp() / total).abs() < 0.01);
        }
    }

    #[test]
    fn forbidden_choices_are_never_made() {
        let counts = counts(&[5.0, 0.0, 4.0], Some(&[0, 1, 1]), 2_000);

        assert_eq!(counts[0], 0);
        assert!(counts[1] > 0 && counts[2] > counts[1]);
    }

    #[test]
    fn unused_numbers_have_no_noise_and_no_share() {
        let network = Network::new(vec![3], identity(3, 3), vec![1]).expect("sizes fit");
        let actions = Actions::Simplex { reach: 5.0, is_single: false };
        let head = Head::Gaussian { std: vec![0.5; 3], mask: Some(1), actions };
        let sampler = Sampler::new(network, head, vec![0], Vec::new()).expect("sizes fit");
        let observations = [Rows::F32(&[0.0, 0.25, 0.0]), Rows::Bool(&[true, false])];
        let (mut memory, mut noise) = (sampler.memory(1), [Drawn(1)]);
        let (mut chosen, mut shares) = ([0.0; 3], Vec::new());

        sampler
            .sample(&mut memory, &observations, &mut noise, &mut chosen, |n| shares.push(n))
            .expect("sizes fit");

        assert!(chosen[0] > 0.4 && chosen[2] > 0.4);
        assert_eq!((chosen[1].to_bits(), shares[1].to_bits()), (0.25_f32.to_bits(), 0));
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn numbers_are_rescaled_to_their_bounds() {
        let network = Network::new(vec![2], identity(2, 2), vec![1]).expect("sizes fit");
        let bounds = |is_bounded, low, high, middle, half| Bounds {
            is_bounded,
            middle,
            half,
            low,
            high,
            is_single: false,
        };
        let free = bounds(false, f64::NEG_INFINITY, f64::INFINITY, 0.0, 1.0);
        let actions = Actions::Bounded(vec![bounds(true, 0.0, 6.0, 3.0, 3.0), free]);
        let head = Head::Gaussian { std: vec![0.0; 2], mask: None, actions };
        let sampler = Sampler::new(network, head, vec![0], Vec::new()).expect("sizes fit");
        let (mut memory, mut noise) = (sampler.memory(2), [Drawn(1), Drawn(2)]);
        let (mut chosen, mut numbers) = ([0.0; 4], Vec::new());

        sampler
            .sample(
                &mut memory,
                &[Rows::F32(&[0.5, 7.0, -9.0, -9.0])],
                &mut noise,
                &mut chosen,
                |n| numbers.push(n),
            )
            .expect("sizes fit");

        assert_eq!(numbers.iter().map(|n| *n as i64).collect::<Vec<_>>(), vec![4, 7, 0, -9]);
    }

    #[test]
    fn outputs_of_another_width_are_refused() {
        let network = Network::new(vec![3], identity(3, 3), vec![1]).expect("sizes fit");

        let refused = Sampler::new(network, Head::Choices(vec![(2, 0)]), vec![0], Vec::new());

        assert_eq!(refused.err(), Some(PolicyError::Outputs { expected: 2, got: 3 }));
    }
}
