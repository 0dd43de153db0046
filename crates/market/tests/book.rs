//! Effect of each book operation.

use market::{
    AccountId, DepthLevel, Fill, Lots, Order, OrderBook, OrderError, OrderId, Resting, SelfTrade,
    Side, Ticks,
};

const ANNA: AccountId = AccountId(1);
const BORIS: AccountId = AccountId(2);
const CHEN: AccountId = AccountId(3);

/// A book and the fills of all its operations.
struct Venue {
    book: OrderBook,
    fills: Vec<Fill>,
}

impl Venue {
    fn new(rule: SelfTrade) -> Self {
        Self { book: OrderBook::new(rule), fills: Vec::new() }
    }

    fn place(&mut self, order: Order) -> Result<market::Placement, OrderError> {
        self.book.place(order, &mut self.fills)
    }

    /// Rest an order, and return its id.
    fn rest(&mut self, account: AccountId, side: Side, price: i32, size: u32) -> OrderId {
        let order = Order::post_only(account, side, Ticks(price), Lots(size));
        self.place(order).expect("a good order").id.expect("it rests")
    }

    fn replace(
        &mut self,
        id: OrderId,
        price: i32,
        size: u32,
    ) -> Result<market::Placement, OrderError> {
        self.book.replace(id, Ticks(price), Lots(size), &mut self.fills)
    }

    fn queue(&self, side: Side) -> Vec<OrderId> {
        self.book.orders(side).map(|order| order.id).collect()
    }
}

#[test]
fn a_limit_order_trades_up_to_its_price_and_rests_there() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Sell, 100, 5);
    venue.rest(ANNA, Side::Sell, 102, 5);

    let placed = venue.place(Order::limit(BORIS, Side::Buy, Ticks(101), Lots(8))).expect("good");

    assert_eq!((placed.filled, placed.resting, placed.cancelled), (Lots(5), Lots(3), Lots(0)));
    assert_eq!(venue.book.best(Side::Buy), Some(Ticks(101)));
    assert_eq!(venue.book.best(Side::Sell), Some(Ticks(102)));
}

#[test]
fn a_trade_has_the_price_of_the_order_that_rested() {
    let mut venue = Venue::new(SelfTrade::default());
    let maker = venue.rest(ANNA, Side::Buy, 100, 5);

    venue.place(Order::limit(BORIS, Side::Sell, Ticks(90), Lots(2))).expect("good");

    let fill = venue.fills[0];
    assert_eq!((fill.maker, fill.price, fill.size), (maker, Ticks(100), Lots(2)));
    assert_eq!((fill.maker_left, fill.taker_side), (Lots(3), Side::Sell));
    assert_eq!((fill.maker_account, fill.taker_account), (ANNA, BORIS));
}

#[test]
fn a_market_order_takes_what_there_is_and_never_rests() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Sell, 100, 5);

    let placed = venue.place(Order::market(BORIS, Side::Buy, Lots(8))).expect("good");

    assert_eq!((placed.filled, placed.cancelled, placed.id), (Lots(5), Lots(3), None));
    assert!(venue.book.is_empty());
}

#[test]
fn an_immediate_order_stops_at_its_price() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Sell, 100, 5);
    venue.rest(ANNA, Side::Sell, 101, 5);

    let order = Order::immediate_or_cancel(BORIS, Side::Buy, Ticks(100), Lots(8));
    let placed = venue.place(order).expect("good");

    assert_eq!((placed.filled, placed.cancelled), (Lots(5), Lots(3)));
}

#[test]
fn a_post_only_order_that_could_trade_is_refused() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Sell, 100, 5);

    let refused = venue.place(Order::post_only(BORIS, Side::Buy, Ticks(100), Lots(1)));

    let error = OrderError::WouldTrade { got: Ticks(100), best: Ticks(100) };
    assert_eq!(refused, Err(error));
    assert_eq!(venue.book.len(), 1);
}

#[test]
fn a_fill_or_kill_order_trades_whole_or_not_at_all() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Sell, 100, 5);
    let order = Order::fill_or_kill(BORIS, Side::Buy, Ticks(100), Lots(6));

    let refused = venue.place(order);
    let filled = venue.place(Order { size: Lots(5), ..order }).expect("good");

    assert_eq!(refused, Err(OrderError::NotFillable { expected: Lots(6), got: Lots(5) }));
    assert_eq!(filled.filled, Lots(5));
}

#[test]
fn a_fill_or_kill_order_does_not_count_on_its_own_account() {
    let mut venue = Venue::new(SelfTrade::CancelResting);
    venue.rest(BORIS, Side::Sell, 100, 5);
    venue.rest(ANNA, Side::Sell, 100, 5);
    let order = Order::fill_or_kill(BORIS, Side::Buy, Ticks(100), Lots(6));

    let refused = venue.place(order);

    assert_eq!(refused, Err(OrderError::NotFillable { expected: Lots(6), got: Lots(5) }));
    assert_eq!(venue.book.len(), 2, "a refused order cancels nothing");
}

#[test]
fn a_cancelled_order_is_gone_and_told() {
    let mut venue = Venue::new(SelfTrade::default());
    let id = venue.rest(ANNA, Side::Buy, 99, 5);

    let cancelled = venue.book.cancel(id);

    let (side, price, size) = (Side::Buy, Ticks(99), Lots(5));
    assert_eq!(cancelled, Ok(Resting { id, account: ANNA, side, price, size }));
    assert_eq!(venue.book.cancel(id), Err(OrderError::NotResting { id }));
    assert_eq!(venue.book.best(Side::Buy), None);
}

#[test]
fn an_order_may_leave_from_anywhere_in_its_queue() {
    for leaving in 0..3 {
        let mut venue = Venue::new(SelfTrade::default());
        let mut ids: Vec<_> = (0..3).map(|_| venue.rest(ANNA, Side::Buy, 99, 5)).collect();

        venue.book.cancel(ids.remove(leaving)).expect("it rests");
        ids.push(venue.rest(ANNA, Side::Buy, 99, 5));

        assert_eq!(venue.queue(Side::Buy), ids);
    }
}

#[test]
fn a_stale_id_never_touches_the_order_that_took_its_slot() {
    let mut venue = Venue::new(SelfTrade::default());
    let stale = venue.rest(ANNA, Side::Buy, 99, 5);
    venue.book.cancel(stale).expect("it rests");
    let stranger = venue.rest(BORIS, Side::Buy, 99, 7);

    let refused = venue.book.cancel(stale);

    assert_eq!(refused, Err(OrderError::NotResting { id: stale }));
    assert_eq!(stale.to_bits() & 0xffff_ffff, stranger.to_bits() & 0xffff_ffff);
    assert_eq!(venue.book.order(stranger).map(|order| order.size), Some(Lots(7)));
}

#[test]
fn a_reduced_order_keeps_its_place() {
    let mut venue = Venue::new(SelfTrade::default());
    let first = venue.rest(ANNA, Side::Buy, 99, 5);
    let second = venue.rest(BORIS, Side::Buy, 99, 5);

    let left = venue.book.reduce(first, Lots(2));

    assert_eq!(left, Ok(Lots(3)));
    assert_eq!(venue.queue(Side::Buy), [first, second]);
    assert_eq!(venue.book.volume_at(Side::Buy, Ticks(99)), Lots(8));
}

#[test]
fn a_reduction_that_leaves_nothing_says_to_cancel() {
    let mut venue = Venue::new(SelfTrade::default());
    let id = venue.rest(ANNA, Side::Buy, 99, 5);

    let refused = venue.book.reduce(id, Lots(5)).expect_err("nothing would be left");

    assert_eq!(refused, OrderError::NothingLeft { resting: Lots(5), got: Lots(5) });
    assert!(refused.to_string().ends_with("cancel the order instead"));
}

#[test]
fn a_replaced_order_keeps_its_place_only_if_it_shrinks_where_it_is() {
    let mut venue = Venue::new(SelfTrade::default());
    let first = venue.rest(ANNA, Side::Buy, 99, 5);
    let second = venue.rest(BORIS, Side::Buy, 99, 5);

    let smaller = venue.replace(first, 99, 4).expect("good").id;
    assert_eq!((smaller, venue.queue(Side::Buy)), (Some(first), vec![first, second]));

    let larger = venue.replace(first, 99, 6).expect("good").id.expect("it rests");
    assert_eq!(venue.queue(Side::Buy), [second, larger]);
    assert!(venue.book.order(first).is_none());
}

#[test]
fn a_replaced_order_may_trade() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Sell, 101, 5);
    let id = venue.rest(BORIS, Side::Buy, 99, 5);

    let placed = venue.replace(id, 101, 6).expect("good");

    assert_eq!((placed.filled, placed.resting), (Lots(5), Lots(1)));
    assert_eq!(venue.fills.len(), 1);
}

#[test]
fn cancel_all_takes_one_account_out() {
    let mut venue = Venue::new(SelfTrade::default());
    let own = [venue.rest(ANNA, Side::Buy, 99, 5), venue.rest(ANNA, Side::Sell, 1_000_000, 5)];
    let other = venue.rest(BORIS, Side::Buy, 99, 5);
    let mut cancelled = Vec::new();

    venue.book.cancel_all(ANNA, &mut cancelled);

    assert_eq!(cancelled.iter().map(|order| order.id).collect::<Vec<_>>(), own);
    assert_eq!((venue.queue(Side::Buy), venue.queue(Side::Sell)), (vec![other], vec![]));
}

#[test]
fn cancel_all_goes_from_the_front_of_the_bids_to_the_back_of_the_asks() {
    let mut venue = Venue::new(SelfTrade::default());
    let last = venue.rest(ANNA, Side::Sell, 103, 1);
    let second = venue.rest(ANNA, Side::Buy, 98, 2);
    let third = venue.rest(ANNA, Side::Sell, 102, 3);
    let first = venue.rest(ANNA, Side::Buy, 99, 4);
    let mut cancelled = Vec::new();

    venue.book.cancel_all(ANNA, &mut cancelled);

    let ids: Vec<_> = cancelled.iter().map(|order| order.id).collect();
    assert_eq!(ids, [first, second, third, last]);
}

#[test]
fn the_middle_and_the_spread_need_both_sides() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Buy, 99, 4);
    assert_eq!((venue.book.mid(), venue.book.spread()), (None, None));

    venue.rest(ANNA, Side::Sell, 102, 4);

    assert_eq!((venue.book.mid(), venue.book.spread()), (Some(100.5), Some(3)));
}

#[test]
fn a_book_is_shown_by_its_top() {
    let mut venue = Venue::new(SelfTrade::Allow);
    venue.rest(ANNA, Side::Buy, 99, 4);

    let shown = format!("{:?}", venue.book);

    assert!(shown.starts_with("OrderBook { bid: Some(Ticks(99)), ask: None, orders: 1"));
}

#[test]
fn each_rule_treats_an_account_that_meets_itself_in_its_way() {
    // Anna buys 8 where she and then Boris sell 5 each: filled, resting, cancelled, prevented.
    let cases = [
        (SelfTrade::Allow, [8, 0, 0, 0]),
        (SelfTrade::CancelResting, [5, 3, 0, 5]),
        (SelfTrade::CancelIncoming, [0, 0, 8, 0]),
        (SelfTrade::DecrementBoth, [3, 0, 5, 5]),
    ];
    for (rule, expected) in cases {
        let mut venue = Venue::new(rule);
        venue.rest(ANNA, Side::Sell, 100, 5);
        venue.rest(BORIS, Side::Sell, 100, 5);

        let placed = venue.place(Order::limit(ANNA, Side::Buy, Ticks(100), Lots(8))).expect("good");

        let lots = [placed.filled.0, placed.resting.0, placed.cancelled.0].map(u64::from);
        assert_eq!([lots[0], lots[1], lots[2], placed.prevented], expected, "{rule:?}");
    }
}

#[test]
fn bad_sizes_and_prices_say_what_was_found() {
    let mut venue = Venue::new(SelfTrade::default());

    let no_size = venue.place(Order::limit(ANNA, Side::Buy, Ticks(99), Lots(0)));
    let no_price = venue.place(Order::limit(ANNA, Side::Buy, Ticks(0), Lots(1)));

    assert_eq!(no_size, Err(OrderError::SizeOutOfRange { got: 0 }));
    let text = no_price.expect_err("prices begin at 1").to_string();
    assert_eq!(text, "expected a price from 1 to 1073741824 ticks, got 0");
}

#[test]
fn a_level_takes_lots_until_they_no_longer_fit() {
    let mut venue = Venue::new(SelfTrade::default());
    let first = venue.rest(ANNA, Side::Buy, 99, u32::MAX - 1);
    let order = Order::limit(BORIS, Side::Buy, Ticks(99), Lots(2));

    let refused = venue.place(order);
    let grown = venue.replace(first, 99, u32::MAX);

    let (price, room, got) = (Ticks(99), Lots(1), Lots(2));
    assert_eq!(refused, Err(OrderError::LevelFull { price, room, got }));
    assert_eq!(grown.map(|placed| placed.resting), Ok(Lots(u32::MAX)));
}

#[test]
fn the_queue_position_counts_what_stands_before() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Buy, 99, 5);
    venue.rest(BORIS, Side::Buy, 99, 7);
    let id = venue.rest(CHEN, Side::Buy, 99, 1);

    venue.place(Order::market(CHEN, Side::Sell, Lots(2))).expect("good");

    let position = venue.book.queue_position(id).expect("it rests");
    assert_eq!((position.lots_ahead, position.orders_ahead), (Lots(10), 2));
}

#[test]
fn depth_fills_the_buffer_as_far_as_there_are_levels() {
    let mut venue = Venue::new(SelfTrade::default());
    venue.rest(ANNA, Side::Sell, 101, 5);
    venue.rest(BORIS, Side::Sell, 101, 1);
    venue.rest(ANNA, Side::Sell, 1_000_000, 2);
    let mut depth = [DepthLevel::default(); 3];

    let levels = venue.book.depth(Side::Sell, &mut depth);

    assert_eq!(levels, 2);
    assert_eq!(depth[0], DepthLevel { price: Ticks(101), size: Lots(6), orders: 2 });
    assert_eq!(depth[1], DepthLevel { price: Ticks(1_000_000), size: Lots(2), orders: 1 });
    assert_eq!(venue.book.volume(Side::Sell), 8);
}

#[test]
fn far_prices_trade_in_their_turn() {
    let mut venue = Venue::new(SelfTrade::default());
    for price in [1_000_000, 101, 50_000, Ticks::MAX.0, 5_000] {
        venue.rest(ANNA, Side::Sell, price, 1);
    }

    venue.place(Order::market(BORIS, Side::Buy, Lots(9))).expect("good");

    let prices: Vec<_> = venue.fills.iter().map(|fill| fill.price.0).collect();
    assert_eq!(prices, [101, 5_000, 50_000, 1_000_000, Ticks::MAX.0]);
}

#[test]
#[ignore = "nightly: half a gigabyte"]
fn a_full_book_refuses_one_more_order_and_still_trades() {
    let mut venue = Venue::new(SelfTrade::default());
    let limit = 1 << 24;
    for _ in 0..limit {
        venue.rest(ANNA, Side::Sell, 100, 1);
    }

    let refused = venue.place(Order::limit(BORIS, Side::Buy, Ticks(99), Lots(1)));
    let traded = venue.place(Order::market(BORIS, Side::Buy, Lots(1)));

    assert_eq!(refused, Err(OrderError::BookFull { limit }));
    assert_eq!(traded.map(|placed| placed.filled), Ok(Lots(1)));
}
