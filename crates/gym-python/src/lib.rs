//! The Python module `quant_gym_rs._core`: converts, calls, converts back.

#![allow(clippy::needless_pass_by_value)] // arguments arrive from Python by value

mod actions;
mod arrays;
mod batch;
mod episodes;
mod errors;
mod market_making;
mod moments;
mod native_class;
mod result;
mod reward_scale;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::episodes::EpisodeTotals;
    #[pymodule_export]
    use crate::market_making::MarketMakingBatch;
    #[pymodule_export]
    use crate::moments::RunningMoments;
    #[pymodule_export]
    use crate::result::{ResetResult, StepResult};
    #[pymodule_export]
    use crate::reward_scale::RewardScale;
}
