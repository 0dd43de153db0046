//! Realised volatility of one-bar log returns.

use market::indicators::Window;
use serde::{Deserialize, Serialize};

/// Sample deviations of the last 8 and of the last 32 returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Volatility {
    pub(super) short: Window<8>,
    pub(super) long: Window<32>,
}

impl Volatility {
    pub(super) fn new() -> Self {
        Self { short: Window::default(), long: Window::default() }
    }

    /// Push the next log return.
    #[inline]
    pub(super) fn push(&mut self, log_return: f64) {
        self.short.push(log_return);
        self.long.push(log_return);
    }
}
