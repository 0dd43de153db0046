//! Costs settled asset by asset: rates that differ between assets, and whole lots.

use super::{Buffers, Execution, Plan};
use crate::portfolio::account::AgentAccount;
use crate::portfolio::costs::{Costs, Paid};
use crate::portfolio::lanes::{Machine, Plain};

impl<M: Machine> Execution<'_, M> {
    /// Cut requested changes to the participation cap, and compute the cost rate of each asset from
    /// its own rates.
    #[inline(never)]
    pub(super) fn set_asset_rates(&self, accounts: &mut [AgentAccount], buffers: &mut Buffers) {
        let costs = &self.settings.costs;
        self.set_demands(buffers);
        if let Some(participation) = self.settings.participation {
            self.cut_to_volume(participation, accounts, buffers);
        }
        let factors = self.panel.impacts(self.row);
        for (asset, factor) in factors.iter().enumerate() {
            let (coefficient, size) = (costs.impact.of(asset), buffers.rates[asset]);
            buffers.impacts[asset] = impact_rate(coefficient, size, *factor);
            buffers.rates[asset] = costs.proportional.of(asset)
                + costs.half_spread.of(asset)
                + costs.per_share.of(asset) * self.inverse[asset]
                + buffers.impacts[asset];
        }
    }

    /// Settle the fills in cash and units, with the costs of each asset.
    #[inline(never)]
    pub(super) fn settle_by_asset(
        &self,
        account: &mut AgentAccount,
        changes: &[f64],
        impacts: &[f64],
        plan: &Plan,
    ) {
        let costs = &self.settings.costs;
        let (mut traded, mut bought, mut paid) = (0.0, 0.0, Paid::default());
        for (asset, change) in changes.iter().enumerate().filter(|(_, change)| **change != 0.0) {
            let value = (change * self.prices[asset]).abs();
            account.units[asset] += change;
            traded += value;
            bought += change * self.prices[asset];
            paid.proportional += value * costs.proportional.of(asset);
            paid.spread += value * costs.half_spread.of(asset);
            paid.per_share += change.abs() * costs.per_share.of(asset);
            paid.impact += value * impacts[asset];
            paid.fixed += costs.fixed;
        }
        account.cash -= bought + paid.total();
        account.step_report.paid = account.step_report.paid.and(&paid);
        account.step_report.traded += traded;
        let wanted = plan.reduced + plan.increases;
        account.step_report.refused += plan.refused + (wanted - traded).max(0.0);
        if plan.value > 0.0 {
            account.step_report.turnover += traded / plan.value;
        }
    }
}

/// Temporary impact as a share of the value.
fn impact_rate(coefficient: f64, size: f64, factor: f64) -> f64 {
    // Without volume the factor overflows to infinity, and zero times infinity is NaN.
    if coefficient == 0.0 {
        return 0.0;
    }
    let [coefficient, size, factor] = [coefficient, size, factor].map(|number| Plain.all(number));
    Costs::impact_rates(Plain, coefficient, size, factor).to_array()[0]
}
