//! Orders that are units to trade, where they are due.

use super::{Execution, Wish};
use crate::portfolio::lanes::Machine;
use crate::portfolio::settings::AccountKind;
use crate::portfolio::trader::closing_part;

impl<M: Machine> Execution<'_, M> {
    /// What was ordered is what is wanted, where anything can be traded.
    #[inline(never)]
    pub(super) fn wish_units(&self, wish: &Wish<'_>, changes: &mut [f64]) {
        let orders = wish.orders.iter().zip(self.gates);
        for (change, (order, gate)) in changes.iter_mut().zip(orders) {
            *change = if order.is_nan() || *gate == 0.0 { 0.0 } else { *order };
        }
    }

    /// What an order would trade that cannot fill now.
    pub(super) fn ordered(&self, asset: usize, wish: &Wish<'_>) -> f64 {
        if !self.settings.is_in_units() {
            return self.target(asset, wish) - wish.units[asset];
        }
        // Orders in what is gone are gone too: a sale would be one of what nobody has.
        if self.panel.listed(self.row)[asset] { wish.orders[asset] } else { 0.0 }
    }

    /// Assets that were taken out of the universe are only sold, or bought back if sold short,
    /// whatever was ordered before they were.
    #[cold]
    pub(super) fn reduce_only(&self, units: &[f64], changes: &mut [f64]) {
        for ((change, units), removed) in changes.iter_mut().zip(units).zip(self.removed) {
            if *removed {
                *change = closing_part(*change, *units);
            }
        }
    }

    /// Without a loan nobody sells what is not there, whatever was ordered when it was expected.
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
