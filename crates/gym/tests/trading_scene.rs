//! Scenes agree with the events of the episode.

use gym::{Batch, SellHoldBuy, StepOut, Task, Trading, TradingSettings};
use market::Side;
use proptest::prelude::*;

const LEVELS: usize = 50;

fn batch() -> Batch<Trading<SellHoldBuy>> {
    let task = Trading::new(TradingSettings::default()).expect("the usual settings");
    Batch::new(&task, 1, Some(1), 0)
}

fn step(batch: &mut Batch<Trading<SellHoldBuy>>, action: i64) {
    let mut observations = vec![0.0; batch.task(0).layout()];
    let out = StepOut {
        observations: &mut observations[..],
        rewards: &mut [0.0],
        terminated: &mut [false],
        truncated: &mut [false],
        finals: None,
    };
    batch.step(&[action], out, None).expect("an action in an episode");
}

fn begin(batch: &mut Batch<Trading<SellHoldBuy>>, seed: Option<u64>) {
    let mut observations = vec![0.0; batch.task(0).layout()];
    let seeds = seed.map(|seed| [seed]);
    let seeds = seeds.as_ref().map(<[u64; 1]>::as_slice);
    batch.reset(&[0], seeds, &mut observations).expect("an env that is there");
}

#[test]
fn an_env_that_never_began_has_no_episode_to_tell_of() {
    let mut batch = batch();

    assert!(batch.begun(0).is_err());
    assert!(batch.begun(1).is_err());
    begin(&mut batch, Some(5));
    begin(&mut batch, None);

    let (key, _) = batch.begun(0).expect("it has begun");
    assert_eq!((key.seed, key.episode), (5, 1));
}

#[test]
fn a_symbol_that_is_not_there_has_no_scene() {
    let mut batch = batch();
    begin(&mut batch, Some(0));

    assert!(batch.task(0).scene(0, LEVELS).is_some());
    assert!(batch.task(0).scene(1, LEVELS).is_none());
}

#[test]
fn the_fair_value_is_in_the_scene_if_the_agent_observes_it() {
    for privileged in [false, true] {
        let mut settings = TradingSettings::default();
        settings.features.privileged = privileged;
        let task = Trading::<SellHoldBuy>::new(settings).expect("sound settings");

        let scene = task.scene(0, LEVELS).expect("one symbol");

        assert_eq!(scene.fair, privileged.then(|| task.market().symbols()[0].fair()));
    }
}

#[test]
fn levels_are_as_many_as_were_asked_for() {
    let mut batch = batch();
    begin(&mut batch, Some(3));

    let scene = batch.task(0).scene(0, 3).expect("one symbol");

    assert_eq!((scene.bids.len(), scene.asks.len()), (3, 3));
    assert!(scene.bids[0].price < scene.asks[0].price);
}

#[test]
fn news_is_counted_from_the_beginning_of_the_episode() {
    let mut settings = TradingSettings::default();
    settings.market.news.rate = 0.05;
    let mut batch = Batch::new(&Trading::new(settings).expect("sound settings"), 1, Some(1), 0);
    begin(&mut batch, Some(2));
    let starts = |batch: &Batch<Trading<SellHoldBuy>>| -> Vec<i64> {
        let scene = batch.task(0).scene(0, 1).expect("one symbol");
        scene.news.iter().map(|news| news.start).collect()
    };
    let mut known = starts(&batch);
    assert!(!known.is_empty() && known.iter().all(|start| *start <= 0));
    let mut arrivals = 0;
    for tick in 1..=120 {
        step(&mut batch, 1);
        for start in starts(&batch) {
            if !known.contains(&start) {
                assert_eq!(start, tick);
                known.push(start);
                arrivals += 1;
            }
        }
    }
    assert!(arrivals > 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn own_trades_add_up_to_the_position(
        seed in 0..1_000_u64,
        actions in prop::collection::vec(0..3_i64, 1..30),
    ) {
        let mut batch = batch();
        begin(&mut batch, Some(seed));
        let mut lots = 0;
        for (index, action) in actions.iter().enumerate() {
            step(&mut batch, *action);
            let task = batch.task(0);
            let scene = task.scene(0, LEVELS).expect("one symbol");
            for trade in &scene.trades {
                lots += trade.own.map_or(0, Side::sign) * i64::from(trade.size.0);
            }
            let bar = task.market().symbols()[0].bar();
            let volume: u64 = scene.trades.iter().map(|trade| u64::from(trade.size.0)).sum();

            prop_assert_eq!(scene.lots, lots);
            prop_assert_eq!(volume, bar.volume());
            prop_assert_eq!(scene.tick, index as u64 + 1);
            let held = scene.tick_size * scene.mid * f64::from(i32::try_from(lots).expect("few lots"));
            prop_assert!((scene.cash + held - scene.equity).abs() < 1e-6);
            prop_assert!((scene.initial_cash - 100_000.0).abs() < 1e-6);
        }
    }
}
