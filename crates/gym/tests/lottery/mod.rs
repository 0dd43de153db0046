//! A small task: guess whether the next number is above one half.

use gym::{ActionError, Outcome, Task};
use market::{EpisodeKey, SnapshotError, Stream};

/// Draw numbers until one is above 0.8, or `limit` were drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lottery {
    limit: u64,
    drawn: u64,
    number: f64,
    stream: Stream,
}

impl Lottery {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, drawn: 0, number: 0.0, stream: EpisodeKey::default().stream(0) }
    }

    #[allow(clippy::cast_precision_loss)] // few numbers are drawn
    fn show(&self, observation: &mut [f64]) {
        observation.copy_from_slice(&[self.number, self.drawn as f64]);
    }
}

impl Task for Lottery {
    type Action = i64;
    type Observation = Vec<f64>;
    const NAME: &'static str = "Lottery";
    const VERSION: u32 = 1;

    fn step_nanoseconds(&self) -> u32 {
        // So much that a few envs are worth sharing among threads.
        10_000
    }

    fn layout(&self) -> usize {
        2
    }

    fn action_len(&self) -> usize {
        1
    }

    fn check(&self, action: &[i64]) -> Result<(), ActionError> {
        match action {
            [0 | 1] => Ok(()),
            _ => Err(ActionError { expected: "0 or 1".into(), got: action[0].to_string() }),
        }
    }

    fn is_over(&self) -> bool {
        self.drawn >= self.limit
    }

    fn begin(&mut self, key: EpisodeKey, observation: &mut [f64]) {
        self.stream = key.stream(0);
        (self.drawn, self.number) = (0, self.stream.uniform());
        self.show(observation);
    }

    fn step(&mut self, action: &[i64], observation: &mut [f64]) -> Outcome {
        self.number = self.stream.uniform();
        self.drawn += 1;
        self.show(observation);
        let terminated = self.number > 0.8;
        Outcome {
            reward: f64::from(u8::from((self.number > 0.5) == (action[0] == 1))),
            terminated,
            truncated: !terminated && self.drawn >= self.limit,
        }
    }

    fn info_names(&self) -> &[&'static str] {
        &["drawn"]
    }

    #[allow(clippy::cast_precision_loss)] // few numbers are drawn
    fn write_info(&self, row: &mut [f64]) {
        row[0] = self.drawn as f64;
    }

    fn encode_rules(&self, body: &mut Vec<u8>) {
        body.extend(self.limit.to_le_bytes());
    }

    fn encode(&self, body: &mut Vec<u8>) {
        let state = (self.drawn, self.number, &self.stream);
        body.extend(postcard::to_allocvec(&state).expect("plain numbers can be written"));
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let ((drawn, number, stream), rest) = postcard::take_from_bytes(body)
            .map_err(|_| SnapshotError::Impossible { got: "bytes that are no lottery" })?;
        (self.drawn, self.number, self.stream, *body) = (drawn, number, stream, rest);
        Ok(())
    }
}
