//! Snapshot of a running market: encoding to bytes and decoding.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::book::OrderBook;
use crate::market::floor::Floor;
use crate::market::{Market, Symbol};
use crate::news::NewsEvent;
use crate::random::Stream;
use crate::sealed::SnapshotError;
use crate::side::Side;

/// State of a market, without its configuration.
#[derive(Serialize)]
struct Saved<'a> {
    symbols: &'a [Symbol],
    news: &'a [NewsEvent],
    shared: &'a Stream,
    newsroom: &'a Stream,
    tick: u32,
}

#[derive(Deserialize)]
struct Loaded {
    symbols: Vec<Symbol>,
    news: Vec<NewsEvent>,
    shared: Stream,
    newsroom: Stream,
    tick: u32,
}

/// Bound on cash in a valid state, so that sums never overflow.
const MOST_CASH: u64 = 1 << 56;
/// Bound on lots in a valid state.
const MOST_LOTS: u64 = 1 << 31;

impl Market {
    /// Append the state as bytes. Markets with equal bytes behave identically.
    ///
    /// # Panics
    /// Never: writing into memory cannot fail.
    pub fn encode(&self, body: &mut Vec<u8>) {
        let saved = Saved {
            symbols: &self.symbols,
            news: &self.news,
            shared: &self.shared,
            newsroom: &self.newsroom,
            tick: self.tick,
        };
        let bytes = postcard::to_allocvec(&saved).expect("writing into memory cannot fail");
        body.extend(bytes);
    }

    /// Restore the state from the bytes of [`Market::encode`] for a market of this configuration,
    /// consuming them from the front of `body`.
    ///
    /// # Errors
    /// If the bytes do not hold a market of this configuration; the state is unchanged then.
    pub fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let (loaded, rest) = postcard::take_from_bytes::<Loaded>(body)
            .map_err(|_| impossible("bytes that do not hold a market"))?;
        self.check(&loaded)?;
        *body = rest;
        (self.symbols, self.news) = (loaded.symbols, loaded.news);
        (self.shared, self.newsroom) = (loaded.shared, loaded.newsroom);
        self.tick = loaded.tick;
        Ok(())
    }

    fn check(&self, loaded: &Loaded) -> Result<(), SnapshotError> {
        if self.symbols.len() != loaded.symbols.len() {
            return Err(impossible("another number of symbols"));
        }
        for (mine, its) in self.symbols.iter().zip(&loaded.symbols) {
            mine.check(its)?;
        }
        let count = self.symbols.len();
        let is_valid = |event: &NewsEvent| {
            (event.symbol as usize) < count
                && event.duration > 0
                && event.sentiment.is_finite()
                && event.magnitude.is_finite()
        };
        if loaded.news.iter().all(is_valid) {
            return Ok(());
        }
        Err(impossible("invalid news"))
    }
}

impl Symbol {
    fn check(&self, loaded: &Self) -> Result<(), SnapshotError> {
        if !self.population.fits(&loaded.population) || self.sector != loaded.sector {
            return Err(impossible("another population"));
        }
        if !loaded.fundamental.is_valid() || !loaded.signals.is_valid() {
            return Err(impossible("values that are not finite"));
        }
        self.floor.check(&loaded.floor)
    }
}

impl Floor {
    fn check(&self, loaded: &Self) -> Result<(), SnapshotError> {
        let fits = self.holdings.len() == loaded.holdings.len()
            && self.external == loaded.external
            && self.resting_lots.len() == loaded.resting_lots.len();
        if !fits {
            return Err(impossible("another number of accounts"));
        }
        let is_small = loaded.holdings.iter().all(|holding| {
            let cash = [holding.cash, holding.cost, holding.fees, holding.realised];
            cash.iter().all(|amount| amount.0.unsigned_abs() < MOST_CASH)
                && holding.lots.unsigned_abs() < MOST_LOTS
        });
        if !is_small || loaded.earned.0.unsigned_abs() >= MOST_CASH {
            return Err(impossible("amounts out of range"));
        }
        let lots: i64 = loaded.holdings.iter().map(|holding| holding.lots).sum();
        if lots != 0 || loaded.total_cash().0 != 0 {
            return Err(impossible("cash or lots that are not conserved"));
        }
        loaded.check_orders()
    }

    /// Check that every order belongs to an account, and that the counts of resting lots agree.
    fn check_orders(&self) -> Result<(), SnapshotError> {
        let mut resting_lots = vec![[0u64; 2]; self.external];
        for side in Side::BOTH {
            for order in self.book.orders(side) {
                let account = order.account.0 as usize;
                if account >= self.holdings.len() {
                    return Err(impossible("an order without an account"));
                }
                if let Some(counted) = resting_lots.get_mut(account) {
                    counted[side as usize] += u64::from(order.size.0);
                }
            }
        }
        if resting_lots == self.resting_lots {
            Ok(())
        } else {
            Err(impossible("counts of resting lots that disagree with the orders"))
        }
    }
}

fn impossible(got: &'static str) -> SnapshotError {
    SnapshotError::Impossible { got }
}

impl Serialize for OrderBook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.encode())
    }
}

impl<'de> Deserialize<'de> for OrderBook {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BookBytes)
    }
}

struct BookBytes;

impl Visitor<'_> for BookBytes {
    type Value = OrderBook;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the bytes of an order book")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<OrderBook, E> {
        OrderBook::decode(bytes).map_err(E::custom)
    }
}
