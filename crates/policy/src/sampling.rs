//! Sampling of actions: a policy network with the distribution of its outputs.

use crate::functions::exp;
use crate::{ActionKind, Actions, InputError, Network, PolicyError, Rows};

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
pub struct Head {
    /// Conversion of samples to actions.
    pub actions: Actions,
    /// Standard deviations of Gaussian numbers; empty for choices.
    pub std: Vec<f32>,
    /// Leaf with the mask of the first numbers: the unused have no noise.
    pub mask: Option<usize>,
    /// Numbers of actions are rounded to single precision.
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
    used: Vec<f32>,
    actions: Vec<f64>,
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
        let expected = head.actions.inputs();
        let got = network.widths().iter().sum();
        let is_choice = matches!(head.actions.kind(), ActionKind::Choices { .. });
        let deviations = if is_choice { 0 } else { expected };
        if network.widths().len() != 1 || got != expected || head.std.len() != deviations {
            return Err(PolicyError::Outputs { expected, got });
        }
        Ok(Self { network, head, masks, leaves })
    }

    /// Numbers of a policy output.
    #[must_use]
    pub fn width(&self) -> usize {
        self.head.actions.width()
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
        Memory {
            network: self.network.clone(),
            outputs: vec![0.0; outputs],
            allowed: Vec::new(),
            used: Vec::new(),
            actions: vec![0.0; count * self.width()],
        }
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
        let rows = rows.zip(chosen.chunks_exact_mut(self.width().max(1)));
        if let ActionKind::Choices { counts, starts } = self.head.actions.kind() {
            for ((logits, noise), chosen) in rows {
                choose(counts, starts, logits, noise, chosen, &mut act);
            }
            return Ok(());
        }
        let mask = self.head.mask.as_ref().map(leaf).transpose()?;
        let slots = mask.map_or(0, |mask| mask.len() / count.max(1)).min(width);
        memory.used.clear();
        for (row, ((means, noise), chosen)) in rows.enumerate() {
            if let Some(mask) = mask {
                let size = mask.len() / count;
                let used = (0..slots).map(|index| mask.is_set(row * size + index));
                memory.used.extend(used.map(|is_used| f32::from(u8::from(is_used))));
            }
            let used = &memory.used[row * slots..];
            let numbers = chosen.iter_mut().zip(means).zip(&self.head.std).enumerate();
            for (index, ((chosen, mean), std)) in numbers {
                // Drawn for all, so that draws do not depend on the mask.
                #[allow(clippy::cast_possible_truncation)]
                let drawn = noise.normal() as f32;
                let is_used = index >= slots || used[index] != 0.0;
                *chosen = if is_used { std.mul_add(drawn, *mean) } else { *mean };
            }
        }
        let used = (slots > 0).then_some(&memory.used[..]);
        self.head.actions.convert(chosen, used, &mut memory.actions);
        for action in &memory.actions {
            #[allow(clippy::cast_possible_truncation)] // the env's own precision
            act(if self.head.is_single { f64::from(*action as f32) } else { *action });
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
    counts: &[usize],
    starts: &[i64],
    mut logits: &[f32],
    noise: &mut impl Noise,
    chosen: &mut [f32],
    act: &mut impl FnMut(f64),
) {
    for ((count, first), chosen) in counts.iter().zip(starts).zip(chosen) {
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

    fn choices(count: usize, first: i64) -> Head {
        let kind = ActionKind::Choices { counts: vec![count], starts: vec![first] };
        Head { actions: Actions::new(kind), std: Vec::new(), mask: None, is_single: false }
    }

    fn gaussian(kind: ActionKind, std: f32) -> Head {
        let actions = Actions::new(kind);
        let std = vec![std; actions.width()];
        Head { actions, std, mask: None, is_single: false }
    }

    fn counts(logits: &[f32], allowed: Option<&[i8]>, draws: usize) -> Vec<usize> {
        let mut operations = identity(logits.len(), logits.len());
        operations.push(Operation::MaskLogits { input: 1, mask: None, masked: -1e9 });
        let network = Network::new(vec![logits.len()], operations, vec![2]).expect("sizes fit");
        let head = choices(logits.len(), 10);
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
        let kind = ActionKind::Weights { size: 3, reach: 5.0 };
        let head = Head { mask: Some(1), ..gaussian(kind, 0.5) };
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
    #[allow(clippy::float_cmp)] // halves are exact
    fn numbers_are_rescaled_to_their_bounds() {
        let network = Network::new(vec![2], identity(2, 2), vec![1]).expect("sizes fit");
        let low = vec![0.0, f64::NEG_INFINITY];
        let kind = ActionKind::Numbers { low, high: vec![6.0, f64::INFINITY] };
        let head = gaussian(kind, 0.0);
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

        assert_eq!(numbers, vec![4.5, 7.0, 0.0, -9.0]);
    }

    #[test]
    fn outputs_of_another_width_are_refused() {
        let network = Network::new(vec![3], identity(3, 3), vec![1]).expect("sizes fit");

        let refused = Sampler::new(network, choices(2, 0), vec![0], Vec::new());

        assert_eq!(refused.err(), Some(PolicyError::Outputs { expected: 2, got: 3 }));
    }
}
