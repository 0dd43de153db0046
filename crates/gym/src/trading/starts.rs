//! Where episodes begin: markets that have run for a while, kept and copied.
//!
//! A key chooses one of a fixed number of them and then lets it run in streams of its own for a
//! few ticks, so that no two episodes begin alike and none has to wait for a market to fill.

use std::sync::{Arc, OnceLock};

use market::{EpisodeKey, Market};

use super::settings::TradingSettings;
use super::shown::Shown;

/// Markets to choose from.
const STARTS: usize = 64;
/// Ticks that an episode runs in its own streams before it is shown.
pub(super) const OWN_TICKS: u32 = 6;
/// The seed of the markets to choose from: they are the same for all envs.
const SEED: u64 = 0x7365_6b61_6973_7472;
/// The component that chooses.
const CHOICE: u64 = 8;

/// A market that has run for a while, and what has been seen of it.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) market: Market,
    pub(super) shown: Shown,
}

/// All of them; each is made when it is first needed.
#[derive(Clone)]
pub(super) struct Starts(Arc<Vec<OnceLock<Start>>>);

impl Starts {
    pub(super) fn new() -> Self {
        Self(Arc::new((0..STARTS).map(|_| OnceLock::new()).collect()))
    }

    /// The one that belongs to a key.
    pub(super) fn of(&self, key: EpisodeKey, settings: &Arc<TradingSettings>) -> &Start {
        let count = u32::try_from(STARTS).expect("few");
        let choice = key.stream(CHOICE).below(count);
        self.0[choice as usize].get_or_init(|| warm_up(choice, settings))
    }
}

fn warm_up(choice: u32, settings: &Arc<TradingSettings>) -> Start {
    let key = EpisodeKey { seed: SEED, episode: choice.into() };
    let mut start = Start {
        market: Market::new(Arc::new(settings.market.clone()), key),
        shown: Shown::new(settings),
    };
    for _ in 0..settings.warm_up {
        start.market.tick();
        start.shown.push(&start.market, settings);
    }
    start
}
