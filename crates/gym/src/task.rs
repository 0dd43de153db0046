//! Task interface: the rules of one episode, written once for single envs and batches alike.

use market::{EpisodeKey, SnapshotError};
use thiserror::Error;

use crate::observation::Observation;

/// Result of one step, beside the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Reward of the step.
    pub reward: f64,
    /// The episode ended in a final state, such as ruin.
    pub terminated: bool,
    /// The episode was cut off: time limit or end of data.
    pub truncated: bool,
}

impl Outcome {
    /// Return true if the episode is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// Invalid action.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("expected {expected}, got {got}")]
pub struct ActionError {
    /// Expected action, in words.
    pub expected: String,
    /// Actual action, in words.
    pub got: String,
}

/// Observation rows of the task `T`.
pub type RowsOf<'a, T> = <<T as Task>::Observation as Observation>::Rows<'a>;

/// One episode of one task. Its rules are written here once; batches and bindings reuse them.
///
/// A clone is a second episode in the same state. What all episodes of a batch share (settings,
/// tables, data) belongs behind an `Arc`, since every env of a batch is a clone of a prototype.
/// Nothing may depend on anything but the key and the actions since `begin`.
pub trait Task: Clone + Send + Sync {
    /// An action is a row of these: `i64` or `f64`.
    type Action: Copy + Send + Sync;

    /// Observation type: `Vec<f64>` or `Vec<f32>` for a row of numbers, written as a slice of them,
    /// or the parts that [`parts!`](crate::parts!) defines.
    type Observation: Observation;

    /// Name of the task in states and errors.
    const NAME: &'static str;

    /// Format version of `encode`; states of another version are refused.
    const VERSION: u32;

    /// Estimated cost of a step, in nanoseconds. Used only to choose the number of threads.
    fn step_nanoseconds(&self) -> u32;

    /// Approximate memory of an env, in bytes. Used only for memory checks.
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// Shape of an observation: a number of numbers, or the shapes of its parts. Constant for the
    /// lifetime of the task.
    fn layout(&self) -> <Self::Observation as Observation>::Layout;

    /// Length of an action.
    fn action_len(&self) -> usize;

    /// Validate an action. Called before any state changes.
    ///
    /// # Errors
    /// If the action is invalid: the expected and the actual value.
    fn check(&self, action: &[Self::Action]) -> Result<(), ActionError>;

    /// Return true if no step can follow; false throughout a running episode.
    fn is_over(&self) -> bool;

    /// Return true if the next step needs data that has not been pushed yet. Called before any
    /// state changes.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Return true if episodes end where the data ends: a decoded one continues on longer data.
    fn ends_with_data(&self) -> bool {
        false
    }

    /// Begin the episode of `key` and write its first observation.
    fn begin(&mut self, key: EpisodeKey, observation: RowsOf<'_, Self>);

    /// Apply an action accepted by `check` and write the next observation.
    fn step(&mut self, action: &[Self::Action], observation: RowsOf<'_, Self>) -> Outcome;

    /// Prefetch the data of the next step. Called while another env is stepped; must not change
    /// anything, and may do nothing.
    #[inline]
    fn warm(&self) {}

    /// Names of the columns of `write_info`.
    fn info_names(&self) -> &[&'static str];

    /// Write the current info of the episode, a number for each name.
    fn write_info(&self, row: &mut [f64]);

    /// Append a fingerprint of the rules: settings, or a digest of them. A state is only loaded
    /// under the rules it was saved under.
    fn encode_rules(&self, body: &mut Vec<u8>);

    /// Append the mutable state of the episode.
    fn encode(&self, body: &mut Vec<u8>);

    /// Restore the state of `encode` and advance `body` past it. A refused state changes nothing.
    ///
    /// # Errors
    /// If the bytes are too few, or describe an invalid episode.
    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError>;
}
