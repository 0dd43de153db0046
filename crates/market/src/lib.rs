//! Market simulator of sekai, in plain Rust: a limit order book with price-time priority in integer
//! ticks and lots; and an agent-based market on such books, with fair values, news, a population of
//! trading agents, and accounts for learning agents.
//!
//! `Queues` stores resting orders independently of the matching rule; `matching` trades an incoming
//! order against them at once. A second matching mode is a second file beside `matching` over the
//! same queues.
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
mod interrupt;
mod market;
mod memory;
mod news;
mod order;
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
pub use interrupt::InterruptCheck;
pub use market::account::Holding;
pub use market::floor::Tape;
pub use market::recording::Recording;
pub use market::trading::{Agent, TradeError};
pub use market::{Market, Symbol};
pub use memory::{MemoryError, check_memory};
pub use news::{NewsConfig, NewsEvent, Topic};
pub use order::{Order, Placement, Resting, TimeInForce};
pub use random::{DeadStreamError, EpisodeKey, Stream};
pub use sealed::{Kind, SnapshotError, open, seal};
pub use self_trade::SelfTrade;
pub use settle::{Settled, settle_columns};
pub use side::Side;
pub use units::{Lots, Money, Ticks};
