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
#[allow(clippy::cast_possible_truncation)] // rows fit memory
pub(super) fn span(panel: &Panel, settings: &PortfolioSettings, key: EpisodeKey) -> Span {
    let (earliest, end) = (settings.earliest_row(), panel.rows() as u64 - 1);
    // With an open-ended panel, the episode runs on the rows to come.
    if panel.is_open_ended() {
        let last = settings.episode_rows.map_or(u64::MAX, |rows| end + rows);
        return Span { first: end as usize, last: last as usize };
    }
    let rows = settings.episode_rows.unwrap_or(end - earliest).min(end - earliest);
    let latest = end - rows;
    let first = match settings.starts {
        Starts::Random => {
            let choices = u32::try_from(latest - earliest + 1).unwrap_or(u32::MAX);
            earliest + u64::from(key.stream(CHOICE).below(choices))
        }
        Starts::Sequential => {
            let episodes = (end - earliest) / rows;
            earliest + rows * (key.seed.wrapping_add(key.episode) % episodes)
        }
        Starts::Fixed(row) => row,
    };
    // The first decision is on a decision row. If there is none, the episode starts at the end: an
    // earlier start would leak that.
    let decision = (first..end).find(|row| panel.decides(*row as usize)).unwrap_or(end - 1);
    Span { first: decision as usize, last: (first + rows).max(decision + 1).min(end) as usize }
}
