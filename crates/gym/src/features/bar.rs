//! Completed bars.

/// Completed bar of one symbol. Prices are finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Highest price.
    pub high: f64,
    /// Lowest price.
    pub low: f64,
    /// Last price.
    pub close: f64,
    /// Traded volume.
    pub volume: f64,
    /// Number of trades.
    pub trades: u32,
}
