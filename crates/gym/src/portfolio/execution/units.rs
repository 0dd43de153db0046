//! Execution of orders in units.

use super::{Execution, Request};
use crate::portfolio::account::closing_part;
use crate::portfolio::lanes::Machine;
use crate::portfolio::settings::AccountKind;

impl<M: Machine> Execution<'_, M> {
    /// Take the ordered units as the requested change, where the asset can be traded.
    #[inline(never)]
    pub(super) fn request_units(&self, request: &Request<'_>, changes: &mut [f64]) {
        let orders = request.orders.iter().zip(self.gates);
        for (change, (order, gate)) in changes.iter_mut().zip(orders) {
            *change = if order.is_nan() || *gate == 0.0 { 0.0 } else { *order };
        }
    }

    /// Ordered change of units of an asset that cannot be filled now.
    pub(super) fn ordered(&self, asset: usize, request: &Request<'_>) -> f64 {
        if !self.settings.is_in_units() {
            return self.target(asset, request) - request.units[asset];
        }
        // Orders in delisted assets are dropped.
        if self.panel.listed(self.row)[asset] { request.orders[asset] } else { 0.0 }
    }

    /// Close positions in assets removed from the universe, whatever was ordered before.
    #[cold]
    pub(super) fn reduce_only(&self, units: &[f64], changes: &mut [f64]) {
        for ((change, units), removed) in changes.iter_mut().zip(units).zip(self.removed) {
            if *removed {
                *change = closing_part(*change, *units);
            }
        }
    }

    /// Limit sales of a cash account to its holdings, whatever was ordered before.
    #[inline(never)]
    pub(super) fn keep_from_shorts(&self, agent: usize, units: &[f64], changes: &mut [f64]) {
        if self.settings.agents[agent].account != AccountKind::Cash {
            return;
        }
        for (change, units) in changes.iter_mut().zip(units) {
            if *change < -units {
                *change = -units;
            }
        }
    }
}
