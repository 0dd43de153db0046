//! Kernels over panels of market data, whose rows are times and whose columns are assets. What a
//! row gets depends on the rows it looks at and on nothing else, to the last bit: rows that arrive
//! one by one get what those of a whole panel get.

mod benchmark;
mod block;
mod checks;
mod rolling;

pub use benchmark::{Benchmark, Levels};
pub use block::{Float, Layout, show};
pub use checks::{Flaw, Masks, RowMasks, flaw, priced, seen};
pub use rolling::{Fold, log_changes, logarithm, rolling};
