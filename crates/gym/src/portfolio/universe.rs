//! Listing of assets in the universe of all envs during their episodes.

use std::sync::Arc;

use thiserror::Error;

use super::{Panel, Portfolio, PortfolioError, PortfolioSettings, SlotError};
use crate::batch::Batch;

/// Error of listing an asset; the universe is unchanged.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum UniverseError {
    /// The asset cannot be listed.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// Invalid mandates.
    #[error(transparent)]
    Portfolio(#[from] PortfolioError),
    /// Settings other than mandates would change.
    #[error("expected the settings in use with other constraints alone, got other settings")]
    Others,
}

/// List an asset in a free slot of the panel of all envs; accounts are unchanged. Mandates may
/// include it from then on; all other settings must be those in use.
///
/// # Errors
/// If the slot is taken, or rows or settings differ; nothing has changed then.
pub fn fill_slot(
    batch: &mut Batch<Portfolio>,
    slot: usize,
    asset: &Panel,
    settings: PortfolioSettings,
) -> Result<(), UniverseError> {
    let current = batch.task(0);
    if !differs_in_constraints_alone(&current.settings, &settings) {
        return Err(UniverseError::Others);
    }
    let mut panel = Panel::clone(&current.panel);
    panel.fill(slot, asset)?;
    let changed = Portfolio::new(Arc::new(panel), settings)?;
    for task in batch.tasks_mut() {
        task.panel = changed.panel.clone();
        task.settings = changed.settings.clone();
        task.look_at_mandates();
    }
    Ok(())
}

fn differs_in_constraints_alone(first: &PortfolioSettings, second: &PortfolioSettings) -> bool {
    let mut like = second.clone();
    for (agent, current) in like.agents.iter_mut().zip(&first.agents) {
        agent.constraints.clone_from(&current.constraints);
    }
    like == *first
}
