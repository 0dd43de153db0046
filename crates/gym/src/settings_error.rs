//! Why settings of a task are refused.

use thiserror::Error;

/// A setting that makes no sense.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{name} must be {wanted}, was {found}")]
pub struct SettingsError {
    /// The setting.
    pub name: &'static str,
    /// What it must be.
    pub wanted: &'static str,
    /// What it was.
    pub found: f64,
}

impl SettingsError {
    /// Nothing, if the setting is finite and what it must be.
    pub(crate) fn unless(
        holds: bool,
        name: &'static str,
        wanted: &'static str,
        found: f64,
    ) -> Result<(), Self> {
        if holds && found.is_finite() { Ok(()) } else { Err(Self { name, wanted, found }) }
    }
}
