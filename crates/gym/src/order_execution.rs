//! Order execution over the ticks of one session or several. Both order simulators share this
//! matching: they differ in settings alone.

mod day;
mod direction;
mod error;
mod matching;
mod numpy_random;
mod reward;
mod rules;
mod source;
mod summary;
mod task;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use day::{DayError, OrderDay};
pub use direction::Direction;
pub use error::ExecutionError;
use matching::Holdings;
pub use matching::TickFill;
pub use rules::{OrderRules, RulesError};
pub use source::{OrderDraws, OrderSource, OrderTicks, SessionFeatures};
pub use summary::Summary;
pub use task::{
    ORDER_INFO, ObservationRows, ObservedState, OrderLayout, OrderObservation, OrderTask,
    OrderTaskSettings, SliceAction, SliceReward,
};

/// Execution of one order. Its window is a range of ticks, divided into steps that begin at
/// multiples of `ticks_per_step`, counted from the first tick of each session: the first and the
/// last step of a session can be short. What is left at the end of a session goes on in the next.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderExecution {
    day: Arc<OrderDay>,
    rules: OrderRules,
    order: ParentOrder,
    progress: Progress,
}

/// Order to execute from tick `first` up to but not including `stop`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParentOrder {
    /// Sell or buy.
    pub direction: Direction,
    /// Size.
    pub amount: f64,
    /// First tick.
    pub first: usize,
    /// The tick after the last.
    pub stop: usize,
}

/// Record of one step of an order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Amount that was to be traded in the step.
    pub ordered: f64,
    /// Remaining size after the step.
    pub position: f64,
}

/// Mutable state of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Progress {
    tick: usize,
    holdings: Holdings,
    steps: Vec<StepRecord>,
    fills: Vec<TickFill>,
}

impl OrderExecution {
    /// An order of `amount`, executed from tick `first` up to but not including `stop`.
    ///
    /// # Errors
    /// If the day, the rules, the window or the amount is invalid.
    pub fn new(
        day: impl Into<Arc<OrderDay>>,
        rules: OrderRules,
        direction: Direction,
        amount: f64,
        (first, stop): (usize, usize),
    ) -> Result<Self, ExecutionError> {
        let day = day.into();
        day.check()?;
        rules.check()?;
        if first >= stop || stop > day.ticks() {
            return Err(ExecutionError::Window { first, stop, ticks: day.ticks() });
        }
        if !(amount > 0.0 && amount.is_finite()) {
            return Err(ExecutionError::Order { got: amount });
        }
        let order = ParentOrder { direction, amount, first, stop };
        let fills = Vec::with_capacity(stop - first);
        let progress = Progress::new(&order, &rules, Vec::new(), fills);
        Ok(Self { day, rules, order, progress })
    }

    /// Begin another order on a valid day with the same rules, reusing the memory of steps and
    /// fills.
    pub(crate) fn restart(&mut self, day: Arc<OrderDay>, order: ParentOrder) {
        let mut steps = std::mem::take(&mut self.progress.steps);
        let mut fills = std::mem::take(&mut self.progress.fills);
        steps.clear();
        fills.clear();
        self.progress = Progress::new(&order, &self.rules, steps, fills);
        (self.day, self.order) = (day, order);
    }

    /// Spread `amount` over the ticks of the next step.
    ///
    /// # Errors
    /// If the order is done, or `amount` is not from 0 to the remaining size; the state is
    /// unchanged.
    pub fn step(&mut self, amount: f64) -> Result<Summary, ExecutionError> {
        if self.is_done() {
            return Err(ExecutionError::Done { steps: self.steps() });
        }
        let left = self.progress.holdings.position;
        if !(amount >= 0.0 && amount <= left + self.dust()) {
            return Err(ExecutionError::Amount { got: amount, left });
        }
        let begin = self.progress.tick;
        if begin > self.order.first && self.day.session(begin).start == begin {
            // Cumulative caps count from the first tick of a session.
            self.progress.holdings.filled_before = 0.0;
        }
        self.work(amount.min(left), self.next_boundary());
        if self.progress.holdings.position.abs() < self.dust() {
            self.progress.holdings.position = 0.0;
        }
        let position = self.progress.holdings.position;
        self.progress.steps.push(StepRecord { ordered: amount, position });
        Ok(self.summary(begin, self.progress.tick))
    }

    fn work(&mut self, amount: f64, boundary: usize) {
        #[allow(clippy::cast_precision_loss)] // a day has far fewer ticks than 2^52
        let share = amount / (boundary - self.progress.tick) as f64;
        let (mut due, mut done) = (0.0, 0.0);
        while self.progress.tick < boundary {
            let is_last = self.progress.tick + 1 == boundary;
            due = if is_last { amount } else { due + share };
            let requested = self.requested(due - done, amount - done, is_last);
            let (day, rules) = (&self.day, &self.rules);
            let fill = self.progress.holdings.trade(
                day,
                rules,
                self.order.direction,
                self.progress.tick,
                requested,
            );
            // The amount of a suspended tick is carried to the next one under either rule.
            let is_given_up = !self.rules.carries && self.day.is_open(self.progress.tick);
            done += if is_given_up { requested } else { fill.filled };
            self.progress.fills.push(fill);
            self.progress.tick += 1;
        }
    }

    /// Amount requested in a tick; `due` is the tick's part of the step, `left` all that is left of
    /// the step.
    fn requested(&self, due: f64, left: f64, is_last_of_step: bool) -> f64 {
        let position = self.progress.holdings.position;
        if is_last_of_step && self.rules.finishes && self.progress.tick + 1 == self.order.stop {
            return position;
        }
        let factor = self.day.factor(self.progress.tick);
        let rounded =
            if is_last_of_step { due } else { self.rules.nearest_units(due, factor).min(left) };
        rounded.min(position).max(0.0)
    }

    /// Tick at which the step that begins now ends.
    #[must_use]
    pub fn next_boundary(&self) -> usize {
        self.boundary_after(self.progress.tick)
    }

    /// Tick at which the step that contains `tick` ends; never after the session of the tick.
    #[must_use]
    pub fn boundary_after(&self, tick: usize) -> usize {
        if tick >= self.order.stop {
            return self.order.stop;
        }
        let (session, length) = (self.day.session(tick), self.rules.ticks_per_step);
        let past = ((tick - session.start) / length + 1).saturating_mul(length);
        session.start.saturating_add(past).min(session.end).min(self.order.stop)
    }

    /// Number of steps from the first tick to the last.
    #[must_use]
    pub fn total_steps(&self) -> usize {
        let length = self.rules.ticks_per_step;
        let (mut steps, mut tick) = (0, self.order.first);
        while tick < self.order.stop {
            let session = self.day.session(tick);
            let last = session.end.min(self.order.stop) - 1;
            steps += (last - session.start) / length - (tick - session.start) / length + 1;
            tick = last + 1;
        }
        steps
    }

    /// Amount below which a position is a rounding error.
    fn dust(&self) -> f64 {
        (1e-6 * self.order.amount.min(1.0)).max(1e-12 * self.order.amount)
    }

    /// Return true if the order is filled or the window is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.progress.holdings.position < 1e-12 || self.progress.tick >= self.order.stop
    }

    /// Remaining size.
    #[must_use]
    pub fn position(&self) -> f64 {
        self.progress.holdings.position
    }

    /// Available cash; `None` if unlimited.
    #[must_use]
    pub fn cash(&self) -> Option<f64> {
        self.progress.holdings.cash
    }

    /// The day's tick at which the next step begins.
    #[must_use]
    pub fn tick(&self) -> usize {
        self.progress.tick
    }

    /// Number of steps taken.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.progress.steps.len()
    }

    /// Records of the steps taken.
    #[must_use]
    pub fn step_records(&self) -> &[StepRecord] {
        &self.progress.steps
    }

    /// Amount that was to be traded in all steps so far.
    #[must_use]
    pub fn ordered(&self) -> f64 {
        self.progress.steps.iter().fold(0.0, |sum, step| sum + step.ordered)
    }

    /// Summaries of the steps from `first` on, each with the tick at which it begins.
    pub fn step_summaries(
        &self,
        first: usize,
    ) -> impl Iterator<Item = (usize, StepRecord, Summary)> + '_ {
        let mut tick = self.order.first;
        let ranges = self.progress.steps.iter().map(move |record| {
            let begin = tick;
            tick = self.boundary_after(begin);
            (begin, tick, *record)
        });
        ranges.skip(first).map(|(begin, stop, record)| (begin, record, self.summary(begin, stop)))
    }

    /// Fills so far, one per tick from the first tick of the window.
    #[must_use]
    pub fn fills(&self) -> &[TickFill] {
        &self.progress.fills
    }

    /// Price of each executed tick.
    #[must_use]
    pub fn prices(&self) -> &[f64] {
        &self.day.price[self.order.first..self.progress.tick]
    }

    /// Volume of each executed tick.
    #[must_use]
    pub fn volumes(&self) -> &[f64] {
        &self.day.volume[self.order.first..self.progress.tick]
    }

    /// Summary of the ticks from `begin` up to `stop`, all of them executed already.
    #[must_use]
    pub fn summary(&self, begin: usize, stop: usize) -> Summary {
        let fills = &self.progress.fills[begin - self.order.first..stop - self.order.first];
        Summary::of(&self.day.price[begin..stop], &self.day.volume[begin..stop], fills)
    }

    /// Summary of all ticks executed so far.
    #[must_use]
    pub fn total(&self) -> Summary {
        self.summary(self.order.first, self.progress.tick)
    }

    /// Encode the state as bytes.
    #[must_use]
    #[allow(clippy::missing_panics_doc)] // it never does
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(&(&*self.day, &self.rules, &self.order, &self.progress))
            .expect("numbers and columns can always be written")
    }

    /// Restore an order from the bytes of `to_bytes`.
    ///
    /// # Errors
    /// If the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ExecutionError> {
        let damaged = |_| ExecutionError::Damaged;
        let ((day, rules, order, progress), left): ((OrderDay, _, _, _), _) =
            postcard::take_from_bytes(bytes).map_err(damaged)?;
        let read = Self { day: Arc::new(day), rules, order, progress };
        read.day.check()?;
        read.rules.check()?;
        let is_whole = left.is_empty() && read.is_valid();
        if is_whole { Ok(read) } else { Err(ExecutionError::Damaged) }
    }

    /// Return true if the state is reachable by steps.
    fn is_valid(&self) -> bool {
        let Self { order, progress, .. } = self;
        let holdings = &progress.holdings;
        let is_within = (order.first..=order.stop).contains(&progress.tick);
        let holds = (0.0..=order.amount).contains(&holdings.position)
            && holdings.filled_before.is_finite()
            && holdings.cash.is_none_or(f64::is_finite);
        let is_order = order.fits(self.day.ticks());
        let has_fills = is_within && progress.fills.len() == progress.tick - order.first;
        is_order && has_fills && holds && self.has_steps()
    }

    /// Return true if the steps end at the current tick, with the current remainder.
    fn has_steps(&self) -> bool {
        let Self { order, progress, .. } = self;
        // Every step has a tick at least.
        if progress.steps.len() > progress.tick - order.first {
            return false;
        }
        let tick = progress.steps.iter().fold(order.first, |tick, _| self.boundary_after(tick));
        let last = progress.steps.last().map_or(order.amount, |step| step.position);
        let is_amount = |step: &StepRecord| {
            (0.0..=order.amount).contains(&step.position) && step.ordered.is_finite()
        };
        tick == progress.tick
            && last.to_bits() == progress.holdings.position.to_bits()
            && progress.steps.iter().all(is_amount)
    }
}

impl ParentOrder {
    /// Return true if the order is one of a finite amount within so many ticks.
    pub(crate) fn fits(&self, ticks: usize) -> bool {
        let is_window = self.first < self.stop && self.stop <= ticks;
        is_window && self.amount > 0.0 && self.amount.is_finite()
    }
}

impl Progress {
    fn new(
        order: &ParentOrder,
        rules: &OrderRules,
        steps: Vec<StepRecord>,
        fills: Vec<TickFill>,
    ) -> Self {
        let holdings = Holdings { position: order.amount, filled_before: 0.0, cash: rules.cash };
        Self { tick: order.first, holdings, steps, fills }
    }
}
