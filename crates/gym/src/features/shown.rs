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
