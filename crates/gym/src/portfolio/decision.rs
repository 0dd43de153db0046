//! How what an agent wants becomes orders: the nearest weights that its mandate allows.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use super::lanes::Machine;
use super::projection::Workspace;
use super::{ActionMode, Desk, Portfolio, Sizing, simplex};

/// What is held and can be traded of the assets that the user has left in.
#[derive(Debug, Default)]
pub(super) struct Universe {
    held: Vec<f64>,
    movable: Vec<bool>,
}

impl Universe {
    /// What was taken out is to be sold, whatever anybody wants: it counts as cash that cannot
    /// become anything else.
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
    /// What an agent decided becomes orders for the row in which they are due.
    #[inline(always)]
    pub(super) fn decide<M: Machine>(
        &mut self,
        machine: M,
        agent: usize,
        action: &[f64],
        desk: &mut Desk,
    ) {
        if matches!(self.settings.action, ActionMode::Orders) {
            return self.take_orders(agent, action, desk);
        }
        let (row, delay) = (self.row(), self.delay());
        let Desk { workspace, wanted, universe, orders, .. } = desk;
        let trader = &mut self.episode.traders[agent];
        let assets = self.panel.width().assets;
        let constraints = &self.settings.agents[agent].constraints;
        let workspace = fitting(workspace, assets, constraints.sector_caps.len());
        let (movable, all_movable) = (self.panel.movable(row), self.panel.all_movable(row));
        let is_tilt = matches!(self.settings.action, ActionMode::Tilts(_));
        let removed = &self.episode.removed;
        // What is held matters to what may be wanted only if something binds the two.
        let is_free = all_movable && removed.is_empty() && constraints.turnover.is_none();
        if is_free && !is_tilt {
            universe.held.resize(assets + 1, 0.0);
        } else {
            universe.held.clear();
            universe.held.extend(trader.weights(&self.panel));
        }
        let wanted = match self.settings.action {
            ActionMode::Weights => action,
            ActionMode::Tilts(size) => {
                tilted(&universe.held, action, size, wanted);
                wanted
            }
            ActionMode::Orders => unreachable!("orders are taken as they are"),
        };
        let orders = if delay == 0 {
            let stride = trader.units.len();
            &mut orders[agent * stride..][..stride]
        } else {
            let due = trader.due(row + 1 + delay);
            &mut trader.orders[due]
        };
        let is_met = is_free && trader.is_simplex && simplex::meet(machine, wanted, orders);
        let allowed = &mut orders[..=assets];
        if is_met {
            // Nothing else is asked.
        } else if removed.is_empty() {
            constraints.project(wanted, &universe.held, movable, workspace, allowed);
        } else {
            universe.cut(movable, removed);
            let Universe { held, movable } = &*universe;
            constraints.project(wanted, held, movable, workspace, allowed);
        }
        if !all_movable {
            for (asset, order) in allowed.iter_mut().enumerate().take(assets) {
                let is_removed = removed.get(asset).copied().unwrap_or(false);
                *order = if movable[asset] || is_removed { *order } else { f64::NAN };
            }
        }
        // Cash follows from the rest, and is no order.
        orders[assets..].fill(f64::NAN);
        if self.settings.sizing == Sizing::Decision {
            self.size(agent, desk);
        }
    }
}

/// Memory to project in, made anew only when portfolios of another size come along.
fn fitting(
    kept: &mut Option<(usize, usize, Workspace)>,
    assets: usize,
    sectors: usize,
) -> &mut Workspace {
    let fits = kept.as_ref().is_some_and(|(a, s, _)| (*a, *s) == (assets, sectors));
    if !fits {
        *kept = None;
    }
    &mut kept.get_or_insert_with(|| (assets, sectors, Workspace::new(assets, sectors))).2
}

/// What is held, with each asset tilted by what was chosen for it; cash pays.
fn tilted(held: &[f64], choices: &[f64], size: f64, wanted: &mut Vec<f64>) {
    wanted.clear();
    wanted.extend(held.iter().zip(choices).map(|(weight, choice)| weight + size * (choice - 1.0)));
    let cash = 1.0 - wanted.iter().sum::<f64>();
    wanted.push(cash);
}
