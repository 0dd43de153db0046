//! Rolling windows over the rows of a panel. A running sum carries the rounding error of everything
//! before it. Here each window is reduced by itself: windows of one row make those of two, these
//! those of four, and so on, at a cost of log2 of the length.

/// Reduction of a rolling window. The result is missing if any of its numbers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Sum.
    Sum,
    /// Maximum.
    Maximum,
    /// Minimum.
    Minimum,
    /// Sample standard deviation, of at least two rows.
    Deviation,
}

/// Mean, and sum of squared distances from it.
#[derive(Clone, Copy)]
struct Moments(f64, f64);

/// All windows of `rows` rows, one row or more, of rows that are `width` numbers wide; NaN where
/// a window begins before the first row.
#[must_use]
pub fn rolling(values: Vec<f64>, width: usize, rows: usize, fold: Fold) -> Vec<f64> {
    let gap = f64::NAN;
    // Windows longer than the panel are missing.
    if rows > values.len() / width.max(1) {
        return vec![gap; values.len()];
    }
    match fold {
        Fold::Sum => folded(values, width, rows, gap, |old, _, new, _| old + new),
        Fold::Maximum => folded(values, width, rows, gap, |old, _, new, _| greater(old, new)),
        Fold::Minimum => folded(values, width, rows, gap, |old, _, new, _| -greater(-old, -new)),
        Fold::Deviation => deviations(&values, width, rows),
    }
}

/// Natural logarithm; NaN where undefined.
#[must_use]
pub fn logarithm(value: f64) -> f64 {
    let got = libm::log(value);
    if got.is_finite() { got } else { f64::NAN }
}

/// The logarithm of each number over the one `rows` rows before; NaN where one has none.
#[must_use]
pub fn log_changes(mut values: Vec<f64>, width: usize, rows: usize) -> Vec<f64> {
    for value in &mut values {
        *value = logarithm(*value);
    }
    let lag = rows.saturating_mul(width).min(values.len());
    for index in (lag..values.len()).rev() {
        values[index] -= values[index - lag];
    }
    values[..lag].fill(f64::NAN);
    values
}

fn deviations(values: &[f64], width: usize, rows: usize) -> Vec<f64> {
    let alone = |value: &f64| Moments(*value, if value.is_nan() { f64::NAN } else { 0.0 });
    let block = values.iter().map(alone).collect();
    let windows = folded(block, width, rows, Moments(f64::NAN, f64::NAN), merged);
    #[allow(clippy::cast_precision_loss)] // rows in a window
    let others = rows as f64 - 1.0;
    windows.into_iter().map(|Moments(_, squares)| (squares / others).sqrt()).collect()
}

/// The moments of two samples together, without cancellation.
fn merged(old: Moments, old_count: f64, new: Moments, new_count: f64) -> Moments {
    let total = old_count + new_count;
    let distance = new.0 - old.0;
    let mean = old.0 + distance * (new_count / total);
    Moments(mean, old.1 + new.1 + distance * distance * (old_count * new_count / total))
}

/// The greater, and NaN if one of them is.
fn greater(first: f64, second: f64) -> f64 {
    if first >= second || first.is_nan() { first } else { second }
}

/// All windows, put together from windows whose lengths are powers of two.
#[allow(clippy::cast_precision_loss)] // rows in a window
fn folded<P: Copy>(
    mut block: Vec<P>,
    width: usize,
    rows: usize,
    missing: P,
    merge: impl Fn(P, f64, P, f64) -> P,
) -> Vec<P> {
    let mut window: Vec<P> = Vec::new();
    let (mut covered, mut length) = (0, 1);
    loop {
        if rows & length != 0 {
            if covered == 0 {
                window.clone_from(&block);
            } else {
                let late = (covered * width).min(window.len());
                let (old_count, new_count) = (length as f64, covered as f64);
                window[..late].fill(missing);
                for (new, old) in window[late..].iter_mut().zip(&block) {
                    *new = merge(*old, old_count, *new, new_count);
                }
            }
            covered += length;
        }
        if covered >= rows {
            return window;
        }
        let late = (length * width).min(block.len());
        for index in (late..block.len()).rev() {
            block[index] = merge(block[index - late], length as f64, block[index], length as f64);
        }
        block[..late].fill(missing);
        length *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(got: &[f64], expected: &[f64]) -> bool {
        let same = |(first, second): (&f64, &f64)| {
            first.to_bits() == second.to_bits() || (first.is_nan() && second.is_nan())
        };
        got.len() == expected.len() && got.iter().zip(expected).all(same)
    }

    #[test]
    fn windows_fold_the_last_rows_of_each_column() {
        let values = vec![1.0, 10.0, 2.0, 20.0, 4.0, 5.0, 3.0, 40.0];
        let gap = f64::NAN;

        let sums = rolling(values.clone(), 2, 3, Fold::Sum);
        let tops = rolling(values.clone(), 2, 3, Fold::Maximum);
        let lows = rolling(values, 2, 3, Fold::Minimum);

        assert!(same(&sums, &[gap, gap, gap, gap, 7.0, 35.0, 9.0, 65.0]));
        assert!(same(&tops, &[gap, gap, gap, gap, 4.0, 20.0, 4.0, 40.0]));
        assert!(same(&lows, &[gap, gap, gap, gap, 1.0, 5.0, 2.0, 5.0]));
    }

    #[test]
    fn a_missing_number_is_missing_in_every_window_that_holds_it() {
        let values = vec![1.0, f64::NAN, 2.0, 4.0, 8.0];

        for fold in [Fold::Sum, Fold::Maximum, Fold::Minimum, Fold::Deviation] {
            let got = rolling(values.clone(), 1, 2, fold);

            assert!(got[..3].iter().all(|value| value.is_nan()), "{fold:?}: {got:?}");
            assert!(got[3..].iter().all(|value| value.is_finite()), "{fold:?}: {got:?}");
        }
    }

    #[test]
    fn deviations_of_large_numbers_are_exact() {
        let values = (0..16).map(|row| 1e9 + f64::from(row % 2)).collect();

        let got = rolling(values, 1, 8, Fold::Deviation);

        assert!(got[7..].iter().all(|value| (value - (8.0_f64 / 28.0).sqrt()).abs() < 1e-15));
    }

    #[test]
    fn windows_longer_than_the_rows_are_missing() {
        assert!(rolling(vec![1.0; 4], 2, 3, Fold::Sum).iter().all(|value| value.is_nan()));
        assert!(log_changes(vec![1.0; 4], 2, 2).iter().all(|value| value.is_nan()));
    }

    #[test]
    fn changes_need_a_number_above_nothing_at_both_ends() {
        let got = log_changes(vec![1.0, 2.0, 0.0, 4.0, 8.0], 1, 1);

        let two = libm::log(2.0);
        assert!(same(&got, &[f64::NAN, two, f64::NAN, f64::NAN, libm::log(8.0) - libm::log(4.0)]));
    }
}
