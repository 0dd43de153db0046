//! Clipping of features to their range, with the neutral value where a feature is missing.

use super::registry::{FULL, FeatureSpec, registry};

/// Limits of the registry as rows, so that several values are clipped by one instruction.
struct Limits {
    low: [f64; FULL],
    high: [f64; FULL],
    neutral: [f64; FULL],
}

static LIMITS: Limits = {
    let mut limits = Limits { low: [0.0; FULL], high: [0.0; FULL], neutral: [0.0; FULL] };
    let specs: &[FeatureSpec] = registry(true);
    let mut index = 0;
    while index < FULL {
        limits.low[index] = specs[index].low;
        limits.high[index] = specs[index].high;
        limits.neutral[index] = specs[index].neutral;
        index += 1;
    }
    limits
};

/// Clip values to their ranges; NaN becomes the neutral value.
#[inline]
pub(super) fn clip_row(row: &mut [f64]) {
    show_with(&LIMITS.neutral, row);
}

/// Clip values to their ranges; infinite values become NaN.
pub(super) fn clip_row_raw(row: &mut [f64]) {
    show_with(&[f64::NAN; FULL], row);
}

#[inline]
fn show_with(absent: &[f64; FULL], row: &mut [f64]) {
    let limits = LIMITS.low.iter().zip(&LIMITS.high).zip(absent);
    for (value, ((low, high), absent)) in row.iter_mut().zip(limits) {
        let clipped = clip(*value, *low, *high);
        *value = if clipped.abs() < f64::INFINITY { clipped } else { *absent };
    }
}

/// As `f64::clamp`, which also checks the limits on every call.
#[inline]
fn clip(value: f64, low: f64, high: f64) -> f64 {
    let raised = if value < low { low } else { value };
    if raised > high { high } else { raised }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;

    /// The output for `value` in every column.
    fn clipped_row(value: f64) -> [f64; FULL] {
        let mut row = [value; FULL];
        clip_row(&mut row);
        row
    }

    #[test]
    fn values_are_clipped_into_their_ranges() {
        for (spec, (above, below)) in
            registry(true).iter().zip(clipped_row(1e12).into_iter().zip(clipped_row(-1e12)))
        {
            assert_eq!(above, spec.high.min(1e12), "{}", spec.name);
            assert_eq!(below, spec.low.max(-1e12), "{}", spec.name);
        }
    }

    #[test]
    fn missing_values_become_neutral() {
        for (spec, value) in registry(true).iter().zip(clipped_row(f64::NAN)) {
            assert_eq!(value, spec.neutral, "{}", spec.name);
        }
        for (spec, value) in registry(true).iter().zip(clipped_row(f64::INFINITY)) {
            let expected = if spec.high.is_finite() { spec.high } else { spec.neutral };
            assert_eq!(value, expected, "{}", spec.name);
        }
    }

    #[test]
    fn raw_values_stay_nan() {
        let mut row = [f64::NAN; 54];
        clip_row_raw(&mut row);

        assert!(row.iter().all(|value| value.is_nan()));
    }
}
