//! Python bindings: the module `quant_gym_rs._core`.
//!
//! # Arrays while the GIL is released
//!
//! A `PyReadonlyArray` keeps other native calls from writing into an array, but not other Python
//! threads: they can write as soon as a call releases the GIL. Inputs read without the GIL are
//! therefore copied before they are checked (actions, ids, seeds, masks of envs, columns of orders
//! and trades, bars, weights, rows of windows), so that the checked values are the used values, and
//! no read races with a write; the copies are small beside the work. One input is not copied: the
//! panel of `gather_windows` can be larger than memory, and its numbers are only copied out, never
//! checked or computed with, so that a thread that writes into it at the same time finds old or new
//! numbers in its windows and nothing else. Outputs are written in place, which is why batches are
//! given them: they are borrowed exclusively, so that no two native calls write into one array at a
//! time, they are never read back, and a thread that writes into them during the call only
//! overwrites results. Calls that keep the GIL, because they are short, borrow what they read.
//!
//! # Sizes, signals and panics
//!
//! A size chosen by a caller is tried by a fallible allocation before anything is built
//! (`market::check_memory`): too large a size raises `MemoryError`. Calls of a length chosen by a
//! caller go through `interrupt::interruptible`, which checks for signals between slices. States
//! are validated when they are decoded; a panic is a bug.

#![allow(clippy::needless_pass_by_value)] // arguments arrive from Python by value

mod actions;
mod actor_critic;
mod advantages;
mod arrays;
mod batch;
mod episodes;
mod errors;
mod features;
mod fees;
mod interrupt;
mod market;
mod market_config;
mod market_making;
mod moments;
mod native_class;
mod observation;
mod observation_parts;
mod optimal_execution;
mod order_arguments;
mod order_book;
mod order_columns;
mod order_error;
mod order_execution;
mod order_records;
mod order_task;
mod panel_features;
mod panel_rows;
mod policy;
mod policy_actor;
mod portfolio;
mod portfolio_account;
mod portfolio_agents;
mod projection;
mod record;
mod result;
mod reward_scale;
mod rollout;
mod scene;
mod trading;
mod trading_env;
mod vec_trading_env;
mod windows;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::actor_critic::ActorCriticTrainer;
    #[pymodule_export]
    use crate::advantages::advantages;
    #[pymodule_export]
    use crate::episodes::EpisodeTotals;
    #[pymodule_export]
    use crate::features::{FeatureState, feature_columns, feature_registry};
    #[pymodule_export]
    use crate::fees::{Free, OfNotional, PerLot, settle_trades};
    #[pymodule_export]
    use crate::market::Market;
    #[pymodule_export]
    use crate::market_config::{market_defaults, market_settled};
    #[pymodule_export]
    use crate::market_making::MarketMakingBatch;
    #[pymodule_export]
    use crate::moments::RunningMoments;
    #[pymodule_export]
    use crate::optimal_execution::{OptimalExecutionBatch, optimal_trajectory};
    #[pymodule_export]
    use crate::order_book::OrderBook;
    #[pymodule_export]
    use crate::order_execution::{OrderMatcher, OrderSummary};
    #[pymodule_export]
    use crate::order_records::{DepthLevel, Fill, Placement, QueuePosition, Resting};
    #[pymodule_export]
    use crate::order_task::{OrderExecutionBatch, OrderTable};
    #[pymodule_export]
    use crate::panel_features::{
        join_features, log_changes, logarithms, rolling_windows, show_features,
    };
    #[pymodule_export]
    use crate::panel_rows::{
        adjustment_factors, benchmark_returns, panel_flaw, priced_places, row_masks, seen_places,
    };
    #[pymodule_export]
    use crate::policy::PolicyProgram;
    #[pymodule_export]
    use crate::policy_actor::PolicyActor;
    #[pymodule_export]
    use crate::portfolio::{
        PortfolioBatch, PortfolioPanel, combine_rewards, cost_kinds, portfolio_names,
    };
    #[pymodule_export]
    use crate::portfolio_agents::PortfolioAgents;
    #[pymodule_export]
    use crate::projection::project_weights;
    #[pymodule_export]
    use crate::result::{ResetResult, StepResult, split_steps};
    #[pymodule_export]
    use crate::reward_scale::RewardScale;
    #[pymodule_export]
    use crate::trading::{TradingBatch, TradingWeightsBatch, trading_defaults};
    #[pymodule_export]
    use crate::trading_env::PyTradingEnv;
    #[pymodule_export]
    use crate::vec_trading_env::PyVecTradingEnv;
    #[pymodule_export]
    use crate::windows::gather_windows;
}
