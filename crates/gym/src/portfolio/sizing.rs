//! Orders in units: what weights come to at the last known prices, as brokers have to be told.

use thiserror::Error;

use super::execution::NO_WEIGHT;
use super::lanes::Plain;
use super::trader::closing_part;
use super::{DESK, Desk, Portfolio};
use crate::task::{ActionError, Task};

/// Why nobody can say what to order.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OrdersError {
    /// Weights become units only where they fill.
    #[error(
        "orders in units were wanted, found sizing \"fill\", which knows them only at the price of \
         the fill: make the env with Execution(sizing=\"decision\")"
    )]
    Unsized,
    /// The action is of another length.
    #[error("an action of {wanted} numbers was wanted, found {found}")]
    Length {
        /// Numbers in an action.
        wanted: usize,
        /// Numbers that were found.
        found: usize,
    },
    /// The action is none.
    #[error(transparent)]
    Action(#[from] ActionError),
}

impl Portfolio {
    /// The units of each asset that an action means now, agent by agent: NaN where it is no order.
    /// Nothing moves.
    ///
    /// # Errors
    /// When weights become units only at the fill, or the action is none.
    pub fn orders(&self, action: &[f64]) -> Result<Vec<f64>, OrdersError> {
        let (wanted, found) = (self.action_len(), action.len());
        if !self.settings.is_in_units() {
            return Err(OrdersError::Unsized);
        }
        if wanted != found {
            return Err(OrdersError::Length { wanted, found });
        }
        self.check_choice(action)?;
        // A copy takes the same way as a step does, and is thrown away.
        let mut copy = Self { log: None, ..self.clone() };
        Ok(DESK.with_borrow_mut(|desk| copy.decide_all(action, desk)))
    }

    fn decide_all(&mut self, action: &[f64], desk: &mut Desk) -> Vec<f64> {
        let (assets, width) = (self.panel.width().assets, self.choice_len());
        let mut units = Vec::with_capacity(self.agents() * assets);
        desk.orders.resize(self.agents() * self.panel.stride(), 0.0);
        for (agent, choice) in action.chunks_exact(width).enumerate() {
            if self.is_alive(agent) {
                self.decide(Plain, agent, choice, desk);
                units.extend_from_slice(&self.fresh(agent, desk)[..assets]);
            } else {
                units.extend(std::iter::repeat_n(f64::NAN, assets));
            }
        }
        units
    }

    /// What was ordered last, to be read or changed: with the account if it has to wait.
    fn fresh<'a>(&'a mut self, agent: usize, desk: &'a mut Desk) -> &'a mut [f64] {
        let (row, delay) = (self.row(), self.delay());
        let trader = &mut self.episode.traders[agent];
        if delay == 0 {
            let stride = trader.units.len();
            return &mut desk.orders[agent * stride..][..stride];
        }
        let due = trader.due(row + 1 + delay);
        &mut trader.orders[due]
    }

    /// Turns the weights that were just ordered into units to trade.
    pub(super) fn size(&mut self, agent: usize, desk: &mut Desk) {
        for asset in 0..self.panel.width().assets {
            let weight = self.fresh(agent, desk)[asset];
            let units = self.units_for(agent, asset, weight);
            self.fresh(agent, desk)[asset] = units;
        }
    }

    /// Takes units to trade as they are, but for assets that were taken out: of those, no more than
    /// what closes the position.
    pub(super) fn take_orders(&mut self, agent: usize, units: &[f64], desk: &mut Desk) {
        let fresh = self.fresh(agent, desk);
        fresh[..units.len()].copy_from_slice(units);
        fresh[units.len()..].fill(f64::NAN);
        for asset in 0..self.episode.removed.len() {
            if self.episode.removed[asset] {
                let sale = self.units_for(agent, asset, 0.0);
                let order = &mut self.fresh(agent, desk)[asset];
                *order = order.clamp(sale.min(0.0), sale.max(0.0));
            }
        }
    }

    /// The units to trade for a weight at the last mark, beside those that are on their way. Where
    /// those are enough there is no order, which would take their place.
    fn units_for(&self, agent: usize, asset: usize, weight: f64) -> f64 {
        if weight.is_nan() {
            return weight;
        }
        let (row, trader) = (self.row(), &self.episode.traders[agent]);
        let mark = self.panel.marks(row)[asset];
        // What closes a position is never too small.
        let is_closing = weight.abs() <= NO_WEIGHT;
        let target = if is_closing { 0.0 } else { weight * trader.equity.max(0.0) / mark };
        let coming = trader.on_its_way(asset, row + 1..row + 1 + self.delay());
        let mut units = target - trader.units[asset] - coming;
        if self.episode.removed.get(asset).copied().unwrap_or(false) {
            units = closing_part(units, trader.units[asset]);
        }
        let value = (units * mark).abs();
        let is_order = is_closing || value >= self.settings.smallest_share() * trader.equity;
        if coming != 0.0 && (!is_order || value <= NO_WEIGHT * trader.equity) {
            return f64::NAN;
        }
        if is_order { units } else { 0.0 }
    }
}
