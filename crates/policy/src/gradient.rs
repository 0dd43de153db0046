//! Gradients of multilayer perceptrons: passes forward and backward over blocks of rows.
//!
//! Weights are in panels of 16 outputs, by input within a panel, and activations have rows padded
//! to whole panels. Every number is a fused sum in one order, whatever the machine.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them

use std::ops::Range;

use crate::dense::PANEL;
use crate::functions::{sigmoid, tanh};
use crate::lanes::{LANES, Machine};
use crate::operation::Function;

/// Rows that pass through the network together, so that activations stay in the cache.
pub(crate) const BLOCK: usize = 96;

/// Inputs that are summed before the next panel, so that weights stay in the cache.
const DEPTH: usize = 256;

/// Rows or inputs of a tile: twelve registers of sums.
const TILE: usize = 6;

/// Rows of a matrix: where each begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsAt<'a> {
    pub(crate) numbers: &'a [f32],
    pub(crate) starts: &'a [usize],
}

/// A linear layer: places of its weights among all parameters.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) weights: Range<usize>,
    pub(crate) bias: Range<usize>,
    /// Place of the transposed weights, which the first layer does not need.
    transposed: Range<usize>,
}

impl Layer {
    /// Numbers of a padded row of outputs.
    pub(crate) fn stride(&self) -> usize {
        padded(self.outputs)
    }

    /// Places of the weights, outputs by inputs, and of the bias among the parameters.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let weight = |output: usize, input: usize| {
            let panel = output / PANEL * self.inputs + input;
            self.weights.start + panel * PANEL + output % PANEL
        };
        (0..self.outputs)
            .flat_map(move |output| (0..self.inputs).map(move |input| weight(output, input)))
            .chain(self.bias.start..self.bias.start + self.outputs)
    }
}

/// Numbers of whole panels.
pub(crate) fn padded(numbers: usize) -> usize {
    numbers.next_multiple_of(PANEL)
}

/// Multilayer perceptron, the last layer of which is linear.
#[derive(Clone, Debug)]
pub(crate) struct Perceptron {
    pub(crate) layers: Vec<Layer>,
    function: Function,
}

/// Activations and their gradients, for a block of rows.
#[derive(Clone, Debug)]
pub(crate) struct Activations {
    /// Sums before the activation of each layer; equal to `outputs` for the last.
    sums: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
    deltas: Vec<Vec<f32>>,
    starts: Vec<Vec<usize>>,
}

impl Perceptron {
    /// Layers of these sizes, inputs first; `total` and `turned` are the numbers of parameters and
    /// transposed weights so far.
    pub(crate) fn new(
        sizes: &[usize],
        function: Function,
        total: &mut usize,
        turned: &mut usize,
    ) -> Self {
        let place = |total: &mut usize, numbers: usize| {
            *total += numbers;
            *total - numbers..*total
        };
        let layer = |(index, pair): (usize, &[usize])| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let back = if index == 0 { 0 } else { padded(inputs) * outputs };
            Layer {
                inputs,
                outputs,
                weights: place(total, padded(outputs) * inputs),
                bias: place(total, padded(outputs)),
                transposed: place(turned, back),
            }
        };
        Self { layers: sizes.windows(2).enumerate().map(layer).collect(), function }
    }

    pub(crate) fn activations(&self) -> Activations {
        let rows = |layer: &Layer| vec![0.0; BLOCK * layer.stride()];
        let starts = |layer: &Layer| (0..BLOCK).map(|row| row * layer.stride()).collect();
        Activations {
            sums: self.layers.iter().map(rows).collect(),
            outputs: self.layers.iter().map(rows).collect(),
            deltas: self.layers.iter().map(rows).collect(),
            starts: self.layers.iter().map(starts).collect(),
        }
    }

    /// Renew the transposed weights.
    pub(crate) fn transpose(&self, parameters: &[f32], transposed: &mut [f32]) {
        for layer in self.layers.iter().skip(1) {
            let turned = &mut transposed[layer.transposed.clone()];
            for (panel, weights) in
                parameters[layer.weights.clone()].chunks_exact(layer.inputs * PANEL).enumerate()
            {
                let (weights, _) = weights.as_chunks::<PANEL>();
                let outputs = (layer.outputs - panel * PANEL).min(PANEL);
                for (input, weights) in weights.iter().enumerate() {
                    let first = input / PANEL * layer.outputs + panel * PANEL;
                    for (output, weight) in weights[..outputs].iter().enumerate() {
                        turned[(first + output) * PANEL + input % PANEL] = *weight;
                    }
                }
            }
        }
    }

    /// Outputs of at most a block of rows: padded rows.
    #[inline(always)]
    pub(crate) fn forward<'a, M: Machine>(
        &self,
        machine: M,
        parameters: &[f32],
        rows: RowsAt<'_>,
        memory: &'a mut Activations,
    ) -> &'a [f32] {
        let count = rows.starts.len();
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, now) = memory.outputs.split_at_mut(index);
            let rows = match before.last() {
                None => rows,
                Some(numbers) => RowsAt { numbers, starts: &memory.starts[index - 1][..count] },
            };
            let output = &mut now[0][..count * layer.stride()];
            let weights = &parameters[layer.weights.clone()];
            let bias = &parameters[layer.bias.clone()];
            multiply(machine, rows, layer.inputs, weights, Some(bias), output);
            if index + 1 < self.layers.len() {
                let sums = &mut memory.sums[index][..output.len()];
                activate(self.function, sums, output);
            }
        }
        &memory.outputs[self.layers.len() - 1]
            [..count * self.layers[self.layers.len() - 1].stride()]
    }

    /// Outputs of the last `forward`, and their gradients, to be written before `backward`.
    pub(crate) fn outputs_and_deltas<'a>(
        &self,
        memory: &'a mut Activations,
    ) -> (&'a [f32], &'a mut [f32]) {
        let last = self.layers.len() - 1;
        (&memory.outputs[last], &mut memory.deltas[last])
    }

    /// Add the gradients of the parameters, from those of the outputs after `forward`.
    #[inline(always)]
    pub(crate) fn backward<M: Machine>(
        &self,
        machine: M,
        transposed: &[f32],
        rows: RowsAt<'_>,
        memory: &mut Activations,
        gradient: &mut [f32],
    ) {
        let count = rows.starts.len();
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let (before, now) = memory.deltas.split_at_mut(index);
            let delta = &now[0][..count * layer.stride()];
            let inputs = match index {
                0 => rows,
                _ => RowsAt {
                    numbers: &memory.outputs[index - 1],
                    starts: &memory.starts[index - 1][..count],
                },
            };
            accumulate(machine, inputs, layer, delta, gradient);
            let Some(lower) = before.last_mut() else { continue };
            let lower = &mut lower[..count * padded(layer.inputs)];
            let deltas = RowsAt { numbers: delta, starts: &memory.starts[index][..count] };
            let weights = &transposed[layer.transposed.clone()];
            multiply(machine, deltas, layer.outputs, weights, None, lower);
            let (sums, outputs) = (&memory.sums[index - 1], &memory.outputs[index - 1]);
            differentiate(self.function, sums, outputs, lower);
        }
    }
}

/// Apply the activation in place, and keep what its derivative needs. Loops instead of closures,
/// which would be compiled for narrow registers where not inlined.
#[inline(always)]
fn activate(function: Function, sums: &mut [f32], numbers: &mut [f32]) {
    match function {
        Function::Tanh => {
            for number in numbers {
                *number = tanh(*number);
            }
        }
        Function::Relu => {
            for number in numbers {
                // Not `max`, which would replace NaN.
                *number = if *number < 0.0 { 0.0 } else { *number };
            }
        }
        Function::Silu => {
            sums.copy_from_slice(numbers);
            for number in numbers {
                *number *= sigmoid(*number);
            }
        }
        Function::Sigmoid => {
            for number in numbers {
                *number = sigmoid(*number);
            }
        }
    }
}

/// Multiply gradients with the derivative of the activation.
#[inline(always)]
fn differentiate(function: Function, sums: &[f32], outputs: &[f32], deltas: &mut [f32]) {
    let numbers = deltas.iter_mut().zip(outputs);
    match function {
        Function::Tanh => {
            for (delta, output) in numbers {
                *delta *= 1.0 - output * output;
            }
        }
        Function::Relu => {
            for (delta, output) in numbers {
                *delta = if *output > 0.0 { *delta } else { 0.0 };
            }
        }
        Function::Silu => {
            for (delta, sum) in deltas.iter_mut().zip(sums) {
                let share = sigmoid(*sum);
                *delta *= share * (1.0 + sum * (1.0 - share));
            }
        }
        Function::Sigmoid => {
            for (delta, output) in numbers {
                *delta *= output * (1.0 - output);
            }
        }
    }
}

/// Rows times panels: rows of whole panels.
#[inline(always)]
fn multiply<M: Machine>(
    machine: M,
    rows: RowsAt<'_>,
    inputs: usize,
    weights: &[f32],
    bias: Option<&[f32]>,
    output: &mut [f32],
) {
    let count = rows.starts.len();
    let stride = output.len() / count.max(1);
    for first in (0..inputs).step_by(DEPTH) {
        let depth = first..(first + DEPTH).min(inputs);
        for panel in 0..stride / PANEL {
            let start = (panel * inputs + depth.start) * PANEL;
            let weights = &weights[start..start + depth.len() * PANEL];
            let (weights, _) = weights.as_chunks::<PANEL>();
            let bias = bias.map(|bias| &bias[panel * PANEL..(panel + 1) * PANEL]);
            let tile = Tile { rows, depth: depth.clone(), weights, bias, column: panel * PANEL };
            let mut row = 0;
            while row + TILE <= count {
                tile.multiply::<M, TILE>(machine, row, stride, output);
                row += TILE;
            }
            while row < count {
                tile.multiply::<M, 1>(machine, row, stride, output);
                row += 1;
            }
        }
    }
}

/// Products of one panel.
struct Tile<'a> {
    rows: RowsAt<'a>,
    depth: Range<usize>,
    weights: &'a [[f32; PANEL]],
    bias: Option<&'a [f32]>,
    column: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn multiply<M: Machine, const ROWS: usize>(
        &self,
        machine: M,
        first: usize,
        stride: usize,
        output: &mut [f32],
    ) {
        let depth = self.weights.len();
        let rows: [&[f32]; ROWS] = std::array::from_fn(|row| {
            let start = self.rows.starts[first + row] + self.depth.start;
            &self.rows.numbers[start..start + depth]
        });
        let mut sums: [[M::Eight; 2]; ROWS] = std::array::from_fn(|row| {
            if self.depth.start > 0 {
                let start = (first + row) * stride + self.column;
                return halves(machine, &output[start..start + PANEL]);
            }
            match self.bias {
                Some(bias) => halves(machine, bias),
                None => [machine.all(0.0); 2],
            }
        });
        for (input, weights) in self.weights.iter().enumerate() {
            let weights = halves(machine, weights);
            for (row, sums) in rows.iter().zip(&mut sums) {
                let number = machine.all(row[input]);
                sums[0] = machine.mul_add(weights[0], number, sums[0]);
                sums[1] = machine.mul_add(weights[1], number, sums[1]);
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let start = (first + row) * stride + self.column;
            put(machine, *sums, &mut output[start..start + PANEL]);
        }
    }
}

/// Add the gradients of a layer: inputs times gradients of outputs, summed over the rows.
#[inline(always)]
fn accumulate<M: Machine>(
    machine: M,
    inputs: RowsAt<'_>,
    layer: &Layer,
    delta: &[f32],
    gradient: &mut [f32],
) {
    let stride = layer.stride();
    for (panel, bias) in gradient[layer.bias.clone()].chunks_exact_mut(PANEL).enumerate() {
        let mut sums = halves(machine, bias);
        for row in delta.chunks_exact(stride) {
            let numbers = halves(machine, &row[panel * PANEL..(panel + 1) * PANEL]);
            sums = [machine.add(sums[0], numbers[0]), machine.add(sums[1], numbers[1])];
        }
        put(machine, sums, bias);
    }
    let weights = &mut gradient[layer.weights.clone()];
    let mut first = 0;
    while first < layer.inputs {
        let left = layer.inputs - first;
        for panel in 0..stride / PANEL {
            let start = (panel * layer.inputs + first) * PANEL;
            let rows = delta.chunks_exact(stride);
            let rows = rows.map(|row| &row[panel * PANEL..(panel + 1) * PANEL]);
            let weights = &mut weights[start..];
            match left {
                6.. => outer::<M, 6>(machine, inputs, first, rows, weights),
                4.. => outer::<M, 4>(machine, inputs, first, rows, weights),
                2.. => outer::<M, 2>(machine, inputs, first, rows, weights),
                _ => outer::<M, 1>(machine, inputs, first, rows, weights),
            }
        }
        first += match left {
            6.. => 6,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
    }
}

/// Products of some inputs with a panel of gradients, summed over the rows.
#[inline(always)]
fn outer<'a, M: Machine, const INPUTS: usize>(
    machine: M,
    inputs: RowsAt<'_>,
    first: usize,
    deltas: impl Iterator<Item = &'a [f32]>,
    weights: &mut [f32],
) {
    let (weights, _) = weights[..INPUTS * PANEL].as_chunks_mut::<PANEL>();
    let mut sums: [[M::Eight; 2]; INPUTS] =
        std::array::from_fn(|input| halves(machine, &weights[input]));
    for (start, delta) in inputs.starts.iter().zip(deltas) {
        let start = start + first;
        let numbers = &inputs.numbers[start..start + INPUTS];
        let delta = halves(machine, delta);
        for (number, sums) in numbers.iter().zip(&mut sums) {
            let number = machine.all(*number);
            sums[0] = machine.mul_add(delta[0], number, sums[0]);
            sums[1] = machine.mul_add(delta[1], number, sums[1]);
        }
    }
    for (sums, weights) in sums.iter().zip(weights) {
        put(machine, *sums, weights);
    }
}

#[inline(always)]
fn halves<M: Machine>(machine: M, numbers: &[f32]) -> [M::Eight; 2] {
    let (halves, _) = numbers[..PANEL].as_chunks::<LANES>();
    [machine.load(halves[0]), machine.load(halves[1])]
}

#[inline(always)]
fn put<M: Machine>(machine: M, sums: [M::Eight; 2], output: &mut [f32]) {
    let (halves, _) = output[..PANEL].as_chunks_mut::<LANES>();
    halves[0] = machine.store(sums[0]);
    halves[1] = machine.store(sums[1]);
}
