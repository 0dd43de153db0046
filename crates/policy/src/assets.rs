//! Kernels over asset slots: pooling, attention and graph neighbours.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them
#![allow(clippy::cast_precision_loss)] // counts of items are small
#![allow(clippy::too_many_arguments)] // a kernel is given its machine, sizes and memory

use crate::functions::{exp, sigmoid};
use crate::lanes::{Machine, dot, sum};

/// Added to variances of correlated rows.
const MIN_VARIANCE: f32 = 1e-8;

/// Smallest sum of edge weights to divide by.
const MIN_NEARNESS: f32 = 1e-6;

/// The mask of one row of a batch.
#[inline(always)]
pub(crate) fn row(mask: Option<&[f32]>, index: usize, items: usize) -> Option<&[f32]> {
    mask.map(|mask| &mask[index * items..(index + 1) * items])
}

/// Number of items in use, at least one.
#[inline(always)]
pub(crate) fn count(mask: Option<&[f32]>, items: usize) -> f32 {
    mask.map_or(items, |mask| mask.iter().filter(|used| **used != 0.0).count()).max(1) as f32
}

#[inline(always)]
fn is_used(mask: Option<&[f32]>, item: usize) -> bool {
    mask.is_none_or(|mask| mask[item] != 0.0)
}

/// Mean over items in use.
#[inline(always)]
pub(crate) fn mean(
    numbers: &[f32],
    mask: Option<&[f32]>,
    items: usize,
    width: usize,
    output: &mut [f32],
) {
    pool(numbers, mask, items, width, output, 0.0, |total, number| total + number);
    for (index, output) in output.chunks_exact_mut(width).enumerate() {
        let used = count(row(mask, index, items), items);
        for number in output.iter_mut() {
            *number /= used;
        }
    }
}

/// Maximum over items in use.
#[inline(always)]
pub(crate) fn max(
    numbers: &[f32],
    mask: Option<&[f32]>,
    items: usize,
    width: usize,
    output: &mut [f32],
) {
    pool(numbers, mask, items, width, output, f32::NEG_INFINITY, |most, number| {
        // Keeps NaN, as the maximum of a tensor does.
        if number > most || number.is_nan() { number } else { most }
    });
}

/// Fold the items in use of each row, number by number, from `first`; zero without any item.
#[inline(always)]
fn pool(
    numbers: &[f32],
    mask: Option<&[f32]>,
    items: usize,
    width: usize,
    output: &mut [f32],
    first: f32,
    fold: impl Fn(f32, f32) -> f32,
) {
    let rows = output.chunks_exact_mut(width).zip(numbers.chunks_exact(items * width));
    for (index, (output, numbers)) in rows.enumerate() {
        let mask = row(mask, index, items);
        let is_empty = !(0..items).any(|item| is_used(mask, item));
        output.fill(if is_empty { 0.0 } else { first });
        for (item, numbers) in numbers.chunks_exact(width).enumerate() {
            if is_used(mask, item) {
                for (output, number) in output.iter_mut().zip(numbers) {
                    *output = fold(*output, *number);
                }
            }
        }
    }
}

/// Scaled dot-product attention over items; `scratch` holds the scores of one query.
#[inline(always)]
pub(crate) fn attention<M: Machine>(
    machine: M,
    numbers: &[f32],
    mask: Option<&[f32]>,
    [items, width, heads]: [usize; 3],
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let head = width / heads;
    let scale = 1.0 / (head as f32).sqrt();
    let scores = &mut scratch[..items];
    let rows = output.chunks_exact_mut(items * width).zip(numbers.chunks_exact(3 * items * width));
    for (index, (output, numbers)) in rows.enumerate() {
        let mask = row(mask, index, items);
        // Without any item all are attended to.
        let mask = mask.filter(|mask| mask.iter().any(|used| *used != 0.0));
        let part = |item: usize, kind: usize, which: usize| {
            let first = (item * 3 + kind) * width + which * head;
            &numbers[first..first + head]
        };
        for (item, output) in output.chunks_exact_mut(width).enumerate() {
            for (which, output) in output.chunks_exact_mut(head).enumerate() {
                let query = part(item, 0, which);
                for (key, score) in scores.iter_mut().enumerate() {
                    let is_used = is_used(mask, key);
                    let product = dot(machine, query, part(key, 1, which)) * scale;
                    *score = if is_used { product } else { f32::NEG_INFINITY };
                }
                softmax(machine, scores, mask);
                output.fill(0.0);
                for (value, score) in scores.iter().enumerate() {
                    if is_used(mask, value) {
                        for (output, number) in output.iter_mut().zip(part(value, 2, which)) {
                            *output = score.mul_add(*number, *output);
                        }
                    }
                }
            }
        }
    }
}

/// Weights of scores; zero where the mask is.
#[inline(always)]
fn softmax<M: Machine>(machine: M, scores: &mut [f32], mask: Option<&[f32]>) {
    let greatest = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
    for score in scores.iter_mut() {
        *score = exp(*score - greatest);
    }
    if let Some(mask) = mask {
        for (score, used) in scores.iter_mut().zip(mask) {
            *score = if *used == 0.0 { 0.0 } else { *score };
        }
    }
    let total = sum(machine, scores);
    for score in scores.iter_mut() {
        *score /= total;
    }
}

/// Remove loops and edges to unused items, and let rows sum to at most one.
#[inline(always)]
pub(crate) fn weigh<M: Machine>(machine: M, near: &mut [f32], mask: Option<&[f32]>, items: usize) {
    for (item, near) in near.chunks_exact_mut(items).enumerate() {
        near[item] = 0.0;
        if let Some(mask) = mask {
            for (near, used) in near.iter_mut().zip(mask) {
                *near = if *used == 0.0 { 0.0 } else { *near };
            }
        }
        let total = sum(machine, near);
        let total = if total < MIN_NEARNESS { MIN_NEARNESS } else { total };
        for number in near.iter_mut() {
            *number /= total;
        }
    }
}

/// Edge weight before the logistic function, as a line of the correlation.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) slope: f32,
    pub(crate) offset: f32,
}

/// Edge weights by correlations; `scratch` holds the standardized rows of all items.
#[inline(always)]
pub(crate) fn correlations<M: Machine>(
    machine: M,
    numbers: &[f32],
    [items, times, channels]: [usize; 3],
    channel: usize,
    line: Line,
    mask: Option<&[f32]>,
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let scratch = &mut scratch[..items * times];
    let share = 1.0 / times as f32;
    let rows = output.chunks_exact_mut(items * items);
    for (index, (near, numbers)) in
        rows.zip(numbers.chunks_exact(items * times * channels)).enumerate()
    {
        let windows = numbers.chunks_exact(times * channels);
        for (scaled, window) in scratch.chunks_exact_mut(times).zip(windows) {
            for (scaled, row) in scaled.iter_mut().zip(window.chunks_exact(channels)) {
                *scaled = row[channel];
            }
            let mean = sum(machine, scaled) * share;
            for number in scaled.iter_mut() {
                *number -= mean;
            }
            let size = (dot(machine, scaled, scaled) * share + MIN_VARIANCE).sqrt();
            for number in scaled.iter_mut() {
                *number /= size;
            }
        }
        for (near, left) in near.chunks_exact_mut(items).zip(scratch.chunks_exact(times)) {
            for (near, right) in near.iter_mut().zip(scratch.chunks_exact(times)) {
                let together = dot(machine, left, right) * share;
                *near = sigmoid(line.slope.mul_add(together, line.offset));
            }
        }
        weigh(machine, near, row(mask, index, items), items);
    }
}

/// Weighted sums of the items.
#[inline(always)]
pub(crate) fn mix(near: &[f32], numbers: &[f32], items: usize, output: &mut [f32]) {
    let width = numbers.len() * items / near.len();
    let rows = near.chunks_exact(items * items).zip(numbers.chunks_exact(items * width));
    for (output, (near, numbers)) in output.chunks_exact_mut(items * width).zip(rows) {
        for (output, near) in output.chunks_exact_mut(width).zip(near.chunks_exact(items)) {
            output.fill(0.0);
            for (weight, numbers) in near.iter().zip(numbers.chunks_exact(width)) {
                for (output, number) in output.iter_mut().zip(numbers) {
                    *output = weight.mul_add(*number, *output);
                }
            }
        }
    }
}
