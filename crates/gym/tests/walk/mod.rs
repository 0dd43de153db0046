//! Test task with observation parts of every type: a random walk.

use std::sync::Arc;

use gym::{ActionError, Outcome, Shape, Task};
use market::{EpisodeKey, SnapshotError, Stream};

gym::parts! {
    /// Observation of a walker.
    pub(crate) struct Sight, rows SightRows, layout SightLayout {
        /// The last heights and their squares, oldest first.
        heights: f32,
        /// Number of steps taken.
        index: i64,
        /// The height, its half and its third.
        shares: f64,
        /// Mask of the marks below the walker.
        passed: bool,
        /// Absent in every setting of this task.
        unseen: f32,
    }
}

/// Walk until a height is above 0.9, or `limit` steps were taken.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    marks: Arc<Vec<f64>>,
    lookback: usize,
    limit: i64,
    index: i64,
    heights: Vec<f64>,
    stream: Stream,
}

impl Walk {
    pub(crate) fn new(lookback: usize) -> Self {
        Self {
            marks: Arc::new(vec![0.2, 0.4, 0.6, 0.8]),
            lookback,
            limit: 5,
            index: 0,
            heights: vec![0.0; lookback],
            stream: EpisodeKey::default().stream(0),
        }
    }

    pub(crate) fn set_marks(&mut self, marks: &Arc<Vec<f64>>) {
        self.marks = Arc::clone(marks);
    }

    fn advance(&mut self) -> f64 {
        let height = self.stream.uniform();
        self.heights.rotate_left(1);
        self.heights[self.lookback - 1] = height;
        height
    }

    #[allow(clippy::cast_possible_truncation)] // that is what a part of f32 is for
    fn show(&self, sight: &mut SightRows<'_>) {
        for (pair, height) in sight.heights.chunks_exact_mut(2).zip(&self.heights) {
            pair.copy_from_slice(&[*height as f32, (height * height) as f32]);
        }
        let height = self.heights[self.lookback - 1];
        sight.index[0] = self.index;
        sight.shares.copy_from_slice(&[height, height / 2.0, height / 3.0]);
        for (passed, mark) in sight.passed.iter_mut().zip(self.marks.iter()) {
            *passed = *mark < height;
        }
        assert!(sight.unseen.is_empty());
    }
}

impl Task for Walk {
    type Action = f64;
    type Observation = Sight;
    const NAME: &'static str = "Walk";
    const VERSION: u32 = 1;

    fn step_nanoseconds(&self) -> u32 {
        // So much that a few envs are worth sharing among threads.
        10_000
    }

    fn layout(&self) -> SightLayout {
        SightLayout {
            heights: Shape::new([self.lookback, 2]),
            index: Shape::new([]),
            shares: Shape::new([3]),
            passed: Shape::new([2, 1, 2]),
            unseen: Shape::NONE,
        }
    }

    fn action_len(&self) -> usize {
        1
    }

    fn check(&self, action: &[f64]) -> Result<(), ActionError> {
        if action[0].is_finite() {
            return Ok(());
        }
        Err(ActionError { expected: "a finite guess".into(), got: action[0].to_string() })
    }

    fn is_over(&self) -> bool {
        self.index >= self.limit
    }

    fn begin(&mut self, key: EpisodeKey, mut observation: SightRows<'_>) {
        self.stream = key.stream(0);
        self.index = 0;
        self.heights.fill(0.0);
        self.advance();
        self.show(&mut observation);
    }

    fn step(&mut self, action: &[f64], mut observation: SightRows<'_>) -> Outcome {
        let height = self.advance();
        self.index += 1;
        self.show(&mut observation);
        let terminated = height > 0.9;
        let truncated = !terminated && self.index >= self.limit;
        Outcome { reward: -(height - action[0]).abs(), terminated, truncated }
    }

    fn info_names(&self) -> &[&'static str] {
        &["height"]
    }

    fn write_info(&self, row: &mut [f64]) {
        row[0] = self.heights[self.lookback - 1];
    }

    fn encode_rules(&self, body: &mut Vec<u8>) {
        body.extend(self.lookback.to_le_bytes());
    }

    fn encode(&self, body: &mut Vec<u8>) {
        let state = (self.index, &self.heights, &self.stream);
        body.extend(postcard::to_allocvec(&state).expect("plain numbers can be written"));
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let ((index, heights, stream), rest) = postcard::take_from_bytes(body)
            .map_err(|_| SnapshotError::Impossible { got: "bytes that are no walk" })?;
        (self.index, self.heights, self.stream, *body) = (index, heights, stream, rest);
        Ok(())
    }
}
