//! The Python module `quant_gym_rs._core`: converts, calls, converts back.

#![allow(clippy::needless_pass_by_value)] // arguments arrive from Python by value

mod episodes;
mod fees;
mod moments;
mod order_arguments;
mod order_book;
mod order_columns;
mod order_error;
mod order_records;
mod record;
mod result;
mod reward_scale;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::episodes::EpisodeTotals;
    #[pymodule_export]
    use crate::fees::{Free, OfNotional, PerLot, settle_trades};
    #[pymodule_export]
    use crate::moments::RunningMoments;
    #[pymodule_export]
    use crate::order_book::OrderBook;
    #[pymodule_export]
    use crate::order_records::{DepthLevel, Fill, Placement, QueuePosition, Resting};
    #[pymodule_export]
    use crate::result::{ResetResult, StepResult};
    #[pymodule_export]
    use crate::reward_scale::RewardScale;
}
