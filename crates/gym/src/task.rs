//! What a task is: the rules of one episode, written once for single envs and batches alike.

use market::{EpisodeKey, SnapshotError};
use thiserror::Error;

use crate::observation::Observation;

/// What one step gave back, beside the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What the step earned.
    pub reward: f64,
    /// The episode reached an end of its own: ruin, say.
    pub terminated: bool,
    /// The episode was cut off: its time or its data ended.
    pub truncated: bool,
}

impl Outcome {
    /// Whether the episode is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// Why an action is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("wanted {wanted}, found {found}")]
pub struct ActionError {
    /// What an action must be.
    pub wanted: String,
    /// What it was.
    pub found: String,
}

/// Rows of what the task `T` shows.
pub type RowsOf<'a, T> = <<T as Task>::Observation as Observation>::Rows<'a>;

/// One episode of one task. Its rules are written here once; batches and bindings reuse them.
///
/// A clone is a second episode in the same state. What all episodes of a batch share (settings,
/// tables, data) belongs behind an `Arc`, since every env of a batch is a clone of a prototype.
/// Nothing may depend on anything but the key and the actions since `begin`.
pub trait Task: Clone + Send + Sync {
    /// An action is a row of these: `i64` or `f64`.
    type Action: Copy + Send + Sync;

    /// What it shows: `Vec<f64>` or `Vec<f32>` for a row of numbers, written as a slice of them,
    /// or the parts that [`parts!`](crate::parts) defines.
    type Observation: Observation;

    /// What the task is called in states and errors.
    const NAME: &'static str;

    /// The version of what `encode` writes; states of another one are refused.
    const VERSION: u32;

    /// Roughly what a step costs, in nanoseconds. Decides only when threads pay.
    fn step_nanoseconds(&self) -> u32;

    /// Bytes that an env occupies, roughly. Decides only whether memory can hold a batch.
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// How much an observation holds: a number of numbers, or the shapes of its parts. The same
    /// for as long as the task lives.
    fn layout(&self) -> <Self::Observation as Observation>::Layout;

    /// Numbers in an action.
    fn action_len(&self) -> usize;

    /// Whether the action can be taken now. Asked before anything moves.
    ///
    /// # Errors
    /// When it cannot: what was wanted, and what was found.
    fn check(&self, action: &[Self::Action]) -> Result<(), ActionError>;

    /// Whether the episode stands where no step can follow; one that runs never does.
    fn is_over(&self) -> bool;

    /// Whether the next step needs data that has not come yet. Asked before anything moves.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Begins the episode of `key` and writes its first observation.
    fn begin(&mut self, key: EpisodeKey, observation: RowsOf<'_, Self>);

    /// Takes an action that `check` has let through and writes the next observation.
    fn step(&mut self, action: &[Self::Action], observation: RowsOf<'_, Self>) -> Outcome;

    /// Looks at what the next step will read, so that it is at hand then. Called while another env
    /// is stepped; must not change anything, and may do nothing.
    #[inline]
    fn warm(&self) {}

    /// What the columns of `write_info` are called.
    fn info_names(&self) -> &[&'static str];

    /// What the episode has to say about where it stands, a number for each name.
    fn write_info(&self, row: &mut [f64]);

    /// Appends what tells the rules of this task from those of another one of its name: settings,
    /// or a digest of them. A state is only loaded under the rules it was saved under.
    fn encode_rules(&self, body: &mut Vec<u8>);

    /// Appends everything that changes during an episode.
    fn encode(&self, body: &mut Vec<u8>);

    /// Reads what `encode` wrote and moves `body` past it. A refused state changes nothing.
    ///
    /// # Errors
    /// When the bytes are too few, or describe an episode that cannot be.
    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError>;
}
