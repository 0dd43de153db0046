//! Indicators of technical analysis, kept up to date value by value.
//!
//! Conventions are those of TA-Lib: averages begin with the mean of their first values, strength
//! is smoothed as Wilder does, bands use the deviation of a population.

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
