//! Direction of an order.

use serde::{Deserialize, Serialize};

/// Direction of an order: sell or buy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Sell the asset.
    Sell,
    /// Buy the asset.
    Buy,
}
