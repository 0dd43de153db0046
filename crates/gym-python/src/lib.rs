//! The Python module `quant_gym_rs._core`: converts, calls, converts back.

#![allow(clippy::needless_pass_by_value)] // arguments arrive from Python by value

mod actions;
mod arrays;
mod batch;
mod episodes;
mod errors;
mod features;
mod fees;
mod market;
mod market_config;
mod market_making;
mod moments;
mod native_class;
mod optimal_execution;
mod order_arguments;
mod order_book;
mod order_columns;
mod order_error;
mod order_execution;
mod order_records;
mod panel_features;
mod panel_rows;
mod portfolio;
mod portfolio_account;
mod portfolio_agents;
mod projection;
mod record;
mod result;
mod reward_scale;
mod scene;
mod shown;
mod shown_parts;
mod trading;
mod trading_env;
mod vec_trading_env;
mod windows;

use pyo3::prelude::*;

#[pymodule]
mod _core {
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
    use crate::optimal_execution::OptimalExecutionBatch;
    #[pymodule_export]
    use crate::order_book::OrderBook;
    #[pymodule_export]
    use crate::order_execution::{OrderMatcher, OrderSummary};
    #[pymodule_export]
    use crate::order_records::{DepthLevel, Fill, Placement, QueuePosition, Resting};
    #[pymodule_export]
    use crate::panel_features::{
        join_features, log_changes, logarithms, rolling_windows, show_features,
    };
    #[pymodule_export]
    use crate::panel_rows::{benchmark_returns, panel_flaw, priced_places, row_masks, seen_places};
    #[pymodule_export]
    use crate::portfolio::{PortfolioBatch, PortfolioPanel, combine_rewards, portfolio_names};
    #[pymodule_export]
    use crate::portfolio_agents::PortfolioAgents;
    #[pymodule_export]
    use crate::projection::project_weights;
    #[pymodule_export]
    use crate::result::{ResetResult, StepResult};
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
