//! Order execution over the ticks of a day. Both order simulators share this matching: they differ
//! in settings alone.

mod day;
mod direction;
mod error;
mod matching;
mod rules;
mod summary;

use serde::{Deserialize, Serialize};

pub use day::{DayError, OrderDay};
pub use direction::Direction;
pub use error::ExecutionError;
use matching::Holdings;
pub use matching::TickFill;
pub use rules::{OrderRules, RulesError};
pub use summary::Summary;

/// Execution of one order. Its window is a range of the day's ticks, divided into steps that begin
/// at multiples of `ticks_per_step`: the first and the last of them can be short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderExecution {
    day: OrderDay,
    rules: OrderRules,
    direction: Direction,
    amount: f64,
    first: usize,
    stop: usize,
    tick: usize,
    steps: usize,
    holdings: Holdings,
    fills: Vec<TickFill>,
}

impl OrderExecution {
    /// An order of `amount`, executed from tick `first` up to but not including `stop`.
    ///
    /// # Errors
    /// If the day, the rules, the window or the amount is invalid.
    pub fn new(
        day: OrderDay,
        rules: OrderRules,
        direction: Direction,
        amount: f64,
        (first, stop): (usize, usize),
    ) -> Result<Self, ExecutionError> {
        day.check()?;
        rules.check()?;
        if first >= stop || stop > day.ticks() {
            return Err(ExecutionError::Window { first, stop, ticks: day.ticks() });
        }
        if !(amount > 0.0 && amount.is_finite()) {
            return Err(ExecutionError::Order { got: amount });
        }
        let holdings = Holdings { position: amount, filled_before: 0.0, cash: rules.cash };
        let fills = Vec::with_capacity(stop - first);
        let (tick, steps) = (first, 0);
        Ok(Self { day, rules, direction, amount, first, stop, tick, steps, holdings, fills })
    }

    /// Spread `amount` over the ticks of the next step.
    ///
    /// # Errors
    /// If the order is done, or `amount` is not from 0 to the remaining size; the state is
    /// unchanged.
    pub fn step(&mut self, amount: f64) -> Result<Summary, ExecutionError> {
        if self.is_done() {
            return Err(ExecutionError::Done { steps: self.steps });
        }
        let left = self.holdings.position;
        if !(amount >= 0.0 && amount <= left + self.dust()) {
            return Err(ExecutionError::Amount { got: amount, left });
        }
        let begin = self.tick;
        self.work(amount.min(left), self.next_boundary());
        self.steps += 1;
        if self.holdings.position.abs() < self.dust() {
            self.holdings.position = 0.0;
        }
        Ok(self.summary(begin, self.tick))
    }

    fn work(&mut self, amount: f64, boundary: usize) {
        #[allow(clippy::cast_precision_loss)] // a day has far fewer ticks than 2^52
        let share = amount / (boundary - self.tick) as f64;
        let (mut due, mut done) = (0.0, 0.0);
        while self.tick < boundary {
            let is_last = self.tick + 1 == boundary;
            due = if is_last { amount } else { due + share };
            let requested = self.requested(due - done, amount - done, is_last);
            let (day, rules) = (&self.day, &self.rules);
            let fill = self.holdings.trade(day, rules, self.direction, self.tick, requested);
            // The amount of a suspended tick is carried to the next one under either rule.
            let is_given_up = !self.rules.carries && self.day.is_open(self.tick);
            done += if is_given_up { requested } else { fill.filled };
            self.fills.push(fill);
            self.tick += 1;
        }
    }

    /// Amount requested in a tick; `due` is the tick's part of the step, `left` all that is left of
    /// the step.
    fn requested(&self, due: f64, left: f64, is_last_of_step: bool) -> f64 {
        let position = self.holdings.position;
        if is_last_of_step && self.rules.finishes && self.tick + 1 == self.stop {
            return position;
        }
        let factor = self.day.factor(self.tick);
        let rounded =
            if is_last_of_step { due } else { self.rules.nearest_units(due, factor).min(left) };
        rounded.min(position).max(0.0)
    }

    /// Tick at which the step that begins now ends.
    #[must_use]
    pub fn next_boundary(&self) -> usize {
        let length = self.rules.ticks_per_step;
        ((self.tick / length + 1) * length).min(self.stop)
    }

    /// Number of steps from the first tick to the last.
    #[must_use]
    pub fn total_steps(&self) -> usize {
        let length = self.rules.ticks_per_step;
        (self.stop - 1) / length - self.first / length + 1
    }

    /// Amount below which a position is a rounding error.
    fn dust(&self) -> f64 {
        (1e-6 * self.amount.min(1.0)).max(1e-12 * self.amount)
    }

    /// Return true if the order is filled or the window is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.holdings.position < 1e-12 || self.tick >= self.stop
    }

    /// Remaining size.
    #[must_use]
    pub fn position(&self) -> f64 {
        self.holdings.position
    }

    /// Available cash; `None` if unlimited.
    #[must_use]
    pub fn cash(&self) -> Option<f64> {
        self.holdings.cash
    }

    /// The day's tick at which the next step begins.
    #[must_use]
    pub fn tick(&self) -> usize {
        self.tick
    }

    /// Number of steps taken.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Fills so far, one per tick from the first tick of the window.
    #[must_use]
    pub fn fills(&self) -> &[TickFill] {
        &self.fills
    }

    /// Price of each executed tick.
    #[must_use]
    pub fn prices(&self) -> &[f64] {
        &self.day.price[self.first..self.tick]
    }

    /// Volume of each executed tick.
    #[must_use]
    pub fn volumes(&self) -> &[f64] {
        &self.day.volume[self.first..self.tick]
    }

    /// Summary of the ticks from `begin` up to `stop`, all of them executed already.
    #[must_use]
    pub fn summary(&self, begin: usize, stop: usize) -> Summary {
        let fills = &self.fills[begin - self.first..stop - self.first];
        Summary::of(&self.day.price[begin..stop], &self.day.volume[begin..stop], fills)
    }

    /// Summary of all ticks executed so far.
    #[must_use]
    pub fn total(&self) -> Summary {
        self.summary(self.first, self.tick)
    }

    /// Encode the state as bytes.
    #[must_use]
    #[allow(clippy::missing_panics_doc)] // it never does
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("numbers and columns can always be written")
    }

    /// Restore an order from the bytes of `to_bytes`.
    ///
    /// # Errors
    /// If the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ExecutionError> {
        let damaged = |_| ExecutionError::Damaged;
        let (read, left): (Self, _) = postcard::take_from_bytes(bytes).map_err(damaged)?;
        read.day.check()?;
        read.rules.check()?;
        let is_whole = left.is_empty() && read.is_valid();
        if is_whole { Ok(read) } else { Err(ExecutionError::Damaged) }
    }

    /// Return true if the state is reachable by steps.
    fn is_valid(&self) -> bool {
        let is_window = self.first < self.stop && self.stop <= self.day.ticks();
        let is_within = is_window && self.first <= self.tick && self.tick <= self.stop;
        let is_order = self.amount > 0.0 && self.amount.is_finite();
        let holds = (0.0..=self.amount).contains(&self.holdings.position)
            && self.holdings.filled_before.is_finite()
            && self.holdings.cash.is_none_or(f64::is_finite);
        is_within && is_order && holds && self.fills.len() == self.tick - self.first
    }
}
