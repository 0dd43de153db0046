//! Kernels over panels of market data, whose rows are times and whose columns are assets. The
//! result of a row depends only on the rows of its window, to the last bit: streamed rows get the
//! same results as those of a full panel.

mod adjustment;
mod benchmark;
mod block;
mod checks;
mod rolling;

pub use adjustment::{Action, ActionColumns, Adjustment};
pub use benchmark::{Benchmark, Levels};
pub use block::{Float, Layout, show};
pub use checks::{Flaw, Masks, RowMasks, flaw, priced, seen};
pub use rolling::{Fold, log_changes, logarithm, rolling};
