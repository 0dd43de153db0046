//! Batch-first kernels of sekai, in plain Rust: running moments, discounted returns and
//! episode statistics, written once and used by single and vector wrappers alike.

mod episodes;
mod moments;
mod reward_scale;
mod welford;

pub use episodes::{EpisodeClock, Episodes, Finished};
pub use moments::{Moments, MomentsError, Sample};
pub use reward_scale::RewardScale;
