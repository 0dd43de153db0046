//! The market of sekai, in plain Rust: a limit order book in integer ticks and lots that matches
//! by price, then time; and a market that lives in such books, with values, news, a population of
//! traders, and accounts for agents that learn.
//!
//! `Queues` keeps resting orders and knows nothing of when they trade; `matching` trades an
//! incoming order against them at once. A second matching mode is a second file beside
//! `matching` over the same queues.
//!
//! ```
//! use market::{AccountId, Lots, Order, OrderBook, SelfTrade, Side, Ticks};
//!
//! let mut book = OrderBook::new(SelfTrade::CancelResting);
//! let mut fills = Vec::new();
//! let (maker, taker) = (AccountId(1), AccountId(2));
//!
//! book.place(Order::limit(maker, Side::Sell, Ticks(101), Lots(5)), &mut fills)?;
//! let placement = book.place(Order::market(taker, Side::Buy, Lots(3)), &mut fills)?;
//!
//! assert_eq!(placement.filled, Lots(3));
//! assert_eq!(fills[0].price, Ticks(101));
//! assert_eq!(book.best(Side::Sell), Some(Ticks(101)));
//! # Ok::<(), market::OrderError>(())
//! ```

mod agents;
mod book;
mod config;
mod error;
mod fees;
mod fill;
mod fundamental;
mod id;
pub mod indicators;
mod market;
mod memory;
mod news;
mod order;
mod pauses;
mod random;
mod sealed;
mod self_trade;
mod settle;
mod side;
mod units;

pub use agents::PopulationConfig;
pub use book::OrderBook;
pub use book::batch::{Answers, BatchError};
pub use book::operation::{OperationKind, Operations};
pub use book::view::{DepthLevel, QueuePosition};
pub use config::{AccountConfig, ConfigError, MarketConfig, Regime, SymbolConfig};
pub use error::OrderError;
pub use fees::{Fees, FeesError, Free, OfNotional, PerLot, Rate};
pub use fill::{Fill, Settlement};
pub use fundamental::FundamentalConfig;
pub use id::{AccountId, OrderId};
pub use market::account::Holding;
pub use market::floor::Tape;
pub use market::recording::Recording;
pub use market::trading::{Agent, TradeError};
pub use market::{Market, Symbol};
pub use memory::{MemoryError, check_memory};
pub use news::{NewsConfig, NewsEvent, Topic};
pub use order::{Order, Placement, Resting, TimeInForce};
pub use pauses::Pauses;
pub use random::{DeadStreamError, EpisodeKey, Stream};
pub use sealed::{Kind, SnapshotError, open, seal};
pub use self_trade::SelfTrade;
pub use settle::{Settled, settle_columns};
pub use side::Side;
pub use units::{Lots, Money, Ticks};
