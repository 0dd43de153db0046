//! Laws of observations made of parts, tested with a small task of its own.

#![allow(clippy::float_cmp, clippy::unwrap_used)] // the tests compare exact results

mod walk;

use std::sync::Arc;

use gym::{Batch, BatchError, Observation, Shape, StepOut, Task};
use proptest::prelude::*;
use walk::{Sight, SightLayout, Walk};

const LOOKBACK: usize = 3;

/// A batch beside its buffers.
#[derive(Clone)]
struct Run {
    batch: Batch<Walk>,
    layout: SightLayout,
    shown: Sight,
    finals: Sight,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl Run {
    fn new(num_envs: usize, threads: usize) -> Self {
        let walk = Walk::new(LOOKBACK);
        let layout = walk.layout();
        Self {
            batch: Batch::new(&walk, num_envs, Some(threads), 9),
            layout,
            shown: Sight::zeros(&layout, num_envs),
            finals: Sight::zeros(&layout, num_envs),
            rewards: vec![0.0; num_envs],
            terminated: vec![false; num_envs],
            truncated: vec![false; num_envs],
        }
    }

    fn begun(num_envs: usize, threads: usize, first_seed: u64) -> Self {
        let mut run = Self::new(num_envs, threads);
        let ids: Vec<i64> = (0..num_envs).map(|env| i64::try_from(env).unwrap()).collect();
        let seeds: Vec<u64> = (first_seed..).take(num_envs).collect();
        run.batch.reset(&ids, Some(&seeds), run.shown.rows()).unwrap();
        run
    }

    fn step(&mut self, autoreset: bool, skip: Option<&[bool]>) -> Result<(), BatchError> {
        let actions = vec![0.5; self.rewards.len()];
        let out = StepOut {
            observations: self.shown.rows(),
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            finals: autoreset.then(|| self.finals.rows()),
        };
        self.batch.step(&actions, out, skip)
    }

    fn is_done(&self, env: usize) -> bool {
        self.terminated[env] || self.truncated[env]
    }

    fn shown(&self, env: usize) -> Sight {
        row_of(&self.shown, &self.layout, env)
    }

    fn last(&self, env: usize) -> Sight {
        row_of(&self.finals, &self.layout, env)
    }
}

/// One env's rows by plain indices, as a reference.
fn row_of(sight: &Sight, layout: &SightLayout, env: usize) -> Sight {
    fn part<E: Copy>(values: &[E], shape: Shape, env: usize) -> Vec<E> {
        (0..shape.len()).map(|index| values[env * shape.len() + index]).collect()
    }
    Sight {
        heights: part(&sight.heights, layout.heights, env),
        index: part(&sight.index, layout.index, env),
        shares: part(&sight.shares, layout.shares, env),
        passed: part(&sight.passed, layout.passed, env),
        unseen: part(&sight.unseen, layout.unseen, env),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_env_shows_the_same_parts_alone_and_among_others(
        num_envs in 4usize..200, env in 0usize..4, threads in 1usize..8,
    ) {
        let mut alone = Run::begun(1, 1, 100 + env as u64);
        let mut together = Run::begun(num_envs, threads, 100);
        prop_assert_eq!(together.shown(env), alone.shown(0));

        for _ in 0..20 {
            together.step(true, None).unwrap();
            alone.step(true, None).unwrap();
            prop_assert_eq!(together.shown(env), alone.shown(0));
            prop_assert_eq!(together.is_done(env), alone.is_done(0));
            if alone.is_done(0) {
                prop_assert_eq!(together.last(env), alone.last(0));
            }
        }
    }

    #[test]
    fn a_shape_holds_the_product_of_its_axes(axes in prop::array::uniform4(0usize..9)) {
        let shape = Shape::new(axes);

        prop_assert_eq!(shape.axes(), &axes);
        prop_assert_eq!(shape.len(), axes.iter().product::<usize>());
        prop_assert_eq!(shape.is_empty(), axes.contains(&0));
    }
}

#[test]
fn every_part_has_the_values_of_its_shape() {
    let run = Run::begun(4, 1, 7);

    assert_eq!(run.shown.heights.len(), 4 * 2 * LOOKBACK);
    assert_eq!(run.shown.index, [0; 4]);
    assert_eq!(run.shown.shares.len(), 4 * 3);
    assert_eq!(run.shown.passed.len(), 4 * 4);
    assert!(run.shown.unseen.is_empty());
    assert_eq!(Shape::new([]).axes(), &[] as &[usize]);
    assert_eq!(Shape::new([]).len(), 1);
    assert!(Shape::NONE.is_empty());
}

#[test]
fn all_parts_of_an_end_are_kept_and_the_next_episode_begins() {
    let mut run = Run::begun(64, 2, 3);
    let mut without = run.clone();
    let mut seen = 0;

    run.step(true, None).unwrap();
    without.step(false, None).unwrap();

    for env in (0..64).filter(|env| run.is_done(*env)) {
        seen += 1;
        assert_eq!(run.last(env), without.shown(env));
        assert_eq!(run.shown(env).index, [0]);
        assert_ne!(run.shown(env).shares, run.last(env).shares);
    }
    assert!(seen > 0);
}

#[test]
fn rows_of_skipped_envs_stay_as_they_were() {
    let mut run = Run::begun(3, 1, 5);
    let before = [run.shown(0), run.shown(1), run.shown(2)];

    run.step(true, Some(&[false, true, false])).unwrap();

    assert_eq!(run.shown(1), before[1]);
    assert_ne!(run.shown(0), before[0]);
    assert_ne!(run.shown(2), before[2]);
}

#[test]
fn a_part_of_another_length_is_named_and_nothing_moves() {
    let mut run = Run::begun(2, 1, 5);
    let before = run.batch.encode();

    run.shown.shares.pop();
    let stepped = run.step(true, None).unwrap_err();
    let reset = run.batch.reset(&[0], None, run.shown.rows()).unwrap_err();
    run.shown.shares.push(0.0);
    run.finals.passed.push(false);
    let last = run.step(true, None).unwrap_err();
    run.finals.passed.pop();
    run.shown.unseen.push(0.0);
    let unseen = run.step(true, None).unwrap_err();

    assert_eq!(stepped.to_string(), "observations[\"shares\"] needs 6 values, got 5");
    assert_eq!(reset, stepped);
    assert_eq!(last.to_string(), "final_observations[\"passed\"] needs 8 values, got 9");
    assert_eq!(unseen.to_string(), "observations[\"unseen\"] needs 0 values, got 1");
    assert_eq!(run.batch.encode(), before);
}

#[test]
fn shared_data_can_change_between_steps() {
    let mut run = Run::begun(3, 1, 5);
    let marks = Arc::new(vec![-1.0; 4]);

    run.batch.tasks_mut().for_each(|task| task.set_marks(&marks));
    run.step(true, None).unwrap();

    assert_eq!(run.shown.passed, [true; 12]);
}
