//! Differential test of the book against a slow reference: answers, fills and queues.

mod flow;
mod reference;

use flow::{Answer, Draws, Flow, Operation, apply};
use market::{DepthLevel, Fill, Lots, OrderBook, OrderError, SelfTrade, Side};
use proptest::prelude::*;
use reference::ReferenceBook;

/// Both books, and the ids seen so far.
struct Pair {
    book: OrderBook,
    reference: ReferenceBook,
    flow: Flow,
    traded: u64,
}

impl Pair {
    fn new(rule: SelfTrade) -> Self {
        let (book, reference) = (OrderBook::new(rule), ReferenceBook::new(rule));
        Self { book, reference, flow: Flow::new(), traded: 0 }
    }

    /// Execute one operation on both books, and compare their visible state.
    fn step(&mut self, number: u64) {
        let operation = self.flow.operation(number);
        let (mut fills, mut expected_fills) = (Vec::new(), Vec::new());

        let answer = apply(&mut self.book, operation, &mut fills);
        let expected = apply_to_reference(&mut self.reference, operation, &mut expected_fills);

        assert_eq!(answer, expected, "{operation:?}");
        assert_eq!(fills, expected_fills, "{operation:?}");
        self.flow.note(&answer);
        self.traded += fills.iter().map(|fill| u64::from(fill.size.0)).sum::<u64>();
        assert_eq!(self.book.traded(), self.traded);
        for side in Side::BOTH {
            self.compare(side);
        }
    }

    fn compare(&self, side: Side) {
        let orders = self.reference.orders(side);
        assert!(self.book.orders(side).eq(orders.iter().copied()));
        assert_eq!(self.book.best(side), orders.first().map(|order| order.price));
        let volume: u64 = orders.iter().map(|order| u64::from(order.size.0)).sum();
        assert_eq!(self.book.volume(side), volume);
        let mut depth = [DepthLevel::default(); 8];
        let got = self.book.depth(side, &mut depth);
        let levels: Vec<_> = orders.chunk_by(|a, b| a.price == b.price).take(8).collect();
        assert_eq!(got, levels.len());
        for (seen, level) in depth.iter().zip(levels) {
            let size = Lots(level.iter().map(|order| order.size.0).sum());
            assert_eq!((seen.price, seen.size), (level[0].price, size));
            assert_eq!(seen.orders as usize, level.len());
        }
        if let Some(last) = orders.last() {
            let ahead = orders.iter().filter(|order| order.price == last.price);
            let lots: u32 = ahead.map(|order| order.size.0).sum::<u32>() - last.size.0;
            let position = self.book.queue_position(last.id).expect("it rests");
            assert_eq!(position.lots_ahead, Lots(lots));
        }
    }
}

fn apply_to_reference(
    book: &mut ReferenceBook,
    operation: Operation,
    fills: &mut Vec<Fill>,
) -> Result<Answer, OrderError> {
    match operation {
        Operation::Place(order) => book.place(order, fills).map(Answer::Placed),
        Operation::Cancel(id) => book.cancel(id).map(|order| Answer::Cancelled(vec![order])),
        Operation::Reduce(id, by) => book.reduce(id, by).map(Answer::Left),
        Operation::Replace(id, price, size) => {
            book.replace(id, price, size, fills).map(Answer::Placed)
        }
        Operation::CancelAll(account) => Ok(Answer::Cancelled(book.cancel_all(account))),
    }
}

fn run(operations: u32) {
    for (seed, rule) in (0..).zip(SelfTrade::ALL) {
        let (mut pair, mut draws) = (Pair::new(rule), Draws(seed));
        for _ in 0..operations / 4 {
            pair.step(draws.next());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_book_answers_as_the_reference_does(
        rule in 0..4usize, numbers in prop::collection::vec(any::<u64>(), 1..400),
    ) {
        let mut pair = Pair::new(SelfTrade::ALL[rule]);
        for number in numbers {
            pair.step(number);
        }
    }
}

#[test]
fn the_book_is_the_reference_after_every_one_of_100_000_operations() {
    run(100_000);
}

#[test]
#[ignore = "nightly: minutes"]
fn the_book_is_the_reference_after_every_one_of_10_million_operations() {
    run(10_000_000);
}
