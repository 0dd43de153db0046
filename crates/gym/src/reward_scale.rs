//! Reward scaling by the standard deviation of the discounted return.

use crate::moments::{Moments, MomentsError};

/// Reward scale: discounted returns of a batch of episodes, and the running moments over all of
/// them.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardScale {
    gamma: f64,
    epsilon: f64,
    returns: Vec<f64>,
    moments: Moments,
}

impl RewardScale {
    /// A scale for `batch` episodes at once; `gamma` discounts, `epsilon` keeps the divisor
    /// from zero.
    #[must_use]
    pub fn new(batch: usize, gamma: f64, epsilon: f64) -> Self {
        Self { gamma, epsilon, returns: vec![0.0; batch], moments: Moments::new(1) }
    }

    /// Discounted return so far of each running episode.
    #[must_use]
    pub fn returns(&self) -> &[f64] {
        &self.returns
    }

    /// Moments of the discounted returns.
    #[must_use]
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Restore saved returns and moments.
    ///
    /// # Errors
    /// If the number of episodes differs or the moments are not those of one column.
    pub fn load(&mut self, returns: Vec<f64>, moments: Moments) -> Result<(), MomentsError> {
        if returns.len() != self.returns.len() || returns.iter().any(|value| !value.is_finite()) {
            return Err(MomentsError::Saved { width: self.returns.len() });
        }
        if moments.width() != 1 {
            return Err(MomentsError::Saved { width: 1 });
        }
        (self.returns, self.moments) = (returns, moments);
        Ok(())
    }

    /// Restart episode `index`.
    pub fn restart(&mut self, index: usize) {
        self.returns[index] = 0.0;
    }

    /// Scale one step's rewards into `out`; the return of a finished episode restarts at zero.
    /// Where `running` is false (nowhere by default) the row is not a step of an episode: its reward
    /// is scaled, and the statistics are not updated. With `learn` off the statistics are not
    /// updated at all.
    ///
    /// # Errors
    /// If lengths disagree or a reward is not finite; the state is unchanged then.
    pub fn scale(
        &mut self,
        rewards: &[f64],
        finished: &[bool],
        running: Option<&[bool]>,
        learn: bool,
        out: &mut [f64],
    ) -> Result<(), MomentsError> {
        let lengths = [finished.len(), running.map_or(rewards.len(), <[bool]>::len), out.len()];
        self.check(rewards, lengths)?;
        self.discount(rewards, running);
        if learn {
            self.learn(running)?;
        }
        let divisor = self.divisor();
        for (out, reward) in out.iter_mut().zip(rewards) {
            *out = reward / divisor;
        }
        for (index, total) in self.returns.iter_mut().enumerate() {
            if finished[index] && running.is_none_or(|running| running[index]) {
                *total = 0.0;
            }
        }
        Ok(())
    }

    fn discount(&mut self, rewards: &[f64], running: Option<&[bool]>) {
        for (index, (total, reward)) in self.returns.iter_mut().zip(rewards).enumerate() {
            if running.is_none_or(|running| running[index]) {
                *total = *total * self.gamma + reward;
            }
        }
    }

    fn learn(&mut self, running: Option<&[bool]>) -> Result<(), MomentsError> {
        let Some(running) = running else { return self.moments.push_rows(&self.returns) };
        let rows = self.returns.iter().zip(running).filter(|(_, running)| **running);
        let returns: Vec<f64> = rows.map(|(total, _)| *total).collect();
        self.moments.push_rows(&returns)
    }

    fn check(&self, rewards: &[f64], lengths: [usize; 3]) -> Result<(), MomentsError> {
        let width = self.returns.len();
        let wrong = [rewards.len()].into_iter().chain(lengths).find(|&got| got != width);
        if let Some(got) = wrong {
            return Err(MomentsError::Width { width, got });
        }
        match rewards.iter().position(|reward| !reward.is_finite()) {
            Some(row) => Err(MomentsError::NotFinite { row, column: 0, value: rewards[row] }),
            None => Ok(()),
        }
    }

    /// Divisor of rewards; one until the variance is positive: the first reward must not blow up.
    fn divisor(&self) -> f64 {
        let variance = self.moments.variance(0);
        if variance > 0.0 { (variance + self.epsilon).sqrt() } else { 1.0 }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;

    #[test]
    fn the_first_reward_is_not_scaled() {
        let mut scale = RewardScale::new(1, 0.9, 1e-8);
        let mut out = [0.0];

        scale.scale(&[3.0], &[false], None, true, &mut out).expect("finite");

        assert_eq!(out, [3.0]);
    }

    #[test]
    fn rewards_are_divided_by_the_deviation_of_discounted_returns() {
        let mut scale = RewardScale::new(1, 0.5, 0.0);
        let mut out = [0.0];

        scale.scale(&[1.0], &[false], None, true, &mut out).expect("finite");
        scale.scale(&[2.0], &[false], None, true, &mut out).expect("finite");

        // Returns 1 and 0.5 + 2: their population deviation is 0.75.
        assert!((out[0] - 2.0 / 0.75).abs() < 1e-12);
    }

    #[test]
    fn a_finished_episode_begins_again_at_zero() {
        let mut scale = RewardScale::new(2, 0.9, 1e-8);
        let mut out = [0.0; 2];

        scale.scale(&[1.0, 1.0], &[true, false], None, true, &mut out).expect("finite");

        assert_eq!(scale.returns(), [0.0, 1.0]);
    }

    #[test]
    fn a_reward_that_is_not_finite_moves_nothing() {
        let mut scale = RewardScale::new(2, 0.9, 1e-8);
        let before = scale.clone();

        let error = scale.scale(&[1.0, f64::INFINITY], &[false; 2], None, true, &mut [0.0; 2]);

        assert!(error.is_err());
        assert_eq!(scale, before);
    }

    #[test]
    fn a_row_that_does_not_run_is_scaled_and_teaches_nothing() {
        let (mut some, mut all) = (RewardScale::new(2, 0.5, 0.0), RewardScale::new(1, 0.5, 0.0));
        let (mut shown, mut alone) = ([0.0; 2], [0.0]);

        for reward in [1.0, 2.0, 5.0] {
            let running = Some(&[false, true][..]);
            some.scale(&[10.0, reward], &[true, false], running, true, &mut shown).expect("finite");
            all.scale(&[reward], &[false], None, true, &mut alone).expect("finite");
        }

        assert_eq!((shown[1], some.moments()), (alone[0], all.moments()));
        assert_eq!(shown[0], 2.0 * alone[0]);
        assert_eq!(some.returns(), [0.0, all.returns()[0]]);
    }

    #[test]
    fn a_row_that_does_not_run_keeps_its_return() {
        let mut scale = RewardScale::new(1, 0.5, 0.0);
        scale.scale(&[3.0], &[false], None, true, &mut [0.0]).expect("finite");

        scale.scale(&[1.0], &[true], Some(&[false]), true, &mut [0.0]).expect("finite");

        assert_eq!(scale.returns(), [3.0]);
    }

    #[test]
    fn flags_of_another_batch_are_refused() {
        let mut scale = RewardScale::new(2, 0.9, 1e-8);
        let before = scale.clone();

        let short = scale.scale(&[1.0; 2], &[false], None, true, &mut [0.0; 2]);
        let long = scale.scale(&[1.0; 2], &[false; 2], Some(&[true; 3]), true, &mut [0.0; 2]);

        assert_eq!(short, Err(MomentsError::Width { width: 2, got: 1 }));
        assert_eq!(long, Err(MomentsError::Width { width: 2, got: 3 }));
        assert_eq!(scale, before);
    }

    #[test]
    fn a_frozen_scale_learns_nothing() {
        let mut scale = RewardScale::new(1, 0.9, 1e-8);

        scale.scale(&[1.0], &[false], None, false, &mut [0.0]).expect("finite");

        assert_eq!(scale.moments().count(), 0);
    }
}
