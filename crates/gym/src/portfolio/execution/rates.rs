//! Cost rate and tradable volume of each asset.

use super::{Buffers, Execution};
use crate::portfolio::account::AgentAccount;
use crate::portfolio::costs::Costs;
use crate::portfolio::lanes::{Lanes, Machine, lanes_mut};

impl<M: Machine> Execution<'_, M> {
    /// Cut requested changes to the participation cap, and compute the cost rate of each asset.
    #[inline(always)]
    pub(super) fn set_rates(&self, accounts: &mut [AgentAccount], buffers: &mut Buffers) {
        let (costs, machine) = (&self.settings.costs, self.machine);
        let Some(base) = self.base_rate else { return self.set_asset_rates(accounts, buffers) };
        let impact = costs.impact.of(0);
        if self.settings.participation.is_none() && impact == 0.0 {
            return buffers.rates.fill(base);
        }
        self.set_demands(buffers);
        if let Some(participation) = self.settings.participation {
            self.cut_to_volume(participation, accounts, buffers);
        }
        // Without volume the impact overflows to infinity, and zero times infinity is NaN.
        if impact == 0.0 {
            return buffers.rates.fill(base);
        }
        let impacts = machine.lanes(self.panel.impacts(self.row));
        for (rates, impacts) in lanes_mut(&mut buffers.rates).iter_mut().zip(impacts) {
            let sizes = machine.four(*rates);
            let impacts = Costs::impact_rates(machine, machine.all(impact), sizes, impacts);
            *rates = (machine.all(base) + impacts).to_array();
        }
    }

    /// Sum the requested changes of all agents per asset, in place of the rates.
    #[inline(always)]
    pub(super) fn set_demands(&self, buffers: &mut Buffers) {
        let machine = self.machine;
        let (first, others) = buffers.changes.split_at(self.prices.len());
        for (demands, changes) in lanes_mut(&mut buffers.rates).iter_mut().zip(machine.lanes(first))
        {
            *demands = changes.abs().to_array();
        }
        for changes in others.chunks_exact(self.prices.len()) {
            let demands = lanes_mut(&mut buffers.rates).iter_mut();
            for (demands, changes) in demands.zip(machine.lanes(changes)) {
                *demands = (machine.four(*demands) + changes.abs()).to_array();
            }
        }
    }

    /// Scale the requests of all agents alike where they exceed the volume cap.
    pub(super) fn cut_to_volume(
        &self,
        participation: f64,
        accounts: &mut [AgentAccount],
        buffers: &mut Buffers,
    ) {
        let stride = self.prices.len();
        let volumes = self.panel.volumes(self.row);
        for (asset, (demand, volume)) in buffers.rates.iter_mut().zip(volumes).enumerate() {
            let most = participation * volume;
            if *demand <= most {
                continue;
            }
            let share = most / *demand;
            *demand = most;
            for (agent, account) in accounts.iter_mut().enumerate() {
                let change = &mut buffers.changes[agent * stride + asset];
                let filled = self.filled_part(asset, *change, share);
                if let Some(carried) = account.carried.get_mut(asset) {
                    *carried += match self.settings.lot_size {
                        None => *change * (1.0 - share),
                        Some(_) => *change - filled,
                    };
                }
                *change = filled;
            }
        }
    }
}
