//! Conversion of actions to orders: projection to the nearest weights that the mandate allows.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use super::lanes::Machine;
use super::projection::{Projection, Workspace};
use super::{ActionMode, Portfolio, Scratch, Sizing, simplex};

/// Held weights and movable assets of the universe without removed assets.
#[derive(Debug, Default)]
pub(super) struct Universe {
    held: Vec<f64>,
    movable: Vec<bool>,
}

impl Universe {
    /// Treat removed assets as cash: they are to be sold whatever the action, and cannot be bought.
    fn cut(&mut self, movable: &[bool], removed: &[bool]) {
        self.movable.clear();
        self.movable.extend_from_slice(movable);
        for (asset, _) in removed.iter().enumerate().filter(|(_, removed)| **removed) {
            self.movable[asset] = false;
            self.held[removed.len()] += self.held[asset];
            self.held[asset] = 0.0;
        }
    }
}

impl Portfolio {
    /// Convert an agent's action to orders for the row in which they are due.
    #[inline(always)]
    pub(super) fn decide<M: Machine>(
        &mut self,
        machine: M,
        agent: usize,
        action: &[f64],
        scratch: &mut Scratch,
    ) {
        if matches!(self.settings.action, ActionMode::Orders) {
            return self.take_orders(agent, action, scratch);
        }
        let (row, delay) = (self.row(), self.delay());
        let Scratch { workspace, target, universe, orders, .. } = scratch;
        let account = &mut self.episode.accounts[agent];
        let assets = self.panel.width().assets;
        let constraints = &self.settings.agents[agent].constraints;
        let workspace = fitting(workspace, assets, constraints.sector_caps.len());
        let (movable, all_movable) = (self.panel.movable(row), self.panel.all_movable(row));
        let is_tilt = matches!(self.settings.action, ActionMode::Tilts(_));
        let removed = &self.episode.removed;
        // Holdings matter to the projection only if a constraint or an untradable asset couples them
        // to the target.
        let is_free = all_movable && removed.is_empty() && !constraints.needs_held();
        if is_free && !is_tilt {
            universe.held.resize(assets + 1, 0.0);
        } else {
            universe.held.clear();
            universe.held.extend(account.weights(&self.panel));
        }
        let target = match self.settings.action {
            ActionMode::Weights => action,
            ActionMode::Tilts(size) => {
                tilted(&universe.held, action, size, target);
                target
            }
            ActionMode::Orders => unreachable!("orders are taken as they are"),
        };
        let orders = if delay == 0 {
            let stride = account.units.len();
            &mut orders[agent * stride..][..stride]
        } else {
            let due = account.due(row + 1 + delay);
            &mut account.orders[due]
        };
        let is_met = is_free && account.is_simplex && simplex::meet(machine, target, orders);
        let allowed = &mut orders[..=assets];
        let projection = if is_met {
            // The simplex projection is exact.
            Projection::Exact
        } else if removed.is_empty() {
            constraints.project(target, &universe.held, movable, workspace, allowed)
        } else {
            universe.cut(movable, removed);
            let Universe { held, movable } = &*universe;
            constraints.project(target, held, movable, workspace, allowed)
        };
        account.step_report.compromise = projection.bits();
        if let Some(log) = &mut self.log {
            log.note_ordered(agent, allowed);
        }
        if !all_movable {
            for (asset, order) in allowed.iter_mut().enumerate().take(assets) {
                let is_removed = removed.get(asset).copied().unwrap_or(false);
                *order = if movable[asset] || is_removed { *order } else { f64::NAN };
            }
        }
        // Cash is the remainder, not an order.
        orders[assets..].fill(f64::NAN);
        if self.settings.sizing == Sizing::Decision {
            self.size(agent, scratch);
        }
    }
}

/// Projection workspace, reallocated only for portfolios of another size.
fn fitting(
    cached: &mut Option<(usize, usize, Workspace)>,
    assets: usize,
    sectors: usize,
) -> &mut Workspace {
    let fits = cached.as_ref().is_some_and(|(a, s, _)| (*a, *s) == (assets, sectors));
    if !fits {
        *cached = None;
    }
    &mut cached.get_or_insert_with(|| (assets, sectors, Workspace::new(assets, sectors))).2
}

/// Held weights tilted by the choice for each asset; cash takes the difference.
fn tilted(held: &[f64], choices: &[f64], size: f64, target: &mut Vec<f64>) {
    target.clear();
    target.extend(held.iter().zip(choices).map(|(weight, choice)| weight + size * (choice - 1.0)));
    let cash = 1.0 - target.iter().sum::<f64>();
    target.push(cash);
}
