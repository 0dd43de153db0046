//! Work a large order: trade fast and pay for impact, or slowly and carry the risk.
//!
//! The market of Almgren and Chriss: a step's trade is filled at the price before it, less what
//! trading so fast costs; the price then moves by chance, and for good by what was traded.

mod optimum;
mod settings;

use std::sync::Arc;

use market::{EpisodeKey, Side, SnapshotError, Stream};
use serde::{Deserialize, Serialize};

use self::optimum::Optimum;
pub use self::settings::{OptimalExecutionSettings, Whole};
use crate::settings_error::SettingsError;
use crate::task::{ActionError, Outcome, Task};

const PRICE_STREAM: u64 = 0;

/// A hundredth of the order's value: what a reward of 1 stands for unless said otherwise.
const USUAL_UNIT: f64 = 0.01;

/// One episode of working an order.
#[derive(Clone, Debug)]
pub struct OptimalExecution {
    rules: Arc<Rules>,
    state: State,
}

/// What all episodes share, and what is worked out from the settings once.
#[derive(Debug)]
struct Rules {
    settings: OptimalExecutionSettings,
    optimum: Optimum,
    /// 1 for a seller, -1 for a buyer: what is left to trade is a position of that sign.
    sign: f64,
    /// Temporary impact on a fill, for each share of a step.
    impact: f64,
    step_spread: f64,
    step_variance: f64,
    horizon_spread: f64,
    reward_unit: f64,
}

/// Everything that changes during an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    steps: u32,
    inventory: f64,
    price: f64,
    cash: f64,
    shortfall: f64,
    expected_cost: f64,
    variance: f64,
    last: Fill,
    stream: Stream,
}

/// What a step traded, and at which price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Fill {
    amount: f64,
    price: f64,
}

impl OptimalExecution {
    /// An env with these settings, in no episode yet.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: OptimalExecutionSettings) -> Result<Self, SettingsError> {
        settings.check()?;
        let state = State::new(&settings, EpisodeKey::default());
        Ok(Self { rules: Arc::new(Rules::new(settings)), state })
    }

    /// The action that makes expected cost and risk least from here on, whatever came before.
    #[must_use]
    pub fn optimal_action(&self) -> f64 {
        let share = self.rules.optimum.share_of_rest(self.steps_left());
        match self.rules.settings.action {
            Whole::Rest => share,
            Whole::Order => share * (self.state.inventory / self.rules.settings.shares),
        }
    }

    /// What the optimal schedule has left to trade at this time of the episode.
    #[must_use]
    pub fn optimal_inventory(&self) -> f64 {
        self.rules.settings.shares * self.rules.optimum.share_left(self.state.steps)
    }

    /// How it is set.
    #[must_use]
    pub fn settings(&self) -> &OptimalExecutionSettings {
        &self.rules.settings
    }

    /// Decisions taken in this episode.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.state.steps
    }

    /// The price at which the last step traded, if it traded.
    #[must_use]
    pub fn fill_price(&self) -> Option<f64> {
        (self.state.last.amount > 0.0).then_some(self.state.last.price)
    }

    fn steps_left(&self) -> u32 {
        self.rules.settings.episode_steps - self.state.steps
    }

    /// What `action` trades now: all that is left in the last step.
    #[inline]
    fn amount(&self, action: f64) -> f64 {
        let left = self.state.inventory;
        match self.rules.settings.action {
            _ if self.steps_left() <= 1 => left,
            Whole::Rest => action * left,
            Whole::Order => (action * self.rules.settings.shares).min(left),
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // learners work with 32 bits
    fn show(&self, observation: &mut [f32]) {
        let Self { rules, state } = self;
        let settings = &rules.settings;
        let change = rules.sign * (state.price - settings.initial_price);
        // Without volatility there is nothing to divide by, and inventory tells the price.
        let scaled = if rules.horizon_spread > 0.0 { change / rules.horizon_spread } else { 0.0 };
        observation.copy_from_slice(&[
            (f64::from(self.steps_left()) / f64::from(settings.episode_steps)) as f32,
            (state.inventory / settings.shares) as f32,
            scaled as f32,
            (state.shortfall / rules.reward_unit) as f32,
        ]);
    }
}

impl Task for OptimalExecution {
    type Action = f64;
    type Observation = Vec<f32>;
    const NAME: &'static str = "OptimalExecution";
    const VERSION: u32 = 1;

    fn step_nanoseconds(&self) -> u32 {
        30
    }

    fn layout(&self) -> usize {
        4
    }

    fn action_len(&self) -> usize {
        1
    }

    #[inline]
    fn check(&self, action: &[f64]) -> Result<(), ActionError> {
        // A comparison with NaN is false, so it is refused too.
        if (0.0..=1.0).contains(&action[0]) {
            return Ok(());
        }
        let whole = match self.rules.settings.action {
            Whole::Rest => "what is left",
            Whole::Order => "the order",
        };
        let wanted = format!("a share of {whole} from 0 to 1");
        Err(ActionError { wanted, found: format!("{:?}", action[0]) })
    }

    fn begin(&mut self, key: EpisodeKey, observation: &mut [f32]) {
        self.state = State::new(&self.rules.settings, key);
        self.show(observation);
    }

    #[inline]
    fn step(&mut self, action: &[f64], observation: &mut [f32]) -> Outcome {
        let amount = self.amount(action[0]);
        let cost = self.state.trade(&self.rules, amount);
        self.show(observation);
        let reward = -cost / self.rules.reward_unit;
        Outcome { reward, terminated: self.state.inventory <= 0.0, truncated: false }
    }

    fn info_names(&self) -> &[&'static str] {
        &["shortfall", "inventory", "price", "traded", "cash", "expected_cost", "variance"]
    }

    #[inline]
    fn write_info(&self, row: &mut [f64]) {
        let State { shortfall, inventory, price, cash, expected_cost, variance, .. } = self.state;
        let traded = self.state.last.amount;
        row.copy_from_slice(&[shortfall, inventory, price, traded, cash, expected_cost, variance]);
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
        let (state, rest) = postcard::take_from_bytes::<State>(body)
            .map_err(|_| SnapshotError::Impossible { found: "bytes that are no order" })?;
        state.check(&self.rules.settings)?;
        (self.state, *body) = (state, rest);
        Ok(())
    }
}

impl Rules {
    fn new(settings: OptimalExecutionSettings) -> Self {
        let step_time = settings.step_time();
        let spread = |time: f64| settings.volatility * time.sqrt();
        let value = settings.shares * settings.initial_price;
        Self {
            optimum: Optimum::new(&settings),
            sign: match settings.side {
                Side::Sell => 1.0,
                Side::Buy => -1.0,
            },
            impact: settings.temporary_impact / step_time,
            step_spread: spread(step_time),
            step_variance: settings.volatility * settings.volatility * step_time,
            horizon_spread: spread(settings.horizon),
            reward_unit: settings.reward_unit.unwrap_or(USUAL_UNIT * value),
            settings,
        }
    }
}

impl State {
    fn new(settings: &OptimalExecutionSettings, key: EpisodeKey) -> Self {
        Self {
            steps: 0,
            inventory: settings.shares,
            price: settings.initial_price,
            cash: 0.0,
            shortfall: 0.0,
            expected_cost: 0.0,
            variance: 0.0,
            last: Fill { amount: 0.0, price: settings.initial_price },
            stream: key.stream(PRICE_STREAM),
        }
    }

    /// Fills `amount`, lets the price move, and returns what falls short by that: what the fill
    /// gave way, and what the price took from what is still left, its risk included.
    #[inline]
    fn trade(&mut self, rules: &Rules, amount: f64) -> f64 {
        let settings = &rules.settings;
        let concession = settings.half_spread + rules.impact * amount;
        let lasting = settings.permanent_impact * amount;
        // Drawn whatever is traded, so that all policies meet the same path.
        let chance = rules.step_spread * self.stream.normal();

        let price = self.price - rules.sign * concession;
        self.last = Fill { amount, price };
        self.cash += rules.sign * amount * price;
        self.inventory -= amount;
        self.price += chance - rules.sign * lasting;
        self.steps += 1;

        let expected = amount * concession + self.inventory * lasting;
        let shortfall = expected - rules.sign * self.inventory * chance;
        let variance = rules.step_variance * self.inventory * self.inventory;
        self.shortfall += shortfall;
        self.expected_cost += expected;
        self.variance += variance;
        shortfall + settings.risk_aversion * variance
    }

    fn check(&self, settings: &OptimalExecutionSettings) -> Result<(), SnapshotError> {
        let impossible = |found| Err(SnapshotError::Impossible { found });
        if self.steps > settings.episode_steps {
            return impossible("an episode longer than episodes are");
        }
        let possible = 0.0..=settings.shares;
        if !(possible.contains(&self.inventory) && possible.contains(&self.last.amount)) {
            return impossible("more or less than the order");
        }
        let money = [self.cash, self.shortfall, self.expected_cost, self.variance];
        if ![self.price, self.last.price].iter().chain(&money).all(|number| number.is_finite()) {
            return impossible("prices or money that are not finite");
        }
        Ok(())
    }
}
