//! Laws of every batch, tested with a small task of its own.

#![allow(clippy::float_cmp, clippy::unwrap_used)] // the tests compare exact results

mod lottery;

use gym::{Batch, BatchError, BatchStateError, StepOut};
use lottery::Lottery;
use market::{InterruptCheck, Kind, SnapshotError, open, seal};
use proptest::prelude::*;

/// A batch beside its buffers.
#[derive(Clone)]
struct Run {
    batch: Batch<Lottery>,
    observations: Vec<f64>,
    finals: Vec<f64>,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl Run {
    fn new(num_envs: usize, threads: usize) -> Self {
        Self::of(Batch::new(&Lottery::new(6), num_envs, Some(threads), 9))
    }

    fn of(batch: Batch<Lottery>) -> Self {
        let count = batch.num_envs();
        Self {
            batch,
            observations: vec![0.0; 2 * count],
            finals: vec![0.0; 2 * count],
            rewards: vec![0.0; count],
            terminated: vec![false; count],
            truncated: vec![false; count],
        }
    }

    fn begun(num_envs: usize, threads: usize) -> Self {
        let mut run = Self::new(num_envs, threads);
        let seeds: Vec<u64> = (0..num_envs as u64).map(|env| 100 + env).collect();
        run.reset(Some(&seeds)).unwrap();
        run
    }

    fn reset(&mut self, seeds: Option<&[u64]>) -> Result<(), BatchError> {
        let ids: Vec<i64> =
            (0..self.rewards.len()).map(|env| i64::try_from(env).unwrap()).collect();
        self.batch.reset(&ids, seeds, &mut self.observations)
    }

    fn step(&mut self, actions: &[i64], autoreset: bool) -> Result<(), BatchError> {
        let out = StepOut {
            observations: &mut self.observations[..],
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            finals: autoreset.then_some(&mut self.finals[..]),
        };
        self.batch.step(actions, out, None)
    }

    /// All outputs of env `env`.
    fn row(&self, env: usize) -> ([f64; 2], f64, bool, bool) {
        let shown = [self.observations[2 * env], self.observations[2 * env + 1]];
        (shown, self.rewards[env], self.terminated[env], self.truncated[env])
    }
}

/// The action of an env depends on the step and the env alone.
fn actions(num_envs: usize, step: usize) -> Vec<i64> {
    (0..num_envs).map(|env| i64::from((env + step).is_multiple_of(3))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_env_depends_on_its_seed_and_actions_alone(
        num_envs in 4usize..200, env in 0usize..4, threads in 1usize..8,
    ) {
        let mut alone = Run::new(1, 1);
        alone.reset(Some(&[100 + env as u64])).unwrap();
        let mut together = Run::begun(num_envs, threads);

        for step in 0..40 {
            let all = actions(num_envs, step);
            together.step(&all, true).unwrap();
            alone.step(&all[env..=env], true).unwrap();
            prop_assert_eq!(together.row(env), alone.row(0));
        }
    }

    #[test]
    fn changed_bytes_are_refused_and_change_nothing(index in any::<prop::sample::Index>(), bit in 0u32..8) {
        let mut run = Run::begun(3, 1);
        run.step(&[0, 1, 0], true).unwrap();
        let bytes = run.batch.encode();
        let mut changed = bytes.clone();
        changed[index.index(bytes.len())] ^= 1u8 << bit;

        prop_assert!(run.batch.decode(&changed).is_err());
        prop_assert_eq!(run.batch.encode(), bytes);
    }

    #[test]
    fn bytes_that_are_cut_off_are_refused(kept in any::<prop::sample::Index>()) {
        let mut run = Run::begun(2, 1);
        let bytes = run.batch.encode();

        prop_assert!(run.batch.decode(&bytes[..kept.index(bytes.len())]).is_err());
        prop_assert_eq!(run.batch.encode(), bytes);
    }
}

#[test]
fn a_batch_restored_after_any_step_goes_on_bit_for_bit() {
    let mut run = Run::begun(5, 1);
    for step in 0..20 {
        let mut restored = Run::new(5, 2);
        restored.batch.decode(&run.batch.encode()).unwrap();
        let mut expected = run.clone();
        for later in step..step + 10 {
            expected.step(&actions(5, later), true).unwrap();
            restored.step(&actions(5, later), true).unwrap();
            assert!((0..5).all(|env| restored.row(env) == expected.row(env)));
        }
        run.step(&actions(5, step), true).unwrap();
    }
}

#[test]
fn a_refused_action_names_its_env_and_moves_nothing() {
    let mut run = Run::begun(4, 1);
    let before = run.batch.encode();

    let error = run.step(&[0, 1, 7, 0], true).unwrap_err();

    assert_eq!(error.to_string(), "the action of env 2: expected 0 or 1, got 7");
    assert_eq!(run.batch.encode(), before);
}

#[test]
fn an_env_outside_an_episode_refuses_to_step_and_no_env_changes() {
    let mut run = Run::new(2, 1);
    assert_eq!(run.step(&[0, 0], false), Err(BatchError::NotRunning { env: 0, begun: false }));
    run.reset(Some(&[1, 2])).unwrap();
    while !run.terminated.iter().chain(&run.truncated).any(|over| *over) {
        run.step(&[0, 0], false).unwrap();
    }
    let over = (0..2).find(|env| run.terminated[*env] || run.truncated[*env]).unwrap();
    let before = run.batch.encode();

    assert_eq!(run.step(&[0, 0], false), Err(BatchError::NotRunning { env: over, begun: true }));
    assert_eq!(run.batch.encode(), before);
}

#[test]
fn skipped_envs_and_their_rows_stay_as_they_were() {
    let mut run = Run::begun(3, 1);
    let (before, encoded) = (run.row(1), run.batch.task(1).clone());
    let out = StepOut {
        observations: &mut run.observations[..],
        rewards: &mut run.rewards,
        terminated: &mut run.terminated,
        truncated: &mut run.truncated,
        finals: None,
    };

    run.batch.step(&[0, 7, 0], out, Some(&[false, true, false])).unwrap();

    assert_eq!(run.row(1), before);
    assert_eq!(run.batch.task(1), &encoded);
    assert_ne!(run.batch.task(0), &encoded);
}

#[test]
fn the_end_of_an_episode_is_kept_and_the_next_one_begins() {
    let mut run = Run::begun(64, 2);
    let mut seen = 0;
    for step in 0..12 {
        run.step(&actions(64, step), true).unwrap();
        for env in (0..64).filter(|env| run.terminated[*env] || run.truncated[*env]) {
            seen += 1;
            assert_eq!(run.observations[2 * env + 1], 0.0);
            assert!(run.finals[2 * env] > 0.8 || run.finals[2 * env + 1] == 6.0);
            assert_eq!(run.batch.final_infos()[env], run.finals[2 * env + 1]);
        }
    }
    assert!(seen > 64);
}

#[test]
fn a_cloned_env_continues_identically() {
    let mut run = Run::begun(3, 1);
    run.step(&[0, 1, 0], true).unwrap();
    let mut untouched = run.clone();
    run.batch.clone_env(0, 2).unwrap();
    for step in 0..30 {
        let action = i64::from(step % 2 == 0);
        run.step(&[action, 1, action], true).unwrap();
        untouched.step(&[action, 1, action], true).unwrap();
        assert_eq!(run.row(2), untouched.row(0));
        assert_eq!((run.row(0), run.row(1)), (untouched.row(0), untouched.row(1)));
    }
    assert_eq!(run.batch.clone_env(0, 3), Err(BatchError::NoSuchEnv { last: 2, got: 3 }));
    run.batch.clone_env(1, 1).unwrap();
}

#[test]
fn episodes_without_a_seed_go_on_from_the_last_one_and_differ() {
    let mut run = Run::begun(2, 1);
    let first = run.row(0);
    run.reset(None).unwrap();
    let second = run.row(0);
    run.reset(Some(&[100, 101])).unwrap();

    assert_ne!(first, second);
    assert_eq!(run.row(0), first);

    let mut unseeded = Run::new(2, 1);
    unseeded.reset(None).unwrap();
    assert_ne!(unseeded.row(0), unseeded.row(1));
}

#[test]
fn a_step_limit_truncates_what_lasts_so_long() {
    let batch = Batch::new(&Lottery::new(6), 1, None, 0).with_step_limit(Some(2));
    let mut run = Run::of(batch);
    for seed in 0..20 {
        run.reset(Some(&[seed])).unwrap();
        run.step(&[0], false).unwrap();
        if !run.terminated[0] {
            assert!(!run.truncated[0]);
            run.step(&[0], false).unwrap();
            assert!(run.truncated[0] != run.terminated[0]);
        }
    }
}

#[test]
fn a_reset_that_is_refused_begins_nothing() {
    let mut run = Run::begun(2, 1);
    let before = run.batch.encode();

    let outside = run.batch.reset(&[0, 2], None, &mut run.observations);
    assert_eq!(outside, Err(BatchError::NoSuchEnv { last: 1, got: 2 }));
    let negative = run.batch.reset(&[0, -1], None, &mut run.observations);
    assert_eq!(negative, Err(BatchError::NoSuchEnv { last: 1, got: -1 }));
    let few = run.batch.reset(&[0, 1], Some(&[1]), &mut run.observations);
    assert_eq!(few, Err(BatchError::Length { name: "seeds", expected: 2, got: 1 }));
    assert_eq!(run.batch.encode(), before);
}

#[test]
fn states_of_other_batches_are_refused_by_name() {
    let mut run = Run::begun(2, 1);
    let before = run.batch.encode();

    let larger = Run::begun(3, 1).batch.encode();
    assert_eq!(run.batch.decode(&larger), Err(BatchStateError::OtherSize { expected: 2, got: 3 }));
    let longer = Batch::new(&Lottery::new(7), 2, Some(1), 0).encode();
    assert_eq!(run.batch.decode(&longer), Err(BatchStateError::OtherRules { task: "Lottery" }));
    let mut newer = before.clone();
    newer[4] = 9;
    assert_eq!(
        run.batch.decode(&newer),
        Err(SnapshotError::OtherVersion { expected: 1, got: 9 }.into())
    );
    assert_eq!(run.batch.encode(), before);
}

#[test]
fn a_long_step_that_is_stopped_has_moved_the_first_envs_and_no_others() {
    let mut run = Run::begun(25_000, 1);
    let mut asked = 0;
    let mut once = || {
        asked += 1;
        false
    };
    let actions = vec![1; 25_000];
    let out = StepOut {
        observations: &mut run.observations[..],
        rewards: &mut run.rewards,
        terminated: &mut run.terminated,
        truncated: &mut run.truncated,
        finals: None,
    };

    run.batch.step_slices(&actions, out, None, &mut InterruptCheck::new(&mut once)).unwrap();

    let moved: Vec<bool> = run.batch.infos().iter().map(|drawn| *drawn > 0.0).collect();
    assert_eq!(asked, 1);
    assert_eq!(moved.iter().position(|moved| !moved), Some(10_000));
    assert!(!moved[10_000..].contains(&true));
}

#[test]
fn a_long_step_that_goes_on_is_the_step_of_one_slice() {
    let mut sliced = Run::begun(25_000, 1);
    let mut threaded = sliced.clone();
    threaded.batch = Batch::new(&Lottery::new(6), 25_000, Some(4), 9);
    let seeds: Vec<u64> = (0..25_000).map(|env| 100 + env).collect();
    threaded.reset(Some(&seeds)).unwrap();
    let actions = vec![1; 25_000];

    sliced.step(&actions, true).unwrap();
    threaded.step(&actions, true).unwrap();

    assert_eq!(sliced.observations, threaded.observations);
    assert_eq!(sliced.batch.encode(), threaded.batch.encode());
}

#[test]
fn more_envs_than_memory_holds_are_refused() {
    for num_envs in [1 << 45, 1 << 62, usize::MAX] {
        let error = Batch::try_new(&Lottery::new(6), num_envs, None, 9).err();
        assert_eq!(error.map(|error| error.count), Some(num_envs));
    }
}

#[test]
fn an_episode_that_runs_on_behind_its_end_is_refused() {
    const BATCH: Kind = Kind { magic: *b"SKBA", version: 1, name: "a batch of envs" };
    let mut run = Run::begun(1, 1);
    while !run.terminated[0] && !run.truncated[0] {
        run.step(&[1], false).unwrap();
    }
    let state = run.batch.encode();
    let mut body = open(BATCH, &state).unwrap().to_vec();
    // Name, version, rules and number of envs; then seed, episodes begun, steps, and the flag.
    let flag = (8 + 7) + 4 + (8 + 8) + 8 + 24;
    assert_eq!(body[flag], 0);
    body[flag] = 1;

    let refused = run.batch.decode(&seal(BATCH, &body));

    assert_eq!(run.batch.encode(), state);
    if run.truncated[0] {
        assert!(matches!(refused, Err(BatchStateError::Snapshot(_))), "{refused:?}");
    }
}
