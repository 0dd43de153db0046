//! Optimality conditions of random projections, and agreement of both solvers.

#![allow(clippy::float_cmp)] // the tests compare exact results

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::evaluate::{Asset, Prices};
use super::{Constraints, Projection, TOLERANCE, Untradable, Workspace};

const SECTORS: usize = 3;

/// Projection case: constraints, target and held weights, and movable assets.
#[derive(Clone, Debug)]
struct Case {
    constraints: Constraints,
    target: Vec<f64>,
    held: Vec<f64>,
    movable: Vec<bool>,
}

impl Case {
    fn project(&self, target: &[f64]) -> (Vec<f64>, Projection) {
        let mut workspace =
            Workspace::new(self.constraints.assets(), self.constraints.sector_caps.len());
        let mut allowed = vec![f64::NAN; target.len()];
        let Self { constraints, held, movable, .. } = self;
        let projection = constraints.project(target, held, movable, &mut workspace, &mut allowed);
        (allowed, projection)
    }
}

/// Bounds, held and target weight, sector, and a number that decides if it can move.
type Row = (f64, f64, f64, f64, usize, u8);

fn cases() -> impl Strategy<Value = Case> {
    let asset = (-0.5..0.0_f64, 0.0..0.5_f64, -0.2..0.3_f64, -1.0..1.0_f64, 0..=SECTORS, 0..4_u8);
    let caps = (
        proptest::option::of(0.1..2.0_f64),
        vec(proptest::option::of(0.0..0.6_f64), SECTORS),
        proptest::option::of(0.0..0.8_f64),
    );
    let no_caps = Just((None, vec![None; SECTORS], None));
    let caps = prop_oneof![4 => caps, 1 => no_caps];
    let case = (vec(asset, 1..24), caps, -1.0..1.0_f64, any::<bool>(), any::<bool>());
    case.prop_map(|(assets, (leverage, sector_caps, turnover), cash, short, stuck)| {
        let sector_caps =
            if sector_caps.iter().all(Option::is_none) { Vec::new() } else { sector_caps };
        let sectors = sector_caps.len();
        let column = |of: fn(&Row) -> f64| assets.iter().map(of).collect::<Vec<_>>();
        let mut held = column(|asset| asset.2);
        held.push(1.0 - held.iter().sum::<f64>());
        let mut target = column(|asset| asset.3);
        target.push(cash);
        let constraints = Constraints {
            lower: if short { column(|asset| asset.0) } else { vec![0.0; assets.len()] },
            upper: column(|asset| asset.1),
            cash_lower: 0.0,
            cash_upper: 1.0,
            leverage,
            sectors: assets.iter().map(|row| Some(row.4).filter(|s| *s < sectors)).collect(),
            sector_caps,
            turnover,
            untradable: Untradable::Assets,
            ..Constraints::default()
        };
        let movable = assets.iter().map(|asset| !stuck || asset.5 > 0).collect();
        Case { constraints, target, held, movable }
    })
}

/// Solution by Newton's method and its prices; `None` if it fails, which is rare.
fn solved(case: &Case) -> Option<(Workspace, Prices)> {
    let Case { constraints, target, held, movable } = case;
    let mut space = Workspace::new(constraints.assets(), constraints.sector_caps.len());
    space.prepare(constraints, target, held, movable);
    if space.least_turnover() > space.turnover + TOLERANCE {
        space.turnover = f64::INFINITY;
    }
    let (level, _) = space.bounded().level();
    let prices = space.newton(level)?;
    space.write_weights(prices);
    Some((space, prices))
}

/// The least and the largest subgradient of a price times the absolute value.
fn subgradients(price: f64, value: f64) -> (f64, f64) {
    if value == 0.0 { (-price, price) } else { (price * value.signum(), price * value.signum()) }
}

/// Return true if a weight is optimal for its asset at these prices.
fn is_stationary(weight: f64, asset: Asset, level: f64, gross: f64, turnover: f64) -> bool {
    let pull = asset.target - weight - level;
    let (of_gross, of_change) =
        (subgradients(gross, weight), subgradients(turnover, weight - asset.held));
    let keeps_from_falling = weight == asset.lower || pull >= of_gross.0 + of_change.0 - 1e-12;
    let keeps_from_rising = weight == asset.upper || pull <= of_gross.1 + of_change.1 + 1e-12;
    let inside = (asset.lower..=asset.upper).contains(&weight);
    inside && keeps_from_falling && keeps_from_rising
}

/// Return true if a cap holds, and is binding where it has a price.
fn is_complementary(price: f64, value: f64, cap: f64) -> bool {
    price >= 0.0 && value <= cap + TOLERANCE && (price == 0.0 || cap - value <= TOLERANCE)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn prices_and_weights_meet_the_optimality_conditions(case in cases()) {
        let Some((space, prices)) = solved(&case) else { return Ok(()) };

        let (mut net, mut gross, mut moved) = (0.0, 0.0, 0.0);
        for slot in &space.slots {
            let mut slot_gross = 0.0;
            for index in slot.start..slot.end {
                let (weight, asset) = (space.weights[index], space.asset(index));
                let price = prices.leverage + slot.price;
                prop_assert!(is_stationary(weight, asset, prices.level, price, prices.turnover));
                net += weight;
                slot_gross += weight.abs();
                moved += (weight - asset.held).abs();
            }
            prop_assert!(is_complementary(slot.price, slot_gross, slot.cap));
            gross += slot_gross;
        }
        prop_assert!((net + space.cash_weight - space.budget).abs() <= TOLERANCE);
        prop_assert!(is_complementary(prices.leverage, gross, space.leverage));
        prop_assert!(is_complementary(prices.turnover, moved, space.turnover));
    }

    #[test]
    fn newton_steps_and_nested_roots_agree(case in cases()) {
        let Some((mut space, _)) = solved(&case) else { return Ok(()) };
        let by_newton = space.weights.clone();

        let prices = space.nested();
        space.write_weights(prices);

        for (first, second) in by_newton.iter().zip(&space.weights) {
            prop_assert!((first - second).abs() <= 1e-11, "{first} is not {second}");
        }
    }

    #[test]
    fn no_allowed_weights_are_nearer(case in cases(), others in vec(-1.0..1.0_f64, 24 * 8)) {
        let (allowed, projection) = case.project(&case.target);
        if !projection.is_exact() {
            return Ok(());
        }
        for other in others.chunks_exact(24) {
            let mut toward = allowed.clone();
            for (weight, noise) in toward.iter_mut().zip(other.iter().cycle()) {
                *weight += 0.1 * noise;
            }
            let (other, _) = case.project(&toward);
            // The angle between the residual and any feasible direction is not acute.
            let product: f64 = (0..other.len())
                .map(|index| (case.target[index] - allowed[index]) * (other[index] - allowed[index]))
                .sum();
            prop_assert!(product <= 1e-11, "a way of {product}");
        }
    }

    #[test]
    fn the_level_of_plain_bounds_meets_the_sum(case in cases(), offset in -50.0..50.0_f64) {
        let Case { constraints, target, held, movable } = &case;
        let mut space = Workspace::new(constraints.assets(), constraints.sector_caps.len());
        let target: Vec<f64> = target.iter().map(|target| target + offset).collect();
        space.prepare(constraints, &target, held, movable);

        let (_, excess) = space.bounded().level();

        prop_assert!(excess.abs() <= TOLERANCE, "the sum is off by {excess}");
    }

    #[test]
    fn allowed_weights_are_returned_bit_for_bit(case in cases()) {
        let (allowed, projection) = case.project(&case.target);
        if !projection.is_exact() {
            return Ok(());
        }

        let (again, _) = case.project(&allowed);

        prop_assert!(allowed.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}

#[test]
fn newton_steps_seldom_give_up() {
    let mut runner = TestRunner::deterministic();
    let mut case = || cases().new_tree(&mut runner).expect("a case").current();

    let given_up = (0..5_000).filter(|_| solved(&case()).is_none()).count();

    assert!(given_up < 25, "{given_up} of 5000");
}

#[test]
fn constraints_survive_being_written() {
    let constraints = Constraints {
        lower: vec![-1.0, 0.0],
        upper: vec![f64::INFINITY, 0.5],
        cash_lower: f64::NEG_INFINITY,
        cash_upper: 1.0,
        leverage: Some(1.5),
        sectors: vec![None, Some(0)],
        sector_caps: vec![Some(0.2)],
        turnover: None,
        ..Constraints::default()
    };

    let bytes = postcard::to_allocvec(&constraints).expect("can be written");

    assert_eq!(postcard::from_bytes(&bytes), Ok(constraints));
}

/// Case with bounds of net and beta exposure that allow zero weights.
fn exposed_cases() -> impl Strategy<Value = Case> {
    let bounds = || (-0.3..0.0_f64, 0.0..0.5_f64);
    (cases(), bounds(), bounds(), vec(-0.5..2.0_f64, 24)).prop_map(
        |(mut case, net, beta, betas)| {
            let assets = case.constraints.assets();
            case.constraints.net = Some(net);
            case.constraints.beta = Some(beta);
            case.constraints.betas = betas[..assets].to_vec();
            case
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_allowed_weights_are_nearer_with_exposure_bounds(
        case in exposed_cases(),
        others in vec(-1.0..1.0_f64, 24 * 4),
    ) {
        let (allowed, projection) = case.project(&case.target);
        if !projection.is_exact() {
            return Ok(());
        }
        let (lower, upper) = case.constraints.beta.expect("bounded");
        let exposure: f64 =
            case.constraints.betas.iter().zip(&allowed).map(|(beta, weight)| beta * weight).sum();
        prop_assert!(exposure >= lower - TOLERANCE && exposure <= upper + TOLERANCE);
        for other in others.chunks_exact(24) {
            let mut toward = allowed.clone();
            for (weight, noise) in toward.iter_mut().zip(other.iter().cycle()) {
                *weight += 0.1 * noise;
            }
            let (other, _) = case.project(&toward);
            let product: f64 = (0..other.len())
                .map(|index| (case.target[index] - allowed[index]) * (other[index] - allowed[index]))
                .sum();
            prop_assert!(product <= 1e-10, "a way of {product}");
        }
    }

    #[test]
    fn rules_of_positions_are_met_or_reported(
        mut case in exposed_cases(),
        min_weight in 0.0..0.2_f64,
        max_names in 1..8_usize,
    ) {
        case.constraints.min_weight = min_weight;
        case.constraints.max_names = Some(max_names);
        let (allowed, projection) = case.project(&case.target);

        let assets = &allowed[..case.constraints.assets()];
        let names = assets.iter().filter(|weight| weight.abs() > TOLERANCE).count();
        let movable = assets.iter().zip(&case.movable).filter(|(_, can)| **can);
        let small = movable
            .filter(|(weight, _)| weight.abs() > TOLERANCE && weight.abs() < min_weight - TOLERANCE)
            .count();
        let is_met = names <= max_names && small == 0;
        let is_reported =
            matches!(projection, Projection::Compromise(relaxed) if relaxed.positions);
        prop_assert!(is_met || is_reported, "{allowed:?}");
        if projection.is_exact() {
            let (again, _) = case.project(&allowed);
            prop_assert!(allowed.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
