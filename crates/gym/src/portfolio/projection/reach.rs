//! Feasible sums of weights within caps, and the least turnover that meets the rest.

use super::bounds::clip;
use super::problem::Workspace;

/// Feasible range of one sector.
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

/// Range of attainable sums; zero weights are always allowed, so every sum in between is
/// attainable.
pub(super) fn attainable_sums(rooms: impl Iterator<Item = Room>, leverage: f64) -> Sums {
    let (mut long, mut short) = (0.0, 0.0);
    for room in rooms {
        long += room.long.min(room.cap);
        short += room.short.min(room.cap);
    }
    Sums { least: -leverage.min(short), most: leverage.min(long) }
}

/// Held weights, clipped to their bounds.
#[derive(Clone, Copy, Default)]
struct Holdings {
    long: f64,
    short: f64,
}

impl Holdings {
    /// Reduce by `size`, from the first side as far as possible, then from the other.
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
    /// Least turnover after which bounds, sum, sectors and leverage hold.
    ///
    /// Clipping to bounds and reducing the excess over caps is traded in any case. Reducing longs
    /// lowers the sum and reducing shorts raises it; the better choice of both leaves a distance to
    /// the sums that cash allows, which costs its own size in turnover, since a sum below the
    /// largest attainable can be raised by one for each unit traded.
    pub(super) fn least_turnover(&self) -> f64 {
        let (mut raised, mut lowered) = (Holdings::default(), Holdings::default());
        let mut turnover = 0.0;
        for slot in &self.slots {
            let mut holdings = Holdings::default();
            for asset in slot.start..slot.end {
                let held = self.held[asset];
                let inside = clip(held, self.lower[asset], self.upper[asset]);
                turnover += (held - inside).abs();
                holdings.long += inside.max(0.0);
                holdings.short -= inside.min(0.0);
            }
            let excess = (holdings.gross() - slot.cap).max(0.0);
            turnover += excess;
            for (total, shorts_first) in [(&mut raised, true), (&mut lowered, false)] {
                let mut holdings = holdings;
                holdings.reduce(excess, shorts_first);
                total.long += holdings.long;
                total.short += holdings.short;
            }
        }
        let excess = (raised.gross() - self.leverage).max(0.0);
        raised.reduce(excess, true);
        lowered.reduce(excess, false);
        let too_little = self.budget - self.cash.upper - raised.net();
        let too_much = lowered.net() - (self.budget - self.cash.lower);
        turnover + excess + too_little.max(too_much).max(0.0)
    }
}
