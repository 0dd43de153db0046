//! Batches of book operations: columns of numbers in, columns of answers and fills out.

use thiserror::Error;

use crate::book::OrderBook;
use crate::book::operation::{OperationKind, Operations, earlier};
use crate::error::OrderError;
use crate::fill::Fill;
use crate::id::{AccountId, OrderId};
use crate::interrupt::InterruptCheck;
use crate::order::{Order, Placement, Resting};
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Error of a refused batch; the book is unchanged.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BatchError {
    /// A column has too few or too many rows.
    #[error("column {column:?}: expected {expected} rows, as many as \"kind\" has, got {got}")]
    Length {
        /// The column.
        column: &'static str,
        /// Rows of the column of kinds.
        expected: usize,
        /// Rows of this column.
        got: usize,
    },
    /// A row reads a missing column.
    #[error("missing column {column:?} for the {kind} of row {row}")]
    Missing {
        /// The column.
        column: &'static str,
        /// The row.
        row: usize,
        /// Kind of operation.
        kind: OperationKind,
    },
    /// Unknown kind of operation.
    #[error("column \"kind\", row {row}: expected a kind from 0 to 8, got {got}")]
    UnknownKind {
        /// The row.
        row: usize,
        /// Rejected number.
        got: i8,
    },
    /// A row refers to a row that is not before it.
    #[error("column \"id\", row {row}: expected an id or the ~ of an earlier row, got ~{got}")]
    NotEarlier {
        /// The row.
        row: usize,
        /// The row it refers to.
        got: i64,
    },
    /// Invalid side or account.
    #[error("column {column:?}, row {row}: {reason}")]
    Value {
        /// The column.
        column: &'static str,
        /// The row.
        row: usize,
        /// Reason of the refusal.
        reason: OrderError,
    },
    /// The book refused an operation of an all-or-nothing batch.
    #[error("row {row}: {reason}")]
    Refused {
        /// The row.
        row: usize,
        /// Reason of the refusal.
        reason: OrderError,
    },
}

/// Outcome of each row: the fields of [`Placement`] as columns, and the reason of a refusal.
///
/// For a cancellation, `cancelled` are the lots that left the book; for a reduction, the lots
/// removed, and `resting` the remaining lots. A refused row has no id and zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Id of the resting order, else -1.
    pub id: Vec<i64>,
    /// Lots that traded.
    pub filled: Vec<i64>,
    /// Lots that rest.
    pub resting: Vec<i64>,
    /// Cancelled lots, which will not trade.
    pub cancelled: Vec<i64>,
    /// Lots that self-trade prevention removed from resting orders.
    pub prevented: Vec<i64>,
    /// 0, or [`OrderError::status`] of the refusal.
    pub status: Vec<i8>,
    /// Every trade, in the order in which they happened.
    pub fills: Vec<Fill>,
    /// The row of each trade.
    pub fill_row: Vec<i64>,
}

/// One row of [`Answers`].
#[derive(Clone, Copy)]
struct Answer {
    id: i64,
    filled: i64,
    resting: i64,
    cancelled: i64,
    prevented: i64,
}

/// Id of rows without a resting order.
const NO_ID: i64 = -1;

impl Answer {
    const NOTHING: Self = Self { id: NO_ID, filled: 0, resting: 0, cancelled: 0, prevented: 0 };
}

impl From<Placement> for Answer {
    fn from(placement: Placement) -> Self {
        Self {
            id: placement.id.map_or(NO_ID, |id| id.to_bits().cast_signed()),
            filled: placement.filled.0.into(),
            resting: placement.resting.0.into(),
            cancelled: placement.cancelled.0.into(),
            prevented: placement.prevented.cast_signed(),
        }
    }
}

impl OrderBook {
    /// Execute the rows in order; a refused row leaves the book unchanged and the batch continues.
    ///
    /// # Errors
    /// If a column cannot be read.
    pub fn batch(&mut self, operations: &Operations<'_>) -> Result<Answers, BatchError> {
        self.batch_slices(operations, &mut InterruptCheck::new(&mut || true))
    }

    /// Interruptible [`OrderBook::batch`]: returns the answers to the rows executed until then.
    ///
    /// # Errors
    /// As [`OrderBook::batch`].
    pub fn batch_slices(
        &mut self,
        operations: &Operations<'_>,
        interrupt: &mut InterruptCheck<'_>,
    ) -> Result<Answers, BatchError> {
        let kinds = operations.check()?;
        let mut answers = Answers::with_capacity(kinds.len());
        for (row, kind) in kinds.into_iter().enumerate() {
            match self.do_row(kind, operations, row, &mut answers) {
                Ok(answer) => answers.push(row, answer, 0),
                Err(reason) => answers.push(row, Answer::NOTHING, reason.status()),
            }
            if !interrupt.should_continue() {
                break;
            }
        }
        Ok(answers)
    }

    /// Execute all rows, or none.
    ///
    /// # Errors
    /// If a column cannot be read, or the book refuses a row.
    pub fn atomic_batch(&mut self, operations: &Operations<'_>) -> Result<Answers, BatchError> {
        self.atomic_batch_slices(operations, &mut InterruptCheck::new(&mut || true))
    }

    /// Interruptible [`OrderBook::atomic_batch`]: if interrupted, the book is unchanged and nothing
    /// is returned.
    ///
    /// # Errors
    /// As [`OrderBook::atomic_batch`].
    pub fn atomic_batch_slices(
        &mut self,
        operations: &Operations<'_>,
        interrupt: &mut InterruptCheck<'_>,
    ) -> Result<Answers, BatchError> {
        let kinds = operations.check()?;
        let before = self.clone();
        let mut answers = Answers::with_capacity(kinds.len());
        for (row, kind) in kinds.into_iter().enumerate() {
            match self.do_row(kind, operations, row, &mut answers) {
                Ok(answer) => answers.push(row, answer, 0),
                Err(reason) => {
                    *self = before;
                    return Err(BatchError::Refused { row, reason });
                }
            }
            if !interrupt.should_continue() {
                *self = before;
                return Ok(Answers::default());
            }
        }
        Ok(answers)
    }

    fn do_row(
        &mut self,
        kind: OperationKind,
        operations: &Operations<'_>,
        row: usize,
        answers: &mut Answers,
    ) -> Result<Answer, OrderError> {
        let id = |answers: &Answers| answers.resolve(operations.id(row));
        let fills = &mut answers.fills;
        match kind {
            OperationKind::Limit => self.place_row(operations, row, Order::limit, fills),
            OperationKind::PostOnly => self.place_row(operations, row, Order::post_only, fills),
            OperationKind::ImmediateOrCancel => {
                self.place_row(operations, row, Order::immediate_or_cancel, fills)
            }
            OperationKind::FillOrKill => {
                self.place_row(operations, row, Order::fill_or_kill, fills)
            }
            OperationKind::Market => {
                let (account, side) = (operations.account(row)?, operations.side(row)?);
                let order = Order::market(account, side, operations.size(row)?);
                Ok(self.place(order, fills)?.into())
            }
            OperationKind::Cancel => Ok(cancelled(&[self.cancel(id(answers))?])),
            OperationKind::Reduce => self.reduce_row(id(answers), operations.size(row)?),
            OperationKind::Replace => {
                let (price, size) = (operations.price(row)?, operations.size(row)?);
                Ok(self.replace(id(answers), price, size, &mut answers.fills)?.into())
            }
            OperationKind::CancelAll => {
                let mut orders = Vec::new();
                self.cancel_all(operations.account(row)?, &mut orders);
                Ok(cancelled(&orders))
            }
        }
    }

    fn place_row(
        &mut self,
        operations: &Operations<'_>,
        row: usize,
        order: impl Fn(AccountId, Side, Ticks, Lots) -> Order,
        fills: &mut Vec<Fill>,
    ) -> Result<Answer, OrderError> {
        let (account, side) = (operations.account(row)?, operations.side(row)?);
        let (price, size) = (operations.price(row)?, operations.size(row)?);
        Ok(self.place(order(account, side, price, size), fills)?.into())
    }

    fn reduce_row(&mut self, id: OrderId, by: Lots) -> Result<Answer, OrderError> {
        let left = self.reduce(id, by)?;
        let (id, resting) = (id.to_bits().cast_signed(), left.0.into());
        Ok(Answer { id, resting, cancelled: by.0.into(), ..Answer::NOTHING })
    }
}

impl Answers {
    fn with_capacity(rows: usize) -> Self {
        let column = || Vec::with_capacity(rows);
        Self {
            id: column(),
            filled: column(),
            resting: column(),
            cancelled: column(),
            prevented: column(),
            status: Vec::with_capacity(rows),
            fills: Vec::new(),
            fill_row: Vec::new(),
        }
    }

    fn push(&mut self, row: usize, answer: Answer, status: i8) {
        self.id.push(answer.id);
        self.filled.push(answer.filled);
        self.resting.push(answer.resting);
        self.cancelled.push(answer.cancelled);
        self.prevented.push(answer.prevented);
        self.status.push(status);
        if self.fill_row.len() < self.fills.len() {
            self.fill_row.resize(self.fills.len(), row.cast_signed() as i64);
        }
    }

    /// The order id for a number of the id column.
    fn resolve(&self, number: i64) -> OrderId {
        let named = match earlier(number) {
            Some(row) => self.id.get(row).copied().unwrap_or(NO_ID),
            None => number,
        };
        OrderId::from_bits(named.cast_unsigned())
    }
}

fn cancelled(orders: &[Resting]) -> Answer {
    let lots = orders.iter().map(|order| i64::from(order.size.0)).sum();
    Answer { cancelled: lots, ..Answer::NOTHING }
}
