//! Return, length and duration of every running episode of a batch.

/// What is known of an episode when it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// Sum of its rewards.
    pub episode_return: f64,
    /// Its number of steps.
    pub length: u64,
    /// Seconds from its beginning to its end.
    pub elapsed: f64,
}

/// Tells seconds; where it counts from does not matter.
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

    /// Whether the batch has no episode.
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

    /// Continues saved totals; `elapsed` are seconds that had passed in each episode.
    /// Returns whether the lengths agreed; if not, nothing has changed.
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

    /// Begins episode `index` anew.
    pub fn restart(&mut self, index: usize, clock: &impl EpisodeClock) {
        (self.returns[index], self.lengths[index]) = (0.0, 0);
        self.starts[index] = clock.seconds();
    }

    /// Adds one step of episode `index`; if that ended it, tells of it and begins the next one.
    pub fn step(
        &mut self,
        index: usize,
        reward: f64,
        ended: bool,
        clock: &impl EpisodeClock,
    ) -> Option<Finished> {
        self.returns[index] += reward;
        self.lengths[index] += 1;
        if !ended {
            return None;
        }
        let finished = Finished {
            episode_return: self.returns[index],
            length: self.lengths[index],
            elapsed: clock.seconds() - self.starts[index],
        };
        self.restart(index, clock);
        Some(finished)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact results are what the tests are about
mod tests {
    use super::*;
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

    #[test]
    fn saved_totals_of_another_batch_are_refused() {
        let clock = Ticking(Cell::new(0.0));
        let mut episodes = Episodes::new(2, &clock);
        let before = episodes.clone();

        assert!(!episodes.load(vec![1.0], vec![1], &[0.0], &clock));
        assert_eq!(episodes, before);
    }
}
