//! How values are shown: within their range, and neutral where there is none.

use super::registry::{FULL, FeatureSpec, registry};

/// The same limits as in the registry, each in a row of its own, so that several values are
/// clipped by one instruction.
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

/// Clips values into their ranges; those that are no numbers become neutral.
#[inline]
pub(super) fn show(row: &mut [f64]) {
    show_with(&LIMITS.neutral, row);
}

/// Clips values into their ranges; those that are no numbers become NaN.
pub(super) fn show_raw(row: &mut [f64]) {
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
#[allow(clippy::float_cmp)] // exact results are what the tests are about
mod tests {
    use super::*;

    /// What is shown of `value` in every column.
    fn shown(value: f64) -> [f64; FULL] {
        let mut row = [value; FULL];
        show(&mut row);
        row
    }

    #[test]
    fn values_are_clipped_into_their_ranges() {
        for (spec, (above, below)) in
            registry(true).iter().zip(shown(1e12).into_iter().zip(shown(-1e12)))
        {
            assert_eq!(above, spec.high.min(1e12), "{}", spec.name);
            assert_eq!(below, spec.low.max(-1e12), "{}", spec.name);
        }
    }

    #[test]
    fn what_is_no_number_is_neutral() {
        for (spec, value) in registry(true).iter().zip(shown(f64::NAN)) {
            assert_eq!(value, spec.neutral, "{}", spec.name);
        }
        for (spec, value) in registry(true).iter().zip(shown(f64::INFINITY)) {
            let expected = if spec.high.is_finite() { spec.high } else { spec.neutral };
            assert_eq!(value, expected, "{}", spec.name);
        }
    }

    #[test]
    fn raw_values_stay_nan() {
        let mut row = [f64::NAN; 54];
        show_raw(&mut row);

        assert!(row.iter().all(|value| value.is_nan()));
    }
}
