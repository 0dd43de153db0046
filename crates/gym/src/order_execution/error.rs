//! What working an order refuses.

use thiserror::Error;

use super::day::DayError;
use super::rules::RulesError;

/// Why an order cannot be worked; whatever was refused has changed nothing.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ExecutionError {
    /// The day is unusable.
    #[error(transparent)]
    Day(#[from] DayError),
    /// The rules are unusable.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The window is no run of the day's ticks.
    #[error("a window within the {ticks} ticks of the day was wanted, found {first} to {stop}")]
    Window {
        /// Its first tick.
        first: usize,
        /// The tick after its last.
        stop: usize,
        /// How many there are.
        ticks: usize,
    },
    /// There is nothing to work.
    #[error("an order of a finite amount above 0 was wanted, found one of {found}")]
    Order {
        /// Its amount.
        found: f64,
    },
    /// An amount that cannot be traded.
    #[error("an amount from 0 to the {left} that are left was wanted, found {found}")]
    Amount {
        /// The amount.
        found: f64,
        /// What is left.
        left: f64,
    },
    /// There is no next step.
    #[error("the order was done after {steps} steps: work another one")]
    Done {
        /// How many there were.
        steps: usize,
    },
    /// Bytes of something else.
    #[error("the bytes of an order at work were wanted, found something else")]
    Damaged,
}
