//! A batch as bytes, and the same batch from them.

use market::{Kind, SnapshotError, open, seal};
use thiserror::Error;

use crate::batch::Batch;
use crate::rows::Episode;
use crate::task::Task;

const BATCH: Kind = Kind { magic: *b"SKBA", version: 1, name: "a batch of envs" };

/// Why a state cannot be loaded. The batch is as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BatchStateError {
    /// The bytes are no state, or not all of one.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// They are of another task.
    #[error("the state of {wanted} was wanted, found that of {found}")]
    OtherTask {
        /// The task of this batch.
        wanted: &'static str,
        /// The task that was saved.
        found: String,
    },
    /// They are of a task with other settings.
    #[error("the state of a {task} with these settings was wanted, found one with others")]
    OtherRules {
        /// The task.
        task: &'static str,
    },
    /// They are of more or fewer envs.
    #[error("the state of {wanted} envs was wanted, found that of {found}")]
    OtherSize {
        /// How many envs this batch has.
        wanted: usize,
        /// How many were saved.
        found: usize,
    },
}

impl<T: Task> Batch<T> {
    /// The whole state as bytes: all that is needed to go on, bit for bit.
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

    /// Goes on from where [`Batch::encode`] was called; a refused state changes nothing.
    ///
    /// # Errors
    /// When the bytes are truncated, corrupted, newer, or of another task, other settings or
    /// another number of envs.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(), BatchStateError> {
        let mut body = open(BATCH, bytes)?;
        self.check_header(&mut body)?;
        let mut episodes = self.episodes.clone();
        for episode in &mut episodes {
            read_episode(episode, &mut body)?;
        }
        if !body.is_empty() {
            return Err(SnapshotError::Length { wanted: 0, found: body.len() }.into());
        }
        self.episodes = episodes;
        (0..self.num_envs()).for_each(|env| self.note_info(env));
        Ok(())
    }

    fn check_header(&self, body: &mut &[u8]) -> Result<(), BatchStateError> {
        let name = read_bytes(body)?;
        if name != T::NAME.as_bytes() {
            let found = String::from_utf8_lossy(name).into_owned();
            return Err(BatchStateError::OtherTask { wanted: T::NAME, found });
        }
        let found = u32::from_le_bytes(read_array(body)?);
        if found != T::VERSION {
            return Err(SnapshotError::OtherVersion { wanted: T::VERSION, found }.into());
        }
        if read_bytes(body)? != rules_of(self.task(0)) {
            return Err(BatchStateError::OtherRules { task: T::NAME });
        }
        let (wanted, found) = (self.num_envs(), read_size(body)?);
        if wanted == found { Ok(()) } else { Err(BatchStateError::OtherSize { wanted, found }) }
    }
}

fn rules_of(task: &impl Task) -> Vec<u8> {
    let mut rules = Vec::new();
    task.encode_rules(&mut rules);
    rules
}

fn read_episode(episode: &mut Episode<impl Task>, body: &mut &[u8]) -> Result<(), SnapshotError> {
    episode.seed = read_number(body)?;
    episode.begun = read_number(body)?;
    episode.steps = read_number(body)?;
    episode.is_running = match read_array(body)? {
        [0] => false,
        [1] if episode.begun > 0 => true,
        _ => return Err(SnapshotError::Impossible { found: "an episode that never began" }),
    };
    episode.task.decode(body)?;
    if episode.is_running && episode.task.is_over() {
        return Err(SnapshotError::Impossible { found: "an episode that runs on behind its end" });
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
    let (wanted, found) = (read_size(body)?, body.len());
    body.split_off(..wanted).ok_or(SnapshotError::Length { wanted, found })
}

fn read_array<const N: usize>(body: &mut &[u8]) -> Result<[u8; N], SnapshotError> {
    let Some((first, rest)) = body.split_first_chunk() else {
        return Err(SnapshotError::Length { wanted: N, found: body.len() });
    };
    *body = rest;
    Ok(*first)
}
