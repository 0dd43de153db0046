//! Return, length and duration of every running episode of a batch.

/// Summary of a finished episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// Sum of its rewards.
    pub episode_return: f64,
    /// Its number of steps.
    pub length: u64,
    /// Duration in seconds.
    pub elapsed: f64,
}

/// Clock in seconds, from any origin.
pub trait EpisodeClock {
    /// Seconds now.
    fn seconds(&self) -> f64;
}

/// Running totals of a batch of episodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Episodes {
    returns: Vec<f64>,
    lengths: Vec<u64>,
    starts: Vec<f64>,
}

impl Episodes {
    /// Totals of `batch` episodes that begin now.
    #[must_use]
    pub fn new(batch: usize, clock: &impl EpisodeClock) -> Self {
        Self {
            returns: vec![0.0; batch],
            lengths: vec![0; batch],
            starts: vec![clock.seconds(); batch],
        }
    }

    /// Episodes in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.returns.len()
    }

    /// Return true if the batch has no episodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.returns.is_empty()
    }

    /// Rewards so far of each running episode.
    #[must_use]
    pub fn returns(&self) -> &[f64] {
        &self.returns
    }

    /// Steps so far of each running episode.
    #[must_use]
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Seconds so far of each running episode.
    pub fn elapsed(&self, clock: &impl EpisodeClock) -> Vec<f64> {
        let now = clock.seconds();
        self.starts.iter().map(|start| now - start).collect()
    }

    /// Restore saved totals; `elapsed` are seconds that had passed in each episode. Returns false
    /// if the lengths disagree; nothing has changed then.
    pub fn load(
        &mut self,
        returns: Vec<f64>,
        lengths: Vec<u64>,
        elapsed: &[f64],
        clock: &impl EpisodeClock,
    ) -> bool {
        let batch = self.len();
        if returns.len() != batch || lengths.len() != batch || elapsed.len() != batch {
            return false;
        }
        let now = clock.seconds();
        (self.returns, self.lengths) = (returns, lengths);
        self.starts = elapsed.iter().map(|seconds| now - seconds).collect();
        true
    }

    /// Restart episode `index`.
    pub fn restart(&mut self, index: usize, clock: &impl EpisodeClock) {
        self.restart_at(index, clock.seconds());
    }

    /// Add one step of episode `index`; if that ended it, return its summary and begin the next
    /// one.
    pub fn step(
        &mut self,
        index: usize,
        reward: f64,
        ended: bool,
        clock: &impl EpisodeClock,
    ) -> Option<Finished> {
        self.returns[index] += reward;
        self.lengths[index] += 1;
        ended.then(|| self.finish(index, clock.seconds()))
    }

    /// Add one step of every episode where `running` is true (of all by default); return the
    /// summaries of those that ended, in order, and begin the next ones. The clock is read once for
    /// all of them. Returns None if a length disagrees; nothing has changed then.
    pub fn step_batch(
        &mut self,
        rewards: &[f64],
        ended: &[bool],
        running: Option<&[bool]>,
        clock: &impl EpisodeClock,
    ) -> Option<Vec<(usize, Finished)>> {
        let batch = self.len();
        let lengths = [rewards.len(), ended.len(), running.map_or(batch, <[bool]>::len)];
        if lengths != [batch; 3] {
            return None;
        }
        self.add(rewards, running);
        let is_over = |&index: &usize| ended[index] && running.is_none_or(|running| running[index]);
        let over: Vec<usize> = (0..batch).filter(is_over).collect();
        if over.is_empty() {
            return Some(Vec::new());
        }
        let now = clock.seconds();
        Some(over.into_iter().map(|index| (index, self.finish(index, now))).collect())
    }

    fn add(&mut self, rewards: &[f64], running: Option<&[bool]>) {
        let totals = self.returns.iter_mut().zip(&mut self.lengths).zip(rewards);
        match running {
            None => totals.for_each(|((total, length), reward)| {
                *total += reward;
                *length += 1;
            }),
            Some(running) => totals.zip(running).filter(|(_, running)| **running).for_each(
                |(((total, length), reward), _)| {
                    *total += reward;
                    *length += 1;
                },
            ),
        }
    }

    fn finish(&mut self, index: usize, now: f64) -> Finished {
        let finished = Finished {
            episode_return: self.returns[index],
            length: self.lengths[index],
            elapsed: now - self.starts[index],
        };
        self.restart_at(index, now);
        finished
    }

    fn restart_at(&mut self, index: usize, now: f64) {
        (self.returns[index], self.lengths[index], self.starts[index]) = (0.0, 0, now);
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::Cell;

    struct Ticking(Cell<f64>);

    impl EpisodeClock for Ticking {
        fn seconds(&self) -> f64 {
            self.0.set(self.0.get() + 1.0);
            self.0.get()
        }
    }

    #[test]
    fn an_episode_sums_its_rewards_and_counts_its_steps() {
        let clock = Ticking(Cell::new(0.0));
        let mut episodes = Episodes::new(1, &clock);

        assert_eq!(episodes.step(0, 1.5, false, &clock), None);
        let finished = episodes.step(0, 2.0, true, &clock);

        assert_eq!(finished, Some(Finished { episode_return: 3.5, length: 2, elapsed: 1.0 }));
        assert_eq!((episodes.returns(), episodes.lengths()), (&[0.0][..], &[0][..]));
    }

    fn totals(episodes: &Episodes) -> (Vec<f64>, Vec<u64>) {
        (episodes.returns().to_vec(), episodes.lengths().to_vec())
    }

    proptest! {
        #[test]
        fn a_batch_equals_its_episodes_one_by_one(
            steps in vec(vec((-1e6..1e6f64, any::<bool>(), any::<bool>()), 3), 0..20),
            all_run in any::<bool>(),
        ) {
            let clock = Ticking(Cell::new(0.0));
            let (mut batch, mut single) = (Episodes::new(3, &clock), Episodes::new(3, &clock));
            for rows in steps {
                let rewards: Vec<f64> = rows.iter().map(|row| row.0).collect();
                let ended: Vec<bool> = rows.iter().map(|row| row.1).collect();
                let running: Vec<bool> = rows.iter().map(|row| all_run || row.2).collect();

                let mask = (!all_run).then_some(&running[..]);
                let summaries = batch.step_batch(&rewards, &ended, mask, &clock).expect("lengths agree");

                let expected: Vec<(usize, Finished)> = (0..3)
                    .filter(|&index| running[index])
                    .filter_map(|index| {
                        let finished_episode = single.step(index, rewards[index], ended[index], &clock);
                        finished_episode.map(|finished| (index, finished))
                    })
                    .collect();
                let known = |(index, finished_episode): &(usize, Finished)| (*index, finished_episode.episode_return, finished_episode.length);
                prop_assert!(summaries.iter().map(known).eq(expected.iter().map(known)));
                prop_assert_eq!(totals(&batch), totals(&single));
            }
        }
    }

    #[test]
    fn episodes_that_end_together_end_at_one_time() {
        let clock = Ticking(Cell::new(0.0));
        let mut episodes = Episodes::new(2, &clock);

        let summaries =
            episodes.step_batch(&[1.0; 2], &[true; 2], None, &clock).expect("lengths agree");

        let seconds: Vec<f64> = summaries.iter().map(|(_, finished)| finished.elapsed).collect();
        assert_eq!((seconds, clock.0.get()), (vec![1.0, 1.0], 2.0));
    }

    #[test]
    fn a_step_of_another_batch_is_refused() {
        let clock = Ticking(Cell::new(0.0));
        let mut episodes = Episodes::new(2, &clock);
        let before = episodes.clone();

        assert_eq!(episodes.step_batch(&[1.0], &[true; 2], None, &clock), None);
        assert_eq!(episodes.step_batch(&[1.0; 2], &[true], None, &clock), None);
        assert_eq!(episodes.step_batch(&[1.0; 2], &[true; 2], Some(&[true]), &clock), None);
        assert_eq!(episodes, before);
    }

    #[test]
    fn saved_totals_of_another_batch_are_refused() {
        let clock = Ticking(Cell::new(0.0));
        let mut episodes = Episodes::new(2, &clock);
        let before = episodes.clone();

        assert!(!episodes.load(vec![1.0], vec![1], &[0.0], &clock));
        assert_eq!(episodes, before);
    }
}
