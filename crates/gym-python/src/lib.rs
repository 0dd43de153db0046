//! The Python module `quant_gym_rs._core`: converts, calls, converts back.

#![allow(clippy::needless_pass_by_value)] // arguments arrive from Python by value

#[allow(dead_code)] // until the first task uses them
mod actions;
#[allow(dead_code)]
mod arrays;
#[allow(dead_code, unused)]
mod batch;
mod episodes;
#[allow(dead_code)]
mod errors;
mod moments;
mod result;
mod reward_scale;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::episodes::EpisodeTotals;
    #[pymodule_export]
    use crate::moments::RunningMoments;
    #[pymodule_export]
    use crate::result::{ResetResult, StepResult};
    #[pymodule_export]
    use crate::reward_scale::RewardScale;
}
