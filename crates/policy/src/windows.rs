//! Kernels over windows and images: GRU, pieces of causal convolutions, two-dimensional convolutions.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them

use crate::dense::Dense;
use crate::functions::{sigmoid, tanh};
use crate::lanes::Machine;

/// Last hidden state of a GRU for each item; `scratch` holds the gates of one row of a batch.
#[inline(always)]
pub(crate) fn gru<M: Machine>(
    machine: M,
    [input_layer, hidden_layer]: [&Dense; 2],
    numbers: &[f32],
    items: usize,
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let (channels, hidden) = (input_layer.inputs, hidden_layer.inputs);
    let gates = 3 * hidden;
    let rows = output.len() / (items * hidden);
    let times = numbers.len() / (rows * items * channels);
    let (by_input, rest) = scratch.split_at_mut(items * times * gates);
    let by_state = &mut rest[..items * gates];
    let windows = numbers.chunks_exact(items * times * channels);
    for (state, windows) in output.chunks_exact_mut(items * hidden).zip(windows) {
        input_layer.multiply(machine, windows, by_input);
        state.fill(0.0);
        for time in 0..times {
            hidden_layer.multiply(machine, state, by_state);
            for (item, (state, by_state)) in
                state.chunks_exact_mut(hidden).zip(by_state.chunks_exact_mut(gates)).enumerate()
            {
                let first = (item * times + time) * gates;
                advance(state, &by_input[first..first + gates], by_state);
            }
        }
    }
}

/// One step of the hidden state of one item.
#[inline(always)]
fn advance(state: &mut [f32], by_input: &[f32], by_state: &mut [f32]) {
    let hidden = state.len();
    let (gates, new) = by_state.split_at_mut(2 * hidden);
    let (input_gates, input_new) = by_input.split_at(2 * hidden);
    for (gate, number) in gates.iter_mut().zip(input_gates) {
        *gate = sigmoid(*gate + number);
    }
    let (reset, update) = gates.split_at(hidden);
    for ((new, reset), number) in new.iter_mut().zip(reset).zip(input_new) {
        *new = tanh(reset.mul_add(*new, *number));
    }
    for ((state, update), new) in state.iter_mut().zip(update).zip(new) {
        *state = update.mul_add(*state - *new, *new);
    }
}

/// Overlapping pieces of each item, see `Operation::Pieces`.
#[inline(always)]
pub(crate) fn pieces(
    numbers: &[f32],
    times: usize,
    channels: usize,
    kernel: usize,
    stride: usize,
    output: &mut [f32],
) {
    let count = times.div_ceil(stride);
    let before = (count - 1) * stride + kernel - times;
    let width = kernel * channels;
    let items = numbers.chunks_exact(times * channels);
    for (output, rows) in output.chunks_exact_mut(count * width).zip(items) {
        for (piece, output) in output.chunks_exact_mut(width).enumerate() {
            for (channel, output) in output.chunks_exact_mut(kernel).enumerate() {
                for (offset, output) in output.iter_mut().enumerate() {
                    let time = (piece * stride + offset).checked_sub(before);
                    *output = time.map_or(0.0, |time| rows[time * channels + channel]);
                }
            }
        }
    }
}

/// Layout of a convolution.
pub(crate) struct Image {
    pub(crate) width: usize,
    pub(crate) channels: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    /// Positions of the kernel in a row.
    pub(crate) columns: usize,
}

/// Convolution of one image; `scratch` holds the pixels under every position of the kernel.
#[inline(always)]
pub(crate) fn convolution<M: Machine>(
    machine: M,
    layer: &Dense,
    image: &[f32],
    shape: &Image,
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let positions = output.len() / layer.outputs;
    let patches = &mut scratch[..positions * layer.inputs];
    let span = shape.kernel * shape.channels;
    for (position, patch) in patches.chunks_exact_mut(layer.inputs).enumerate() {
        let top = position / shape.columns * shape.stride;
        let left = position % shape.columns * shape.stride;
        for (row, pixels) in patch.chunks_exact_mut(span).enumerate() {
            let first = ((top + row) * shape.width + left) * shape.channels;
            pixels.copy_from_slice(&image[first..first + span]);
        }
    }
    layer.multiply(machine, patches, output);
}
