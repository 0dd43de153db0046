//! Laws of every book under any sequence of operations.

mod flow;

use std::collections::{BTreeMap, BTreeSet};

use flow::{Answer, Flow, Operation, apply};
use market::{
    Fees, Fill, Free, Money, OfNotional, Order, OrderBook, OrderId, PerLot, Rate, Resting,
    SelfTrade, Side,
};
use proptest::prelude::*;

fn numbers() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), 1..500)
}

fn rules() -> impl Strategy<Value = SelfTrade> {
    (0..4usize).prop_map(|rule| SelfTrade::ALL[rule])
}

/// A book after some operations, and the flow that made it.
fn grown(rule: SelfTrade, numbers: &[u64]) -> (OrderBook, Flow) {
    let (mut book, mut flow) = (OrderBook::new(rule), Flow::new());
    for &number in numbers {
        let operation = flow.operation(number);
        flow.note(&apply(&mut book, operation, &mut Vec::new()));
    }
    (book, flow)
}

/// The incoming order of an operation, if it brings one.
fn incoming(book: &OrderBook, operation: Operation) -> Option<Order> {
    match operation {
        Operation::Place(order) => Some(order),
        Operation::Replace(id, price, size) => {
            book.order(id).map(|old| Order::limit(old.account, old.side, price, size))
        }
        _ => None,
    }
}

fn settle(fills: &[Fill], fees: &impl Fees) -> (BTreeMap<u32, (i64, Money)>, Money) {
    let (mut accounts, mut earned) = (BTreeMap::<u32, (i64, Money)>::new(), Money(0));
    for settlement in fills.iter().map(|fill| fill.settle(fees)) {
        let buyer = accounts.entry(settlement.buyer.0).or_default();
        buyer.0 += i64::from(settlement.size.0);
        buyer.1 += settlement.buyer_cash;
        let seller = accounts.entry(settlement.seller.0).or_default();
        seller.0 -= i64::from(settlement.size.0);
        seller.1 += settlement.seller_cash;
        earned += settlement.fees;
    }
    (accounts, earned)
}

fn conserves(fills: &[Fill], fees: &impl Fees) -> bool {
    let (accounts, earned) = settle(fills, fees);
    let lots: i64 = accounts.values().map(|account| account.0).sum();
    let cash: Money = accounts.values().map(|account| account.1).sum();
    lots == 0 && cash + earned == Money(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_book_never_crosses(rule in rules(), numbers in numbers()) {
        let (mut book, mut flow) = (OrderBook::new(rule), Flow::new());
        for number in numbers {
            let operation = flow.operation(number);
            flow.note(&apply(&mut book, operation, &mut Vec::new()));

            if let (Some(bid), Some(ask)) = (book.best(Side::Buy), book.best(Side::Sell)) {
                prop_assert!(bid < ask);
            }
        }
    }

    #[test]
    fn fills_never_exceed_the_order_nor_its_price(rule in rules(), numbers in numbers()) {
        let (mut book, mut flow) = (OrderBook::new(rule), Flow::new());
        for number in numbers {
            let operation = flow.operation(number);
            let order = incoming(&book, operation);
            let mut fills = Vec::new();

            let answer = apply(&mut book, operation, &mut fills);

            flow.note(&answer);
            if let (Some(order), Ok(Answer::Placed(placement))) = (order, answer) {
                let filled: u32 = fills.iter().map(|fill| fill.size.0).sum();
                prop_assert_eq!(filled, placement.filled.0);
                prop_assert_eq!(
                    placement.filled.0 + placement.resting.0 + placement.cancelled.0,
                    order.size.0
                );
                let sign = order.side.sign();
                let limit = sign * i64::from(order.price.0);
                prop_assert!(fills.iter().all(|fill| sign * i64::from(fill.price.0) <= limit));
            }
        }
    }

    #[test]
    fn a_better_price_fills_first_and_then_the_older_order(rule in rules(), numbers in numbers()) {
        let (mut book, mut flow) = (OrderBook::new(rule), Flow::new());
        for number in numbers {
            let operation = flow.operation(number);
            let queue: Vec<Resting> = incoming(&book, operation)
                .map_or_else(Vec::new, |order| book.orders(order.side.opposite()).collect());
            let mut fills = Vec::new();

            flow.note(&apply(&mut book, operation, &mut fills));

            // Every order ahead of the last maker was filled in full, or prevented.
            let last = fills.last().and_then(|last| queue.iter().position(|o| o.id == last.maker));
            let ahead = &queue[..last.unwrap_or(0)];
            prop_assert!(ahead.iter().all(|order| book.order(order.id).is_none()));
            let mut makers = fills.iter().map(|fill| fill.maker);
            let mut next = makers.next();
            for order in &queue {
                if Some(order.id) == next {
                    next = makers.next();
                }
            }
            prop_assert_eq!(next, None, "makers trade in queue order");
        }
    }

    #[test]
    fn lots_and_cash_are_conserved_exactly(rule in rules(), numbers in numbers()) {
        let (mut book, mut flow, mut fills) = (OrderBook::new(rule), Flow::new(), Vec::new());
        for number in numbers {
            let operation = flow.operation(number);
            flow.note(&apply(&mut book, operation, &mut fills));
        }
        // Prices near the top with sizes near the top would overflow the sum over accounts.
        fills.retain(|fill| fill.notional() < Money(1 << 52));
        let rate = |points| Rate::from_basis_points(points).expect("below the notional");
        let per_lot = PerLot::new(Money(-2), Money(5)).expect("small fees");
        let of_notional = OfNotional { maker: rate(-1), taker: rate(5) };

        prop_assert!(conserves(&fills, &Free));
        prop_assert!(conserves(&fills, &per_lot));
        prop_assert!(conserves(&fills, &of_notional));
    }

    #[test]
    fn a_refused_operation_changes_nothing(rule in rules(), numbers in numbers()) {
        let (mut book, mut flow) = (OrderBook::new(rule), Flow::new());
        for number in numbers {
            let operation = flow.operation(number);
            let (before, mut fills) = (book.encode(), Vec::new());

            let answer = apply(&mut book, operation, &mut fills);

            flow.note(&answer);
            prop_assert!(answer.is_ok() || (book.encode() == before && fills.is_empty()));
        }
    }

    #[test]
    fn a_restored_book_continues_identically(
        rule in rules(), before in numbers(), other in numbers(), after in numbers(),
    ) {
        let (mut book, mut flow) = grown(rule, &before);
        let mut decoded = OrderBook::decode(&book.encode()).expect("just encoded");
        let (mut copied, _) = grown(SelfTrade::Allow, &other);
        copied.clone_from(&book);

        prop_assert_eq!(decoded.encode(), book.encode());
        prop_assert_eq!(copied.encode(), book.encode());
        for number in after {
            let operation = flow.operation(number);
            let mut fills = [Vec::new(), Vec::new(), Vec::new()];
            let answer = apply(&mut book, operation, &mut fills[0]);
            prop_assert_eq!(&apply(&mut decoded, operation, &mut fills[1]), &answer);
            prop_assert_eq!(&apply(&mut copied, operation, &mut fills[2]), &answer);
            prop_assert_eq!(&fills[1], &fills[0]);
            prop_assert_eq!(&fills[2], &fills[0]);
            flow.note(&answer);
        }
        prop_assert_eq!(decoded.encode(), book.encode());
        prop_assert_eq!(copied.encode(), book.encode());
    }

    #[test]
    fn an_id_is_given_once_and_a_stale_one_hits_nothing(rule in rules(), numbers in numbers()) {
        let (mut book, mut flow) = (OrderBook::new(rule), Flow::new());
        let mut ids = BTreeSet::<OrderId>::new();
        for number in numbers {
            let operation = flow.operation(number);
            let answer = apply(&mut book, operation, &mut Vec::new());
            flow.note(&answer);
            if let Ok(Answer::Placed(placement)) = answer {
                let kept = matches!(operation, Operation::Replace(id, ..) if placement.id == Some(id));
                prop_assert!(placement.id.is_none_or(|id| ids.insert(id) || kept));
            }
        }
        let resting: BTreeSet<_> =
            Side::BOTH.iter().flat_map(|&side| book.orders(side)).map(|order| order.id).collect();
        let bytes = book.encode();

        for &id in ids.difference(&resting) {
            prop_assert!(book.order(id).is_none() && book.cancel(id).is_err());
            prop_assert!(book.queue_position(id).is_err());
        }
        prop_assert_eq!(book.encode(), bytes);
        prop_assert_eq!(book.len(), resting.len());
    }

    #[test]
    fn changed_bytes_are_refused(
        numbers in numbers(), index in any::<prop::sample::Index>(), flip in 1..=255u8,
    ) {
        let mut bytes = grown(SelfTrade::Allow, &numbers).0.encode();
        let length = index.index(bytes.len());
        prop_assert!(OrderBook::decode(&bytes[..length]).is_err());

        bytes[length] ^= flip;

        prop_assert!(OrderBook::decode(&bytes).is_err());
    }

    #[test]
    fn forged_bytes_are_refused_or_a_book_that_works(
        numbers in numbers(), index in any::<prop::sample::Index>(), forged in any::<u8>(),
        after in numbers(),
    ) {
        let (book, mut flow) = grown(SelfTrade::Allow, &numbers);
        let mut bytes = book.encode();
        let body = 16..bytes.len() - 8;
        bytes[body.start + index.index(body.len())] = forged;
        let sum = bytes[..body.end].iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        bytes[body.end..].copy_from_slice(&sum.to_le_bytes());

        if let Ok(mut book) = OrderBook::decode(&bytes) {
            prop_assert_eq!(book.encode(), bytes);
            for number in after {
                let operation = flow.operation(number);
                flow.note(&apply(&mut book, operation, &mut Vec::new()));
            }
        }
    }
}
