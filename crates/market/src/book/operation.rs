//! Operations of a batch, encoded as numbers.

use std::fmt;

use crate::book::batch::BatchError;
use crate::error::OrderError;
use crate::id::AccountId;
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Kind of operation; its number is its index in [`OperationKind::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Limit order: trades up to its price; the rest rests there.
    Limit,
    /// Post-only order: rests at its price, or is refused if it could trade at once.
    PostOnly,
    /// Immediate-or-cancel order: trades up to its price; the rest is cancelled.
    ImmediateOrCancel,
    /// Fill-or-kill order: trades in full up to its price, or is refused.
    FillOrKill,
    /// Market order: trades at any price; the rest is cancelled.
    Market,
    /// Cancel a resting order.
    Cancel,
    /// Reduce an order, which keeps its queue position.
    Reduce,
    /// Replace the price and size of an order.
    Replace,
    /// Cancel all orders of an account.
    CancelAll,
}

impl OperationKind {
    /// Every kind, at the index of its number.
    pub const ALL: [Self; 9] = [
        Self::Limit,
        Self::PostOnly,
        Self::ImmediateOrCancel,
        Self::FillOrKill,
        Self::Market,
        Self::Cancel,
        Self::Reduce,
        Self::Replace,
        Self::CancelAll,
    ];

    /// Return true if it refers to a resting order.
    fn refers_to_order(self) -> bool {
        matches!(self, Self::Cancel | Self::Reduce | Self::Replace)
    }

    /// Return true if it submits a new order.
    fn submits_order(self) -> bool {
        !self.refers_to_order() && self != Self::CancelAll
    }

    fn has_a_price(self) -> bool {
        (self.submits_order() && self != Self::Market) || self == Self::Replace
    }

    fn has_a_size(self) -> bool {
        self.submits_order() || matches!(self, Self::Reduce | Self::Replace)
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Limit => "limit order",
            Self::PostOnly => "post-only order",
            Self::ImmediateOrCancel => "immediate-or-cancel order",
            Self::FillOrKill => "fill-or-kill order",
            Self::Market => "market order",
            Self::Cancel => "cancellation",
            Self::Reduce => "reduction",
            Self::Replace => "replacement",
            Self::CancelAll => "cancellation of all orders",
        })
    }
}

/// Operations as columns, one per row. A column that no row reads may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operations<'a> {
    /// The number of the row's [`OperationKind`].
    pub kind: &'a [i8],
    /// 0 to buy, 1 to sell.
    pub side: Option<&'a [i8]>,
    /// Price in ticks.
    pub price: Option<&'a [i64]>,
    /// Size in lots; of a reduction, the lots to remove.
    pub size: Option<&'a [i64]>,
    /// Account of the order, or whose orders are cancelled.
    pub account: Option<&'a [i64]>,
    /// The order that is cancelled, reduced or replaced: its id, or `!row` for the order that an
    /// earlier row of the same batch left in the book.
    pub id: Option<&'a [i64]>,
}

impl Operations<'_> {
    /// Validate all columns and return the kind of each row. Prices, sizes and operations that the
    /// book refuses are checked row by row later.
    pub(crate) fn check(&self) -> Result<Vec<OperationKind>, BatchError> {
        self.check_lengths()?;
        let rows = self.kind.iter().enumerate();
        rows.map(|(row, &got)| {
            let kind = usize::try_from(got).ok().and_then(|got| OperationKind::ALL.get(got));
            let kind = *kind.ok_or(BatchError::UnknownKind { row, got })?;
            self.check_row(row, kind)?;
            Ok(kind)
        })
        .collect()
    }

    fn check_lengths(&self) -> Result<(), BatchError> {
        let expected = self.kind.len();
        let lengths = [
            ("side", self.side.map(<[i8]>::len)),
            ("price", self.price.map(<[i64]>::len)),
            ("size", self.size.map(<[i64]>::len)),
            ("account", self.account.map(<[i64]>::len)),
            ("id", self.id.map(<[i64]>::len)),
        ];
        for (column, length) in lengths {
            if let Some(got) = length.filter(|got| *got != expected) {
                return Err(BatchError::Length { column, expected, got });
            }
        }
        Ok(())
    }

    fn check_row(&self, row: usize, kind: OperationKind) -> Result<(), BatchError> {
        let missing = |column| BatchError::Missing { column, row, kind };
        let refused = |column| move |reason| BatchError::Value { column, row, reason };
        if kind.submits_order() {
            let side = self.side.ok_or(missing("side"))?[row];
            Side::try_from(i64::from(side)).map_err(refused("side"))?;
        }
        if !kind.refers_to_order() {
            let account = self.account.ok_or(missing("account"))?[row];
            AccountId::try_from(account).map_err(refused("account"))?;
        }
        if kind.has_a_price() && self.price.is_none() {
            return Err(missing("price"));
        }
        if kind.has_a_size() && self.size.is_none() {
            return Err(missing("size"));
        }
        if kind.refers_to_order() {
            let id = self.id.ok_or(missing("id"))?[row];
            if earlier(id).is_some_and(|earlier| earlier >= row) {
                return Err(BatchError::NotEarlier { row, got: !id });
            }
        }
        Ok(())
    }

    pub(crate) fn side(&self, row: usize) -> Result<Side, OrderError> {
        Side::try_from(self.side.map_or(-1, |column| column[row].into()))
    }

    pub(crate) fn account(&self, row: usize) -> Result<AccountId, OrderError> {
        AccountId::try_from(number(self.account, row))
    }

    pub(crate) fn price(&self, row: usize) -> Result<Ticks, OrderError> {
        Ticks::try_from(number(self.price, row))
    }

    pub(crate) fn size(&self, row: usize) -> Result<Lots, OrderError> {
        Lots::try_from(number(self.size, row))
    }

    pub(crate) fn id(&self, row: usize) -> i64 {
        number(self.id, row)
    }
}

/// Value of a column; a missing column yields a value that nothing accepts.
fn number(column: Option<&[i64]>, row: usize) -> i64 {
    column.map_or(-1, |column| column[row])
}

/// The earlier row that a number of the id column refers to, if it does.
pub(crate) fn earlier(id: i64) -> Option<usize> {
    usize::try_from(!id).ok()
}
