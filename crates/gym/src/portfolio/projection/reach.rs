//! What can be reached within caps: sums of weights, and the least turnover that meets the rest.

use super::bounds::clip;
use super::problem::Workspace;

/// How much of one sector may be held.
pub(super) struct Room {
    /// The largest sum of absolute weights.
    cap: f64,
    /// The sum of upper bounds.
    long: f64,
    /// The sum of lower bounds, as a positive number.
    short: f64,
}

impl Room {
    pub(super) fn new(cap: f64) -> Self {
        Self { cap, long: 0.0, short: 0.0 }
    }

    pub(super) fn add(&mut self, lower: f64, upper: f64) {
        self.long += upper;
        self.short -= lower;
    }
}

/// The range of the sum of weights.
pub(super) struct Sums {
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Nothing may always be held, so that every sum between both ends can be had.
pub(super) fn attainable_sums(rooms: impl Iterator<Item = Room>, leverage: f64) -> Sums {
    let (mut long, mut short) = (0.0, 0.0);
    for room in rooms {
        long += room.long.min(room.cap);
        short += room.short.min(room.cap);
    }
    Sums { least: -leverage.min(short), most: leverage.min(long) }
}

/// What is held, once it is brought into its bounds.
#[derive(Clone, Copy, Default)]
struct Book {
    long: f64,
    short: f64,
}

impl Book {
    /// Gives up `size`, of the first kind as far as there is of it, then of the other.
    fn reduce(&mut self, size: f64, shorts_first: bool) {
        let (first, second) = if shorts_first {
            (&mut self.short, &mut self.long)
        } else {
            (&mut self.long, &mut self.short)
        };
        let of_first = first.min(size);
        *first -= of_first;
        *second -= size - of_first;
    }

    fn gross(self) -> f64 {
        self.long + self.short
    }

    fn net(self) -> f64 {
        self.long - self.short
    }
}

impl Workspace {
    /// The least turnover after which bounds, sum, sectors and leverage are kept.
    ///
    /// Coming into bounds and giving up what exceeds a cap has to be traded in any case. Giving up
    /// longs lowers the sum and giving up shorts raises it; what the better choice of both leaves
    /// of the way into the sums that cash allows costs its own size, since a sum that is not yet
    /// the largest attainable can be raised by one for each unit that is traded.
    pub(super) fn least_turnover(&self) -> f64 {
        let (mut raised, mut lowered) = (Book::default(), Book::default());
        let mut turnover = 0.0;
        for slot in &self.slots {
            let mut book = Book::default();
            for asset in slot.start..slot.end {
                let held = self.held[asset];
                let inside = clip(held, self.lower[asset], self.upper[asset]);
                turnover += (held - inside).abs();
                book.long += inside.max(0.0);
                book.short -= inside.min(0.0);
            }
            let excess = (book.gross() - slot.cap).max(0.0);
            turnover += excess;
            for (total, shorts_first) in [(&mut raised, true), (&mut lowered, false)] {
                let mut book = book;
                book.reduce(excess, shorts_first);
                total.long += book.long;
                total.short += book.short;
            }
        }
        let excess = (raised.gross() - self.leverage).max(0.0);
        raised.reduce(excess, true);
        lowered.reduce(excess, false);
        let too_little = self.target - self.cash.upper - raised.net();
        let too_much = lowered.net() - (self.target - self.cash.lower);
        turnover + excess + too_little.max(too_much).max(0.0)
    }
}
