//! Errors of order execution.

use thiserror::Error;

use super::day::DayError;
use super::rules::RulesError;

/// Error of order execution; the state is unchanged.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ExecutionError {
    /// Invalid day.
    #[error(transparent)]
    Day(#[from] DayError),
    /// Invalid rules.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The window is not within the day's ticks.
    #[error("expected a window within the {ticks} ticks of the day, got {first} to {stop}")]
    Window {
        /// Its first tick.
        first: usize,
        /// The tick after its last.
        stop: usize,
        /// Number of ticks.
        ticks: usize,
    },
    /// Invalid order amount.
    #[error("order amount must be finite and above 0, got {got}")]
    Order {
        /// Its amount.
        got: f64,
    },
    /// Invalid step amount.
    #[error("amount must be from 0 to the remaining {left}, got {got}")]
    Amount {
        /// The amount.
        got: f64,
        /// Remaining size.
        left: f64,
    },
    /// The order is done.
    #[error("the order is complete after {steps} steps; begin another one")]
    Done {
        /// Number of steps taken.
        steps: usize,
    },
    /// Invalid data or settings of episodes.
    #[error("orders cannot be drawn: {reason}")]
    Source {
        /// Problem.
        reason: &'static str,
    },
    /// Invalid bytes.
    #[error("malformed order state: expected bytes of `state_dict`")]
    Damaged,
}
