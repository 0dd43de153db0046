//! Assets that come into the universe of all envs in the middle of their episodes.

use std::sync::Arc;

use thiserror::Error;

use super::{Panel, Portfolio, PortfolioError, PortfolioSettings, SlotError};
use crate::batch::Batch;

/// Why the universe stays as it was.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum UniverseError {
    /// The asset cannot come in.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The mandates make no sense.
    #[error(transparent)]
    Portfolio(#[from] PortfolioError),
    /// Something else than mandates would change.
    #[error("the settings in use with other constraints alone were wanted, found other settings")]
    Others,
}

/// Lets an asset into a free place of the panel of all envs, whose accounts stay as they are.
/// Mandates may know it from then on; all other settings have to be those in use.
///
/// # Errors
/// When the place is taken, the rows or the settings are others; nothing has changed then.
pub fn fill_slot(
    batch: &mut Batch<Portfolio>,
    place: usize,
    asset: &Panel,
    settings: PortfolioSettings,
) -> Result<(), UniverseError> {
    let current = batch.task(0);
    if !differs_in_constraints_alone(&current.settings, &settings) {
        return Err(UniverseError::Others);
    }
    let mut panel = Panel::clone(&current.panel);
    panel.fill(place, asset)?;
    let changed = Portfolio::new(Arc::new(panel), settings)?;
    for task in batch.tasks_mut() {
        task.panel = changed.panel.clone();
        task.settings = changed.settings.clone();
        task.look_at_mandates();
    }
    Ok(())
}

fn differs_in_constraints_alone(one: &PortfolioSettings, other: &PortfolioSettings) -> bool {
    let mut like = other.clone();
    for (agent, current) in like.agents.iter_mut().zip(&one.agents) {
        agent.constraints.clone_from(&current.constraints);
    }
    like == *one
}
