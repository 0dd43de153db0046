//! Columns of a book as arrays: operations of a batch, and its answers.

use market::{Answers, Fill};
use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::owned;
use crate::errors::check_memory;
use crate::order_records::number;

/// One contiguous column.
pub(crate) type Column<'py, T> = PyReadonlyArray1<'py, T>;

type Numbers<'py> = Bound<'py, PyArray1<i64>>;
type Codes<'py> = Bound<'py, PyArray1<i8>>;

/// Id, filled, resting, cancelled and prevented lots, status; and the fills.
pub(crate) type AnswerColumns<'py> = (
    (Numbers<'py>, Numbers<'py>, Numbers<'py>, Numbers<'py>, Numbers<'py>, Codes<'py>),
    FillColumns<'py>,
);

/// Row, maker, account of maker and taker, price, size, remaining size of the maker, side of the
/// taker.
type FillColumns<'py> = (
    Numbers<'py>,
    Numbers<'py>,
    Numbers<'py>,
    Numbers<'py>,
    Numbers<'py>,
    Numbers<'py>,
    Numbers<'py>,
    Codes<'py>,
);

/// Id, account, price, size.
pub(crate) type OrderColumns<'py> = (Numbers<'py>, Numbers<'py>, Numbers<'py>, Numbers<'py>);

/// Price, size, orders.
pub(crate) type DepthColumns<'py> = (Numbers<'py>, Numbers<'py>, Numbers<'py>);

/// A private copy of a column.
pub(crate) fn column<T: Element + Copy>(column: Column<'_, T>) -> PyResult<Vec<T>> {
    owned(&column.as_array())
}

pub(crate) fn answer_columns(py: Python<'_>, answers: Answers) -> AnswerColumns<'_> {
    let fills = fill_columns(py, answers.fill_row, &answers.fills);
    let column = |values| PyArray1::from_vec(py, values);
    let answers = (
        column(answers.id),
        column(answers.filled),
        column(answers.resting),
        column(answers.cancelled),
        column(answers.prevented),
        PyArray1::from_vec(py, answers.status),
    );
    (answers, fills)
}

fn fill_columns<'py>(py: Python<'py>, rows: Vec<i64>, fills: &[Fill]) -> FillColumns<'py> {
    let column = |value: fn(&Fill) -> i64| PyArray1::from_iter(py, fills.iter().map(value));
    (
        PyArray1::from_vec(py, rows),
        column(|fill| number(fill.maker)),
        column(|fill| fill.maker_account.0.into()),
        column(|fill| fill.taker_account.0.into()),
        column(|fill| fill.price.0.into()),
        column(|fill| fill.size.0.into()),
        column(|fill| fill.maker_left.0.into()),
        PyArray1::from_iter(py, fills.iter().map(|fill| fill.taker_side as i8)),
    )
}

pub(crate) fn order_columns<'py>(py: Python<'py>, orders: &[market::Resting]) -> OrderColumns<'py> {
    let column =
        |value: fn(&market::Resting) -> i64| PyArray1::from_iter(py, orders.iter().map(value));
    (
        column(|order| number(order.id)),
        column(|order| order.account.0.into()),
        column(|order| order.price.0.into()),
        column(|order| order.size.0.into()),
    )
}

/// Levels, and zeros behind them up to `count`.
pub(crate) fn depth_columns<'py>(
    py: Python<'py>,
    levels: &[market::DepthLevel],
    count: usize,
) -> PyResult<DepthColumns<'py>> {
    let column = |value: fn(&market::DepthLevel) -> i64| -> PyResult<_> {
        check_memory("levels", count, size_of::<i64>())?;
        let mut numbers: Vec<i64> = levels.iter().map(value).collect();
        numbers.resize(count, 0);
        Ok(PyArray1::from_vec(py, numbers))
    };
    Ok((
        column(|level| level.price.0.into())?,
        column(|level| level.size.0.into())?,
        column(|level| level.orders.into())?,
    ))
}
