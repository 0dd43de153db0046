//! Start states of episodes: markets that have run for a while, cached and copied.
//!
//! A key chooses one of a fixed number of them, which then runs in streams of its own for a few
//! ticks, so that episodes start in different states without a warm-up.

use std::sync::{Arc, OnceLock};

use market::{EpisodeKey, Market};

use super::observation::FeatureSets;
use super::settings::TradingSettings;

/// Number of cached start states.
const STARTS: usize = 64;
/// Ticks that an episode runs in its own streams before its first observation.
pub(super) const OWN_TICKS: u32 = 6;
/// Seed of the start states: they are the same for all envs.
const SEED: u64 = 0x7365_6b61_6973_7472;
/// Random stream of the choice.
const CHOICE: u64 = 8;

/// Start state: a market after warm-up, and its features.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) market: Market,
    pub(super) feature_sets: FeatureSets,
}

/// Cache of start states; each is created on first use.
#[derive(Clone)]
pub(super) struct Starts(Arc<Vec<OnceLock<Start>>>);

impl Starts {
    pub(super) fn new() -> Self {
        Self(Arc::new((0..STARTS).map(|_| OnceLock::new()).collect()))
    }

    /// Start state of a key.
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
        feature_sets: FeatureSets::new(settings),
    };
    for _ in 0..settings.warm_up {
        start.market.tick();
        start.feature_sets.push(&start.market, settings);
    }
    start
}
