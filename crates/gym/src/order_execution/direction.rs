//! Which way an order goes.

use serde::{Deserialize, Serialize};

/// Whether an order gives the asset away or acquires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// The asset is given for cash.
    Sell,
    /// The asset is acquired for cash.
    Buy,
}
