//! What happened in episodes, for those who want to look: trades, and accounts step by step.

use market::EpisodeKey;

use super::shown::INFO;

/// One fill, as it is logged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trade {
    /// The row in which it happened.
    pub row: u64,
    /// Who traded.
    pub agent: usize,
    /// What was traded.
    pub asset: usize,
    /// How many units, less than 0 for a sale.
    pub units: f64,
    /// At which price.
    pub price: f64,
    /// What it cost as a share of its value, apart from what every order costs.
    pub rate: f64,
}

/// One episode.
#[derive(Clone, Debug, Default)]
pub struct EpisodeLog {
    /// Which one it is.
    pub key: EpisodeKey,
    /// All fills, in the order in which they happened.
    pub trades: Vec<Trade>,
    /// A row of numbers for each step and agent, see [`StepRow`].
    pub steps: Vec<f64>,
}

/// What a row of [`EpisodeLog::steps`] holds: the agent, its reward, seconds that the step took,
/// the numbers of [`INFO`], and the weights of assets and cash.
#[derive(Clone, Copy, Debug)]
pub struct StepRow;

impl StepRow {
    /// Numbers in front of those of [`INFO`].
    pub const LEAD: usize = 3;

    /// How long a row is.
    #[must_use]
    pub fn len(assets: usize) -> usize {
        Self::LEAD + INFO.len() + assets + 1
    }
}

/// All episodes since they were last taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) episodes: Vec<EpisodeLog>,
}

impl Log {
    pub(super) fn begin(&mut self, key: EpisodeKey) {
        self.episodes.push(EpisodeLog { key, ..EpisodeLog::default() });
    }

    /// The episode that is under way; an unnamed one if its beginning was taken away.
    pub(super) fn current(&mut self) -> &mut EpisodeLog {
        if self.episodes.is_empty() {
            self.episodes.push(EpisodeLog::default());
        }
        self.episodes.last_mut().expect("there is one now")
    }
}
