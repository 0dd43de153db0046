//! Batch-first kernels of sekai, in plain Rust: features of a symbol, running moments, discounted
//! returns and episode statistics, written once and used by single envs and batches alike.

mod episodes;
pub mod features;
mod moments;
mod reward_scale;

pub use episodes::{EpisodeClock, Episodes, Finished};
pub use moments::{Moments, MomentsError, Sample};
pub use reward_scale::RewardScale;
