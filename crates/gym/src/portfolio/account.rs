//! Account of one agent: positions, cash, pending orders and costs.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::NOTHING;
use super::costs::{AssetRate, Costs, Paid};
use super::lanes::{LANES, Lanes, Machine, stride, total};
use super::panel::Panel;
use super::settings::{AccountKind, AgentSettings, PortfolioSettings};
use crate::reward_memory::RewardMemory;

/// Account of an agent during an episode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct AgentAccount {
    assets: usize,
    /// Number of order rows.
    slots: usize,
    pub(super) cash: f64,
    /// Units per asset, in lanes, as all that follows.
    pub(super) units: Vec<f64>,
    /// Equity at the last mark.
    pub(super) equity: f64,
    /// Gross and net exposure at the last mark.
    pub(super) gross: f64,
    pub(super) net: f64,
    /// Row of the last mark; constant once ruined.
    pub(super) marked: usize,
    /// Delayed orders: weights, or units to trade, due in later rows, a row for each; NaN where
    /// there is no order. Empty if orders fill in the next row.
    pub(super) orders: Vec<f64>,
    /// Carried units of earlier orders; empty if unfilled orders are dropped.
    pub(super) carried: Vec<f64>,
    /// True if a margin call is in force: only reductions until equity suffices.
    pub(super) is_called: bool,
    /// True if the agent still trades.
    pub(super) is_alive: bool,
    /// True if its mandate only asks for weights that are not negative and sum to one; follows from
    /// the settings.
    #[serde(skip)]
    pub(super) is_simplex: bool,
    pub(super) memory: RewardMemory,
    pub(super) step_report: StepReport,
}

/// Closing part of a change: towards zero, and not beyond.
pub(super) fn closing_part(change: f64, held: f64) -> f64 {
    change.clamp((-held).min(0.0), (-held).max(0.0))
}

/// Report of one step of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StepReport {
    pub(super) reward: f64,
    pub(super) profit: f64,
    /// Turnover: traded value over equity.
    pub(super) turnover: f64,
    /// Traded value in currency.
    pub(super) traded: f64,
    /// Value of due orders refused for lack of cash or by the leverage limit. Used by the log of
    /// the step alone, and so not part of the state.
    #[serde(skip)]
    pub(super) refused: f64,
    /// Waived costs: a cash account had nothing left to pay them with.
    #[serde(skip)]
    pub(super) waived: f64,
    /// Value of positions that became cash because their assets were delisted.
    pub(super) delisted: f64,
    /// Dividends received, less those paid on short positions.
    pub(super) dividends: f64,
    /// Constraints that the projection of the decision relaxed, as bits.
    pub(super) compromise: u8,
    pub(super) paid: Paid,
    /// True if this step ruined it.
    pub(super) is_ruined: bool,
    /// Costs and turnover of rows that are rewarded already.
    rewarded: (f64, f64),
}

impl StepReport {
    /// Costs and turnover since the last call.
    pub(super) fn since_last_row(&mut self) -> (f64, f64) {
        let (cost, turnover) = self.rewarded;
        self.rewarded = (self.paid.total(), self.turnover);
        (self.rewarded.0 - cost, self.rewarded.1 - turnover)
    }
}

impl AgentAccount {
    /// An account before its first episode.
    pub(super) fn new(assets: usize, delay: usize, carries: bool) -> Self {
        Self {
            assets,
            slots: if delay == 0 { 0 } else { delay + 1 },
            units: vec![0.0; stride(assets)],
            orders: vec![f64::NAN; if delay == 0 { 0 } else { stride(assets) * (delay + 1) }],
            carried: vec![0.0; if carries { stride(assets) } else { 0 }],
            ..Self::default()
        }
    }

    /// Begin an episode with cash only.
    pub(super) fn begin(&mut self, settings: &AgentSettings, row: usize) {
        self.marked = row;
        self.cash = settings.initial_cash;
        self.equity = settings.initial_cash;
        (self.gross, self.net) = (0.0, 0.0);
        self.units.fill(0.0);
        self.orders.fill(f64::NAN);
        self.carried.fill(0.0);
        (self.is_called, self.is_alive) = (false, true);
        self.memory = RewardMemory::new(self.equity);
        self.step_report = StepReport::default();
    }

    /// Accrue borrow costs, financing and interest from the previous row until `row`.
    #[inline(always)]
    pub(super) fn accrue(&mut self, panel: &Panel, row: usize, costs: &Costs, kind: AccountKind) {
        let days = panel.days(row);
        let shorts = 0.5 * (self.gross - self.net);
        if shorts > 0.0 {
            let owed = match &costs.borrow {
                AssetRate::All(rate) => shorts * Costs::for_days(*rate, days),
                AssetRate::Each(rates) => self.borrowed(panel, rates, days),
            };
            self.step_report.paid.borrow += self.charge(owed, kind);
        }
        // Proceeds of short sales stay with the lender.
        let own = self.cash - shorts.max(0.0);
        if self.cash < 0.0 {
            let owed = -self.cash * Costs::for_days(costs.financing, days);
            self.step_report.paid.financing += self.charge(owed, kind);
        } else if own > 0.0 && costs.interest > 0.0 {
            let earned = own * Costs::for_days(costs.interest, days);
            self.cash += earned;
            self.step_report.paid.financing -= earned;
        }
    }

    /// Borrow costs of short positions at the last mark, each at the rate of its asset.
    fn borrowed(&self, panel: &Panel, rates: &[f64], days: f64) -> f64 {
        let values = self.owned().iter().zip(panel.marks(self.marked));
        let shorts = values.map(|(units, mark)| (-units * mark).max(0.0));
        shorts.zip(rates).map(|(short, rate)| short * Costs::for_days(*rate, days)).sum()
    }

    /// Convert positions in delisted assets to cash, at their last price less the delisting loss.
    #[inline(always)]
    pub(super) fn settle_delisted(
        &mut self,
        panel: &Panel,
        row: usize,
        settings: &PortfolioSettings,
        kind: AccountKind,
    ) {
        if panel.all_listed(row) {
            return;
        }
        let marks = panel.marks(row - 1);
        let mut lost = 0.0;
        for (asset, listed) in panel.listed(row).iter().enumerate() {
            if *listed {
                continue;
            }
            // A carried sale would sell short once the asset is listed again.
            if let Some(carried) = self.carried.get_mut(asset) {
                *carried = 0.0;
            }
            if settings.is_in_units() {
                self.cancel(asset);
            }
            if self.units[asset] == 0.0 {
                continue;
            }
            let value = self.units[asset] * marks[asset];
            self.cash += value;
            self.units[asset] = 0.0;
            self.step_report.delisted += value.abs();
            lost += self.charge(value.abs() * settings.costs.delisting, kind);
        }
        self.step_report.paid.delisting += lost;
    }

    /// Apply the dividends and splits of a row: positions and pending orders in units are split,
    /// and dividends are paid on the units after the split.
    #[cold]
    pub(super) fn apply_actions(&mut self, panel: &Panel, row: usize, is_in_units: bool) {
        for (_, asset, action) in panel.actions(row) {
            self.units[*asset] *= action.split;
            if let Some(carried) = self.carried.get_mut(*asset) {
                *carried *= action.split;
            }
            if is_in_units {
                let orders = self.orders.chunks_exact_mut(self.units.len());
                orders.for_each(|orders| orders[*asset] *= action.split);
            }
            let dividends = self.units[*asset] * action.dividend;
            self.cash += dividends;
            self.step_report.dividends += dividends;
        }
    }

    /// Mark positions at the last known prices.
    #[inline(always)]
    pub(super) fn mark<M: Machine>(
        &mut self,
        machine: M,
        panel: &Panel,
        row: usize,
        kind: AccountKind,
    ) {
        self.marked = row;
        let (mut nets, mut grosses) = (machine.all(0.0), machine.all(0.0));
        let marks = machine.lanes(panel.marks(row));
        for (units, marks) in machine.lanes(&self.units).zip(marks) {
            let values = units * marks;
            nets = nets + values;
            grosses = grosses + values.abs();
        }
        (self.net, self.gross) = (total(nets), total(grosses));
        self.equity = self.cash + self.net;
        if let AccountKind::Margin { maintenance, .. } = kind {
            // An account at its leverage limit gets no margin call by rounding.
            self.is_called = self.equity < (maintenance - NOTHING) * self.gross;
        }
    }

    /// Cancel all pending orders in an asset: target weights become zero, and units to trade none.
    fn cancel(&mut self, asset: usize) {
        for orders in self.orders.chunks_exact_mut(self.units.len()) {
            if !orders[asset].is_nan() {
                orders[asset] = 0.0;
            }
        }
    }

    /// Pending units of an asset: orders due in `rows`, and carried ones unless the first of those
    /// rows has an order that replaces them.
    pub(super) fn on_its_way(&self, asset: usize, rows: Range<usize>) -> f64 {
        let order = |row| self.orders[self.due(row).start + asset];
        // The next order replaces the carried one.
        let stands = !rows.is_empty() && order(rows.start).is_nan();
        let carried = self.carried.get(asset).filter(|_| stands).copied();
        let delayed = rows.map(order).filter(|order| !order.is_nan());
        delayed.sum::<f64>() + carried.unwrap_or_default()
    }

    /// Cancel all pending orders that would increase the position in an asset, long or short.
    /// Target weights become zero, and pending reductions stay.
    pub(super) fn cancel_increases(&mut self, asset: usize, is_in_units: bool) {
        let held = self.units[asset];
        if let Some(carried) = self.carried.get_mut(asset) {
            *carried = closing_part(*carried, held);
        }
        if !is_in_units {
            return self.cancel(asset);
        }
        for orders in self.orders.chunks_exact_mut(self.units.len()) {
            if orders[asset] * held >= 0.0 {
                orders[asset] = f64::NAN;
            }
        }
    }

    /// Charge an involuntary cost, and return the part paid: a cash account pays no more than it
    /// has.
    fn charge(&mut self, cost: f64, kind: AccountKind) -> f64 {
        let paid = match kind {
            AccountKind::Cash => cost.min(self.cash.max(0.0)),
            AccountKind::Margin { .. } => cost,
        };
        self.step_report.waived += cost - paid;
        self.cash -= paid;
        paid
    }

    /// Range of the stored orders that are due in `row`.
    #[inline]
    pub(super) fn due(&self, row: usize) -> Range<usize> {
        let stride = self.units.len();
        let first = row % self.slots * stride;
        first..first + stride
    }

    /// Units of each asset, without padding.
    pub(super) fn owned(&self) -> &[f64] {
        &self.units[..self.assets]
    }

    /// Inverse of equity; 0 for an account without equity.
    #[inline(always)]
    fn share(&self) -> f64 {
        if self.equity > 0.0 { 1.0 / self.equity } else { 0.0 }
    }

    /// Weights of assets and then cash, at the last mark.
    pub(super) fn weights<'a>(&'a self, panel: &'a Panel) -> impl Iterator<Item = f64> + 'a {
        let (share, marks) = (self.share(), panel.marks(self.marked));
        let assets = self.owned().iter().zip(marks).map(move |(units, mark)| units * mark * share);
        assets.chain(std::iter::once(self.cash * share))
    }

    /// Weights as written to the observation.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // in single precision
    pub(super) fn write_weights<M: Machine>(&self, machine: M, panel: &Panel, shown: &mut [f32]) {
        let (share, marks) = (self.share(), panel.marks(self.marked));
        let (cash, assets) = shown.split_last_mut().expect("cash is always there");
        let (fours, rest) = assets.as_chunks_mut();
        let held = machine.lanes(&self.units).zip(machine.lanes(marks));
        let done = fours.len() * LANES;
        for (shown, (units, marks)) in fours.iter_mut().zip(held) {
            *shown = (units * marks * machine.all(share)).to_array().map(|weight| weight as f32);
        }
        for ((shown, units), mark) in rest.iter_mut().zip(&self.units[done..]).zip(&marks[done..]) {
            *shown = (units * mark * share) as f32;
        }
        *cash = (self.cash * share) as f32;
    }

    /// Return true if it took part in the last step.
    pub(super) fn took_part(&self) -> bool {
        self.is_alive || self.step_report.is_ruined
    }

    /// Drawdown: loss from the highest equity, as a share of it.
    pub(super) fn drawdown(&self) -> f64 {
        1.0 - self.equity / self.memory.peak().max(self.equity)
    }

    /// Return true if the state is valid.
    pub(super) fn is_valid(&self, assets: usize, like: &Self) -> bool {
        let money = [self.cash, self.equity, self.gross, self.net];
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        let is_padding_empty = |row: &[f64]| row.iter().skip(assets).all(|number| *number == 0.0);
        (self.assets, self.slots) == (assets, like.slots)
            && self.units.len() == like.units.len()
            && self.orders.len() == like.orders.len()
            && self.carried.len() == like.carried.len()
            && is_padding_empty(&self.units)
            && is_padding_empty(&self.carried)
            && finite(&money)
            && finite(&self.units)
            && finite(&self.carried)
            && !self.orders.iter().any(|order| order.is_infinite())
            && self.memory.is_valid()
    }
}
