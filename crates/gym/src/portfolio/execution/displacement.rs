//! Permanent and transient impact: own trading displaces the prices of own later fills.
//!
//! Both are linear in the value traded, permanent impact as in Almgren and Chriss, transient impact
//! with exponential decay as in Obizhaeva and Wang. A purchase of value v fills at the displacement
//! before it plus half of its own, so that a sum of costs is half of v'Gv with a positive
//! semidefinite kernel G: no sequence of trades earns money by impact, whatever prices do.

use serde::{Deserialize, Serialize};

use super::{Buffers, Execution};
use crate::portfolio::account::AgentAccount;
use crate::portfolio::costs::{AssetRate, Costs, Paid};
use crate::portfolio::lanes::Machine;

/// Displacement of the fill prices of each asset by own trading, as a share of the price; shared by
/// all agents, and empty without permanent and transient impact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::portfolio) struct Displacement {
    permanent: Vec<f64>,
    transient: Vec<f64>,
}

impl Displacement {
    /// No displacement yet of assets whose rows have this stride.
    pub(in crate::portfolio) fn new(costs: &Costs, stride: usize) -> Self {
        let row = |rate: &AssetRate| vec![0.0; if rate.is_zero() { 0 } else { stride }];
        Self { permanent: row(&costs.permanent_impact), transient: row(&costs.transient_impact) }
    }

    /// Return true if trading displaces no prices.
    #[inline(always)]
    pub(super) fn is_none(&self) -> bool {
        self.permanent.is_empty() && self.transient.is_empty()
    }

    /// Begin an episode.
    pub(in crate::portfolio) fn clear(&mut self) {
        self.permanent.fill(0.0);
        self.transient.fill(0.0);
    }

    /// Decay over one row.
    #[inline(always)]
    pub(in crate::portfolio) fn decay(&mut self, half_life: f64) {
        if self.transient.is_empty() {
            return;
        }
        let kept = libm::exp2(-1.0 / half_life);
        self.transient.iter_mut().for_each(|share| *share *= kept);
    }

    /// Return true if the state is valid, and has the shape of another.
    pub(in crate::portfolio) fn is_valid(&self, like: &Self) -> bool {
        let fits = |row: &[f64], like: &[f64]| {
            row.len() == like.len() && row.iter().all(|share| share.is_finite())
        };
        fits(&self.permanent, &like.permanent) && fits(&self.transient, &like.transient)
    }
}

/// Cost of trading at a displaced price, as a share of the value: of a purchase at the displacement
/// before it and half of what all purchases of the row add, or of a sale with the signs reversed.
fn displaced(displacement: &[f64], rate: &AssetRate, asset: usize, flow: f64, sign: f64) -> f64 {
    let before = displacement.get(asset).copied().unwrap_or(0.0);
    before * sign + 0.5 * rate.of(asset) * flow
}

impl<M: Machine> Execution<'_, M> {
    /// Sum the requested purchases and sales of all agents per asset, in currency.
    ///
    /// Each side pays for its own flow alone: otherwise an order that is not filled could improve
    /// the price of another agent.
    #[inline(never)]
    pub(super) fn set_flows(&self, buffers: &mut Buffers) {
        let Buffers { changes, bought, sold, .. } = buffers;
        bought.fill(0.0);
        sold.fill(0.0);
        for changes in changes.chunks_exact(self.prices.len()) {
            for (asset, change) in changes.iter().enumerate() {
                let value = change * self.prices[asset];
                bought[asset] += value.max(0.0);
                sold[asset] += (-value).max(0.0);
            }
        }
    }

    /// Costs of an agent by displacement in an asset, as shares of the value: permanent, transient.
    fn displaced_rates(
        &self,
        asset: usize,
        change: f64,
        displacement: &Displacement,
        (bought, sold): (&[f64], &[f64]),
    ) -> (f64, f64) {
        let costs = &self.settings.costs;
        let is_purchase = change > 0.0;
        let flow = if is_purchase { bought[asset] } else { sold[asset] };
        let sign = if is_purchase { 1.0 } else { -1.0 };
        (
            displaced(&displacement.permanent, &costs.permanent_impact, asset, flow, sign),
            displaced(&displacement.transient, &costs.transient_impact, asset, flow, sign),
        )
    }

    /// Compute the cost rates of an agent: those of all, and displacement on its side.
    #[inline(never)]
    pub(super) fn set_own_rates(
        &self,
        agent: usize,
        displacement: &Displacement,
        buffers: &mut Buffers,
    ) {
        let Buffers { changes, rates, bought, sold, own_rates, .. } = buffers;
        let stride = self.prices.len();
        for (asset, change) in changes[agent * stride..][..stride].iter().enumerate() {
            let (permanent, transient) =
                self.displaced_rates(asset, *change, displacement, (bought, sold));
            own_rates[asset] = rates[asset] + permanent + transient;
        }
    }

    /// Charge an agent for trading at displaced prices.
    #[inline(never)]
    pub(super) fn pay_displacement(
        &self,
        account: &mut AgentAccount,
        changes: &[f64],
        displacement: &Displacement,
        flows: (&[f64], &[f64]),
    ) {
        let mut paid = Paid::default();
        for (asset, change) in changes.iter().enumerate().filter(|(_, change)| **change != 0.0) {
            let value = (change * self.prices[asset]).abs();
            let (permanent, transient) = self.displaced_rates(asset, *change, displacement, flows);
            paid.permanent_impact += value * permanent;
            paid.transient_impact += value * transient;
        }
        account.cash -= paid.total();
        account.step_report.paid = account.step_report.paid.and(&paid);
    }

    /// Displace prices by what all agents traded.
    #[inline(never)]
    pub(super) fn displace(&self, displacement: &mut Displacement, buffers: &Buffers) {
        let costs = &self.settings.costs;
        let moves = [
            (&mut displacement.permanent, &costs.permanent_impact),
            (&mut displacement.transient, &costs.transient_impact),
        ];
        for (shares, rate) in moves {
            for changes in buffers.changes.chunks_exact(self.prices.len()) {
                for (asset, share) in shares.iter_mut().enumerate() {
                    *share += rate.of(asset) * changes[asset] * self.prices[asset];
                }
            }
        }
    }
}
