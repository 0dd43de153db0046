//! What a unit of value costs in each asset, and how much of it there is to trade.

use super::{Execution, Room};
use crate::portfolio::lanes::{Lanes, Machine, lanes_mut};
use crate::portfolio::trader::Trader;

impl<M: Machine> Execution<'_, M> {
    /// Cuts wishes to the volume there is, and prices what a unit of value costs in each asset.
    #[inline(always)]
    pub(super) fn set_rates(&self, traders: &mut [Trader], room: &mut Room) {
        let (costs, machine) = (&self.settings.costs, self.machine);
        let base = costs.base_rate();
        if self.settings.participation.is_none() && costs.impact == 0.0 {
            return room.rates.fill(base);
        }
        self.set_demands(room);
        if let Some(participation) = self.settings.participation {
            self.cut_to_volume(participation, traders, room);
        }
        // Where nothing trades, no share of the worst impact is none.
        if costs.impact == 0.0 {
            return room.rates.fill(base);
        }
        let impacts = machine.lanes(self.panel.impacts(self.row));
        for (rates, impacts) in lanes_mut(&mut room.rates).iter_mut().zip(impacts) {
            let sizes = machine.four(*rates);
            let impacts = costs.impact_rates(machine, sizes, impacts);
            *rates = (machine.all(base) + impacts).to_array();
        }
    }

    /// Sums up what all want of each asset, where rates will stand.
    #[inline(always)]
    fn set_demands(&self, room: &mut Room) {
        let machine = self.machine;
        let (first, others) = room.changes.split_at(self.prices.len());
        for (demands, changes) in lanes_mut(&mut room.rates).iter_mut().zip(machine.lanes(first)) {
            *demands = changes.abs().to_array();
        }
        for changes in others.chunks_exact(self.prices.len()) {
            let demands = lanes_mut(&mut room.rates).iter_mut();
            for (demands, changes) in demands.zip(machine.lanes(changes)) {
                *demands = (machine.four(*demands) + changes.abs()).to_array();
            }
        }
    }

    /// Everybody is given the same share of what they want where all want more than there is.
    fn cut_to_volume(&self, participation: f64, traders: &mut [Trader], room: &mut Room) {
        let stride = self.prices.len();
        let volumes = self.panel.volumes(self.row);
        for (asset, (demand, volume)) in room.rates.iter_mut().zip(volumes).enumerate() {
            let most = participation * volume;
            if *demand <= most {
                continue;
            }
            let share = most / *demand;
            *demand = most;
            for (agent, trader) in traders.iter_mut().enumerate() {
                let change = &mut room.changes[agent * stride + asset];
                if let Some(carried) = trader.carried.get_mut(asset) {
                    *carried += *change * (1.0 - share);
                }
                *change *= share;
            }
        }
    }
}
