//! Laws of order execution.

#![allow(clippy::float_cmp, clippy::unwrap_used)] // some tests compare exact results

use std::sync::Arc;

use gym::order_execution::{
    Direction, ExecutionError, ObservedState, OrderDay, OrderDraws, OrderExecution,
    OrderObservation, OrderRules, OrderSource, OrderTask, OrderTaskSettings, OrderTicks,
    RulesError, SessionFeatures, SliceAction, SliceReward,
};
use gym::{Observation, Task};
use market::EpisodeKey;
use proptest::prelude::*;

fn day(ticks: usize) -> OrderDay {
    let price = (0..ticks).map(|tick| 100.0 + f64::from(u32::try_from(tick % 7).unwrap()));
    OrderDay { price: price.collect(), volume: vec![50.0; ticks], ..OrderDay::default() }
}

fn twap_rules(ticks_per_step: usize) -> OrderRules {
    OrderRules { ticks_per_step, carries: true, finishes: false, ..OrderRules::default() }
}

fn buy(day: OrderDay, rules: OrderRules, amount: f64, window: (usize, usize)) -> OrderExecution {
    OrderExecution::new(day, rules, Direction::Buy, amount, window).unwrap()
}

fn filled(order: &OrderExecution) -> Vec<f64> {
    order.fills().iter().map(|fill| fill.filled).collect()
}

/// Execute an order to its end, trading these shares of the remainder, and all in the last step.
fn worked(mut order: OrderExecution, shares: &[f64]) -> OrderExecution {
    let steps = order.total_steps();
    for step in 0..steps {
        if order.is_done() {
            break;
        }
        let share = if step + 1 == steps { 1.0 } else { shares[step % shares.len()] };
        order.step(order.position() * share).unwrap();
    }
    order
}

#[test]
fn steps_begin_at_multiples_so_that_the_first_can_be_short() {
    let rules = OrderRules { ticks_per_step: 4, ..OrderRules::default() };
    let mut order = buy(day(12), rules, 9.0, (2, 11));

    order.step(2.0).unwrap();

    assert_eq!((order.tick(), order.total_steps(), order.next_boundary()), (4, 3, 8));
    assert_eq!(filled(&order), [1.0, 1.0]);
}

#[test]
fn the_last_tick_asks_for_all_that_is_left_where_the_rules_say_so() {
    for (finishes, left) in [(true, 0.0), (false, 8.0)] {
        let rules = OrderRules { ticks_per_step: 4, finishes, ..OrderRules::default() };
        let mut order = buy(day(4), rules, 10.0, (0, 4));

        order.step(2.0).unwrap();

        assert_eq!(order.position(), left);
        assert!(order.is_done());
    }
}

#[test]
fn unfilled_amounts_are_carried_only_if_the_rules_say_so() {
    let capped = OrderDay { current_cap: Some(vec![0.0, 9.0, 9.0, 9.0]), ..day(4) };
    let given_up = OrderRules { ticks_per_step: 4, finishes: false, ..OrderRules::default() };

    let once = worked(buy(capped.clone(), given_up, 8.0, (0, 4)), &[1.0]);
    let again = worked(buy(capped, twap_rules(4), 8.0, (0, 4)), &[1.0]);

    assert_eq!(filled(&once), [0.0, 2.0, 2.0, 2.0]);
    assert_eq!(filled(&again), [0.0, 4.0, 2.0, 2.0]);
}

#[test]
fn a_suspended_tick_hands_its_share_on_under_either_rule() {
    let mut suspended = day(4);
    suspended.price[1] = f64::NAN;
    for rules in [twap_rules(4), OrderRules { ticks_per_step: 4, ..OrderRules::default() }] {
        let order = worked(buy(suspended.clone(), rules, 8.0, (0, 4)), &[1.0]);

        assert_eq!(filled(&order), [2.0, 0.0, 4.0, 2.0]);
    }
}

#[test]
fn a_cumulative_cap_counts_what_was_filled_before() {
    let capped = OrderDay { cumulative_cap: Some(vec![1.0, 3.0, 4.0, 9.0]), ..day(4) };

    let order = worked(buy(capped, twap_rules(4), 8.0, (0, 4)), &[1.0]);

    assert_eq!(filled(&order), [1.0, 2.0, 1.0, 4.0]);
}

#[test]
fn shares_come_in_whole_units_of_real_ones() {
    let adjusted = OrderDay { factor: Some(vec![2.0; 4]), ..day(4) };
    let rules = OrderRules { trade_unit: Some(100.0), ..twap_rules(4) };

    let order = worked(buy(adjusted, rules, 333.0, (0, 4)), &[1.0]);

    assert_eq!(filled(&order), [100.0, 50.0, 100.0, 50.0]);
    assert_eq!(order.position(), 33.0);
}

#[test]
fn a_fill_costs_its_rate_but_not_less_than_the_least() {
    let rules = OrderRules { open_cost: 0.01, min_cost: 5.0, ..OrderRules::default() };
    let mut order = buy(day(2), OrderRules { ticks_per_step: 1, ..rules }, 10.0, (0, 2));

    let small = order.step(1.0).unwrap().cost;
    let large = order.step(9.0).unwrap().cost;

    assert_eq!((small, large), (5.0, 9.0 * 101.0 * 0.01));
}

#[test]
fn impact_grows_with_the_square_of_the_share_of_the_market() {
    let rules = OrderRules { impact_cost: 0.5, ticks_per_step: 1, ..OrderRules::default() };
    let mut order = buy(day(1), rules, 5.0, (0, 1));

    let cost = order.step(5.0).unwrap().cost;

    assert!((cost - 500.0 * 0.5 * 0.01).abs() < 1e-12);
}

#[test]
fn a_buyer_spends_no_more_cash_than_there_is() {
    let rules = OrderRules { cash: Some(1_000.0), open_cost: 0.25, ..OrderRules::default() };
    let order = worked(buy(day(30), rules, 100.0, (0, 30)), &[1.0]);

    assert!(order.cash().unwrap() >= -1e-9);
    assert!((order.total().value - 800.0).abs() < 1e-9);
}

#[test]
fn the_last_odd_lot_is_sold_only_by_who_is_known_to_hold_it() {
    for (cash, left) in [(None, 50.0), (Some(0.0), 0.0)] {
        let adjusted = OrderDay { factor: Some(vec![1.0]), ..day(1) };
        let rules = OrderRules { trade_unit: Some(100.0), cash, ..twap_rules(1) };
        let sale = OrderExecution::new(adjusted, rules, Direction::Sell, 150.0, (0, 1)).unwrap();

        assert_eq!(worked(sale, &[1.0]).position(), left);
    }
}

#[test]
fn a_tenth_of_a_share_below_a_unit_is_rounding() {
    let adjusted = OrderDay { factor: Some(vec![1.0]), ..day(1) };
    for (amount, fill) in [(99.95, 99.95), (99.8, 0.0)] {
        let rules = OrderRules { trade_unit: Some(100.0), ..twap_rules(1) };

        let order = worked(buy(adjusted.clone(), rules, amount, (0, 1)), &[1.0]);

        assert_eq!(filled(&order), [fill]);
    }
}

#[test]
fn rounding_up_to_a_unit_spends_no_cash_that_is_not_there() {
    let adjusted = OrderDay { factor: Some(vec![1.0]), price: vec![1.0], ..day(1) };
    let rules = OrderRules { trade_unit: Some(100.0), cash: Some(99.95), ..twap_rules(1) };

    let order = worked(buy(adjusted, rules, 1_000.0, (0, 1)), &[1.0]);

    assert_eq!((filled(&order), order.cash()), (vec![99.95], Some(0.0)));
}

#[test]
fn refused_amounts_change_nothing() {
    let mut order = buy(day(60), OrderRules::default(), 10.0, (0, 60));
    order.step(4.0).unwrap();
    let before = order.clone();

    for amount in [f64::NAN, -1.0, 6.1, f64::INFINITY] {
        let refused = order.step(amount).unwrap_err();
        assert!(matches!(refused, ExecutionError::Amount { .. }), "{refused}");
        assert_eq!(order, before);
    }
}

#[test]
fn steps_record_the_amounts_ordered_and_left() {
    let rules = OrderRules { ticks_per_step: 4, ..OrderRules::default() };
    let mut order = buy(day(12), rules, 10.0, (2, 11));
    order.step(2.0).unwrap();
    order.step(3.0).unwrap();

    let steps: Vec<_> = order.step_summaries(0).collect();
    let shown = |at: usize| (steps[at].0, steps[at].1.ordered, steps[at].1.position);

    assert_eq!((shown(0), shown(1)), ((2, 2.0, 8.0), (4, 3.0, 5.0)));
    assert_eq!((order.ordered(), order.steps()), (5.0, 2));
    assert_eq!(steps[1].2, order.summary(4, 8));
    assert_eq!(order.step_summaries(1).count(), 1);
}

#[test]
fn a_done_order_takes_no_step() {
    let mut order = worked(buy(day(30), OrderRules::default(), 10.0, (0, 30)), &[1.0]);

    assert_eq!(order.step(0.0), Err(ExecutionError::Done { steps: 1 }));
}

#[test]
fn invalid_arguments_are_refused() {
    let new = |day, rules, amount, window| {
        OrderExecution::new(day, rules, Direction::Buy, amount, window).unwrap_err().to_string()
    };
    let none = OrderRules { ticks_per_step: 0, ..OrderRules::default() };
    let short = OrderDay { volume: vec![], ..day(3) };
    let flat = OrderDay { factor: Some(vec![0.0; 3]), ..day(3) };

    assert_eq!(new(day(3), none, 1.0, (0, 3)), RulesError::NoTicks.to_string());
    assert!(new(short, OrderRules::default(), 1.0, (0, 3)).starts_with("volume needs"));
    assert!(new(flat, OrderRules::default(), 1.0, (0, 3)).starts_with("factor needs"));
    assert!(new(day(3), OrderRules::default(), 1.0, (1, 4)).contains("got 1 to 4"));
    assert!(new(day(3), OrderRules::default(), 0.0, (0, 3)).contains("above 0, got 0"));
}

#[test]
fn damaged_bytes_are_refused() {
    let bytes = buy(day(3), OrderRules::default(), 1.0, (0, 3)).to_bytes();

    assert_eq!(OrderExecution::from_bytes(&bytes[1..]).ok(), None);
    assert_eq!(OrderExecution::from_bytes(&[&bytes[..], &[0]].concat()).ok(), None);
}

prop_compose! {
    fn some_day()(ticks in 1..60_usize)(
        price in prop::collection::vec(prop_oneof![9 => 1.0..200.0, 1 => Just(f64::NAN)], ticks),
        volume in prop::collection::vec(0.0..1e3, ticks),
        caps in prop::collection::vec(0.0..50.0, ticks),
    ) -> OrderDay {
        OrderDay { price, volume, current_cap: Some(caps), ..OrderDay::default() }
    }
}

proptest! {
    #[test]
    fn fills_and_remaining_size_add_up_to_the_order(
        day in some_day(), amount in 0.1..1e4, ticks_per_step in 1..40_usize,
        carries: bool, finishes: bool, shares in prop::collection::vec(0.0..=1.0, 1..5),
    ) {
        let ticks = day.ticks();
        let rules = OrderRules { ticks_per_step, carries, finishes, ..OrderRules::default() };
        let order = worked(buy(day.clone(), rules, amount, (0, ticks)), &shares);

        let total: f64 = filled(&order).iter().sum();
        prop_assert!((total + order.position() - amount).abs() <= 1e-6 * amount.max(1.0));
        for (tick, fill) in order.fills().iter().enumerate() {
            prop_assert!(fill.filled >= 0.0 && fill.filled <= day.current_cap.as_ref().unwrap()[tick]);
            prop_assert!(fill.filled == 0.0 || day.is_open(tick));
        }
    }

    #[test]
    fn without_limits_both_rules_give_the_same_fills(
        day in some_day(), amount in 0.1..1e4, ticks_per_step in 1..40_usize,
        shares in prop::collection::vec(0.0..=1.0, 1..5),
    ) {
        let free = OrderDay { current_cap: None, ..day };
        let window = (0, free.ticks());
        let equal = OrderRules { ticks_per_step, finishes: false, ..OrderRules::default() };

        let first = worked(buy(free.clone(), equal, amount, window), &shares);
        let second = worked(buy(free, twap_rules(ticks_per_step), amount, window), &shares);

        for (first, second) in filled(&first).iter().zip(filled(&second)) {
            prop_assert!((first - second).abs() <= 1e-9 * amount);
        }
    }

    #[test]
    fn cash_never_falls_below_nothing(
        day in some_day(), amount in 0.1..1e4, cash in 0.0..1e4, open_cost in 0.0..0.1,
        min_cost in 0.0..20.0, impact_cost in 0.0..1.0,
    ) {
        let window = (0, day.ticks());
        let rules = OrderRules {
            cash: Some(cash), open_cost, min_cost, impact_cost, ..twap_rules(7)
        };
        let order = worked(buy(day, rules, amount, window), &[0.5]);

        prop_assert!(order.cash().unwrap() >= -1e-6);
        let spent = order.total().value + order.total().cost;
        prop_assert!((cash - spent - order.cash().unwrap()).abs() <= 1e-6 * cash.max(1.0));
    }

    #[test]
    fn steps_add_up_to_the_order(
        day in some_day(), amount in 0.1..1e4, ticks_per_step in 1..40_usize,
        shares in prop::collection::vec(0.0..=1.0, 1..5),
    ) {
        let (ticks, first) = (day.ticks(), day.ticks() / 3);
        let rules = OrderRules { ticks_per_step, ..OrderRules::default() };
        let order = worked(buy(day, rules, amount, (first, ticks)), &shares);

        let steps: Vec<_> = order.step_summaries(0).collect();
        let filled: f64 = steps.iter().map(|(_, _, summary)| summary.filled).sum();
        prop_assert!((filled - order.total().filled).abs() <= 1e-9 * amount.max(1.0));
        prop_assert_eq!(steps.last().unwrap().1.position.to_bits(), order.position().to_bits());
        prop_assert_eq!(steps[0].0, first);
    }

    #[test]
    fn a_restored_order_continues_identically(
        day in some_day(), amount in 0.1..1e4, taken in 0..3_usize,
    ) {
        let window = (0, day.ticks());
        let mut order = buy(day, twap_rules(9), amount, window);
        for _ in 0..taken {
            if !order.is_done() {
                order.step(order.position() / 2.0).unwrap();
            }
        }

        let read = OrderExecution::from_bytes(&order.to_bytes()).unwrap();

        let (first, second) = (worked(order, &[0.7]), worked(read, &[0.7]));
        prop_assert_eq!(filled(&first), filled(&second));
        prop_assert_eq!(first.position().to_bits(), second.position().to_bits());
    }
}

#[test]
fn no_step_spans_two_sessions() {
    let sessions = OrderDay { sessions: vec![7], ..day(20) };
    let mut order = buy(sessions, twap_rules(5), 30.0, (3, 18));
    assert_eq!(order.total_steps(), 5);
    let mut boundaries = vec![];
    while !order.is_done() {
        boundaries.push(order.next_boundary());
        order.step(1.0).expect("there is more");
    }
    assert_eq!(boundaries, [5, 7, 12, 17, 18]);
}

#[test]
fn a_cumulative_cap_counts_anew_in_every_session() {
    let cap = vec![1.0, 2.0, 1.0, 2.0];
    let capped = OrderDay { cumulative_cap: Some(cap), sessions: vec![2], ..day(4) };
    let order = worked(buy(capped, twap_rules(2), 8.0, (0, 4)), &[1.0, 1.0]);
    assert_eq!(filled(&order), [1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn sessions_that_are_none_are_refused() {
    for wrong in [vec![0], vec![3, 2], vec![2, 2], vec![4]] {
        let sessions = OrderDay { sessions: wrong, ..day(4) };
        assert!(sessions.check().is_err());
    }
}

fn task(basket: Option<usize>) -> OrderTask {
    let own = OrderDay { sessions: vec![], ..day(40) };
    let ticks = Arc::new(own);
    let features: Arc<[f32]> = (0..40_u8).map(f32::from).collect();
    let sessions = vec![SessionFeatures { today: 0, yesterday: None }];
    let entry = OrderTicks { sell: Arc::clone(&ticks), buy: ticks, features: sessions };
    let source = OrderSource {
        ticks: vec![entry.clone(), entry],
        features: vec![features],
        draws: OrderDraws::Random { ticks: vec![Some(0), None, Some(1), None], assets: 2 },
    };
    let settings = OrderTaskSettings {
        rules: OrderRules { ticks_per_step: 5, ..OrderRules::default() },
        order_steps: 4,
        day_ticks: 40,
        columns: 1,
        state: ObservedState::FullHistory,
        action: SliceAction::TwapRelative,
        reward: SliceReward::Shortfall,
        penalty: 0.0,
        amount: (10.0, 20.0),
        direction: None,
        basket,
    };
    OrderTask::new(settings, source).expect("valid")
}

#[test]
fn an_episode_ends_with_its_window_and_shows_no_later_tick() {
    for basket in [None, Some(2)] {
        let mut task = task(basket);
        let layout = task.layout();
        let mut memory = OrderObservation::zeros(&layout, 1);
        let actions = vec![1.0; task.action_len()];
        task.begin(EpisodeKey { seed: 3, episode: 0 }, memory.rows());
        for step in 1..=4 {
            let outcome = task.step(&actions, memory.rows());
            assert_eq!(outcome.terminated, step == 4);
            let shown = memory.data_processed.iter().filter(|value| **value > 0.0).count();
            let known: i32 = memory.cur_tick.iter().sum();
            // The first feature of each order is 0; after the last tick all are known.
            let zeros = task.action_len();
            assert!(step == 4 || shown + zeros == usize::try_from(known).unwrap());
        }
        assert!(task.is_over());
    }
}

#[test]
fn a_decoded_task_goes_on_as_the_encoded_one() {
    let mut own = task(Some(2));
    let mut memory = OrderObservation::zeros(&own.layout(), 1);
    own.begin(EpisodeKey { seed: 9, episode: 0 }, memory.rows());
    own.step(&[0.5, 2.0], memory.rows());
    let mut bytes = vec![];
    own.encode(&mut bytes);

    let mut again = task(Some(2));
    again.decode(&mut &bytes[..]).expect("the same data");
    let outcomes = [&mut own, &mut again].map(|task| task.step(&[1.0, 1.0], memory.rows()));
    assert_eq!(outcomes[0], outcomes[1]);

    for cut in 0..bytes.len() {
        assert!(task(Some(2)).decode(&mut &bytes[..cut]).is_err());
    }
}

#[test]
fn data_without_enough_ticks_is_refused() {
    let settings = OrderTaskSettings {
        rules: OrderRules { ticks_per_step: 5, ..OrderRules::default() },
        order_steps: 4,
        day_ticks: 40,
        columns: 1,
        state: ObservedState::CurrentStep,
        action: SliceAction::Categorical(vec![0.0, 1.0]),
        reward: SliceReward::Score,
        penalty: 0.0,
        amount: (1.0, 1.0),
        direction: Some(Direction::Buy),
        basket: None,
    };
    let ticks = Arc::new(day(19));
    let entry = OrderTicks { sell: Arc::clone(&ticks), buy: ticks, features: vec![] };
    let draws = OrderDraws::Random { ticks: vec![Some(0)], assets: 1 };
    let source = OrderSource { ticks: vec![entry], features: vec![], draws };
    assert!(OrderTask::new(settings.clone(), source.clone()).is_err());
    assert!(OrderTask::new(OrderTaskSettings { order_steps: 3, ..settings }, source).is_ok());
}
