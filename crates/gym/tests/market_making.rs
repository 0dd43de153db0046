//! Laws of the market making task.

#![allow(clippy::float_cmp, clippy::unwrap_used)] // the tests compare exact results

use gym::{MarketMaking, MarketMakingSettings, Task};
use market::{EpisodeKey, SnapshotError};
use proptest::prelude::*;

fn settings() -> MarketMakingSettings {
    MarketMakingSettings {
        initial_mid: 100.0,
        initial_cash: 0.0,
        volatility: 2.0,
        horizon: 1.0,
        episode_steps: 200,
        fill_rate: 140.0,
        fill_decay: 1.5,
        inventory_limit: 20,
        min_distance: -1.0,
        max_distance: 5.0,
        risk_aversion: 0.1,
        running_penalty: 0.0,
        liquidation_penalty: 0.0,
        ruin_wealth: None,
    }
}

fn begun(settings: MarketMakingSettings, seed: u64) -> MarketMaking {
    let mut task = MarketMaking::new(settings).unwrap();
    task.begin(EpisodeKey { seed, episode: 0 }, &mut [0.0; 4]);
    task
}

/// Cash, inventory, mid, wealth and fills.
fn info(task: &MarketMaking) -> [f64; 5] {
    let mut row = [0.0; 5];
    task.write_info(&mut row);
    row
}

fn bytes_of(task: &MarketMaking) -> Vec<u8> {
    let mut body = Vec::new();
    task.encode(&mut body);
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn rewards_are_changes_of_wealth_and_inventory_stays_within_its_limit(
        seed in any::<u64>(), limit in 1u32..4, quotes in prop::collection::vec((-1.0..5.0, -1.0..5.0), 1..50),
    ) {
        let mut task = begun(MarketMakingSettings { inventory_limit: limit, ..settings() }, seed);
        for (bid, ask) in quotes {
            let before = info(&task);
            let outcome = task.step(&[bid, ask], &mut [0.0; 4]);
            let after = info(&task);

            prop_assert_eq!(outcome.reward, after[3] - before[3]);
            prop_assert!(after[1].abs() <= f64::from(limit));
            prop_assert!(after[4] - before[4] >= (after[1] - before[1]).abs());
        }
    }

    #[test]
    fn states_read_back_as_they_were(seed in any::<u64>(), steps in 0usize..200) {
        let mut task = begun(settings(), seed);
        for _ in 0..steps {
            task.step(&[0.3, 0.4], &mut [0.0; 4]);
        }
        let bytes = bytes_of(&task);
        let mut other = begun(settings(), 0);
        let mut body = bytes.as_slice();

        other.decode(&mut body).unwrap();

        prop_assert!(body.is_empty());
        prop_assert_eq!(bytes_of(&other), bytes);
    }

    #[test]
    fn the_bid_backs_off_and_the_ask_comes_in_as_inventory_grows(seed in any::<u64>()) {
        let mut task = begun(settings(), seed);
        let mut last = (info(&task)[1], task.optimal_quotes());
        for _ in 0..100 {
            task.step(&[0.2, 0.9], &mut [0.0; 4]);
            let now = (info(&task)[1], task.optimal_quotes());
            // Between two decisions time hardly changes the quotes; a fill does.
            if now.0 > last.0 {
                prop_assert!(now.1.bid > last.1.bid && now.1.ask < last.1.ask);
            }
            last = now;
        }
    }
}

#[test]
fn a_seed_gives_the_same_bits_on_every_machine() {
    let mut task = begun(settings(), 7);
    for _ in 0..199 {
        let quotes = task.optimal_quotes();
        task.step(&[quotes.bid, quotes.ask], &mut [0.0; 4]);
    }

    let [cash, inventory, mid, wealth, fills] = info(&task);
    assert_eq!((inventory, fills), (-2.0, 96.0));
    assert_eq!(cash.to_bits(), 4_643_242_203_985_433_785);
    assert_eq!(mid.to_bits(), 4_636_784_824_973_314_111);
    assert_eq!(wealth.to_bits(), 4_633_135_887_514_305_740);
}

#[test]
fn states_that_cannot_be_are_refused_and_change_nothing() {
    let mut long = begun(settings(), 1);
    for _ in 0..20 {
        long.step(&[-1.0, 5.0], &mut [0.0; 4]);
    }
    let bytes = bytes_of(&long);
    let narrow = MarketMakingSettings { inventory_limit: 1, ..settings() };
    let short = MarketMakingSettings { episode_steps: 10, ..settings() };
    for (other, got) in
        [(narrow, "an inventory beyond its limit"), (short, "an episode longer than episodes are")]
    {
        let mut task = begun(other, 2);
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
