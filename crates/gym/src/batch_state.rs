//! Snapshot of a batch: encoding to bytes and decoding.

use market::{Kind, SnapshotError, open, seal};
use thiserror::Error;

use crate::batch::Batch;
use crate::rows::Episode;
use crate::task::Task;

const BATCH: Kind = Kind { magic: *b"SKBA", version: 1, name: "a batch of envs" };

/// Error of loading a state; the batch is unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BatchStateError {
    /// Invalid or truncated bytes.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// State of another task.
    #[error("expected the state of {expected}, got that of {got}")]
    OtherTask {
        /// The task of this batch.
        expected: &'static str,
        /// Task of the state.
        got: String,
    },
    /// State of a task with other settings.
    #[error("expected the state of a {task} with these settings, got one with others")]
    OtherRules {
        /// The task.
        task: &'static str,
    },
    /// State of another number of envs.
    #[error("expected the state of {expected} envs, got that of {got}")]
    OtherSize {
        /// Number of envs in this batch.
        expected: usize,
        /// Number of envs in the snapshot.
        got: usize,
    },
}

impl<T: Task> Batch<T> {
    /// Encode the full state as bytes, to continue bit for bit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_bytes(&mut body, T::NAME.as_bytes());
        body.extend(T::VERSION.to_le_bytes());
        put_bytes(&mut body, &rules_of(self.task(0)));
        put_number(&mut body, self.num_envs() as u64);
        for episode in &self.episodes {
            put_number(&mut body, episode.seed);
            put_number(&mut body, episode.begun);
            put_number(&mut body, episode.steps);
            body.push(u8::from(episode.is_running));
            episode.task.encode(&mut body);
        }
        seal(BATCH, &body)
    }

    /// Restore the state of [`Batch::encode`]; a refused state changes nothing.
    ///
    /// # Errors
    /// If the bytes are truncated, corrupted, newer, or of another task, other settings or
    /// another number of envs.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(), BatchStateError> {
        let mut body = open(BATCH, bytes)?;
        self.check_header(&mut body)?;
        let mut episodes = self.episodes.clone();
        for episode in &mut episodes {
            read_episode(episode, self.step_limit, &mut body)?;
        }
        if !body.is_empty() {
            return Err(SnapshotError::Length { expected: 0, got: body.len() }.into());
        }
        self.episodes = episodes;
        (0..self.num_envs()).for_each(|env| self.note_info(env));
        Ok(())
    }

    fn check_header(&self, body: &mut &[u8]) -> Result<(), BatchStateError> {
        let name = read_bytes(body)?;
        if name != T::NAME.as_bytes() {
            let got = String::from_utf8_lossy(name).into_owned();
            return Err(BatchStateError::OtherTask { expected: T::NAME, got });
        }
        let got = u32::from_le_bytes(read_array(body)?);
        if got != T::VERSION {
            return Err(SnapshotError::OtherVersion { expected: T::VERSION, got }.into());
        }
        if read_bytes(body)? != rules_of(self.task(0)) {
            return Err(BatchStateError::OtherRules { task: T::NAME });
        }
        let (expected, got) = (self.num_envs(), read_size(body)?);
        if expected == got { Ok(()) } else { Err(BatchStateError::OtherSize { expected, got }) }
    }
}

fn rules_of(task: &impl Task) -> Vec<u8> {
    let mut rules = Vec::new();
    task.encode_rules(&mut rules);
    rules
}

fn read_episode(
    episode: &mut Episode<impl Task>,
    step_limit: Option<u64>,
    body: &mut &[u8],
) -> Result<(), SnapshotError> {
    episode.seed = read_number(body)?;
    episode.begun = read_number(body)?;
    episode.steps = read_number(body)?;
    episode.is_running = match read_array(body)? {
        [0] => false,
        [1] if episode.begun > 0 => true,
        _ => return Err(SnapshotError::Impossible { got: "an episode that never began" }),
    };
    episode.task.decode(body)?;
    if episode.is_running && episode.task.is_over() {
        return Err(SnapshotError::Impossible { got: "an episode that runs on behind its end" });
    }
    if episode.task.ends_with_data() && episode.begun > 0 && !episode.task.is_over() {
        // It had ended with its data, and this data has more rows or is still growing.
        episode.is_running |= step_limit.is_none_or(|limit| episode.steps < limit);
    }
    Ok(())
}

fn put_number(body: &mut Vec<u8>, number: u64) {
    body.extend(number.to_le_bytes());
}

fn put_bytes(body: &mut Vec<u8>, bytes: &[u8]) {
    put_number(body, bytes.len() as u64);
    body.extend(bytes);
}

fn read_number(body: &mut &[u8]) -> Result<u64, SnapshotError> {
    Ok(u64::from_le_bytes(read_array(body)?))
}

fn read_size(body: &mut &[u8]) -> Result<usize, SnapshotError> {
    Ok(usize::try_from(read_number(body)?).unwrap_or(usize::MAX))
}

fn read_bytes<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], SnapshotError> {
    let (expected, got) = (read_size(body)?, body.len());
    body.split_off(..expected).ok_or(SnapshotError::Length { expected, got })
}

fn read_array<const N: usize>(body: &mut &[u8]) -> Result<[u8; N], SnapshotError> {
    let Some((first, rest)) = body.split_first_chunk() else {
        return Err(SnapshotError::Length { expected: N, got: body.len() });
    };
    *body = rest;
    Ok(*first)
}
