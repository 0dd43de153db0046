//! Generalized advantage estimation (GAE).

/// Steps of a rollout, times by envs.
#[derive(Clone, Copy, Debug)]
pub struct RolloutSteps<'a> {
    /// Rewards.
    pub rewards: &'a [f32],
    /// Values of the states before the steps.
    pub values: &'a [f32],
    /// Values of the states after the steps.
    pub next_values: &'a [f32],
    /// True where an episode ended.
    pub done: &'a [bool],
    /// True where it terminated: nothing follows.
    pub terminated: &'a [bool],
}

/// Advantages of all steps of `envs` envs, from the last step backwards.
///
/// # Panics
/// If the arrays differ in length.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // factors in the precision of the values
pub fn advantages(steps: &RolloutSteps<'_>, envs: usize, gamma: f64, lambda: f64) -> Vec<f32> {
    let RolloutSteps { rewards, values, next_values, done, terminated } = *steps;
    let count = rewards.len();
    let lengths = [values.len(), next_values.len(), done.len(), terminated.len()];
    assert_eq!(lengths, [count; 4], "arrays of the same length");
    let (decay, gamma) = ((lambda * gamma) as f32, gamma as f32);
    let mut advantages = vec![0.0; count];
    let mut running = vec![0.0; envs];
    for first in (0..count).step_by(envs.max(1)).rev() {
        for (env, running) in running.iter_mut().enumerate() {
            let step = first + env;
            let goes_on = if terminated[step] { 0.0 } else { gamma };
            let delta = rewards[step] + goes_on * next_values[step] - values[step];
            let share = if done[step] { 0.0 } else { decay };
            *running = delta + *running * share;
            advantages[step] = *running;
        }
    }
    advantages
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // the tests compare exact results
mod tests {
    use super::*;

    #[test]
    fn an_advantage_is_the_discounted_sum_of_errors_until_the_end() {
        let steps = RolloutSteps {
            rewards: &[1.0, 2.0, 4.0],
            values: &[0.5, 0.25, 0.0],
            next_values: &[0.25, 8.0, 16.0],
            done: &[false, true, true],
            terminated: &[false, true, false],
        };

        let got = advantages(&steps, 1, 0.5, 0.5);

        // The second step terminates; the third is truncated, and its next value counts.
        let last = 4.0 + 0.5 * 16.0;
        let middle = 2.0 - 0.25;
        let first = (1.0 + 0.5 * 0.25 - 0.5) + 0.25 * middle;
        assert_eq!(got, vec![first, middle, last]);
    }

    #[test]
    fn envs_are_independent() {
        let numbers: Vec<f32> = (0..8_u8).map(f32::from).collect();
        let flags = [false; 8];
        let steps = RolloutSteps {
            rewards: &numbers,
            values: &numbers,
            next_values: &numbers,
            done: &flags,
            terminated: &flags,
        };
        let even: Vec<f32> = numbers.iter().copied().step_by(2).collect();
        let one = RolloutSteps {
            rewards: &even,
            values: &even,
            next_values: &even,
            done: &flags[..4],
            terminated: &flags[..4],
        };

        let both = advantages(&steps, 2, 0.9, 0.8);

        let first: Vec<f32> = both.iter().copied().step_by(2).collect();
        assert_eq!(first, advantages(&one, 1, 0.9, 0.8));
    }
}
