//! Random operations around a mid price that moves and jumps, including stale ids, far prices and
//! invalid arguments.

#![allow(dead_code)] // each test uses its part

use market::{
    AccountId, Fill, Lots, Order, OrderBook, OrderError, OrderId, Placement, Resting, Side, Ticks,
    TimeInForce,
};

/// Pseudo-random numbers (`SplitMix64`).
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from zero to below `count`.
    pub(crate) fn below(&mut self, count: u32) -> u32 {
        u32::try_from(((self.next() >> 32) * u64::from(count)) >> 32).expect("32 bits")
    }

    /// A number from `-reach` to `reach`.
    pub(crate) fn around(&mut self, reach: i32) -> i32 {
        self.below(reach.unsigned_abs() * 2 + 1).cast_signed() - reach
    }

    pub(crate) fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }
}

/// Operation on a book.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Place(Order),
    Cancel(OrderId),
    Reduce(OrderId, Lots),
    Replace(OrderId, Ticks, Lots),
    CancelAll(AccountId),
}

/// Answer of a book to an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Placed(Placement),
    Cancelled(Vec<Resting>),
    Left(Lots),
}

/// Execute one operation.
pub(crate) fn apply(
    book: &mut OrderBook,
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
        Operation::CancelAll(account) => {
            let mut cancelled = Vec::new();
            book.cancel_all(account, &mut cancelled);
            Ok(Answer::Cancelled(cancelled))
        }
    }
}

/// Generator of operations; each depends on one number and on the known ids.
pub(crate) struct Flow {
    middle: i32,
    ids: Vec<OrderId>,
}

impl Flow {
    /// Keep recent ids only: most old ones are stale.
    const IDS: usize = 256;

    pub(crate) fn new() -> Self {
        Self { middle: 10_000, ids: Vec::new() }
    }

    /// Record an id returned by a book.
    pub(crate) fn note(&mut self, answer: &Result<Answer, OrderError>) {
        if let Ok(Answer::Placed(Placement { id: Some(id), .. })) = answer {
            if self.ids.len() == Self::IDS {
                self.ids.remove(0);
            }
            self.ids.push(*id);
        }
    }

    pub(crate) fn operation(&mut self, number: u64) -> Operation {
        let mut draws = Draws(number);
        self.wander(&mut draws);
        match draws.below(100) {
            0..25 => Operation::Cancel(self.id(&mut draws)),
            25..30 => Operation::Reduce(self.id(&mut draws), Self::size(&mut draws)),
            30..40 => {
                let (price, size) = (self.price(&mut draws), Self::size(&mut draws));
                Operation::Replace(self.id(&mut draws), price, size)
            }
            40 => Operation::CancelAll(AccountId(draws.below(40))),
            _ => Operation::Place(self.order(&mut draws)),
        }
    }

    fn order(&self, draws: &mut Draws) -> Order {
        let account = AccountId(draws.below(6));
        let side = Side::BOTH[draws.below(2) as usize];
        let (price, size) = (self.price(draws), Self::size(draws));
        let time_in_force = match draws.below(10) {
            0 => return Order::market(account, side, size),
            1 => TimeInForce::ImmediateOrCancel,
            2 => TimeInForce::FillOrKill,
            3 | 4 => TimeInForce::PostOnly,
            _ => TimeInForce::GoodTillCancelled,
        };
        Order { account, side, price, size, time_in_force }
    }

    fn wander(&mut self, draws: &mut Draws) {
        self.middle += match draws.below(2_000) {
            0..8 => draws.around(6_000),
            8..10 => draws.around(1 << 30),
            10..500 => draws.around(3),
            _ => 0,
        };
        self.middle = self.middle.clamp(1, 1 << 30);
    }

    fn price(&self, draws: &mut Draws) -> Ticks {
        Ticks(match draws.below(200) {
            0 => [0, -7, i32::MIN, (1 << 30) + 1, i32::MAX][draws.below(5) as usize],
            1 => [1, 1 << 30][draws.below(2) as usize],
            2..12 => (self.middle + draws.around(10_000)).clamp(1, 1 << 30),
            _ => (self.middle + draws.around(12)).clamp(1, 1 << 30),
        })
    }

    fn size(draws: &mut Draws) -> Lots {
        Lots(match draws.below(200) {
            0 => 0,
            1 => u32::MAX - draws.below(100),
            2 => u32::MAX / 2,
            3..20 => draws.below(500),
            _ => 1 + draws.below(20),
        })
    }

    fn id(&self, draws: &mut Draws) -> OrderId {
        if self.ids.is_empty() || draws.one_in(50) {
            return OrderId::from_bits(draws.next() & 0x0000_00ff_0000_007f);
        }
        self.ids[draws.below(u32::try_from(self.ids.len()).expect("few ids")) as usize]
    }
}
