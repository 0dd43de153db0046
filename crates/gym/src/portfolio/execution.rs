//! How orders of all agents become fills in one row.
//!
//! Agents meet in three ways: they share the volume of a row in proportion to what they want of
//! it, everybody pays for the size of all orders in an asset together, and a limit on what all
//! hold together cuts everybody's purchases alike. Nothing else of one agent reaches another.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

mod rates;
mod units;

use super::lanes::{Lanes, Machine, lanes_mut, total};
use super::log::Trade;
use super::panel::Panel;
use super::settings::{AccountKind, FillAt, PortfolioSettings, Unfilled};
use super::trader::Trader;

/// What rounding can leave of an order, as a share of equity.
const DUST: f64 = 1e-9;

/// Weights no larger than this are none: what rounding left of a sale of everything.
pub(super) const NO_WEIGHT: f64 = 1e-12;

/// Room to reckon in, one for each thread: nothing is allocated in a step.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Units that each agent wants to trade, a row for each.
    changes: Vec<f64>,
    /// Units wanted by all, and then what a unit of value costs, for each asset.
    rates: Vec<f64>,
    plans: Vec<Plan>,
}

impl Room {
    #[cold]
    fn new(agents: usize, stride: usize) -> Self {
        let (changes, rates) = (vec![0.0; agents * stride], vec![0.0; stride]);
        Self { changes, rates, plans: vec![Plan::default(); agents] }
    }
}

/// What an agent's orders come to before they are cut to what it can afford.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// What the account is worth at the prices of fills.
    value: f64,
    /// Value held after reductions, long and short together.
    held: f64,
    /// Value of purchases and short sales.
    increases: f64,
    increases_cost: f64,
    /// Value of reductions.
    reduced: f64,
    reduced_cost: f64,
    /// The share of those that can be afforded.
    share: f64,
    /// Value of sales that are refused since nobody could pay what they cost.
    refused: f64,
    /// Orders that reduce, and those that only increase.
    reductions: f64,
    only_increases: f64,
}

/// What an agent has, has ordered, and is worth at the prices of fills.
#[derive(Clone, Copy)]
struct Wish<'a> {
    units: &'a [f64],
    orders: &'a [f64],
    value: f64,
}

/// The market in one row, as orders meet it.
pub(super) struct Execution<'a, M> {
    machine: M,
    pub(super) panel: &'a Panel,
    pub(super) settings: &'a PortfolioSettings,
    pub(super) row: usize,
    pub(super) prices: &'a [f64],
    inverse: &'a [f64],
    gates: &'a [f64],
    /// Assets that the user has taken out of the universe; empty where there are none.
    removed: &'a [bool],
}

impl<'a, M: Machine> Execution<'a, M> {
    #[inline(always)]
    pub(super) fn new(
        machine: M,
        panel: &'a Panel,
        settings: &'a PortfolioSettings,
        row: usize,
        removed: &'a [bool],
    ) -> Self {
        let (prices, inverse) = match settings.fill {
            FillAt::NextOpen => panel.opens(row),
            FillAt::NextClose => panel.closes(row),
        };
        let gates = panel.gates(row);
        Self { machine, panel, settings, row, prices, inverse, gates, removed }
    }

    /// Fills what can be filled of all orders that are due.
    #[inline(always)]
    pub(super) fn run(
        &self,
        traders: &mut [Trader],
        orders: &[f64],
        room: &mut Room,
        mut log: Option<&mut Vec<Trade>>,
    ) {
        let stride = self.prices.len();
        if room.changes.len() != traders.len() * stride || room.rates.len() != stride {
            *room = Room::new(traders.len(), stride);
        }
        for (agent, trader) in traders.iter_mut().enumerate() {
            let changes = &mut room.changes[agent * stride..][..stride];
            let fresh = &orders[agent * stride..][..stride];
            room.plans[agent].value = self.wish(agent, trader, fresh, changes);
        }
        self.set_rates(traders, room);
        for (agent, trader) in traders.iter().enumerate() {
            // What the ruined still hold takes nothing from what the others may hold.
            if !trader.is_alive {
                room.plans[agent] = Plan::default();
                continue;
            }
            let changes = &mut room.changes[agent * stride..][..stride];
            let plan = &mut room.plans[agent];
            plan.refused = 0.0;
            self.plan(agent, trader, changes, &room.rates, plan);
            let owes = self.after_sales(trader, plan) < 0.0;
            if owes && self.settings.agents[agent].account == AccountKind::Cash {
                self.refuse_sales(agent, trader, changes, &room.rates, plan);
            }
        }
        self.share_limit(&mut room.plans);
        for (agent, trader) in traders.iter_mut().enumerate().filter(|(_, it)| it.is_alive) {
            let changes = &mut room.changes[agent * stride..][..stride];
            let plan = &room.plans[agent];
            if plan.share < 1.0 {
                self.cut(&trader.units, changes, plan.share);
            }
            self.settle(trader, changes, plan);
            if let Some(log) = log.as_deref_mut() {
                self.note(agent, changes, &room.rates, log);
            }
        }
    }

    /// The units that an agent wants to trade, and what its account is worth at these prices.
    #[inline(always)]
    fn wish(&self, agent: usize, trader: &mut Trader, fresh: &[f64], changes: &mut [f64]) -> f64 {
        if !trader.is_alive {
            changes.fill(0.0);
            return 0.0;
        }
        let value = trader.cash + self.value_of(&trader.units);
        // Orders that had to wait are with the account, others have just been given.
        let due = if trader.orders.is_empty() { 0..0 } else { trader.due(self.row) };
        let Trader { units, orders, carried, is_called, .. } = trader;
        let orders = if orders.is_empty() { fresh } else { &orders[due] };
        let wish = Wish { units, orders, value };
        let is_forced = *is_called || value <= 0.0;
        if is_forced {
            self.wish_less(agent, &wish, changes);
            carried.fill(0.0);
        } else if self.settings.is_in_units() {
            self.wish_units(&wish, changes);
        } else {
            self.wish_freely(&wish, changes);
        }
        if self.settings.unfilled == Unfilled::Carry {
            self.carry(&wish, is_forced, carried, changes);
        }
        if self.settings.is_in_units() {
            self.keep_from_shorts(agent, units, changes);
        }
        if !self.removed.is_empty() {
            self.reduce_only(units, changes);
        }
        value
    }

    #[inline(always)]
    pub(super) fn value_of(&self, units: &[f64]) -> f64 {
        let machine = self.machine;
        let mut sums = machine.all(0.0);
        for (units, prices) in machine.lanes(units).zip(machine.lanes(self.prices)) {
            sums = sums + units * prices;
        }
        total(sums)
    }

    #[inline(always)]
    fn wish_freely(&self, wish: &Wish<'_>, changes: &mut [f64]) {
        let Wish { units, orders, value } = *wish;
        let it = self.machine;
        let smallest = it.all(self.settings.smallest_share() * value);
        let value = it.all(value);
        let rows = lanes_mut(changes).iter_mut().zip(it.lanes(orders)).zip(it.lanes(units));
        let prices = it.lanes(self.prices).zip(it.lanes(self.inverse)).zip(it.lanes(self.gates));
        for (((changes, orders), units), ((prices, inverse), gates)) in rows.zip(prices) {
            // A comparison with NaN is false: no order, no change. What closes a position is
            // never too small.
            let is_closing = it.all(NO_WEIGHT).at_least(orders.abs());
            let targets = (orders * value * inverse).except(is_closing);
            let wanted = (targets - units) * gates;
            let is_large = (wanted * prices).abs().at_least(smallest);
            *changes = (wanted & (is_large | is_closing)).to_array();
        }
    }

    /// The units that an order asks to hold; NaN where there is no order.
    fn target(&self, asset: usize, wish: &Wish<'_>) -> f64 {
        let Wish { units, orders, value } = *wish;
        let order = orders[asset];
        if self.settings.is_in_units() {
            return units[asset] + order;
        }
        if order.abs() <= NO_WEIGHT {
            return 0.0;
        }
        order * value.max(0.0) * self.inverse[asset]
    }

    /// Under a margin call, what is wanted is no more than what may be held.
    #[cold]
    fn wish_less(&self, agent: usize, wish: &Wish<'_>, changes: &mut [f64]) {
        let Wish { units, value, .. } = *wish;
        let limit = self.settings.agents[agent].account.leverage();
        let held = units.iter().zip(self.prices).map(|(units, price)| (units * price).abs());
        let gross: f64 = held.sum();
        let keep = if gross > 0.0 { (limit * value.max(0.0) / gross).min(1.0) } else { 0.0 };
        for (asset, change) in changes.iter_mut().enumerate() {
            let units = units[asset];
            let most = units * keep;
            let target = self.target(asset, wish);
            // On the same side and no larger; without an order, as much as may be kept.
            let target = if target.is_nan() { most } else { target };
            let target = target.clamp(most.min(0.0), most.max(0.0));
            *change = (target - units) * self.gates[asset];
        }
    }

    /// Lets earlier orders stand where there is no new one, and remembers what cannot fill now.
    #[inline(never)]
    fn carry(&self, wish: &Wish<'_>, is_forced: bool, carried: &mut [f64], changes: &mut [f64]) {
        let Wish { orders, value, .. } = *wish;
        let dust = DUST * value;
        for (asset, carried) in carried.iter_mut().enumerate() {
            let is_open = self.gates[asset] > 0.0;
            let is_ordered = !orders[asset].is_nan() && asset < self.panel.width().assets;
            if is_ordered {
                *carried = if is_open { 0.0 } else { self.ordered(asset, wish) };
            } else if is_open && !is_forced {
                // What rounding left of an order is none, and costs no commission.
                let is_order = (*carried * self.prices[asset]).abs() >= dust;
                changes[asset] = if is_order { *carried } else { 0.0 };
                *carried = 0.0;
            }
        }
    }

    /// What an agent's wishes come to, and the share of its increases that it can afford.
    ///
    /// Reductions are done in full. Increases are cut alike until what is held is no more than
    /// the account's leverage times what is left of its equity after all costs: without leverage,
    /// until cash pays for them.
    #[inline(always)]
    fn plan(&self, agent: usize, trader: &Trader, changes: &[f64], rates: &[f64], plan: &mut Plan) {
        let leverage = self.settings.agents[agent].account.leverage();
        let it = self.machine;
        let none = it.all(0.0);
        let (mut held, mut reduced, mut reduced_cost) = (none, none, none);
        let (mut increases, mut increases_cost) = (none, none);
        let rows = it.lanes(changes).zip(it.lanes(&trader.units));
        let prices = it.lanes(self.prices).zip(it.lanes(rates));
        for ((changes, units), (prices, rates)) in rows.zip(prices) {
            let (less, more) = parts(it, changes, units);
            let (less, more) = (less * prices, more * prices);
            held = held + units.abs() * prices;
            reduced = reduced + less;
            reduced_cost = reduced_cost + less * rates;
            increases = increases + more;
            increases_cost = increases_cost + more * rates;
        }
        (plan.reductions, plan.only_increases) = self.orders(trader, changes);
        let fixed = self.settings.costs.fixed * (plan.reductions + plan.only_increases);
        (plan.reduced, plan.reduced_cost) = (total(reduced), total(reduced_cost));
        (plan.increases, plan.increases_cost) = (total(increases), total(increases_cost));
        plan.held = total(held) - plan.reduced;
        let room = leverage * (plan.value - plan.reduced_cost - fixed) - plan.held;
        let needed = plan.increases + leverage * plan.increases_cost;
        plan.share = if needed <= room { 1.0 } else { (room / needed).max(0.0) };
    }

    /// How many orders reduce what is held, and how many only increase it, if anybody asks.
    #[inline(always)]
    fn orders(&self, trader: &Trader, changes: &[f64]) -> (f64, f64) {
        if self.settings.costs.fixed == 0.0 {
            return (0.0, 0.0);
        }
        let orders = changes.iter().zip(&trader.units).filter(|(change, _)| **change != 0.0);
        orders.fold((0.0, 0.0), |(reductions, increases), (change, units)| {
            if change * units < 0.0 {
                (reductions + 1.0, increases)
            } else {
                (reductions, increases + 1.0)
            }
        })
    }

    /// Cash after an agent's reductions and their costs, before anything is bought.
    #[inline(always)]
    fn after_sales(&self, trader: &Trader, plan: &Plan) -> f64 {
        let fixed = self.settings.costs.fixed * plan.reductions;
        if plan.reduced > 0.0 {
            trader.cash + plan.reduced - plan.reduced_cost - fixed
        } else {
            0.0
        }
    }

    /// Refuses the sales of an account without debts that cost most beyond what they bring, one
    /// after the other, until cash is no longer below zero, and plans again.
    #[cold]
    #[inline(never)]
    fn refuse_sales(
        &self,
        agent: usize,
        trader: &Trader,
        changes: &mut [f64],
        rates: &[f64],
        plan: &mut Plan,
    ) {
        let mut cash = self.after_sales(trader, plan);
        let mut refused = 0.0;
        while cash < 0.0 {
            let sales = changes.iter().zip(&trader.units).enumerate();
            let sales = sales.filter(|(_, (change, units))| **change * **units < 0.0);
            let proceeds = sales.map(|(asset, (change, _))| {
                let value = (change * self.prices[asset]).abs();
                (asset, value, value * (1.0 - rates[asset]) - self.settings.costs.fixed)
            });
            let worst = proceeds.min_by(|(_, _, one), (_, _, other)| one.total_cmp(other));
            let Some((asset, value, net)) = worst.filter(|(_, _, net)| *net < 0.0) else { break };
            changes[asset] = 0.0;
            refused += value;
            cash -= net;
        }
        self.plan(agent, trader, changes, rates, plan);
        plan.refused = refused;
    }

    /// Cuts everybody's increases alike until all together hold no more than they may.
    fn share_limit(&self, plans: &mut [Plan]) {
        let Some(leverage) = self.settings.shared_leverage else { return };
        let equity: f64 = plans.iter().map(|plan| plan.value.max(0.0)).sum();
        let held: f64 = plans.iter().map(|plan| plan.held).sum();
        let increases: f64 = plans.iter().map(|plan| plan.share * plan.increases).sum();
        let room = (leverage * equity - held).max(0.0);
        if increases > room {
            for plan in plans {
                plan.share *= room / increases;
            }
        }
    }

    /// Leaves of the changes what can be afforded.
    #[inline(always)]
    fn cut(&self, units: &[f64], changes: &mut [f64], share: f64) {
        let machine = self.machine;
        let share = machine.all(share);
        for (changes, units) in lanes_mut(changes).iter_mut().zip(machine.lanes(units)) {
            let change = machine.four(*changes);
            let (less, more) = parts(machine, change, units);
            *changes = machine.with_sign_of(less + share * more, change).to_array();
        }
    }

    /// Moves cash and units.
    #[inline(always)]
    fn settle(&self, trader: &mut Trader, changes: &[f64], plan: &Plan) {
        let (costs, machine) = (&self.settings.costs, self.machine);
        let mut bought = machine.all(0.0);
        let rows = lanes_mut(&mut trader.units).iter_mut().zip(machine.lanes(changes));
        for ((units, changes), prices) in rows.zip(machine.lanes(self.prices)) {
            *units = (machine.four(*units) + changes).to_array();
            bought = bought + changes * prices;
        }
        let traded = plan.reduced + plan.share * plan.increases;
        let rated = plan.reduced_cost + plan.share * plan.increases_cost;
        let orders = plan.reductions + if plan.share > 0.0 { plan.only_increases } else { 0.0 };
        let fixed = costs.fixed * orders;
        trader.cash -= total(bought) + rated + fixed;
        trader.told.traded += traded;
        trader.told.refused += plan.refused + (1.0 - plan.share) * plan.increases;
        let paid = &mut trader.told.paid;
        paid.proportional += traded * costs.proportional;
        paid.spread += traded * costs.half_spread;
        paid.impact += (rated - traded * costs.base_rate()).max(0.0);
        paid.fixed += fixed;
        if plan.value > 0.0 {
            trader.told.turnover += traded / plan.value;
        }
    }

    fn note(&self, agent: usize, changes: &[f64], rates: &[f64], log: &mut Vec<Trade>) {
        for (asset, units) in changes.iter().enumerate().filter(|(_, units)| **units != 0.0) {
            let (price, rate) = (self.prices[asset], rates[asset]);
            log.push(Trade { row: self.row as u64, agent, asset, units: *units, price, rate });
        }
    }
}

/// How much of each change reduces what is held, and how much goes beyond that.
#[inline(always)]
fn parts<M: Machine>(machine: M, changes: M::Lanes, units: M::Lanes) -> (M::Lanes, M::Lanes) {
    let none = machine.all(0.0);
    let towards_zero = none - (changes ^ (units & machine.all(-0.0)));
    let less = towards_zero.larger(none).smaller(units.abs());
    (less, changes.abs() - less)
}
