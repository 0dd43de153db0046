//! Market configurations from Python, as JSON.

use market::{
    AccountConfig, FundamentalConfig, MarketConfig, NewsConfig, PopulationConfig, Regime,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The defaults of every part of a market, by name, as JSON.
#[pyfunction]
pub(crate) fn market_defaults() -> String {
    json!({
        "light": PopulationConfig::light(),
        "standard": PopulationConfig::standard(),
        "fundamental": FundamentalConfig::default(),
        "news": NewsConfig::default(),
        "account": AccountConfig::default(),
    })
    .to_string()
}

/// Market configuration in the regime `regime`, as JSON; `ValueError` if a setting is missing,
/// unknown or out of range.
#[pyfunction]
pub(crate) fn market_settled(config: &str, regime: &str) -> PyResult<String> {
    let regime: Regime = serde_json::from_value(Value::from(regime)).map_err(|_| {
        PyValueError::new_err(format!(
            "regime must be 'calm', 'normal', 'volatile' or 'crisis', got {regime:?}"
        ))
    })?;
    let config: MarketConfig = read(config)?;
    config.check().map_err(|error| refused(&error))?;
    let config = config.in_regime(regime);
    config.check().map_err(|error| refused(&error))?;
    Ok(json!(config).to_string())
}

/// Parse settings from JSON; `ValueError` names a setting of the wrong type, unknown or missing.
pub(crate) fn read<T: DeserializeOwned>(config: &str) -> PyResult<T> {
    let config: Value = serde_json::from_str(config).map_err(|error| refused(&error))?;
    serde_path_to_error::deserialize(config).map_err(|error| refused(&error))
}

pub(crate) fn refused(error: &impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}
