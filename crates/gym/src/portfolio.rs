//! Portfolios of many assets and cash.

pub mod projection;
