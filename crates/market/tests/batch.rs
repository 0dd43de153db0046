//! Batch operations: equal to executing the rows one by one, or an error that names the column.

mod flow;

use flow::{Answer, Flow, Operation, apply};
use market::{
    BatchError, Fill, Free, Lots, OperationKind, Operations, Order, OrderBook, OrderError, PerLot,
    SelfTrade, Side, Ticks, TimeInForce, settle_columns,
};
use proptest::prelude::*;

/// Columns that own their numbers.
#[derive(Default)]
struct Rows {
    kind: Vec<i8>,
    side: Vec<i8>,
    price: Vec<i64>,
    size: Vec<i64>,
    account: Vec<i64>,
    id: Vec<i64>,
}

impl Rows {
    fn add(&mut self, kind: OperationKind, side: i8, numbers: [i64; 4]) {
        let [price, size, account, id] = numbers;
        let index = OperationKind::ALL.iter().position(|other| *other == kind).expect("listed");
        self.kind.push(i8::try_from(index).expect("nine kinds"));
        self.side.push(side);
        self.price.push(price);
        self.size.push(size);
        self.account.push(account);
        self.id.push(id);
    }

    fn add_operation(&mut self, operation: Operation) {
        match operation {
            Operation::Place(order) => {
                let numbers =
                    [order.price.0.into(), order.size.0.into(), order.account.0.into(), 0];
                self.add(kind_of(&order), order.side as i8, numbers);
            }
            Operation::Cancel(id) => self.add(OperationKind::Cancel, 9, [0, 0, -1, number(id)]),
            Operation::Reduce(id, by) => {
                self.add(OperationKind::Reduce, 9, [0, by.0.into(), -1, number(id)]);
            }
            Operation::Replace(id, price, size) => {
                let numbers = [price.0.into(), size.0.into(), -1, number(id)];
                self.add(OperationKind::Replace, 9, numbers);
            }
            Operation::CancelAll(account) => {
                self.add(OperationKind::CancelAll, 9, [0, 0, account.0.into(), i64::MIN]);
            }
        }
    }

    fn columns(&self) -> Operations<'_> {
        Operations {
            kind: &self.kind,
            side: Some(&self.side),
            price: Some(&self.price),
            size: Some(&self.size),
            account: Some(&self.account),
            id: Some(&self.id),
        }
    }
}

fn number(id: market::OrderId) -> i64 {
    i64::try_from(id.to_bits()).expect("an id has 63 bits")
}

fn kind_of(order: &Order) -> OperationKind {
    let any = *order == Order::market(order.account, order.side, order.size);
    match order.time_in_force {
        TimeInForce::GoodTillCancelled => OperationKind::Limit,
        TimeInForce::PostOnly => OperationKind::PostOnly,
        TimeInForce::FillOrKill => OperationKind::FillOrKill,
        TimeInForce::ImmediateOrCancel if any => OperationKind::Market,
        TimeInForce::ImmediateOrCancel => OperationKind::ImmediateOrCancel,
    }
}

/// Expected lots of a row of answers: filled, resting, cancelled, prevented.
fn lots(operation: Operation, answer: &Result<Answer, OrderError>) -> [u64; 4] {
    match (answer, operation) {
        (Err(_), _) => [0; 4],
        (Ok(Answer::Placed(placed)), _) => {
            let [filled, resting, cancelled] =
                [placed.filled, placed.resting, placed.cancelled].map(|lots| lots.0.into());
            [filled, resting, cancelled, placed.prevented]
        }
        (Ok(Answer::Left(left)), Operation::Reduce(_, by)) => [0, left.0.into(), by.0.into(), 0],
        (Ok(Answer::Left(_)), _) => unreachable!("only a reduction leaves something"),
        (Ok(Answer::Cancelled(orders)), _) => {
            [0, 0, orders.iter().map(|order| u64::from(order.size.0)).sum(), 0]
        }
    }
}

/// A batch after `grown` operations, the book before it, and the answers one by one.
struct Expected {
    before: OrderBook,
    after: OrderBook,
    rows: Rows,
    fills: Vec<Fill>,
    answers: Vec<(Operation, Result<Answer, OrderError>)>,
}

fn expected(rule: SelfTrade, numbers: &[u64], grown: usize) -> Expected {
    let (mut book, mut flow) = (OrderBook::new(rule), Flow::new());
    let (mut before, mut rows) = (book.clone(), Rows::default());
    let (mut fills, mut answers) = (Vec::new(), Vec::new());
    for (index, &number) in numbers.iter().enumerate() {
        if index == grown {
            before.clone_from(&book);
            (fills, answers, rows) = (Vec::new(), Vec::new(), Rows::default());
        }
        let operation = flow.operation(number);
        let answer = apply(&mut book, operation, &mut fills);
        flow.note(&answer);
        rows.add_operation(operation);
        answers.push((operation, answer));
    }
    Expected { before, after: book, rows, fills, answers }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_batch_does_what_its_rows_do_one_by_one(
        rule in 0..4usize, numbers in prop::collection::vec(any::<u64>(), 1..400),
    ) {
        let case = expected(SelfTrade::ALL[rule], &numbers, numbers.len() / 2);
        let mut book = case.before;

        let got = book.batch(&case.rows.columns()).expect("columns that can be read");

        prop_assert_eq!(book.encode(), case.after.encode());
        prop_assert_eq!(&got.fills, &case.fills);
        for (row, (operation, answer)) in case.answers.iter().enumerate() {
            let answered = [&got.filled, &got.resting, &got.cancelled, &got.prevented];
            let answered = answered.map(|column| column[row].cast_unsigned());
            prop_assert_eq!(answered, lots(*operation, answer), "{:?}", operation);
            let status = answer.as_ref().map_or_else(OrderError::status, |_| 0);
            prop_assert_eq!(got.status[row], status);
            let traded = got.fills.iter().zip(&got.fill_row);
            let of_row = traded.filter(|(_, own)| usize::try_from(**own) == Ok(row));
            let filled: u64 = of_row.map(|(fill, _)| u64::from(fill.size.0)).sum();
            prop_assert_eq!(filled, answered[0]);
        }
    }

    #[test]
    fn an_atomic_batch_is_all_or_nothing(
        rule in 0..4usize, numbers in prop::collection::vec(any::<u64>(), 1..60),
    ) {
        let case = expected(SelfTrade::ALL[rule], &numbers, numbers.len() / 2);
        let mut book = case.before.clone();

        let got = book.atomic_batch(&case.rows.columns());

        let refusal = case.answers.iter().position(|(_, answer)| answer.is_err());
        match (refusal, got) {
            (None, got) => {
                prop_assert!(got.is_ok());
                prop_assert_eq!(book.encode(), case.after.encode());
            }
            (Some(row), got) => {
                let reason = case.answers[row].1.clone().expect_err("it was refused");
                prop_assert_eq!(got.err(), Some(BatchError::Refused { row, reason }));
                prop_assert_eq!(book.encode(), case.before.encode());
            }
        }
    }
}

#[test]
fn a_row_can_name_the_order_of_an_earlier_row() {
    let (mut book, mut rows) = (OrderBook::new(SelfTrade::default()), Rows::default());
    rows.add(OperationKind::Limit, 0, [99, 5, 1, 0]);
    rows.add(OperationKind::Replace, 0, [98, 7, 0, !0]);
    rows.add(OperationKind::Reduce, 0, [0, 3, 0, !1]);
    rows.add(OperationKind::Cancel, 0, [0, 0, 0, !0]);
    rows.add(OperationKind::Cancel, 0, [0, 0, 0, !3]);

    let got = book.batch(&rows.columns()).expect("columns that can be read");

    assert_eq!(got.status, [0, 0, 0, 5, 5]);
    assert_eq!((got.id[2], got.resting[2]), (got.id[1], 4));
    assert_eq!(book.volume_at(Side::Buy, Ticks(98)), Lots(4));
}

#[test]
fn columns_that_cannot_be_read_are_named_and_move_nothing() {
    let good = || {
        let mut rows = Rows::default();
        rows.add(OperationKind::Limit, 0, [99, 5, 1, 0]);
        rows.add(OperationKind::Cancel, 0, [0, 0, 0, !0]);
        rows
    };
    let refused = |spoil: &dyn Fn(&mut Rows)| {
        let (mut book, mut rows) = (OrderBook::new(SelfTrade::default()), good());
        spoil(&mut rows);
        let error = book.batch(&rows.columns()).expect_err("a spoilt column");
        assert!(book.is_empty());
        error.to_string()
    };

    assert_eq!(
        refused(&|rows| rows.kind[1] = 9),
        "column \"kind\", row 1: expected a kind from 0 to 8, got 9"
    );
    assert_eq!(
        refused(&|rows| rows.side[0] = -1),
        "column \"side\", row 0: expected a side of 0 (buy) or 1 (sell), got -1"
    );
    assert!(refused(&|rows| rows.account[0] = -1).starts_with("column \"account\", row 0: "));
    assert!(refused(&|rows| rows.id[1] = !1).ends_with("an earlier row, got ~1"));
    assert_eq!(
        refused(&|rows| rows.size.push(1)),
        "column \"size\": expected 2 rows, as many as \"kind\" has, got 3"
    );
}

#[test]
fn a_missing_column_is_named_by_the_first_row_that_reads_it() {
    let mut rows = Rows::default();
    rows.add(OperationKind::Market, 0, [0, 5, 1, 0]);
    rows.add(OperationKind::Replace, 0, [99, 5, 1, 0]);
    let without = |take: &dyn Fn(&mut Operations<'_>)| {
        let (mut book, mut columns) = (OrderBook::new(SelfTrade::default()), rows.columns());
        take(&mut columns);
        book.batch(&columns).expect_err("a column is missing").to_string()
    };

    let expected = "for the market order of row 0";
    assert_eq!(
        without(&|columns| columns.side = None),
        format!("missing column \"side\" {expected}")
    );
    assert_eq!(
        without(&|columns| columns.size = None),
        format!("missing column \"size\" {expected}")
    );
    assert_eq!(
        without(&|columns| columns.account = None),
        format!("missing column \"account\" {expected}")
    );
    let expected = "for the replacement of row 1";
    assert_eq!(
        without(&|columns| columns.price = None),
        format!("missing column \"price\" {expected}")
    );
    assert_eq!(without(&|columns| columns.id = None), format!("missing column \"id\" {expected}"));
}

#[test]
fn settled_columns_are_the_settlements_of_the_trades() {
    let fees = PerLot::new(market::Money(-1), market::Money(3)).expect("small fees");

    let settled = settle_columns(&[10, 10], &[4, 4], &[0, 1], &fees).expect("two trades");

    assert_eq!(settled.maker_cash, [44, -36]);
    assert_eq!(settled.taker_cash, [-52, 28]);
    assert_eq!(settled.taker_lots, [4, -4]);
    assert_eq!(settled.maker_lots, [-4, 4]);
    assert_eq!(settled.fees, [8, 8]);
}

#[test]
fn a_trade_that_cannot_be_settled_is_named() {
    let error = |price: &[i64], size: &[i64]| {
        settle_columns(price, size, &[0], &Free).expect_err("no such trade").to_string()
    };

    assert!(error(&[0], &[1]).starts_with("column \"price\", row 0: expected a price from 1 to"));
    assert!(error(&[1], &[-4]).ends_with("got -4"));
    assert!(error(&[1, 2], &[1]).starts_with("column \"size\": expected 2 rows"));
}
