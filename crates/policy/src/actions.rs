//! Conversion of network outputs to the actions of an env.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them

use pulp::NullaryFnOnce;

use crate::dispatch::Width;
use crate::functions::exp_wide;

/// Conversion of the outputs of a policy to actions; see `sekai.policy.actions` for the rules.
#[derive(Clone, Debug)]
pub struct Actions {
    kind: ActionKind,
    registers: Width,
}

/// Kinds of actions.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionKind {
    /// Integers of the highest scores.
    Choices {
        /// Number of options of each integer.
        counts: Vec<usize>,
        /// First value of each integer.
        starts: Vec<i64>,
    },
    /// Weights that sum to one: softmax of numbers within [-1, 1] times `reach`.
    Weights {
        /// Number of weights.
        size: usize,
        /// Factor of the numbers.
        reach: f64,
    },
    /// Numbers from [-1, 1] rescaled to bounds; unbounded dimensions are passed through.
    Numbers {
        /// Lower bounds.
        low: Vec<f64>,
        /// Upper bounds, as many.
        high: Vec<f64>,
    },
}

impl Actions {
    /// Conversion to a kind of actions.
    #[must_use]
    pub fn new(kind: ActionKind) -> Self {
        Self { kind, registers: Width::new() }
    }

    /// Kind of the actions.
    #[must_use]
    pub fn kind(&self) -> &ActionKind {
        &self.kind
    }

    /// Numbers of the network output for one action.
    #[must_use]
    pub fn inputs(&self) -> usize {
        match &self.kind {
            ActionKind::Choices { counts, .. } => counts.iter().sum(),
            _ => self.width(),
        }
    }

    /// Numbers of one action.
    #[must_use]
    pub fn width(&self) -> usize {
        match &self.kind {
            ActionKind::Choices { counts, .. } => counts.len(),
            ActionKind::Weights { size, .. } => *size,
            ActionKind::Numbers { low, .. } => low.len(),
        }
    }

    /// Integers with the highest scores, of rows of scores; the first of equal ones.
    ///
    /// Nothing is written for other kinds.
    pub fn choose(&self, scores: &[f32], actions: &mut [i64]) {
        let ActionKind::Choices { counts, starts } = &self.kind else { return };
        let rows = scores.chunks_exact(self.inputs().max(1));
        for (mut scores, actions) in rows.zip(actions.chunks_exact_mut(counts.len().max(1))) {
            for ((action, count), start) in actions.iter_mut().zip(counts).zip(starts) {
                let (own, rest) = scores.split_at(*count);
                *action = start.wrapping_add_unsigned(highest(own) as u64);
                scores = rest;
            }
        }
    }

    /// Weights or numbers, of rows of outputs.
    ///
    /// `used` are the slots in use, zero for unused ones, that the first numbers of each row belong
    /// to: unused weights are exactly zero, other unused numbers as near to it as the bounds allow.
    /// Nothing is written for choices.
    pub fn convert(&self, outputs: &[f32], used: Option<&[f32]>, actions: &mut [f64]) {
        let width = self.width().max(1);
        let rows = outputs.len() / width;
        let slots = used.map_or(0, |used| used.len() / rows.max(1)).min(width);
        self.registers.vectorize(Conversion { kind: &self.kind, outputs, actions, width });
        if let (Some(used), true) = (used, slots > 0) {
            for (actions, used) in actions.chunks_exact_mut(width).zip(used.chunks_exact(slots)) {
                drop_unused(&self.kind, actions, used);
            }
        }
        if matches!(self.kind, ActionKind::Weights { .. }) {
            for actions in actions.chunks_exact_mut(width) {
                let total = actions.iter().fold(0.0, |total, weight| total + weight);
                for weight in actions {
                    *weight /= total;
                }
            }
        }
    }
}

/// Index of the highest score, or of the first that is not a number.
fn highest(scores: &[f32]) -> usize {
    let mut best = 0;
    for (index, score) in scores.iter().enumerate() {
        if *score > scores[best] || (score.is_nan() && !scores[best].is_nan()) {
            best = index;
        }
    }
    best
}

struct Conversion<'a> {
    kind: &'a ActionKind,
    outputs: &'a [f32],
    actions: &'a mut [f64],
    width: usize,
}

impl NullaryFnOnce for Conversion<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        match self.kind {
            ActionKind::Choices { .. } => {}
            ActionKind::Weights { reach, .. } => {
                for (action, output) in self.actions.iter_mut().zip(self.outputs) {
                    // Exponents are within `reach`: they neither overflow nor vanish.
                    *action = exp_wide(cut(f64::from(*output), -1.0, 1.0) * reach);
                }
            }
            ActionKind::Numbers { low, high } => {
                let rows = self.outputs.chunks_exact(self.width);
                for (actions, outputs) in self.actions.chunks_exact_mut(self.width).zip(rows) {
                    let bounds = low.iter().zip(high);
                    for ((action, output), (low, high)) in
                        actions.iter_mut().zip(outputs).zip(bounds)
                    {
                        *action = rescaled(f64::from(*output), *low, *high);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn rescaled(number: f64, low: f64, high: f64) -> f64 {
    if low.is_finite() && high.is_finite() {
        let (middle, half) = (f64::midpoint(low, high), (high - low) / 2.0);
        // Not fused: the same bits as NumPy.
        return cut(middle + half * cut(number, -1.0, 1.0), low, high);
    }
    cut(number, low, high)
}

/// Number within bounds; NaN stays.
#[inline(always)]
fn cut(number: f64, low: f64, high: f64) -> f64 {
    let raised = if number < low { low } else { number };
    if raised > high { high } else { raised }
}

fn drop_unused(kind: &ActionKind, actions: &mut [f64], used: &[f32]) {
    match kind {
        ActionKind::Choices { .. } => {}
        ActionKind::Weights { size, .. } => {
            // Weights sum to one: without any component in use, all are.
            if used.len() == *size && used.iter().all(|used| *used == 0.0) {
                return;
            }
            for (weight, used) in actions.iter_mut().zip(used) {
                *weight *= f64::from(u8::from(*used != 0.0));
            }
        }
        ActionKind::Numbers { low, high } => {
            for (index, used) in used.iter().enumerate() {
                if *used == 0.0 {
                    actions[index] = cut(0.0, low[index], high[index]);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // halves are exact
mod tests {
    use super::*;

    #[test]
    fn weights_are_the_softmax_of_the_slots_in_use() {
        let actions = Actions::new(ActionKind::Weights { size: 3, reach: 5.0 });
        let mut weights = [0.0; 6];

        actions.convert(
            &[0.5, -9.0, 0.2, 0.1, 0.2, 0.3],
            Some(&[1.0, 0.0, 0.0, 0.0]),
            &mut weights,
        );

        let (first, cash) = (2.5_f64.exp(), (5.0 * f64::from(0.2_f32)).exp());
        assert!((weights[0] - first / (first + cash)).abs() < 1e-15);
        assert_eq!(weights[1].to_bits(), 0.0_f64.to_bits());
        assert_eq!(weights[3..], [0.0, 0.0, 1.0]);
    }

    #[test]
    fn weights_without_any_slot_in_use_are_all_in_use() {
        let actions = Actions::new(ActionKind::Weights { size: 2, reach: 5.0 });
        let mut weights = [0.0; 2];

        actions.convert(&[0.5, 0.5], Some(&[0.0, 0.0]), &mut weights);

        assert_eq!(weights, [0.5, 0.5]);
    }

    #[test]
    fn numbers_are_rescaled_to_bounds_and_passed_through_without_them() {
        let (low, high) = (vec![0.0, f64::NEG_INFINITY], vec![4.0, 1.0]);
        let actions = Actions::new(ActionKind::Numbers { low, high });
        let mut numbers = [0.0; 4];

        actions.convert(&[0.5, -7.0, -3.0, 3.0], None, &mut numbers);

        assert_eq!(numbers, [3.0, -7.0, 0.0, 1.0]);
    }

    #[test]
    fn choices_are_the_first_of_the_highest_scores() {
        let kind = ActionKind::Choices { counts: vec![2, 3], starts: vec![0, -1] };
        let mut choices = [9; 4];

        let scores = [1.0, 1.0, 0.0, 2.0, 2.0, 1.0, f32::NAN, f32::NAN, 3.0, 4.0];
        Actions::new(kind).choose(&scores, &mut choices);

        assert_eq!(choices, [0, 0, 1, -1]);
    }
}
