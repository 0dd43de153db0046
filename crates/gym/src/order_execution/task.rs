//! Order execution task: choose the amount of each step of an order, or of each order of a basket.

use std::sync::Arc;

use market::{EpisodeKey, SnapshotError};
use serde::{Deserialize, Serialize};

use super::direction::Direction;
use super::error::ExecutionError;
use super::numpy_random::NumpyGenerator;
use super::source::{OrderSource, RandomWindow, seen_digest};
use super::{OrderExecution, OrderRules, ParentOrder, Progress, StepRecord};
use crate::Shape;
use crate::task::{ActionError, Outcome, Task};

crate::parts! {
    /// Observation of an order; of a basket, with a row for each order.
    pub struct OrderObservation, rows ObservationRows, layout OrderLayout {
        /// Features of today's ticks so far, ticks by columns.
        data_processed: f32,
        /// Features of the day before.
        data_processed_prev: f32,
        /// Number of today's ticks so far.
        cur_tick: i32,
        /// Amount left after each step.
        position_history: f32,
        /// 1 to buy, 0 to sell.
        acquiring: i64,
        /// Number of steps taken.
        cur_step: i32,
        /// Most steps of an order.
        num_step: i32,
        /// Size of the order.
        target: f32,
        /// Amount left.
        position: f32,
    }
}

/// Numbers of an info row of one order.
pub const ORDER_INFO: [&str; 21] = [
    "ticks",
    "direction",
    "amount",
    "first",
    "stop",
    "tick",
    "boundary",
    "steps",
    "done",
    "ordered",
    "position",
    "requested",
    "filled",
    "value",
    "cost",
    "market_volume",
    "market_price",
    "twap_price",
    "advantage",
    "penalty",
    "reward",
];

/// Observation of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservedState {
    /// Features of today and the day before, progress and history.
    FullHistory,
    /// Progress alone.
    CurrentStep,
    /// Empty observation.
    Nothing,
}

/// Meaning of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SliceAction {
    /// Index into these shares of the order; the last step trades the rest.
    Categorical(Vec<f64>),
    /// Multiple of the amount of TWAP.
    TwapRelative,
}

/// Reward of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SliceReward {
    /// Zero reward.
    Nothing,
    /// Negative implementation shortfall, less the concentration penalty.
    Shortfall,
    /// Price advantage over TWAP, less the concentration penalty.
    Advantage,
    /// 1, 0 or -1 at the end, by the price of the fills.
    Score,
}

/// Settings of the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderTaskSettings {
    /// Rules of matching.
    pub rules: OrderRules,
    /// Steps of a random order, or most steps of a given one.
    pub order_steps: usize,
    /// Ticks of a day in an observation.
    pub day_ticks: usize,
    /// Features of a tick.
    pub columns: usize,
    /// Observation.
    pub state: ObservedState,
    /// Meaning of an action.
    pub action: SliceAction,
    /// Reward.
    pub reward: SliceReward,
    /// Penalty of trading all in one tick, in basis points.
    pub penalty: f64,
    /// Smallest and largest amount of random orders.
    pub amount: (f64, f64),
    /// Direction of random orders; `None` for either.
    pub direction: Option<Direction>,
    /// Orders of a basket; `None` for one order, without an axis of orders.
    pub basket: Option<usize>,
}

/// One episode of order execution.
#[derive(Clone, Debug)]
pub struct OrderTask {
    shared: Arc<Shared>,
    generator: NumpyGenerator,
    /// Orders as drawn; the memory of the next draw.
    drawn: Vec<(usize, ParentOrder)>,
    orders: Vec<Working>,
}

#[derive(Debug)]
struct Shared {
    settings: OrderTaskSettings,
    source: OrderSource,
    window: RandomWindow,
    info_names: Vec<&'static str>,
    digest: [u8; 32],
}

/// An order in execution.
#[derive(Clone, Debug)]
struct Working {
    execution: OrderExecution,
    track: Track,
}

/// Record of an order beside its execution.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Track {
    ticks: usize,
    /// Not saved: it includes future prices, and is computed again.
    #[serde(skip)]
    twap_price: f64,
    advantage: f64,
    penalty: f64,
    reward: f64,
}

impl OrderTask {
    /// A task with these settings, outside an episode.
    ///
    /// # Errors
    /// If the settings or the data are invalid, or no order can be drawn.
    pub fn new(settings: OrderTaskSettings, source: OrderSource) -> Result<Self, ExecutionError> {
        settings.rules.check()?;
        let is_valid = settings.order_steps > 0
            && settings.day_ticks > 0
            && settings.columns > 0
            && settings.basket != Some(0)
            && !matches!(&settings.action, SliceAction::Categorical(shares) if shares.is_empty());
        if !is_valid {
            return Err(ExecutionError::Source { reason: "steps, shares or orders are missing" });
        }
        let ticks_per_step = settings.rules.ticks_per_step;
        let window = RandomWindow {
            amount: settings.amount,
            direction: settings.direction,
            ticks_per_step,
            order_ticks: settings.order_steps.saturating_mul(ticks_per_step),
        };
        let count = settings.basket.unwrap_or(1);
        let is_full = settings.state == ObservedState::FullHistory;
        source.check(count, &window, if is_full { settings.columns } else { 0 })?;
        let fits = |values: &Arc<[f32]>| values.len() <= settings.day_ticks * settings.columns;
        if is_full && !source.features.iter().all(fits) {
            return Err(ExecutionError::Source {
                reason: "a day has more ticks than day_ticks, raise it",
            });
        }
        let order = ParentOrder { direction: Direction::Sell, amount: 1.0, first: 0, stop: 1 };
        let day = Arc::clone(&source.ticks[0].sell);
        let execution = OrderExecution::new(day, settings.rules, Direction::Sell, 1.0, (0, 1))?;
        let working = Working { execution, track: Track::default() };
        let info_names = ORDER_INFO.repeat(count);
        let digest = source.digest();
        Ok(Self {
            shared: Arc::new(Shared { settings, source, window, info_names, digest }),
            generator: NumpyGenerator::new(0),
            drawn: vec![(0, order); count],
            orders: vec![working; count],
        })
    }

    /// Execution of one order of the episode; `None` if there is no such order.
    #[must_use]
    pub fn execution(&self, order: usize) -> Option<&OrderExecution> {
        self.orders.get(order).map(|own| &own.execution)
    }

    fn show(&self, rows: &mut ObservationRows<'_>) {
        let settings = &self.shared.settings;
        if settings.state == ObservedState::Nothing {
            return;
        }
        let is_full = settings.state == ObservedState::FullHistory;
        for (index, order) in self.orders.iter().enumerate() {
            if is_full {
                order.show_features(&self.shared, index, rows);
            }
            let last_step = settings.order_steps - usize::from(is_full);
            order.show_progress(settings, last_step, index, rows);
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // few ticks, 32 bits
impl Working {
    fn begin(&mut self, shared: &Shared, ticks: usize, order: ParentOrder) {
        let day = Arc::clone(shared.source.ticks[ticks].of(order.direction));
        self.execution.restart(day, order);
        let twap_price = self.execution.twap_price();
        self.track = Track { ticks, twap_price, ..Track::default() };
    }

    /// Amount to trade in the next step.
    fn amount(&self, settings: &OrderTaskSettings, action: f64) -> f64 {
        let (order, position) = (&self.execution.order, self.execution.position());
        match &settings.action {
            SliceAction::Categorical(_) if self.execution.steps() + 1 >= settings.order_steps => {
                position
            }
            #[allow(clippy::cast_sign_loss)] // checked
            SliceAction::Categorical(shares) => {
                position.min(order.amount * shares[action as usize])
            }
            SliceAction::TwapRelative => {
                let tick = self.execution.tick();
                let (now, left) = (self.execution.next_boundary() - tick, order.stop - tick);
                #[allow(clippy::cast_precision_loss)] // few ticks
                let share = now as f64 / left as f64;
                position.min(position * share * action)
            }
        }
    }

    fn step(&mut self, settings: &OrderTaskSettings, action: f64) -> f64 {
        let (begin, amount) = (self.execution.tick(), self.amount(settings, action));
        self.execution.step(amount).expect("amounts are from 0 to what is left");
        self.reward(settings, begin)
    }

    fn reward(&mut self, settings: &OrderTaskSettings, begin: usize) -> f64 {
        let (execution, tick) = (&self.execution, self.execution.tick());
        let (advantage, penalty) = match settings.reward {
            SliceReward::Nothing => (0.0, 0.0),
            SliceReward::Shortfall => {
                (execution.shortfall(begin, tick), execution.concentration(begin, tick))
            }
            SliceReward::Advantage => {
                (execution.advantage(begin, tick), execution.concentration(begin, tick))
            }
            SliceReward::Score => {
                let is_last = execution.steps() + 1 == settings.order_steps;
                let is_over = is_last || execution.is_filled();
                let score = || execution.price_score(tick, 0..settings.day_ticks);
                (if is_over { score() } else { 0.0 }, 0.0)
            }
        };
        let penalty = settings.penalty * penalty;
        let reward = advantage - penalty;
        (self.track.advantage, self.track.penalty, self.track.reward) =
            (advantage, penalty, reward);
        reward
    }

    fn show_features(&self, shared: &Shared, index: usize, rows: &mut ObservationRows<'_>) {
        let settings = &shared.settings;
        let (columns, size) = (settings.columns, settings.day_ticks * settings.columns);
        let (day, stop) = (&self.execution.day, self.execution.order.stop);
        let tick = self.execution.tick();
        let shown = tick.min(stop - 1);
        let session = shared.source.ticks[self.track.ticks].features[day.session_index(shown)];
        let known = tick - day.session(shown).start;
        let today = &shared.source.features[session.today][..known * columns];
        let yesterday = session.yesterday.map_or(&[][..], |own| &shared.source.features[own]);
        fill(&mut rows.data_processed[index * size..][..size], today);
        fill(&mut rows.data_processed_prev[index * size..][..size], yesterday);
        rows.cur_tick[index] = known.min(settings.day_ticks - 1) as i32;
        let steps = settings.order_steps;
        let history = &mut rows.position_history[index * steps..][..steps];
        history.fill(0.0);
        let after_steps = self.execution.step_records().iter().map(|step| step.position);
        let positions = std::iter::once(self.execution.order.amount).chain(after_steps);
        for (shown, position) in history.iter_mut().zip(positions) {
            *shown = position as f32;
        }
    }

    fn show_progress(
        &self,
        settings: &OrderTaskSettings,
        last_step: usize,
        index: usize,
        rows: &mut ObservationRows<'_>,
    ) {
        let order = &self.execution.order;
        rows.acquiring[index] = i64::from(order.direction == Direction::Buy);
        rows.cur_step[index] = self.execution.steps().min(last_step) as i32;
        rows.num_step[index] = settings.order_steps as i32;
        rows.target[index] = order.amount as f32;
        rows.position[index] = self.execution.position() as f32;
    }

    #[allow(clippy::cast_precision_loss)] // few ticks
    fn write_info(&self, row: &mut [f64]) {
        let (execution, track) = (&self.execution, &self.track);
        let order = &execution.order;
        let sums = execution.total();
        row.copy_from_slice(&[
            track.ticks as f64,
            f64::from(u8::from(order.direction == Direction::Buy)),
            order.amount,
            order.first as f64,
            order.stop as f64,
            execution.tick() as f64,
            execution.next_boundary() as f64,
            execution.steps() as f64,
            f64::from(u8::from(execution.is_done())),
            execution.ordered(),
            execution.position(),
            sums.requested,
            sums.filled,
            sums.value,
            sums.cost,
            sums.market_volume,
            sums.market_price,
            track.twap_price,
            track.advantage,
            track.penalty,
            track.reward,
        ]);
    }
}

/// Copy rows to the beginning, and zeros after them.
fn fill(into: &mut [f32], rows: &[f32]) {
    into[..rows.len()].copy_from_slice(rows);
    into[rows.len()..].fill(0.0);
}

impl Task for OrderTask {
    type Action = f64;
    type Observation = OrderObservation;
    const NAME: &'static str = "OrderExecution";
    const VERSION: u32 = 2;

    #[allow(clippy::cast_possible_truncation)] // small numbers
    fn step_nanoseconds(&self) -> u32 {
        let settings = &self.shared.settings;
        let shown = settings.day_ticks * settings.columns / 4;
        (self.orders.len() * (400 + 15 * settings.rules.ticks_per_step + shown)) as u32
    }

    fn bytes(&self) -> usize {
        let ticks = self.shared.window.order_ticks * size_of::<super::TickFill>();
        let steps = self.shared.settings.order_steps * size_of::<StepRecord>();
        size_of::<Self>() + self.orders.len() * (size_of::<Working>() + ticks + steps)
    }

    fn layout(&self) -> OrderLayout {
        let settings = &self.shared.settings;
        let scalar = settings.basket.map_or(Shape::new([]), |count| Shape::new([count]));
        let row =
            |length| settings.basket.map_or(Shape::new([length]), |n| Shape::new([n, length]));
        let table = |ticks, columns| {
            let basket = |count| Shape::new([count, ticks, columns]);
            settings.basket.map_or(Shape::new([ticks, columns]), basket)
        };
        let is_full = settings.state == ObservedState::FullHistory;
        let full = |shape| if is_full { shape } else { Shape::NONE };
        let is_shown = settings.state != ObservedState::Nothing;
        let shown = if is_shown { scalar } else { Shape::NONE };
        let features = full(table(settings.day_ticks, settings.columns));
        OrderLayout {
            data_processed: features,
            data_processed_prev: features,
            cur_tick: full(scalar),
            position_history: full(row(settings.order_steps)),
            acquiring: shown,
            cur_step: shown,
            num_step: shown,
            target: shown,
            position: shown,
        }
    }

    fn action_len(&self) -> usize {
        self.orders.len()
    }

    #[inline]
    #[allow(clippy::cast_precision_loss)] // few shares
    fn check(&self, action: &[f64]) -> Result<(), ActionError> {
        for &choice in action {
            let (is_valid, expected) = match &self.shared.settings.action {
                SliceAction::Categorical(shares) => {
                    let is_index = choice.fract() == 0.0 && choice >= 0.0;
                    (is_index && choice < shares.len() as f64, Some(shares.len()))
                }
                SliceAction::TwapRelative => (choice >= 0.0 && choice.is_finite(), None),
            };
            if !is_valid {
                let index = |count| format!("an index of a share from 0 to {}", count - 1);
                let expected =
                    expected.map_or("a finite multiple of TWAP, at least 0".into(), index);
                return Err(ActionError { expected, got: format!("{choice:?}") });
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.orders.iter().all(|order| order.execution.is_done())
    }

    fn begin(&mut self, key: EpisodeKey, mut observation: ObservationRows<'_>) {
        let shared = &*self.shared;
        if key.episode == 0 {
            self.generator = NumpyGenerator::new(key.seed);
        }
        shared.source.draw(&mut self.generator, &shared.window, &mut self.drawn);
        for (working, (ticks, order)) in self.orders.iter_mut().zip(&self.drawn) {
            working.begin(shared, *ticks, *order);
        }
        self.show(&mut observation);
    }

    fn step(&mut self, action: &[f64], mut observation: ObservationRows<'_>) -> Outcome {
        // Negative zero: the sum of one reward has its sign.
        let mut reward = -0.0;
        for (order, choice) in self.orders.iter_mut().zip(action) {
            if order.execution.is_done() {
                (order.track.advantage, order.track.penalty, order.track.reward) = (0.0, 0.0, 0.0);
            } else {
                reward += order.step(&self.shared.settings, *choice);
            }
        }
        self.show(&mut observation);
        Outcome { reward, terminated: self.is_over(), truncated: false }
    }

    fn info_names(&self) -> &[&'static str] {
        &self.shared.info_names
    }

    fn write_info(&self, row: &mut [f64]) {
        for (order, row) in self.orders.iter().zip(row.chunks_exact_mut(ORDER_INFO.len())) {
            order.write_info(row);
        }
    }

    fn encode_rules(&self, body: &mut Vec<u8>) {
        let settings = postcard::to_allocvec(&self.shared.settings);
        body.extend(settings.expect("plain numbers can always be written"));
        body.extend(self.shared.digest);
    }

    fn encode(&self, body: &mut Vec<u8>) {
        let orders: Vec<_> = self
            .orders
            .iter()
            .map(|own| {
                let OrderExecution { day, order, progress, .. } = &own.execution;
                (order, progress, &own.track, seen_digest(day, progress.tick))
            })
            .collect();
        let state = postcard::to_allocvec(&(&self.generator, orders));
        body.extend(state.expect("plain numbers can always be written"));
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        type Saved = (NumpyGenerator, Vec<(ParentOrder, Progress, Track, [u8; 32])>);
        let impossible = SnapshotError::Impossible { got: "orders of other ticks" };
        let Ok((state, rest)) = postcard::take_from_bytes::<Saved>(body) else {
            return Err(impossible);
        };
        let (generator, saved) = state;
        let rules = self.shared.settings.rules;
        let read = saved.into_iter().map(|(order, progress, mut track, digest)| {
            let ticks = self.shared.source.ticks.get(track.ticks)?;
            let day = Arc::clone(ticks.of(order.direction));
            let execution = OrderExecution { day, rules, order, progress };
            if !execution.is_valid() || seen_digest(&execution.day, execution.tick()) != digest {
                return None;
            }
            track.twap_price = execution.twap_price();
            Some(Working { execution, track })
        });
        let orders = read.collect::<Option<Vec<_>>>().filter(|own| own.len() == self.orders.len());
        let Some(orders) = orders else { return Err(impossible) };
        (self.generator, self.orders, *body) = (generator, orders, rest);
        Ok(())
    }
}
