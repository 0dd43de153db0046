use proptest::prelude::*;
use pulp::x86::V3;

use super::*;

type Four = [f64; LANES];

fn bits(lanes: impl Lanes) -> [u64; LANES] {
    lanes.to_array().map(f64::to_bits)
}

/// What every operation makes of numbers, NaN only where nothing is compared for size.
fn all<M: Machine>(machine: M, one: Four, other: Four) -> Vec<[u64; LANES]> {
    let nan = machine.all(f64::NAN);
    let (one, other) = (machine.four(one), machine.four(other));
    vec![
        bits(one + other),
        bits(one - other),
        bits(one * other),
        bits(one & other),
        bits(one | other),
        bits(one ^ other),
        bits(one.abs()),
        bits(one.abs().sqrt()),
        bits(one.smaller(other)),
        bits(one.larger(other)),
        bits(one.at_least(other)),
        bits(one.at_least(one)),
        bits(one.at_least(nan)),
        bits(one.except(one.at_least(other))),
        bits(one.except(nan.at_least(nan))),
        bits(machine.with_sign_of(one, other)),
        [total(one).to_bits(); LANES],
    ]
}

proptest! {
    #[test]
    fn wide_lanes_make_the_same_bits_as_any_others(
        one: [f64; LANES],
        other in prop::array::uniform4(-1e3..1e3),
    ) {
        prop_assume!(one.iter().all(|number| number.is_finite()));
        // Machines without wide lanes have none to compare.
        let Some(machine) = V3::try_new() else { return Ok(()) };

        prop_assert_eq!(all(Avx(machine), one, other), all(Plain, one, other));
    }
}

#[test]
fn a_sum_adds_lanes_in_a_fixed_order() {
    let lanes = [1e16, 1.0, -1e16, 1.0];

    let sum = total(Plain.four(lanes));

    assert_eq!(sum.to_bits(), 2.0_f64.to_bits());
}
