//! Welford's algorithm over the columns of many rows, a block of columns at a time.

use std::array;

use crate::moments::Sample;

/// Rows processed at once for all columns; they stay in the L1 cache.
pub(crate) const ROWS_AT_ONCE: usize = 32;

/// Columns processed together: few enough for registers, enough for SIMD.
const COLUMNS_AT_ONCE: usize = 16;

/// Push rows with one weight each: blocks of columns, then the rest. Every column processes its
/// rows in order, so the order of columns changes no bit.
pub(crate) fn push_columns<T: Sample>(
    means: &mut [f64],
    squares: &mut [f64],
    rows: &[T],
    weights: &[f64],
) {
    let width = means.len();
    let blocks = means.chunks_mut(COLUMNS_AT_ONCE).zip(squares.chunks_mut(COLUMNS_AT_ONCE));
    for (block, (means, squares)) in blocks.enumerate() {
        let first = block * COLUMNS_AT_ONCE;
        let last = first + means.len();
        let parts = rows.chunks_exact(width).map(|row| &row[first..last]);
        if let (Some(means), Some(squares)) = (means.first_chunk_mut(), squares.first_chunk_mut()) {
            push_block::<T, COLUMNS_AT_ONCE>(means, squares, parts, weights);
        } else if let ([mean], [sum]) = (&mut *means, &mut *squares) {
            push_block::<T, 1>(array::from_mut(mean), array::from_mut(sum), parts, weights);
        } else {
            push_few(means, squares, parts, weights);
        }
    }
}

/// Push a full block of columns. Its moments stay in registers from row to row, which makes batches
/// fast.
fn push_block<'a, T: Sample + 'a, const N: usize>(
    means: &mut [f64; N],
    squares: &mut [f64; N],
    rows: impl Iterator<Item = &'a [T]>,
    weights: &[f64],
) {
    let (mut block_means, mut block_squares) = (*means, *squares);
    // As arrays, the length of the rows is known at compile time.
    let rows = rows.filter_map(<[T]>::first_chunk::<N>);
    for (row, &weight) in rows.zip(weights) {
        push_row(&mut block_means, &mut block_squares, row, weight);
    }
    (*means, *squares) = (block_means, block_squares);
}

/// Push fewer columns than a block has.
fn push_few<'a, T: Sample + 'a>(
    means: &mut [f64],
    squares: &mut [f64],
    rows: impl Iterator<Item = &'a [T]>,
    weights: &[f64],
) {
    for (row, &weight) in rows.zip(weights) {
        push_row(means, squares, row, weight);
    }
}

/// Welford's recurrence, written once.
#[inline(always)]
#[allow(clippy::inline_always)] // a call per row would send the block's moments through memory
fn push_row<T: Sample>(means: &mut [f64], squares: &mut [f64], row: &[T], weight: f64) {
    for (&sample, (mean, squares)) in row.iter().zip(means.iter_mut().zip(squares)) {
        let value = sample.widen();
        let deviation = value - *mean;
        *mean += deviation * weight;
        *squares += deviation * (value - *mean);
    }
}
