use proptest::prelude::*;
use pulp::x86::V3;

use super::*;

type Four = [f64; LANES];

fn bits(lanes: impl Lanes) -> [u64; LANES] {
    lanes.to_array().map(f64::to_bits)
}

/// Results of every operation, NaN only where nothing is compared for size.
fn all<M: Machine>(machine: M, first: Four, second: Four) -> Vec<[u64; LANES]> {
    let nan = machine.all(f64::NAN);
    let (first, second) = (machine.four(first), machine.four(second));
    vec![
        bits(first + second),
        bits(first - second),
        bits(first * second),
        bits(first & second),
        bits(first | second),
        bits(first ^ second),
        bits(first.abs()),
        bits(first.abs().sqrt()),
        bits(first.smaller(second)),
        bits(first.larger(second)),
        bits(first.at_least(second)),
        bits(first.at_least(first)),
        bits(first.at_least(nan)),
        bits(first.except(first.at_least(second))),
        bits(first.except(nan.at_least(nan))),
        bits(machine.with_sign_of(first, second)),
        [total(first).to_bits(); LANES],
    ]
}

proptest! {
    #[test]
    fn wide_lanes_make_the_same_bits_as_any_others(
        first: [f64; LANES],
        second in prop::array::uniform4(-1e3..1e3),
    ) {
        prop_assume!(first.iter().all(|number| number.is_finite()));
        // Nothing to compare without AVX.
        let Some(machine) = V3::try_new() else { return Ok(()) };

        prop_assert_eq!(all(Avx(machine), first, second), all(Plain, first, second));
    }
}

#[test]
fn a_sum_adds_lanes_in_a_fixed_order() {
    let lanes = [1e16, 1.0, -1e16, 1.0];

    let sum = total(Plain.four(lanes));

    assert_eq!(sum.to_bits(), 2.0_f64.to_bits());
}
