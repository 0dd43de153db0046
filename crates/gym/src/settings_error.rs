//! Errors of task settings.

use thiserror::Error;

/// Invalid setting.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{name} must be {expected}, got {got}")]
pub struct SettingsError {
    /// Name of the setting.
    pub name: &'static str,
    /// Expected value, in words.
    pub expected: &'static str,
    /// Actual value.
    pub got: f64,
}

impl SettingsError {
    /// Check that the setting is finite and meets the condition.
    pub(crate) fn unless(
        holds: bool,
        name: &'static str,
        expected: &'static str,
        got: f64,
    ) -> Result<(), Self> {
        if holds && got.is_finite() { Ok(()) } else { Err(Self { name, expected, got }) }
    }
}
