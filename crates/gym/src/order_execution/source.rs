//! Orders of episodes: the ticks that they are executed in, and how they are drawn.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::ParentOrder;
use super::day::OrderDay;
use super::direction::Direction;
use super::error::ExecutionError;
use super::numpy_random::NumpyGenerator;

/// Draws after which a random day is searched for in order.
const MOST_DRAWS: usize = 10_000;

/// Ticks of one asset on a day, or on the days of an order, for either direction.
#[derive(Clone, Debug)]
pub struct OrderTicks {
    /// Ticks of a sale.
    pub sell: Arc<OrderDay>,
    /// Ticks of a purchase.
    pub buy: Arc<OrderDay>,
    /// Features of each session; empty if no features are observed.
    pub features: Vec<SessionFeatures>,
}

/// Features of a session and of the day before, as indices into those of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFeatures {
    /// Features of the session.
    pub today: usize,
    /// Features of the day before; `None` if there is none.
    pub yesterday: Option<usize>,
}

/// Orders of episodes.
#[derive(Clone, Debug)]
pub enum OrderDraws {
    /// Random windows of random days: the ticks of each asset on each date, dates of an asset next
    /// to each other; `None` where there are none.
    Random {
        /// Ticks by asset and date.
        ticks: Vec<Option<usize>>,
        /// Number of assets.
        assets: usize,
    },
    /// One of these baskets, each order with its ticks.
    Given(Vec<Vec<(usize, ParentOrder)>>),
}

/// Ticks, features and orders of all episodes of a batch.
#[derive(Clone, Debug)]
pub struct OrderSource {
    /// Ticks that orders are executed in.
    pub ticks: Vec<OrderTicks>,
    /// Features of days, ticks by columns.
    pub features: Vec<Arc<[f32]>>,
    /// Orders of episodes.
    pub draws: OrderDraws,
}

/// Settings of random orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomWindow {
    pub(super) amount: (f64, f64),
    pub(super) direction: Option<Direction>,
    pub(super) ticks_per_step: usize,
    pub(super) order_ticks: usize,
}

impl OrderTicks {
    /// Ticks of an order of one direction.
    #[must_use]
    pub fn of(&self, direction: Direction) -> &Arc<OrderDay> {
        match direction {
            Direction::Sell => &self.sell,
            Direction::Buy => &self.buy,
        }
    }
}

impl OrderSource {
    /// Check that every index is in range, and that there is an order for every episode.
    pub(super) fn check(
        &self,
        orders: usize,
        window: &RandomWindow,
        row: usize,
    ) -> Result<(), ExecutionError> {
        for ticks in &self.ticks {
            ticks.sell.check()?;
            ticks.buy.check()?;
            let is_pair = ticks.sell.ticks() == ticks.buy.ticks();
            if !is_pair || !(row == 0 || self.has_features(ticks, row)) {
                return Err(ExecutionError::Source {
                    reason: "ticks and features differ in shape",
                });
            }
        }
        let has_orders = match &self.draws {
            OrderDraws::Random { ticks, assets } => {
                let is_basket = orders != 1 && orders != *assets;
                let is_table = *assets > 0 && ticks.len() % assets == 0 && !is_basket;
                is_table
                    && ticks.iter().flatten().all(|index| *index < self.ticks.len())
                    && self.first_fit(orders, window).is_some()
            }
            OrderDraws::Given(baskets) => {
                let fits = |(ticks, order): &(usize, ParentOrder)| {
                    self.ticks.get(*ticks).is_some_and(|own| order.fits(own.sell.ticks()))
                };
                let is_whole = |basket: &Vec<_>| basket.len() == orders && basket.iter().all(fits);
                !baskets.is_empty() && baskets.iter().all(is_whole)
            }
        };
        let reason = "no day has enough ticks for an order";
        if has_orders { Ok(()) } else { Err(ExecutionError::Source { reason }) }
    }

    /// Return true if every session has features of each of its ticks, and of the day before.
    fn has_features(&self, ticks: &OrderTicks, row: usize) -> bool {
        let day = &ticks.sell;
        let starts = std::iter::once(0).chain(day.sessions.iter().copied());
        let is_known = |(start, own): (usize, &SessionFeatures)| {
            let today = self.features.get(own.today);
            let has_ticks = today.is_some_and(|rows| rows.len() == day.session(start).len() * row);
            has_ticks && own.yesterday.is_none_or(|index| index < self.features.len())
        };
        ticks.features.len() == day.sessions.len() + 1 && starts.zip(&ticks.features).all(is_known)
    }

    /// Draw the orders of an episode into `orders`.
    pub(super) fn draw(
        &self,
        generator: &mut NumpyGenerator,
        window: &RandomWindow,
        orders: &mut [(usize, ParentOrder)],
    ) {
        match &self.draws {
            OrderDraws::Given(baskets) => {
                orders.copy_from_slice(&baskets[generator.integer(baskets.len())]);
            }
            OrderDraws::Random { ticks, assets } => {
                // Draws come before the data is read, so that it cannot change them.
                for (_, order) in &mut *orders {
                    order.amount = generator.uniform(window.amount.0, window.amount.1);
                    let random = [Direction::Sell, Direction::Buy][generator.integer(2)];
                    order.direction = window.direction.unwrap_or(random);
                }
                self.draw_window(generator, window, (ticks.len() / assets, *assets), orders);
            }
        }
    }

    fn draw_window(
        &self,
        generator: &mut NumpyGenerator,
        window: &RandomWindow,
        (dates, assets): (usize, usize),
        orders: &mut [(usize, ParentOrder)],
    ) {
        let is_single = orders.len() == 1;
        for _ in 0..MOST_DRAWS {
            let asset = if is_single { generator.integer(assets) } else { 0 };
            let (date, position) = (generator.integer(dates), generator.random());
            if self.place((asset, date, dates), position, window, orders) {
                return;
            }
        }
        let count = orders.len();
        if let Some((asset, date)) = self.first_fit(count, window) {
            self.place((asset, date, dates), 0.0, window, orders);
        }
    }

    /// The first asset and date with enough ticks for the orders of an episode.
    fn first_fit(&self, orders: usize, window: &RandomWindow) -> Option<(usize, usize)> {
        let OrderDraws::Random { ticks, assets } = &self.draws else { return None };
        let dates = ticks.len() / assets;
        let starts = if orders == 1 { *assets } else { 1 };
        let mut pairs = (0..starts).flat_map(|asset| (0..dates).map(move |date| (asset, date)));
        pairs.find(|(asset, date)| self.starts((*asset, *date, dates), orders, window) > 0)
    }

    /// Number of windows of whole steps that fit the ticks of all orders; 0 if there are none.
    fn starts(
        &self,
        (asset, date, dates): (usize, usize, usize),
        orders: usize,
        window: &RandomWindow,
    ) -> usize {
        let OrderDraws::Random { ticks, .. } = &self.draws else { return 0 };
        let of = |order: usize| ticks[(asset + order) * dates + date];
        let lengths =
            (0..orders).map(|order| of(order).map_or(0, |own| self.ticks[own].sell.ticks()));
        let least = lengths.min().unwrap_or(0);
        let left = least.checked_sub(window.order_ticks);
        left.map_or(0, |left| left / window.ticks_per_step + 1)
    }

    /// Give all orders the window at `position` of a day; false if it has too few ticks.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    fn place(
        &self,
        (asset, date, dates): (usize, usize, usize),
        position: f64,
        window: &RandomWindow,
        orders: &mut [(usize, ParentOrder)],
    ) -> bool {
        let OrderDraws::Random { ticks, .. } = &self.draws else { return false };
        let starts = self.starts((asset, date, dates), orders.len(), window);
        let first = (position * starts as f64) as usize * window.ticks_per_step;
        for (index, (own, order)) in orders.iter_mut().enumerate() {
            let Some(found) = ticks[(asset + index) * dates + date] else { return false };
            (order.first, order.stop) = (first, first + window.order_ticks);
            *own = found;
        }
        starts > 0
    }

    /// Digest of the orders and of the number of ticks of each day. Prices are left out, so that
    /// a state says nothing about the future; each order has a digest of the ticks it has seen.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for ticks in &self.ticks {
            let sessions = &ticks.sell.sessions;
            digest.update(format!("{} {sessions:?} {:?};", ticks.sell.ticks(), ticks.features));
        }
        digest.update(format!("{:?}", self.draws));
        digest.finalize().into()
    }
}

/// Digest of the prices and volumes of the ticks before `stop`.
pub(super) fn seen_digest(day: &OrderDay, stop: usize) -> [u8; 32] {
    let mut digest = Sha256::new();
    for value in day.price[..stop].iter().chain(&day.volume[..stop]) {
        digest.update(value.to_le_bytes());
    }
    digest.finalize().into()
}
