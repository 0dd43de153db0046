//! Elementary functions as branch-free polynomials, which compilers vectorize.
//!
//! Errors against the exact values, measured over all magnitudes by the tests: `exp` and `sigmoid` 3
//! ulp, `silu` 4 ulp, `tanh` 2 ulp. NaN stays NaN.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them
#![allow(clippy::excessive_precision, clippy::unreadable_literal)] // published coefficients

/// Rounds to a whole number when it is added: its unit in the last place is one.
const ROUNDING: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_375;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Smallest and largest argument of `exp`: beyond, it is the value there.
const EXP_RANGE: (f32, f32) = (-87.0, 88.0);

/// Up to this magnitude `tanh` is a polynomial.
const TANH_LIMIT: f32 = 0.625;

/// Number within bounds; NaN stays.
#[inline(always)]
pub(crate) fn bounded(number: f32, low: f32, high: f32) -> f32 {
    let raised = if number < low { low } else { number };
    if raised > high { high } else { raised }
}

/// Exponential function, of arguments between -87 and 88.
#[inline(always)]
#[must_use]
pub fn exp(number: f32) -> f32 {
    let number = bounded(number, EXP_RANGE.0, EXP_RANGE.1);
    let shifted = number.mul_add(std::f32::consts::LOG2_E, ROUNDING);
    let whole = shifted - ROUNDING;
    let rest = whole.mul_add(-LN_2_LOW, whole.mul_add(-LN_2_HIGH, number));
    let mut sum = 1.987_569_2e-4;
    sum = rest.mul_add(sum, 1.398_199_9e-3);
    sum = rest.mul_add(sum, 8.333_452e-3);
    sum = rest.mul_add(sum, 4.166_579_6e-2);
    sum = rest.mul_add(sum, 1.666_666_5e-1);
    sum = rest.mul_add(sum, 5.000_000_1e-1);
    let power = (rest * rest).mul_add(sum, rest) + 1.0;
    // The low bits of `shifted` are the whole number, which becomes the exponent.
    power * f32::from_bits((shifted.to_bits().wrapping_add(127)) << 23)
}

/// Exponential function in double precision, of arguments between -700 and 700.
#[inline(always)]
pub(crate) fn exp_wide(number: f64) -> f64 {
    /// Rounds to a whole number when it is added, as `ROUNDING`.
    const WHOLE: f64 = 6_755_399_441_055_744.0;
    const HIGH: f64 = 0.693_147_180_369_123_8;
    const LOW: f64 = 1.908_214_929_270_587_7e-10;
    let shifted = number.mul_add(std::f64::consts::LOG2_E, WHOLE);
    let whole = shifted - WHOLE;
    let rest = whole.mul_add(-LOW, whole.mul_add(-HIGH, number));
    // Taylor series: the rest is at most half of ln 2, whose 14th power / 14! is below 2^-57.
    let mut sum = 1.0 / 6_227_020_800.0;
    for divisor in [
        479_001_600.0,
        39_916_800.0,
        3_628_800.0,
        362_880.0,
        40_320.0,
        5_040.0,
        720.0,
        120.0,
        24.0,
        6.0,
        2.0,
        1.0,
    ] {
        sum = rest.mul_add(sum, 1.0 / divisor);
    }
    let power = rest.mul_add(sum, 1.0);
    // The low bits of `shifted` are the whole number, which becomes the exponent.
    power * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// Logistic function.
#[inline(always)]
#[must_use]
pub fn sigmoid(number: f32) -> f32 {
    1.0 / (1.0 + exp(-number))
}

/// Number times its logistic function.
#[inline(always)]
#[must_use]
pub fn silu(number: f32) -> f32 {
    number / (1.0 + exp(-number))
}

/// Hyperbolic tangent: a polynomial of small numbers, and `1 - 2 / (exp(2 x) + 1)` of others.
#[inline(always)]
#[must_use]
pub fn tanh(number: f32) -> f32 {
    let size = number.abs();
    let large = 1.0 - 2.0 / (exp(size + size) + 1.0);
    let square = number * number;
    let mut sum = -5.704_988_7e-3;
    sum = square.mul_add(sum, 2.063_908_9e-2);
    sum = square.mul_add(sum, -5.373_971_6e-2);
    sum = square.mul_add(sum, 1.333_144_2e-1);
    sum = square.mul_add(sum, -3.333_328_2e-1);
    let small = (square * sum).mul_add(number, number);
    if size > TANH_LIMIT { large.copysign(number) } else { small }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest error in units in the last place of the exact value, over a sweep of bit patterns.
    fn worst(
        function: impl Fn(f32) -> f32,
        exact: impl Fn(f64) -> f64,
        low: f32,
        high: f32,
    ) -> f64 {
        let mut worst = 0.0_f64;
        for bits in (0..=u32::MAX).step_by(1009) {
            let number = f32::from_bits(bits);
            if !(low..=high).contains(&number) {
                continue;
            }
            let expected = exact(f64::from(number));
            #[allow(clippy::cast_possible_truncation)]
            let unit = {
                let size = (expected.abs() as f32).max(f32::MIN_POSITIVE);
                f64::from(f32::from_bits(size.to_bits() + 1)) - f64::from(size)
            };
            worst = worst.max((f64::from(function(number)) - expected).abs() / unit);
        }
        worst
    }

    #[test]
    fn errors_are_within_the_stated_units_in_the_last_place() {
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());

        assert!(worst(exp, f64::exp, -87.0, 88.0) <= 3.0);
        assert!(worst(sigmoid, logistic, -86.0, 88.0) <= 3.0);
        assert!(worst(silu, |x| x * logistic(x), -86.0, 88.0) <= 4.0);
        assert!(worst(tanh, f64::tanh, f32::MIN, f32::MAX) <= 2.0);
    }

    #[test]
    fn double_exponentials_are_within_a_unit_in_the_last_place() {
        for step in -100_000..=100_000 {
            let number = f64::from(step) * 6.999e-3 / 1.4;
            let expected = number.exp();
            let unit = f64::from_bits(expected.to_bits() + 1) - expected;
            assert!((exp_wide(number) - expected).abs() <= unit, "{number}");
        }
        assert!(exp_wide(f64::NAN).is_nan());
    }

    #[test]
    fn numbers_beyond_the_range_give_the_limits() {
        assert!(tanh(f32::INFINITY) >= 1.0 - f32::EPSILON);
        assert!(tanh(f32::NEG_INFINITY) <= f32::EPSILON - 1.0);
        assert!((sigmoid(f32::INFINITY) - 1.0).abs() < f32::EPSILON);
        assert!(sigmoid(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(-1e30) < 1e-37);
        for function in [exp, sigmoid, silu, tanh] {
            assert!(function(f32::NAN).is_nan());
        }
    }
}
