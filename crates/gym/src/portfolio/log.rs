//! What happened in episodes, for those who want to look: trades, and accounts step by step.

use market::EpisodeKey;

use super::Episode;
use super::panel::Panel;
use super::shown::INFO;
use super::trader::Trader;

/// One fill, as it is logged. What a delisting turns into cash is logged as one too.
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

/// One episode, or as much of it as was logged.
#[derive(Clone, Debug, Default)]
pub struct EpisodeLog {
    /// Which one it is.
    pub key: EpisodeKey,
    /// The row that the log begins at, and what each agent has then.
    pub row: u64,
    /// Cash of each agent.
    pub cash: Vec<f64>,
    /// Units of each asset, agent by agent.
    pub units: Vec<f64>,
    /// All fills, in the order in which they happened.
    pub trades: Vec<Trade>,
    /// A row of numbers for each step and agent, see [`StepRow`].
    pub steps: Vec<f64>,
}

/// What a row of [`EpisodeLog::steps`] holds: the agent, its reward, seconds that the step took
/// (NaN for an agent that is gone and took no part in it), the value of orders that were refused,
/// costs that were waived, the numbers of [`INFO`], and the weights of assets and cash.
#[derive(Clone, Copy, Debug)]
pub struct StepRow;

impl StepRow {
    /// Numbers in front of those of [`INFO`].
    pub const LEAD: usize = 5;

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
    /// Begins to log an episode, from wherever it stands.
    pub(super) fn open(&mut self, episode: &Episode) {
        let traders = &episode.traders;
        self.episodes.push(EpisodeLog {
            key: episode.key,
            row: episode.row,
            cash: traders.iter().map(|trader| trader.cash).collect(),
            units: traders.iter().flat_map(Trader::owned).copied().collect(),
            ..EpisodeLog::default()
        });
    }

    /// The episode that is under way.
    pub(super) fn current(&mut self) -> &mut EpisodeLog {
        self.episodes.last_mut().expect("a log is opened before anything is logged")
    }

    /// Logs what is turned into cash because its asset is gone.
    pub(super) fn note_delisted(
        &mut self,
        traders: &[Trader],
        panel: &Panel,
        row: usize,
        rate: f64,
    ) {
        let (marks, listed) = (panel.marks(row - 1), panel.listed(row));
        let trades = &mut self.current().trades;
        for (agent, trader) in traders.iter().enumerate().filter(|(_, trader)| trader.is_alive) {
            for (asset, units) in trader.owned().iter().enumerate() {
                if !listed[asset] && *units != 0.0 {
                    let (units, price) = (-units, marks[asset]);
                    trades.push(Trade { row: row as u64, agent, asset, units, price, rate });
                }
            }
        }
    }
}
