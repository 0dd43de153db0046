//! Dense layers: products of rows with a matrix that is packed once.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them

use crate::lanes::{LANES, Machine};
use crate::operation::Matrix;

/// Outputs in a panel: two registers of eight numbers.
pub(crate) const PANEL: usize = 2 * LANES;

/// Rows that are computed together, so that each weight is read once for all of them.
const BLOCK: usize = 4;

/// Panels that are computed together for a single row, to hide the latency of sums.
const GROUP: usize = 4;

type Sums = [f32; PANEL];

/// A linear layer: weights in panels of outputs, by input within a panel.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    weights: Vec<Sums>,
    bias: Vec<Sums>,
}

impl Dense {
    /// Pack a matrix of outputs by inputs, and a bias, which may be empty.
    ///
    /// The caller has compared the sizes.
    pub(crate) fn new(matrix: &Matrix, bias: &[f32]) -> Self {
        let (outputs, inputs) = (matrix.rows, matrix.columns);
        let panels = outputs.div_ceil(PANEL);
        let mut weights = vec![[0.0; PANEL]; panels * inputs];
        for (output, row) in matrix.numbers.chunks_exact(inputs.max(1)).enumerate() {
            let first = output / PANEL * inputs;
            for (panel, weight) in weights[first..].iter_mut().zip(row) {
                panel[output % PANEL] = *weight;
            }
        }
        let mut padded = vec![[0.0; PANEL]; panels];
        for (output, number) in bias.iter().enumerate() {
            padded[output / PANEL][output % PANEL] = *number;
        }
        Self { inputs, outputs, weights, bias: padded }
    }

    /// Multiply rows: `rows` by inputs to `rows` by outputs.
    ///
    /// Every output is one sum in the order of the inputs, whatever is computed beside it.
    #[inline(always)]
    pub(crate) fn multiply<M: Machine>(&self, machine: M, rows: &[f32], output: &mut [f32]) {
        let count = rows.len() / self.inputs;
        let whole = count / BLOCK * BLOCK;
        let (blocks, rest) = rows.split_at(whole * self.inputs);
        let (block_output, rest_output) = output.split_at_mut(whole * self.outputs);
        let outputs = block_output.chunks_exact_mut(BLOCK * self.outputs);
        for (rows, output) in blocks.chunks_exact(BLOCK * self.inputs).zip(outputs) {
            for panel in 0..self.bias.len() {
                self.panels::<M, BLOCK, 1>(machine, rows, panel, output);
            }
        }
        let outputs = rest_output.chunks_exact_mut(self.outputs);
        for (row, output) in rest.chunks_exact(self.inputs).zip(outputs) {
            let mut panel = 0;
            while panel + GROUP <= self.bias.len() {
                self.panels::<M, 1, GROUP>(machine, row, panel, output);
                panel += GROUP;
            }
            while panel < self.bias.len() {
                self.panels::<M, 1, 1>(machine, row, panel, output);
                panel += 1;
            }
        }
    }

    /// Products of `ROWS` rows with `PANELS` panels from one on.
    #[inline(always)]
    fn panels<M: Machine, const ROWS: usize, const PANELS: usize>(
        &self,
        machine: M,
        rows: &[f32],
        first: usize,
        output: &mut [f32],
    ) {
        let rows: [&[f32]; ROWS] =
            std::array::from_fn(|row| &rows[row * self.inputs..(row + 1) * self.inputs]);
        let weights: [&[Sums]; PANELS] = std::array::from_fn(|panel| {
            &self.weights[(first + panel) * self.inputs..(first + panel + 1) * self.inputs]
        });
        let mut sums: [[[M::Eight; 2]; PANELS]; ROWS] = std::array::from_fn(|_| {
            std::array::from_fn(|panel| halves(machine, &self.bias[first + panel]))
        });
        for input in 0..self.inputs {
            let weights: [[M::Eight; 2]; PANELS] =
                std::array::from_fn(|panel| halves(machine, &weights[panel][input]));
            for (row, sums) in rows.iter().zip(&mut sums) {
                let number = machine.all(row[input]);
                for (weights, sums) in weights.iter().zip(sums) {
                    sums[0] = machine.mul_add(weights[0], number, sums[0]);
                    sums[1] = machine.mul_add(weights[1], number, sums[1]);
                }
            }
        }
        for (sums, output) in sums.iter().zip(output.chunks_exact_mut(self.outputs)) {
            for (panel, sums) in sums.iter().enumerate() {
                let start = (first + panel) * PANEL;
                store(machine, sums, &mut output[start..]);
            }
        }
    }
}

#[inline(always)]
fn halves<M: Machine>(machine: M, numbers: &Sums) -> [M::Eight; 2] {
    let (halves, _) = numbers.as_chunks::<LANES>();
    [machine.load(halves[0]), machine.load(halves[1])]
}

/// Write the sums of a panel; the last panel may be wider than the output.
#[inline(always)]
fn store<M: Machine>(machine: M, sums: &[M::Eight; 2], output: &mut [f32]) {
    for (sums, output) in sums.iter().zip(output.chunks_mut(LANES)) {
        let numbers = machine.store(*sums);
        if let Ok(output) = <&mut [f32; LANES]>::try_from(&mut *output) {
            *output = numbers;
        } else {
            let count = output.len();
            output.copy_from_slice(&numbers[..count]);
        }
    }
}
