//! Optimal execution task: trade a parent order fast and pay impact, or slowly and carry the risk.
//!
//! The market of Almgren and Chriss: a step's trade is filled at the price before it, less
//! temporary impact; the price then moves by a random shock and by permanent impact.

mod optimum;
mod order;
mod settings;

use std::sync::Arc;

use market::{EpisodeKey, Side, SnapshotError};

pub use self::optimum::OptimalTrajectory;
use self::order::Order;
pub use self::settings::{ActionUnit, OptimalExecutionSettings};
use crate::settings_error::SettingsError;
use crate::task::{ActionError, Outcome, Task};

/// Default reward unit, as a share of the order's value.
const USUAL_UNIT: f64 = 0.01;

/// One episode of optimal execution.
#[derive(Clone, Debug)]
pub struct OptimalExecution {
    rules: Arc<Rules>,
    order: Order,
}

/// Data shared by all episodes, computed from the settings once.
#[derive(Debug)]
struct Rules {
    settings: OptimalExecutionSettings,
    optimum: OptimalTrajectory,
    /// 1 for a seller, -1 for a buyer: sign of the remaining position.
    sign: f64,
    /// Temporary impact on a fill, for each share of a step.
    impact: f64,
    step_spread: f64,
    step_variance: f64,
    horizon_spread: f64,
    reward_unit: f64,
}

impl OptimalExecution {
    /// A task with these settings, outside an episode.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn new(settings: OptimalExecutionSettings) -> Result<Self, SettingsError> {
        settings.check()?;
        let order = Order::new(&settings, EpisodeKey::default());
        Ok(Self { rules: Arc::new(Rules::new(settings)), order })
    }

    /// Optimal action: minimises expected cost and risk until the end of the episode, whatever the
    /// past.
    #[must_use]
    pub fn optimal_action(&self) -> f64 {
        let share = self.rules.optimum.share_of_rest(self.steps_left());
        match self.rules.settings.action {
            ActionUnit::Rest => share,
            ActionUnit::Order => share * (self.order.inventory / self.rules.settings.shares),
        }
    }

    /// Remaining inventory of the optimal schedule at the current time.
    #[must_use]
    pub fn optimal_inventory(&self) -> f64 {
        self.rules.settings.shares * self.rules.optimum.share_left(self.order.steps)
    }

    /// Settings of the task.
    #[must_use]
    pub fn settings(&self) -> &OptimalExecutionSettings {
        &self.rules.settings
    }

    /// Number of decisions taken in this episode.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.order.steps
    }

    /// Fill price of the last step, if it traded.
    #[must_use]
    pub fn fill_price(&self) -> Option<f64> {
        (self.order.last.amount > 0.0).then_some(self.order.last.price)
    }

    fn steps_left(&self) -> u32 {
        self.rules.settings.episode_steps - self.order.steps
    }

    /// Size traded by `action` now: all remaining inventory in the last step.
    #[inline]
    fn amount(&self, action: f64) -> f64 {
        let left = self.order.inventory;
        match self.rules.settings.action {
            _ if self.steps_left() <= 1 => left,
            ActionUnit::Rest => action * left,
            ActionUnit::Order => (action * self.rules.settings.shares).min(left),
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // observations have 32 bits
    fn show(&self, observation: &mut [f32]) {
        let Self { rules, order } = self;
        let settings = &rules.settings;
        let change = rules.sign * (order.price - settings.initial_price);
        // Without volatility there is nothing to divide by, and the price follows from inventory.
        let scaled = if rules.horizon_spread > 0.0 { change / rules.horizon_spread } else { 0.0 };
        observation.copy_from_slice(&[
            (f64::from(self.steps_left()) / f64::from(settings.episode_steps)) as f32,
            (order.inventory / settings.shares) as f32,
            scaled as f32,
            (order.shortfall / rules.reward_unit) as f32,
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
        // A comparison with NaN is false, so NaN is refused too.
        if (0.0..=1.0).contains(&action[0]) {
            return Ok(());
        }
        let unit = match self.rules.settings.action {
            ActionUnit::Rest => "what is left",
            ActionUnit::Order => "the order",
        };
        let expected = format!("a share of {unit} from 0 to 1");
        Err(ActionError { expected, got: format!("{:?}", action[0]) })
    }

    fn is_over(&self) -> bool {
        self.order.steps >= self.rules.settings.episode_steps || self.order.inventory <= 0.0
    }

    fn begin(&mut self, key: EpisodeKey, observation: &mut [f32]) {
        self.order = Order::new(&self.rules.settings, key);
        self.show(observation);
    }

    #[inline]
    fn step(&mut self, action: &[f64], observation: &mut [f32]) -> Outcome {
        let amount = self.amount(action[0]);
        let cost = self.order.trade(&self.rules, amount);
        self.show(observation);
        let reward = -cost / self.rules.reward_unit;
        Outcome { reward, terminated: self.order.inventory <= 0.0, truncated: false }
    }

    fn info_names(&self) -> &[&'static str] {
        &["shortfall", "inventory", "price", "traded", "cash", "expected_cost", "variance"]
    }

    #[inline]
    fn write_info(&self, row: &mut [f64]) {
        let Order { shortfall, inventory, price, cash, expected_cost, variance, .. } = self.order;
        let traded = self.order.last.amount;
        row.copy_from_slice(&[shortfall, inventory, price, traded, cash, expected_cost, variance]);
    }

    fn encode_rules(&self, body: &mut Vec<u8>) {
        let settings = postcard::to_allocvec(&self.rules.settings);
        body.extend(settings.expect("plain numbers can always be written"));
    }

    fn encode(&self, body: &mut Vec<u8>) {
        let order = postcard::to_allocvec(&self.order);
        body.extend(order.expect("plain numbers can always be written"));
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let (order, rest) = postcard::take_from_bytes::<Order>(body)
            .map_err(|_| SnapshotError::Impossible { got: "bytes that do not hold an order" })?;
        order.check(&self.rules.settings)?;
        (self.order, *body) = (order, rest);
        Ok(())
    }
}

impl Rules {
    fn new(settings: OptimalExecutionSettings) -> Self {
        let step_time = settings.step_time();
        let spread = |time: f64| settings.volatility * time.sqrt();
        let value = settings.shares * settings.initial_price;
        Self {
            optimum: OptimalTrajectory::new(
                settings.episode_steps,
                settings.step_time(),
                settings.volatility,
                settings.risk_aversion,
                settings.effective_impact(),
            ),
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
