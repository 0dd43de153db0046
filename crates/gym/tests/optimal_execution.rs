//! Laws of the optimal execution task.

#![allow(clippy::float_cmp, clippy::unwrap_used)] // the tests compare exact results

use gym::{ActionUnit, OptimalExecution, OptimalExecutionSettings, SettingsError, Task};
use market::{EpisodeKey, Side, SnapshotError};
use proptest::prelude::*;

fn settings() -> OptimalExecutionSettings {
    OptimalExecutionSettings {
        side: Side::Sell,
        shares: 1e6,
        initial_price: 50.0,
        horizon: 5.0,
        episode_steps: 25,
        volatility: 0.95,
        temporary_impact: 2.5e-6,
        permanent_impact: 2.5e-7,
        half_spread: 0.0625,
        risk_aversion: 1e-6,
        action: ActionUnit::Rest,
        reward_unit: Some(1.0),
    }
}

fn begun(settings: OptimalExecutionSettings, seed: u64) -> OptimalExecution {
    let mut task = OptimalExecution::new(settings).unwrap();
    task.begin(EpisodeKey { seed, episode: 0 }, &mut [0.0; 4]);
    task
}

/// Info of an episode.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Info {
    shortfall: f64,
    inventory: f64,
    price: f64,
    traded: f64,
    cash: f64,
    expected_cost: f64,
    variance: f64,
}

fn info(task: &OptimalExecution) -> Info {
    let mut row = [0.0; 7];
    task.write_info(&mut row);
    let [shortfall, inventory, price, traded, cash, expected_cost, variance] = row;
    Info { shortfall, inventory, price, traded, cash, expected_cost, variance }
}

fn bytes_of(task: &OptimalExecution) -> Vec<u8> {
    let mut body = Vec::new();
    task.encode(&mut body);
    body
}

fn near(got: f64, expected: f64, scale: f64) -> bool {
    (got - expected).abs() <= 1e-9 * scale
}

fn any_settings() -> impl Strategy<Value = OptimalExecutionSettings> {
    let side = prop_oneof![Just(Side::Sell), Just(Side::Buy)];
    let action = prop_oneof![Just(ActionUnit::Rest), Just(ActionUnit::Order)];
    (side, action, 1u32..30, 0.0..3.0, 1e-6..1e-5, 0.0..0.9, 0.0..0.1, 0.0..1e-5).prop_map(
        |(side, action, episode_steps, volatility, impact, lasting, half_spread, aversion)| {
            let rate = f64::from(episode_steps) / 5.0;
            OptimalExecutionSettings {
                side,
                action,
                episode_steps,
                volatility,
                temporary_impact: impact,
                // Always below the bound that makes trading in lumps cheap.
                permanent_impact: lasting * 2.0 * impact * rate,
                half_spread,
                risk_aversion: aversion,
                ..settings()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_money_and_no_share_is_made_or_lost(
        settings in any_settings(), seed in any::<u64>(),
        actions in prop::collection::vec(0.0..=1.0, 30),
    ) {
        let value = settings.shares * settings.initial_price;
        let sign = if settings.side == Side::Sell { 1.0 } else { -1.0 };
        let mut task = begun(settings.clone(), seed);
        let (mut traded, mut rewards) = (0.0, 0.0);
        for action in actions {
            let before = info(&task);
            let outcome = task.step(&[action], &mut [0.0; 4]);
            let now = info(&task);
            traded += now.traded;
            rewards += outcome.reward;
            let scale = value + now.cash.abs();

            prop_assert!(now.traded >= 0.0 && now.inventory >= 0.0);
            prop_assert!(near(now.inventory, settings.shares - traded, settings.shares));
            // Cash, remaining value and shortfall add up to the initial value.
            prop_assert!(near(now.cash + sign * now.inventory * now.price + now.shortfall, sign * value, scale));
            // A fill is never better than the price before it.
            prop_assert!((now.cash - before.cash) <= sign * now.traded * before.price + 1e-9 * scale);
            let risk = settings.risk_aversion * now.variance;
            prop_assert!(near(-rewards, now.shortfall + risk, scale + risk));
            prop_assert_eq!(outcome.terminated, now.inventory == 0.0);
            prop_assert!(!outcome.truncated);
            if outcome.terminated {
                break;
            }
        }
        prop_assert_eq!(info(&task).inventory, 0.0);
        prop_assert!(near(traded, settings.shares, settings.shares));
    }

    #[test]
    fn expected_cost_equals_the_closed_form(
        settings in any_settings(), seed in any::<u64>(),
        actions in prop::collection::vec(0.0..=1.0, 30),
    ) {
        let (tau, shares) = (settings.step_time(), settings.shares);
        let mut task = begun(settings.clone(), seed);
        let (mut squares, mut risk) = (0.0, 0.0);
        for action in actions {
            let outcome = task.step(&[action], &mut [0.0; 4]);
            let now = info(&task);
            squares += now.traded * now.traded;
            risk += now.inventory * now.inventory;
            if outcome.terminated {
                break;
            }
        }
        let impact = settings.effective_impact() / tau * squares;
        let lasting = settings.permanent_impact * shares * shares / 2.0;
        let expected = impact + lasting + settings.half_spread * shares;

        prop_assert!(near(info(&task).expected_cost, expected, expected.max(1.0)));
        let variance = settings.volatility * settings.volatility * tau * risk;
        prop_assert!(near(info(&task).variance, variance, variance.max(1.0)));
    }

    #[test]
    fn a_buyer_and_a_seller_are_mirror_images(
        seed in any::<u64>(), actions in prop::collection::vec(0.0..=1.0, 25),
    ) {
        let calm = OptimalExecutionSettings { volatility: 0.0, ..settings() };
        let mut seller = begun(calm.clone(), seed);
        let mut buyer = begun(OptimalExecutionSettings { side: Side::Buy, ..calm }, seed);
        for action in actions {
            let (mut sold, mut bought) = ([0.0; 4], [0.0; 4]);
            let outcome = seller.step(&[action], &mut sold);
            prop_assert_eq!(outcome, buyer.step(&[action], &mut bought));
            prop_assert_eq!(sold, bought);
            prop_assert!(near(info(&seller).price + info(&buyer).price, 100.0, 100.0));
            if outcome.terminated {
                break;
            }
        }
    }

    #[test]
    fn the_market_moves_by_itself_whatever_is_traded(
        seed in any::<u64>(), actions in prop::collection::vec((0.01..0.9, prop_oneof![Just(0.0), 0.01..0.9]), 24),
    ) {
        let quiet = OptimalExecutionSettings { permanent_impact: 0.0, ..settings() };
        let (mut left, mut right) = (begun(quiet.clone(), seed), begun(quiet, seed));
        for (first, second) in actions {
            left.step(&[first], &mut [0.0; 4]);
            right.step(&[second], &mut [0.0; 4]);
            prop_assert_eq!(info(&left).price, info(&right).price);
        }
    }

    #[test]
    fn the_optimal_action_follows_the_optimal_inventory(settings in any_settings(), seed in any::<u64>()) {
        let mut task = begun(settings.clone(), seed);
        loop {
            prop_assert!(near(info(&task).inventory, task.optimal_inventory(), settings.shares));
            let action = task.optimal_action();
            prop_assert!(task.check(&[action]).is_ok());
            if task.step(&[action], &mut [0.0; 4]).terminated {
                break;
            }
        }
        prop_assert!(info(&task).inventory == 0.0);
    }

    #[test]
    fn states_read_back_as_they_were(seed in any::<u64>(), steps in 0usize..24) {
        let mut task = begun(settings(), seed);
        for _ in 0..steps {
            task.step(&[0.1], &mut [0.0; 4]);
        }
        let bytes = bytes_of(&task);
        let mut right = begun(settings(), 0);
        let mut body = bytes.as_slice();

        right.decode(&mut body).unwrap();

        prop_assert!(body.is_empty());
        prop_assert_eq!(bytes_of(&right), bytes);
        let (mut shown, mut again) = ([0.0; 4], [0.0; 4]);
        prop_assert_eq!(task.step(&[0.3], &mut shown), right.step(&[0.3], &mut again));
        prop_assert_eq!(shown, again);
    }
}

#[test]
fn without_risk_aversion_the_optimum_trades_evenly() {
    let mut task = begun(OptimalExecutionSettings { risk_aversion: 0.0, ..settings() }, 3);
    for _ in 0..25 {
        task.step(&[task.optimal_action()], &mut [0.0; 4]);
        assert!(near(info(&task).traded, 40_000.0, 1e6));
    }
}

#[test]
fn a_share_of_the_order_trades_no_more_than_what_is_left() {
    let mut task = begun(OptimalExecutionSettings { action: ActionUnit::Order, ..settings() }, 3);

    task.step(&[0.7], &mut [0.0; 4]);
    assert_eq!(info(&task).traded, 700_000.0);
    let outcome = task.step(&[0.7], &mut [0.0; 4]);

    assert_eq!(info(&task).traded, 300_000.0);
    assert!(outcome.terminated);
}

#[test]
fn actions_that_are_no_shares_are_refused() {
    let task = begun(settings(), 0);
    let unit = begun(OptimalExecutionSettings { action: ActionUnit::Order, ..settings() }, 0);
    for got in [-1e-9, 1.0 + 1e-9, f64::NAN, f64::INFINITY] {
        let error = task.check(&[got]).unwrap_err();
        assert_eq!(error.expected, "a share of what is left from 0 to 1");
        assert_eq!(error.got, format!("{got:?}"));
        assert_eq!(unit.check(&[got]).unwrap_err().expected, "a share of the order from 0 to 1");
    }
    assert!([0.0, 0.5, 1.0].iter().all(|share| task.check(&[*share]).is_ok()));
}

#[test]
fn impact_that_rewards_trading_in_lumps_is_refused() {
    let lumpy = OptimalExecutionSettings { permanent_impact: 2.5e-5, ..settings() };

    assert_eq!(
        OptimalExecution::new(lumpy).unwrap_err(),
        SettingsError {
            name: "temporary_impact",
            expected: "finite and above permanent_impact * horizon / episode_steps / 2",
            got: 2.5e-6,
        }
    );
}

#[test]
fn a_seed_gives_the_same_bits_on_every_machine() {
    let mut task = begun(settings(), 7);
    for _ in 0..24 {
        task.step(&[task.optimal_action()], &mut [0.0; 4]);
    }

    let Info { shortfall, inventory, price, .. } = info(&task);
    assert_eq!(
        [price, inventory, shortfall].map(f64::to_bits),
        [4_632_543_106_524_177_746, 4_667_749_826_339_081_511, 13_910_630_774_556_756_095]
    );
}

#[test]
fn states_that_cannot_be_are_refused_and_change_nothing() {
    let mut long = begun(settings(), 1);
    for _ in 0..20 {
        long.step(&[0.01], &mut [0.0; 4]);
    }
    let bytes = bytes_of(&long);
    let small = OptimalExecutionSettings { shares: 10.0, ..settings() };
    let short = OptimalExecutionSettings { episode_steps: 10, ..settings() };
    for (right, got) in
        [(small, "more or less than the order"), (short, "an episode longer than episodes are")]
    {
        let mut task = begun(right, 2);
        let before = bytes_of(&task);

        let refused = task.decode(&mut bytes.as_slice());

        assert_eq!(refused, Err(SnapshotError::Impossible { got }));
        assert_eq!(bytes_of(&task), before);
    }
    for kept in 0..bytes.len() {
        let before = bytes_of(&long);
        assert!(long.decode(&mut &bytes[..kept]).is_err());
        assert_eq!(bytes_of(&long), before);
    }
}
