//! One agent's account: what it holds, owes, ordered and paid.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::NOTHING;
use super::costs::{Costs, Paid};
use super::lanes::{LANES, Lanes, Machine, stride, total};
use super::panel::Panel;
use super::settings::{AccountKind, AgentSettings, PortfolioSettings};
use crate::reward_memory::RewardMemory;

/// An account in the middle of an episode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Trader {
    assets: usize,
    /// Rows of orders.
    slots: usize,
    pub(super) cash: f64,
    /// Of each asset, in lanes, as all that follows.
    pub(super) units: Vec<f64>,
    /// Equity at the last mark.
    pub(super) equity: f64,
    /// Values held, long and short together, and long less short, at the last mark.
    pub(super) gross: f64,
    pub(super) net: f64,
    /// The row of that mark: for those who are ruined it stays the last one.
    pub(super) marked: usize,
    /// Weights, or units to trade, that were ordered and are due in later rows, a row for each; NaN
    /// where there is no order. Where orders fill in the next row, nothing has to be kept.
    pub(super) orders: Vec<f64>,
    /// Units that are still to be traded of earlier orders; empty where those are dropped.
    pub(super) carried: Vec<f64>,
    /// Whether equity is too small for what is held: only reductions until it is not.
    pub(super) is_called: bool,
    /// Whether it still trades.
    pub(super) is_alive: bool,
    /// Whether its mandate asks for no more than weights that are not negative and sum to one;
    /// follows from the settings.
    #[serde(skip)]
    pub(super) is_simplex: bool,
    pub(super) memory: RewardMemory,
    pub(super) told: Told,
}

/// The part of a change that brings a position towards zero, and not beyond.
pub(super) fn closing_part(change: f64, held: f64) -> f64 {
    change.clamp((-held).min(0.0), (-held).max(0.0))
}

/// What a step did to an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) reward: f64,
    pub(super) profit: f64,
    /// Values traded, as shares of equity.
    pub(super) turnover: f64,
    /// The same in currency.
    pub(super) traded: f64,
    /// Value of due orders that were not filled since the account could not pay for them, or held
    /// as much as it may. Told by the log of the step alone, and so no part of the state.
    #[serde(skip)]
    pub(super) refused: f64,
    /// Costs that an account without debts did not pay, since nothing was left to pay them with.
    #[serde(skip)]
    pub(super) waived: f64,
    /// Value of positions that became cash because their assets were delisted.
    pub(super) delisted: f64,
    pub(super) paid: Paid,
    /// Whether this step ruined it.
    pub(super) is_ruined: bool,
    /// What of all costs and turnover belongs to rows that are rewarded already.
    rewarded: (f64, f64),
}

impl Told {
    /// Costs and turnover since this was last asked.
    pub(super) fn since_last_row(&mut self) -> (f64, f64) {
        let (cost, turnover) = self.rewarded;
        self.rewarded = (self.paid.total(), self.turnover);
        (self.rewarded.0 - cost, self.rewarded.1 - turnover)
    }
}

impl Trader {
    /// An account of a batch that has not begun.
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

    /// Nothing but cash.
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
        self.told = Told::default();
    }

    /// Pays for what was borrowed from the row before until `row`.
    #[inline(always)]
    pub(super) fn accrue(&mut self, panel: &Panel, row: usize, costs: &Costs, kind: AccountKind) {
        let days = panel.days(row);
        let shorts = 0.5 * (self.gross - self.net);
        if shorts > 0.0 {
            self.told.paid.borrow +=
                self.charge(shorts * Costs::for_days(costs.borrow, days), kind);
        }
        // What was taken in for assets sold short stays with their lender.
        let own = self.cash - shorts.max(0.0);
        if self.cash < 0.0 {
            let owed = -self.cash * Costs::for_days(costs.financing, days);
            self.told.paid.financing += self.charge(owed, kind);
        } else if own > 0.0 && costs.interest > 0.0 {
            let earned = own * Costs::for_days(costs.interest, days);
            self.cash += earned;
            self.told.paid.financing -= earned;
        }
    }

    /// Turns positions in assets that are gone into cash, at their last price less the loss.
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
            // An order to sell would sell short what is gone, once the asset is listed again.
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
            self.told.delisted += value.abs();
            lost += self.charge(value.abs() * settings.costs.delisting, kind);
        }
        self.told.paid.delisting += lost;
    }

    /// Values what is held at the last known prices.
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
            // Who bought all that may be held is not called by a last bit.
            self.is_called = self.equity < (maintenance - NOTHING) * self.gross;
        }
    }

    /// Leaves nothing of all orders in an asset that are on their way: of weights, a sale of all
    /// that is held of it, and of units to trade, none.
    fn cancel(&mut self, asset: usize) {
        for orders in self.orders.chunks_exact_mut(self.units.len()) {
            if !orders[asset].is_nan() {
                orders[asset] = 0.0;
            }
        }
    }

    /// Units of an asset that orders bring which are due in some rows, and what is carried of
    /// earlier ones unless the first of those rows has an order that takes its place.
    pub(super) fn on_its_way(&self, asset: usize, rows: Range<usize>) -> f64 {
        let order = |row| self.orders[self.due(row).start + asset];
        // Whatever is ordered next takes the place of what is carried.
        let stands = !rows.is_empty() && order(rows.start).is_nan();
        let carried = self.carried.get(asset).filter(|_| stands).copied();
        let delayed = rows.map(order).filter(|order| !order.is_nan());
        delayed.sum::<f64>() + carried.unwrap_or_default()
    }

    /// Cancels all orders in an asset that are on their way and would add to what is held of it,
    /// long or short. Weights become sales of all of it, and sales that stand go on.
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

    /// Takes a cost from cash that nobody chose to incur, and returns what was paid: an account
    /// without debts pays no more than it has.
    fn charge(&mut self, cost: f64, kind: AccountKind) -> f64 {
        let paid = match kind {
            AccountKind::Cash => cost.min(self.cash.max(0.0)),
            AccountKind::Margin { .. } => cost,
        };
        self.told.waived += cost - paid;
        self.cash -= paid;
        paid
    }

    /// Where the orders stand that are due in `row`, if they are kept.
    #[inline]
    pub(super) fn due(&self, row: usize) -> Range<usize> {
        let stride = self.units.len();
        let first = row % self.slots * stride;
        first..first + stride
    }

    /// Units of each asset, without what fills the lanes.
    pub(super) fn owned(&self) -> &[f64] {
        &self.units[..self.assets]
    }

    /// One over equity. Shares of nothing are not told: such an account is at its end.
    #[inline(always)]
    fn share(&self) -> f64 {
        if self.equity > 0.0 { 1.0 / self.equity } else { 0.0 }
    }

    /// What assets and then cash are of equity, at the last mark.
    pub(super) fn weights<'a>(&'a self, panel: &'a Panel) -> impl Iterator<Item = f64> + 'a {
        let (share, marks) = (self.share(), panel.marks(self.marked));
        let assets = self.owned().iter().zip(marks).map(move |(units, mark)| units * mark * share);
        assets.chain(std::iter::once(self.cash * share))
    }

    /// The same as learners are shown it.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // in single precision
    pub(super) fn show_weights<M: Machine>(&self, machine: M, panel: &Panel, shown: &mut [f32]) {
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

    /// Whether it took part in the last step.
    pub(super) fn took_part(&self) -> bool {
        self.is_alive || self.told.is_ruined
    }

    /// How far it has fallen below its highest worth, as a share of that.
    pub(super) fn drawdown(&self) -> f64 {
        1.0 - self.equity / self.memory.peak().max(self.equity)
    }

    /// Whether it can be what it says.
    pub(super) fn is_sound(&self, assets: usize, like: &Self) -> bool {
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
            && self.memory.is_sound()
    }
}
