//! Market making task: quote both sides of a market, earn the spread, and carry inventory risk.
//!
//! Distances are constant during a step, within which nothing is approximated: fills occur at the
//! times of two Poisson clocks, and the mid price is drawn at each of them. Coarse and fine
//! episodes differ only in the duration of quotes.

mod clock;
mod settings;

use std::sync::{Arc, OnceLock};

use market::{EpisodeKey, SnapshotError, Stream};
use serde::{Deserialize, Serialize};

use self::clock::Clock;
pub use self::settings::MarketMakingSettings;
use crate::glft::Glft;
use crate::settings_error::SettingsError;
use crate::task::{ActionError, Outcome, Task};

const MID_STREAM: u64 = 0;
const BRIDGE_STREAM: u64 = 1;
const BID_STREAM: u64 = 2;
const ASK_STREAM: u64 = 3;

/// Distances from the mid price at which the agent buys and sells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quotes {
    /// Distance of the bid below the mid.
    pub bid: f64,
    /// Distance of the ask above the mid.
    pub ask: f64,
}

/// One episode of market making.
#[derive(Clone, Debug)]
pub struct MarketMaking {
    rules: Arc<Rules>,
    state: State,
}

/// Data shared by all episodes, computed from the settings once.
#[derive(Debug)]
struct Rules {
    settings: MarketMakingSettings,
    /// Computed on first use: most agents never need it.
    optimum: OnceLock<Glft>,
    limit: i32,
    step_time: f64,
    step_spread: f64,
    horizon_spread: f64,
}

/// Mutable state of an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    steps: u32,
    inventory: i32,
    cash: f64,
    mid: f64,
    last_move: f64,
    fills: u32,
    /// Quotes of the last step, for rendering.
    quotes: Option<Quotes>,
    mid_stream: Stream,
    bridge_stream: Stream,
    bid_clock: Clock,
    ask_clock: Clock,
}

impl MarketMaking {
    /// A task with these settings, outside an episode.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn new(settings: MarketMakingSettings) -> Result<Self, SettingsError> {
        settings.check()?;
        let state = State::new(&settings, EpisodeKey::default());
        Ok(Self { rules: Arc::new(Rules::new(settings)), state })
    }

    /// Optimal quote distances, within the range of actions: they maximise expected utility until
    /// the end of the episode. The side at the inventory limit, where nothing is quoted, gets the
    /// largest distance.
    #[must_use]
    pub fn optimal_quotes(&self) -> Quotes {
        let Rules { settings, .. } = &*self.rules;
        let quotes = self.rules.optimum().quotes(self.steps_left(), self.state.inventory);
        let allowed = |distance: f64| distance.clamp(settings.min_distance, settings.max_distance);
        Quotes { bid: allowed(quotes.bid), ask: allowed(quotes.ask) }
    }

    /// Certainty equivalent of optimal continuous quoting until the end of the episode.
    #[must_use]
    pub fn certainty_equivalent(&self) -> f64 {
        self.state.wealth() + self.rules.optimum().value(self.steps_left(), self.state.inventory)
    }

    /// Settings of the task.
    #[must_use]
    pub fn settings(&self) -> &MarketMakingSettings {
        &self.rules.settings
    }

    /// Number of decisions taken in this episode.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.state.steps
    }

    /// Quotes of the last step, if there was one.
    #[must_use]
    pub fn last_quotes(&self) -> Option<Quotes> {
        self.state.quotes
    }

    fn steps_left(&self) -> u32 {
        self.rules.settings.episode_steps - self.state.steps
    }

    fn show(&self, observation: &mut [f64]) {
        let Rules { settings, .. } = &*self.rules;
        // Without volatility there is nothing to divide by.
        let scaled = |change: f64, spread: f64| if spread > 0.0 { change / spread } else { 0.0 };
        observation.copy_from_slice(&[
            f64::from(self.steps_left()) / f64::from(settings.episode_steps),
            f64::from(self.state.inventory) / f64::from(self.rules.limit),
            scaled(self.state.last_move, self.rules.step_spread),
            scaled(self.state.mid - settings.initial_mid, self.rules.horizon_spread),
        ]);
    }
}

impl Task for MarketMaking {
    type Action = f64;
    type Observation = Vec<f64>;
    const NAME: &'static str = "MarketMaking";
    const VERSION: u32 = 2;

    fn step_nanoseconds(&self) -> u32 {
        50
    }

    fn layout(&self) -> usize {
        4
    }

    fn action_len(&self) -> usize {
        2
    }

    fn check(&self, action: &[f64]) -> Result<(), ActionError> {
        let MarketMakingSettings { min_distance, max_distance, .. } = self.rules.settings;
        // Comparisons with NaN are false, so NaN is refused too.
        if action.iter().all(|distance| (min_distance..=max_distance).contains(distance)) {
            return Ok(());
        }
        let expected = format!("distances from {min_distance} to {max_distance}");
        Err(ActionError { expected, got: format!("{action:?}") })
    }

    fn is_over(&self) -> bool {
        self.state.steps >= self.rules.settings.episode_steps
    }

    fn begin(&mut self, key: EpisodeKey, observation: &mut [f64]) {
        self.state = State::new(&self.rules.settings, key);
        self.show(observation);
    }

    fn step(&mut self, action: &[f64], observation: &mut [f64]) -> Outcome {
        let rules = &*self.rules;
        let before = self.state.wealth();
        let quotes = Quotes { bid: action[0], ask: action[1] };
        let mut penalty = self.state.run(rules, quotes);
        self.state.quotes = Some(quotes);
        self.state.steps += 1;
        let wealth = self.state.wealth();
        let terminated = rules.settings.ruin_wealth.is_some_and(|level| wealth <= level);
        let truncated = !terminated && self.state.steps == rules.settings.episode_steps;
        if terminated || truncated {
            let held = f64::from(self.state.inventory.abs());
            penalty += rules.settings.liquidation_penalty * held;
        }
        self.show(observation);
        Outcome { reward: wealth - before - penalty, terminated, truncated }
    }

    fn info_names(&self) -> &[&'static str] {
        &["cash", "inventory", "mid", "wealth", "fills"]
    }

    fn write_info(&self, row: &mut [f64]) {
        let State { cash, inventory, mid, fills, .. } = self.state;
        let wealth = self.state.wealth();
        row.copy_from_slice(&[cash, f64::from(inventory), mid, wealth, f64::from(fills)]);
    }

    fn encode_rules(&self, body: &mut Vec<u8>) {
        let settings = postcard::to_allocvec(&self.rules.settings);
        body.extend(settings.expect("plain numbers can always be written"));
    }

    fn encode(&self, body: &mut Vec<u8>) {
        let state = postcard::to_allocvec(&self.state);
        body.extend(state.expect("plain numbers can always be written"));
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let (state, rest) = postcard::take_from_bytes::<State>(body).map_err(|_| {
            SnapshotError::Impossible { got: "bytes that do not hold a market making episode" }
        })?;
        state.check(&self.rules)?;
        (self.state, *body) = (state, rest);
        Ok(())
    }
}

impl Rules {
    fn new(settings: MarketMakingSettings) -> Self {
        let step_time = settings.step_time();
        let spread = |time: f64| settings.volatility * time.sqrt();
        Self {
            optimum: OnceLock::new(),
            limit: i32::try_from(settings.inventory_limit).expect("limits stay below a million"),
            step_time,
            step_spread: spread(step_time),
            horizon_spread: spread(settings.horizon),
            settings,
        }
    }

    fn optimum(&self) -> &Glft {
        self.optimum.get_or_init(|| Glft::new(&self.settings))
    }
}

impl State {
    fn new(settings: &MarketMakingSettings, key: EpisodeKey) -> Self {
        Self {
            steps: 0,
            inventory: 0,
            cash: settings.initial_cash,
            mid: settings.initial_mid,
            last_move: 0.0,
            fills: 0,
            quotes: None,
            mid_stream: key.stream(MID_STREAM),
            bridge_stream: key.stream(BRIDGE_STREAM),
            bid_clock: Clock::new(key.stream(BID_STREAM)),
            ask_clock: Clock::new(key.stream(ASK_STREAM)),
        }
    }

    fn wealth(&self) -> f64 {
        self.cash + f64::from(self.inventory) * self.mid
    }

    /// Advance both clocks and the mid price by a step; returns the inventory penalty.
    fn run(&mut self, rules: &Rules, quotes: Quotes) -> f64 {
        let rates = (rules.settings.rate(quotes.bid), rules.settings.rate(quotes.ask));
        let (mut time, mut penalty) = (rules.step_time, 0.0);
        // Drawn for the full step, so that the path does not depend on the quotes.
        let mut move_left = rules.step_spread * self.mid_stream.normal();
        self.last_move = move_left;
        loop {
            let bid_rate = if self.inventory < rules.limit { rates.0 } else { 0.0 };
            let ask_rate = if self.inventory > -rules.limit { rates.1 } else { 0.0 };
            let fill = self.next_fill(bid_rate, ask_rate, time);
            let elapsed = fill.map_or(time, |fill| fill.after);
            self.bid_clock.advance(bid_rate * elapsed);
            self.ask_clock.advance(ask_rate * elapsed);
            let held = f64::from(self.inventory);
            penalty += rules.settings.running_penalty * held * held * elapsed;
            let Some(fill) = fill else {
                self.mid += move_left;
                return penalty;
            };
            let moved = self.bridge(rules.settings.volatility, move_left, elapsed, time);
            self.mid += moved;
            (move_left, time) = (move_left - moved, time - elapsed);
            self.take(fill, quotes);
        }
    }

    /// The first fill within `time`, if there is one.
    #[inline]
    fn next_fill(&self, bid_rate: f64, ask_rate: f64, time: f64) -> Option<NextFill> {
        let is_bid_due = self.bid_clock.fires_within(bid_rate * time);
        let is_ask_due = self.ask_clock.fires_within(ask_rate * time);
        if !is_bid_due && !is_ask_due {
            return None;
        }
        let (bid, ask) = (self.bid_clock.wait(bid_rate), self.ask_clock.wait(ask_rate));
        let after = bid.min(ask);
        (after < time).then_some(NextFill { after, is_bid: bid <= ask })
    }

    /// Brownian bridge: move of the mid after `elapsed` of `time`, over which it moves by `total`.
    fn bridge(&mut self, volatility: f64, total: f64, elapsed: f64, time: f64) -> f64 {
        let share = elapsed / time;
        let variance = elapsed * (1.0 - share);
        total * share + volatility * variance.sqrt() * self.bridge_stream.normal()
    }

    fn take(&mut self, fill: NextFill, quotes: Quotes) {
        if fill.is_bid {
            self.bid_clock.fire();
            self.inventory += 1;
            self.cash -= self.mid - quotes.bid;
        } else {
            self.ask_clock.fire();
            self.inventory -= 1;
            self.cash += self.mid + quotes.ask;
        }
        self.fills = self.fills.saturating_add(1);
    }

    fn check(&self, rules: &Rules) -> Result<(), SnapshotError> {
        let impossible = |got| Err(SnapshotError::Impossible { got });
        if self.steps > rules.settings.episode_steps {
            return impossible("an episode longer than episodes are");
        }
        if self.inventory.checked_abs().is_none_or(|held| held > rules.limit) {
            return impossible("an inventory beyond its limit");
        }
        let numbers = [self.cash, self.mid, self.last_move];
        if !numbers.iter().all(|number| number.is_finite()) {
            return impossible("prices or cash that are not finite");
        }
        let distances = rules.settings.min_distance..=rules.settings.max_distance;
        let can_be_quoted =
            |quotes: &Quotes| distances.contains(&quotes.bid) && distances.contains(&quotes.ask);
        if !self.quotes.as_ref().is_none_or(can_be_quoted) {
            return impossible("quotes out of their range");
        }
        if !(self.bid_clock.is_valid() && self.ask_clock.is_valid()) {
            return impossible("a clock that rang in the past");
        }
        Ok(())
    }
}

/// Fill and its time.
#[derive(Clone, Copy)]
struct NextFill {
    after: f64,
    is_bid: bool,
}
