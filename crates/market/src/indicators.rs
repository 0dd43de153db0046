//! Technical indicators, updated value by value.
//!
//! Conventions are those of TA-Lib: averages begin with the mean of their first values, RSI uses
//! Wilder smoothing, bands use the population standard deviation.

pub mod array;
mod bands;
mod macd;
mod rsi;
mod seeded;
mod window;

pub use bands::{Band, Bands};
pub use macd::Macd;
pub use rsi::Rsi;
pub use seeded::{Ema, Seeded, Wilder};
pub use window::Window;
