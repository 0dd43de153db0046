//! Start and end of an episode, from its key alone.

use market::EpisodeKey;

use super::panel::Panel;
use super::settings::{PortfolioSettings, Starts};

/// Random stream of the choice.
const CHOICE: u64 = 16;

/// First and last row of an episode: decisions are made in all but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Rows of the episode of a key.
pub(super) fn span(panel: &Panel, settings: &PortfolioSettings, key: EpisodeKey) -> Span {
    let first_rows = first_rows(panel, settings);
    let index = match settings.starts {
        Starts::Random => {
            let choices = u32::try_from(first_rows.count).unwrap_or(u32::MAX);
            u64::from(key.stream(CHOICE).below(choices))
        }
        Starts::Sequential | Starts::Fixed(_) => {
            key.seed.wrapping_add(key.episode) % first_rows.count
        }
    };
    first_rows.span(panel, index)
}

/// Return true if all keys have the same episode: there is nothing to draw.
pub(super) fn has_one_start(panel: &Panel, settings: &PortfolioSettings) -> bool {
    let first_rows = first_rows(panel, settings);
    // Starts without a decision between them are the same, and later ones are never earlier.
    first_rows.span(panel, 0) == first_rows.span(panel, first_rows.count - 1)
}

/// First rows of all episodes: `count` of them, `stride` rows apart.
struct FirstRows {
    first: u64,
    stride: u64,
    count: u64,
    /// Rows of an episode.
    rows: u64,
}

fn first_rows(panel: &Panel, settings: &PortfolioSettings) -> FirstRows {
    let (earliest, end) = (settings.earliest_row(), panel.rows() as u64 - 1);
    // With an open-ended panel, the episode runs on the rows to come.
    if panel.is_open_ended() {
        let rows = settings.episode_rows.unwrap_or(u64::MAX);
        return FirstRows { first: end, stride: 0, count: 1, rows };
    }
    let rows = settings.episode_rows.unwrap_or(end - earliest).min(end - earliest);
    let (first, stride, count) = match settings.starts {
        Starts::Random => (earliest, 1, end - rows - earliest + 1),
        Starts::Sequential => (earliest, rows, (end - earliest) / rows),
        Starts::Fixed(row) => (row, 0, 1),
    };
    FirstRows { first, stride, count, rows }
}

impl FirstRows {
    #[allow(clippy::cast_possible_truncation)] // rows fit memory
    fn span(&self, panel: &Panel, index: u64) -> Span {
        let (first, end) = (self.first + self.stride * index, panel.rows() as u64 - 1);
        if panel.is_open_ended() {
            return Span { first: first as usize, last: first.saturating_add(self.rows) as usize };
        }
        // The first decision is on a decision row. If there is none, the episode starts at the end:
        // an earlier start would leak that.
        let decision = (first..end).find(|row| panel.decides(*row as usize)).unwrap_or(end - 1);
        let last = (first + self.rows).max(decision + 1).min(end);
        Span { first: decision as usize, last: last as usize }
    }
}
