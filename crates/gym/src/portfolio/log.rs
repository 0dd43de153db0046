//! Optional episode log: trades, and accounts step by step.

use market::EpisodeKey;

use super::Episode;
use super::account::AgentAccount;
use super::observation::INFO;
use super::panel::Panel;

/// Logged fill. A delisting is logged as one too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trade {
    /// Row of the fill.
    pub row: u64,
    /// Index of the agent.
    pub agent: usize,
    /// Index of the asset.
    pub asset: usize,
    /// Traded units, negative for a sale.
    pub units: f64,
    /// Price of the fill.
    pub price: f64,
    /// Cost as a share of the traded value, without the fixed cost per order.
    pub rate: f64,
}

/// Log of one episode, or of a part of it.
#[derive(Clone, Debug, Default)]
pub struct EpisodeLog {
    /// Key of the episode.
    pub key: EpisodeKey,
    /// First row of the log; `cash` and `units` are those at this row.
    pub row: u64,
    /// Cash of each agent.
    pub cash: Vec<f64>,
    /// Units of each asset, agent by agent.
    pub units: Vec<f64>,
    /// All fills, in the order in which they happened.
    pub trades: Vec<Trade>,
    /// A row of numbers for each step and agent, see [`StepRow`].
    pub steps: Vec<f64>,
    /// Ordered weights of assets and cash for each step and agent, after the projection; NaN for
    /// orders in units, and for an agent that is gone.
    pub ordered: Vec<f64>,
}

/// Columns of a row of [`EpisodeLog::steps`]: the agent, its reward, seconds that the step took
/// (NaN for an agent that is gone and took no part in it), the value of orders that were refused,
/// costs that were waived, the numbers of [`INFO`], and the weights of assets and cash.
#[derive(Clone, Copy, Debug)]
pub struct StepRow;

impl StepRow {
    /// Numbers in front of those of [`INFO`].
    pub const LEAD: usize = 5;

    /// Length of a row.
    #[must_use]
    pub fn len(assets: usize) -> usize {
        Self::LEAD + INFO.len() + assets + 1
    }
}

/// Logged episodes since the last `take_log`.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) episodes: Vec<EpisodeLog>,
    /// Ordered weights of the current step, agent by agent.
    ordered: Vec<f64>,
}

impl Log {
    /// Begin the log of an episode at its current row.
    pub(super) fn open(&mut self, episode: &Episode) {
        let accounts = &episode.accounts;
        self.episodes.push(EpisodeLog {
            key: episode.key,
            row: episode.row,
            cash: accounts.iter().map(|account| account.cash).collect(),
            units: accounts.iter().flat_map(AgentAccount::owned).copied().collect(),
            ..EpisodeLog::default()
        });
    }

    /// Log of the current episode.
    pub(super) fn current(&mut self) -> &mut EpisodeLog {
        self.episodes.last_mut().expect("a log is opened before anything is logged")
    }

    /// Forget the ordered weights of the last step.
    pub(super) fn begin_step(&mut self, agents: usize, assets: usize) {
        self.ordered.clear();
        self.ordered.resize(agents * (assets + 1), f64::NAN);
    }

    /// Log the ordered weights of an agent.
    pub(super) fn note_ordered(&mut self, agent: usize, weights: &[f64]) {
        self.ordered[agent * weights.len()..][..weights.len()].copy_from_slice(weights);
    }

    /// Log the step of all agents.
    pub(super) fn note_step(&mut self, rows: &mut Vec<f64>) {
        let mut ordered = std::mem::take(&mut self.ordered);
        let episode = self.current();
        episode.steps.append(rows);
        episode.ordered.append(&mut ordered);
    }

    /// Log positions in delisted assets that became cash.
    pub(super) fn note_delisted(
        &mut self,
        accounts: &[AgentAccount],
        panel: &Panel,
        row: usize,
        rate: f64,
    ) {
        let (marks, listed) = (panel.marks(row - 1), panel.listed(row));
        let trades = &mut self.current().trades;
        for (agent, account) in accounts.iter().enumerate().filter(|(_, account)| account.is_alive)
        {
            for (asset, units) in account.owned().iter().enumerate() {
                if !listed[asset] && *units != 0.0 {
                    let (units, price) = (-units, marks[asset]);
                    trades.push(Trade { row: row as u64, agent, asset, units, price, rate });
                }
            }
        }
    }
}
