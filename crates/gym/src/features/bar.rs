//! One completed bar.

/// What one completed bar of one symbol was. Prices are finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Highest price.
    pub high: f64,
    /// Lowest price.
    pub low: f64,
    /// Last price.
    pub close: f64,
    /// What was traded.
    pub volume: f64,
    /// In how many trades.
    pub trades: u32,
}
