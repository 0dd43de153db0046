//! Batch-first kernels and tasks of sekai, in plain Rust. Kernels (running moments, discounted
//! returns, episode statistics) and the rules of tasks are written once, for single envs and
//! batches alike.

mod advantages;
mod batch;
mod batch_state;
mod episodes;
pub mod features;
mod glft;
mod market_making;
mod moments;
mod observation;
mod optimal_execution;
pub mod order_execution;
pub mod panel;
mod parts;
pub mod portfolio;
mod reward_memory;
mod reward_scale;
mod rollout;
mod rows;
mod settings_error;
mod task;
mod threads;
mod trading;
mod welford;
mod windows;

pub use advantages::{RolloutSteps, advantages};
pub use batch::{Batch, BatchError};
pub use batch_state::BatchStateError;
pub use episodes::{EpisodeClock, Episodes, Finished};
pub use market_making::{MarketMaking, MarketMakingSettings, Quotes};
pub use moments::{Moments, MomentsError, Sample};
pub use observation::{Number, Numbers, Observation, SINGLE};
pub use optimal_execution::{
    ActionUnit, OptimalExecution, OptimalExecutionSettings, OptimalTrajectory,
};
pub use parts::Shape;
pub use reward_scale::RewardScale;
pub use rollout::{Actor, Cut, RolloutOut};
pub use rows::StepOut;
pub use settings_error::SettingsError;
pub use task::{ActionError, Outcome, RowsOf, Task};
pub use threads::{MOST_THREADS, Threads};
pub use trading::{
    Decision, RewardTerm, Scene, SceneNews, SceneTrade, SellHoldBuy, TargetWeight, Trading,
    TradingError, TradingSettings,
};
pub use windows::{Panel, WindowsError};
