//! Where an episode begins and ends, from its key alone.

use market::EpisodeKey;

use super::panel::Panel;
use super::settings::{PortfolioSettings, Starts};

/// The component of an episode's randomness that chooses.
const CHOICE: u64 = 16;

/// The first and the last row of an episode: decisions fall on all but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// The rows of the episode that belongs to a key.
#[allow(clippy::cast_possible_truncation)] // rows fit memory
pub(super) fn span(panel: &Panel, settings: &PortfolioSettings, key: EpisodeKey) -> Span {
    let (earliest, end) = (settings.earliest_row(), panel.rows() as u64 - 1);
    // Where more rows may come, they are what an episode is played on.
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
    // The first decision falls on a row that has one. If there is none, that is known only at the
    // end: an episode that began before would tell it.
    let decision = (first..end).find(|row| panel.decides(*row as usize)).unwrap_or(end - 1);
    Span { first: decision as usize, last: (first + rows).max(decision + 1).min(end) as usize }
}
