//! Rewards of order execution: implementation shortfall, price advantage and price ratio.

use std::ops::Range;

use super::direction::Direction;
use super::{OrderExecution, TickFill};

const BASIS_POINTS: f64 = 1e4;

/// Amount left below which an order counts as filled.
const FILLED: f64 = 1e-6;

/// Price ratio from which the price of an order counts as good.
const GOOD_RATIO: f64 = 1.1;

impl OrderExecution {
    /// Mean of the known prices in the window; 0 if there is none.
    #[must_use]
    pub fn twap_price(&self) -> f64 {
        mean_of_known(self.day.price[self.order.first..self.order.stop].iter())
    }

    /// Negative implementation shortfall of the ticks from `begin` up to `stop` with costs, in basis
    /// points of the order's value at its first known price.
    #[must_use]
    pub fn shortfall(&self, begin: usize, stop: usize) -> f64 {
        let fills = self.fills_of(begin, stop);
        let (filled, value) = sums(fills);
        let cost = pairwise_sum(fills.iter().map(|fill| fill.cost));
        let known = &self.day.price[self.order.first..stop];
        let Some(arrival) = known.iter().find(|price| is_known(**price)) else { return 0.0 };
        let gained = self.sign() * (filled * arrival - value) - cost;
        gained / (self.order.amount * arrival) * BASIS_POINTS
    }

    /// Price advantage over TWAP of the ticks from `begin` up to `stop` in basis points, weighted by
    /// their share of the order.
    #[must_use]
    pub fn advantage(&self, begin: usize, stop: usize) -> f64 {
        let (filled, value) = sums(self.fills_of(begin, stop));
        let (price, twap) = (if filled > 0.0 { value / filled } else { 0.0 }, self.twap_price());
        let is_priced = price > 0.0 && twap > 0.0;
        let points =
            if is_priced { -self.sign() * (price / twap - 1.0) * BASIS_POINTS } else { 0.0 };
        points * filled / self.order.amount
    }

    /// Sum of squared fills of the ticks from `begin` up to `stop`, as shares of the order.
    #[must_use]
    pub fn concentration(&self, begin: usize, stop: usize) -> f64 {
        let shares = self.fills_of(begin, stop).iter().map(|fill| fill.filled / self.order.amount);
        pairwise_sum(shares.map(|share| share * share))
    }

    /// 1, 0 or -1 for a good, a fair or a bad price of the fills before `stop`, against the mean
    /// price of these ticks of each session.
    #[must_use]
    pub fn price_score(&self, stop: usize, ticks: Range<usize>) -> f64 {
        let ratio = self.price_ratio(stop, ticks);
        if ratio < 1.0 {
            -1.0
        } else if ratio < GOOD_RATIO {
            0.0
        } else {
            1.0
        }
    }

    fn price_ratio(&self, stop: usize, ticks: Range<usize>) -> f64 {
        let (fills, first) = (self.fills_of(self.order.first, stop), self.order.first);
        let filled = pairwise_sum(fills.iter().map(|fill| fill.filled));
        let own = if filled > 0.0 {
            pairwise_sum(fills.iter().map(|fill| fill.value)) / filled
        } else {
            mean_of_known(self.day.price[first..stop].iter())
        };
        let market = mean_of_known(self.prices_of_sessions(ticks));
        if own <= 0.0 || market <= 0.0 {
            return 1.0;
        }
        match self.order.direction {
            Direction::Sell => own / market,
            Direction::Buy => market / own,
        }
    }

    /// Prices of these ticks of each session, counted from its first.
    fn prices_of_sessions(&self, ticks: Range<usize>) -> impl Iterator<Item = &f64> + Clone {
        let starts = std::iter::once(0).chain(self.day.sessions.iter().copied());
        starts.flat_map(move |start| {
            let end = self.day.session(start).end;
            &self.day.price[(start + ticks.start).min(end)..(start + ticks.end).min(end)]
        })
    }

    /// Return true if the remaining amount counts as filled.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.progress.holdings.position < FILLED
    }

    fn fills_of(&self, begin: usize, stop: usize) -> &[TickFill] {
        &self.progress.fills[begin - self.order.first..stop - self.order.first]
    }

    fn sign(&self) -> f64 {
        match self.order.direction {
            Direction::Sell => -1.0,
            Direction::Buy => 1.0,
        }
    }
}

/// Filled amount and value, summed in order.
fn sums(fills: &[TickFill]) -> (f64, f64) {
    fills
        .iter()
        .fold((0.0, 0.0), |(filled, value), fill| (filled + fill.filled, value + fill.value))
}

fn is_known(price: f64) -> bool {
    price > 0.0 && price.is_finite()
}

/// Mean of the known prices; 0 if none is known.
fn mean_of_known<'a>(prices: impl Iterator<Item = &'a f64> + Clone) -> f64 {
    let known = prices.copied().filter(|price| is_known(*price));
    let count = known.clone().count();
    #[allow(clippy::cast_precision_loss)] // far fewer ticks than 2^52
    if count == 0 { 0.0 } else { pairwise_sum(known) / count as f64 }
}

const BLOCK: usize = 128;
const LANES: usize = 8;

/// Sum in the order of `NumPy`, so that rewards have the same bits as sums over its arrays.
fn pairwise_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count();
    sum_of_next(&mut values.into_iter(), count)
}

fn sum_of_next(values: &mut impl Iterator<Item = f64>, count: usize) -> f64 {
    if count > BLOCK {
        let half = count / 2 - count / 2 % LANES;
        return sum_of_next(values, half) + sum_of_next(values, count - half);
    }
    let mut next = || values.next().unwrap_or(0.0);
    if count < LANES {
        return (0..count).fold(0.0, |sum, _| sum + next());
    }
    let mut lanes = [0.0; LANES].map(|_| next());
    for _ in 1..count / LANES {
        for lane in &mut lanes {
            *lane += next();
        }
    }
    let [first, second] =
        [0, 4].map(|at| (lanes[at] + lanes[at + 1]) + (lanes[at + 2] + lanes[at + 3]));
    let sum = first + second;
    (0..count % LANES).fold(sum, |sum, _| sum + next())
}
