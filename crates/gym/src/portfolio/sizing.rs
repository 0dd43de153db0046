//! Order sizing: units to trade for target weights at the last known prices.

use thiserror::Error;

use super::account::closing_part;
use super::execution::{NO_WEIGHT, whole_lots};
use super::lanes::Plain;
use super::{Portfolio, SCRATCH, Scratch};
use crate::task::{ActionError, Task};

/// Error of order sizing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OrdersError {
    /// Weights become units only at the fill.
    #[error(
        "expected orders in units, got sizing \"fill\", which knows them only at the price of \
         the fill: make the env with Execution(sizing=\"decision\")"
    )]
    Unsized,
    /// Action of the wrong length.
    #[error("expected an action of {expected} numbers, got {got}")]
    Length {
        /// Length of an action.
        expected: usize,
        /// Actual length.
        got: usize,
    },
    /// Invalid action.
    #[error(transparent)]
    Action(#[from] ActionError),
}

impl Portfolio {
    /// Orders in units for an action at current prices, agent by agent: NaN where there is no
    /// order. The state is unchanged.
    ///
    /// # Errors
    /// If weights become units only at the fill, or the action is invalid.
    pub fn orders(&self, action: &[f64]) -> Result<Vec<f64>, OrdersError> {
        let (expected, got) = (self.action_len(), action.len());
        if !self.settings.is_in_units() {
            return Err(OrdersError::Unsized);
        }
        if expected != got {
            return Err(OrdersError::Length { expected, got });
        }
        self.check_choice(action)?;
        // Runs the code of a step on a copy, which is dropped.
        let mut copy = Self { log: None, ..self.clone() };
        Ok(SCRATCH.with_borrow_mut(|scratch| copy.decide_all(action, scratch)))
    }

    fn decide_all(&mut self, action: &[f64], scratch: &mut Scratch) -> Vec<f64> {
        let (assets, width) = (self.panel.width().assets, self.choice_len());
        let mut units = Vec::with_capacity(self.agents() * assets);
        scratch.orders.resize(self.agents() * self.panel.stride(), 0.0);
        for (agent, choice) in action.chunks_exact(width).enumerate() {
            if self.is_alive(agent) {
                self.decide(Plain, agent, choice, scratch);
                units.extend_from_slice(&self.fresh(agent, scratch)[..assets]);
            } else {
                units.extend(std::iter::repeat_n(f64::NAN, assets));
            }
        }
        units
    }

    /// The latest orders, to be read or changed: stored with the account if they are delayed.
    fn fresh<'a>(&'a mut self, agent: usize, scratch: &'a mut Scratch) -> &'a mut [f64] {
        let (row, delay) = (self.row(), self.delay());
        let account = &mut self.episode.accounts[agent];
        if delay == 0 {
            let stride = account.units.len();
            return &mut scratch.orders[agent * stride..][..stride];
        }
        let due = account.due(row + 1 + delay);
        &mut account.orders[due]
    }

    /// Convert the latest target weights to units to trade.
    pub(super) fn size(&mut self, agent: usize, scratch: &mut Scratch) {
        for asset in 0..self.panel.width().assets {
            let weight = self.fresh(agent, scratch)[asset];
            let units = self.units_for(agent, asset, weight);
            self.fresh(agent, scratch)[asset] = units;
        }
    }

    /// Accept orders in units as they are, except for removed assets: of those, at most the closing
    /// trade.
    pub(super) fn take_orders(&mut self, agent: usize, units: &[f64], scratch: &mut Scratch) {
        let fresh = self.fresh(agent, scratch);
        fresh[..units.len()].copy_from_slice(units);
        fresh[units.len()..].fill(f64::NAN);
        for asset in 0..self.episode.removed.len() {
            if self.episode.removed[asset] {
                let sale = self.units_for(agent, asset, 0.0);
                let order = &mut self.fresh(agent, scratch)[asset];
                *order = order.clamp(sale.min(0.0), sale.max(0.0));
            }
        }
    }

    /// Units to trade for a weight at the last mark, less pending ones. If those are enough there
    /// is no order, which would replace them.
    fn units_for(&self, agent: usize, asset: usize, weight: f64) -> f64 {
        if weight.is_nan() {
            return weight;
        }
        let (row, account) = (self.row(), &self.episode.accounts[agent]);
        let mark = self.panel.marks(row)[asset];
        // Closing a position is never below the smallest trade.
        let is_closing = weight.abs() <= NO_WEIGHT;
        let target = if is_closing { 0.0 } else { weight * account.equity.max(0.0) / mark };
        let coming = account.on_its_way(asset, row + 1..row + 1 + self.delay());
        let mut units = target - account.units[asset] - coming;
        if self.episode.removed.get(asset).copied().unwrap_or(false) {
            units = closing_part(units, account.units[asset]);
        }
        if let Some(lots) = &self.settings.lot_size {
            units = whole_lots(units, account.units[asset] + coming, lots.of(asset), false);
        }
        let value = (units * mark).abs();
        let is_order = is_closing || value >= self.settings.smallest_share() * account.equity;
        if coming != 0.0 && (!is_order || value <= NO_WEIGHT * account.equity) {
            return f64::NAN;
        }
        if is_order { units } else { 0.0 }
    }
}
