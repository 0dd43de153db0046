//! Execution of the orders of all agents in one row.
//!
//! Agents interact in three ways: they share the volume of a row in proportion to their requests,
//! all pay impact for the total size of all orders in an asset, and a shared leverage limit scales
//! the purchases of all alike. Agents do not interact otherwise.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

mod by_asset;
mod displacement;
mod lots;
mod rates;
mod units;

use super::account::AgentAccount;
use super::lanes::{Lanes, Machine, lanes_mut, total};
use super::log::Trade;
use super::panel::Panel;
use super::settings::{AccountKind, FillAt, PortfolioSettings, Unfilled};
pub(super) use displacement::Displacement;
pub(super) use lots::whole_lots;

/// Rounding residue of an order, as a share of equity.
const DUST: f64 = 1e-9;

/// Weights no larger than this count as zero: rounding residue of a full sale.
pub(super) const NO_WEIGHT: f64 = 1e-12;

/// Scratch memory, one per thread: nothing is allocated in a step.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Requested changes of units, one row per agent.
    changes: Vec<f64>,
    /// Total requested units, and then the cost rate, of each asset.
    rates: Vec<f64>,
    /// Temporary impact of each asset as a share of the value, if costs are settled by asset.
    impacts: Vec<f64>,
    /// Requested value of purchases and of sales of each asset, and the cost rates of an agent's
    /// own side, if trading displaces prices.
    bought: Vec<f64>,
    sold: Vec<f64>,
    own_rates: Vec<f64>,
    plans: Vec<Plan>,
}

impl Buffers {
    #[cold]
    fn new(agents: usize, stride: usize) -> Self {
        let row = vec![0.0; stride];
        Self {
            changes: vec![0.0; agents * stride],
            rates: row.clone(),
            impacts: row.clone(),
            bought: row.clone(),
            sold: row.clone(),
            own_rates: row,
            plans: vec![Plan::default(); agents],
        }
    }
}

/// An agent's requested trades before they are cut to buying power.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// Value of the account at fill prices.
    value: f64,
    /// Gross exposure after reductions.
    held: f64,
    /// Value of increases: purchases and short sales.
    increases: f64,
    increases_cost: f64,
    /// Value of reductions.
    reduced: f64,
    reduced_cost: f64,
    /// Affordable share of the increases.
    share: f64,
    /// Value of sales refused because their cost could not be paid.
    refused: f64,
    /// Orders that reduce, and those that only increase.
    reductions: f64,
    only_increases: f64,
}

/// An agent's units, orders and account value at fill prices.
#[derive(Clone, Copy)]
struct Request<'a> {
    units: &'a [f64],
    orders: &'a [f64],
    value: f64,
}

/// Execution of orders in one row.
pub(super) struct Execution<'a, M> {
    machine: M,
    pub(super) panel: &'a Panel,
    pub(super) settings: &'a PortfolioSettings,
    pub(super) row: usize,
    pub(super) prices: &'a [f64],
    inverse: &'a [f64],
    gates: &'a [f64],
    /// Mask of assets removed from the universe by the user; empty if there are none.
    removed: &'a [bool],
    /// Cost rate of all assets without impact; `None` if costs are settled asset by asset.
    base_rate: Option<f64>,
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
        let base_rate = settings
            .costs
            .base_rate()
            .filter(|_| settings.lot_size.is_none() && !settings.costs.displaces());
        Self { machine, panel, settings, row, prices, inverse, gates, removed, base_rate }
    }

    /// Fill all due orders as far as possible.
    #[inline(always)]
    pub(super) fn run(
        &self,
        accounts: &mut [AgentAccount],
        orders: &[f64],
        displacement: &mut Displacement,
        buffers: &mut Buffers,
        mut log: Option<&mut Vec<Trade>>,
    ) {
        let stride = self.prices.len();
        if buffers.changes.len() != accounts.len() * stride || buffers.rates.len() != stride {
            *buffers = Buffers::new(accounts.len(), stride);
        }
        for (agent, account) in accounts.iter_mut().enumerate() {
            let changes = &mut buffers.changes[agent * stride..][..stride];
            let fresh = &orders[agent * stride..][..stride];
            buffers.plans[agent].value = self.request(agent, account, fresh, changes);
        }
        self.set_rates(accounts, buffers);
        let displaces = !displacement.is_none();
        if displaces {
            self.set_flows(buffers);
        }
        for (agent, account) in accounts.iter().enumerate() {
            // Positions of ruined agents do not count towards the shared leverage limit.
            if !account.is_alive {
                buffers.plans[agent] = Plan::default();
                continue;
            }
            if displaces {
                self.set_own_rates(agent, displacement, buffers);
            }
            let rates = if displaces { &buffers.own_rates } else { &buffers.rates };
            let changes = &mut buffers.changes[agent * stride..][..stride];
            let plan = &mut buffers.plans[agent];
            plan.refused = 0.0;
            self.plan(agent, account, changes, rates, plan);
            let owes = self.after_sales(account, plan) < 0.0;
            if owes && self.settings.agents[agent].account == AccountKind::Cash {
                self.refuse_sales(agent, account, changes, rates, plan);
            }
        }
        self.share_limit(&mut buffers.plans);
        for (agent, account) in accounts.iter_mut().enumerate().filter(|(_, it)| it.is_alive) {
            if displaces {
                self.set_own_rates(agent, displacement, buffers);
            }
            let changes = &mut buffers.changes[agent * stride..][..stride];
            let plan = &buffers.plans[agent];
            let flows = (&buffers.bought[..], &buffers.sold[..]);
            if plan.share < 1.0 {
                self.cut(&account.units, changes, plan.share);
                self.keep_lots(&account.units, changes);
            }
            match self.base_rate {
                Some(base) => self.settle(account, changes, plan, base),
                None => self.settle_by_asset(account, changes, &buffers.impacts, plan),
            }
            if displaces {
                self.pay_displacement(account, changes, displacement, flows);
            }
            if let Some(log) = log.as_deref_mut() {
                let rates = if displaces { &buffers.own_rates } else { &buffers.rates };
                self.note(agent, changes, rates, log);
            }
        }
        if displaces {
            self.displace(displacement, buffers);
        }
    }

    /// Requested changes of units of an agent, and the value of its account at fill prices.
    #[inline(always)]
    fn request(
        &self,
        agent: usize,
        account: &mut AgentAccount,
        fresh: &[f64],
        changes: &mut [f64],
    ) -> f64 {
        if !account.is_alive {
            changes.fill(0.0);
            return 0.0;
        }
        let value = account.cash + self.value_of(&account.units);
        // Delayed orders are stored with the account; the others are passed in.
        let due = if account.orders.is_empty() { 0..0 } else { account.due(self.row) };
        let AgentAccount { units, orders, carried, is_called, .. } = account;
        let orders = if orders.is_empty() { fresh } else { &orders[due] };
        let request = Request { units, orders, value };
        let is_forced = *is_called || value <= 0.0;
        if is_forced {
            self.wish_less(agent, &request, changes);
            carried.fill(0.0);
        } else if self.settings.is_in_units() {
            self.request_units(&request, changes);
        } else {
            self.wish_freely(&request, changes);
        }
        if self.settings.unfilled == Unfilled::Carry {
            self.carry(&request, is_forced, carried, changes);
        }
        if self.settings.is_in_units() {
            self.keep_from_shorts(agent, units, changes);
        }
        if !self.removed.is_empty() {
            self.reduce_only(units, changes);
        }
        self.round_to_lots(units, is_forced, changes);
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
    fn wish_freely(&self, request: &Request<'_>, changes: &mut [f64]) {
        let Request { units, orders, value } = *request;
        let it = self.machine;
        let smallest = it.all(self.settings.smallest_share() * value);
        let value = it.all(value);
        let rows = lanes_mut(changes).iter_mut().zip(it.lanes(orders)).zip(it.lanes(units));
        let prices = it.lanes(self.prices).zip(it.lanes(self.inverse)).zip(it.lanes(self.gates));
        for (((changes, orders), units), ((prices, inverse), gates)) in rows.zip(prices) {
            // A comparison with NaN is false: no order, no change. Closing a position is never
            // below the smallest trade.
            let is_closing = it.all(NO_WEIGHT).at_least(orders.abs());
            let targets = (orders * value * inverse).except(is_closing);
            let expected = (targets - units) * gates;
            let is_large = (expected * prices).abs().at_least(smallest);
            *changes = (expected & (is_large | is_closing)).to_array();
        }
    }

    /// Target units of an order; NaN if there is none.
    fn target(&self, asset: usize, request: &Request<'_>) -> f64 {
        let Request { units, orders, value } = *request;
        let order = orders[asset];
        if self.settings.is_in_units() {
            return units[asset] + order;
        }
        if order.abs() <= NO_WEIGHT {
            return 0.0;
        }
        order * value.max(0.0) * self.inverse[asset]
    }

    /// Limit targets under a margin call to the allowed position.
    #[cold]
    fn wish_less(&self, agent: usize, request: &Request<'_>, changes: &mut [f64]) {
        let Request { units, value, .. } = *request;
        let limit = self.settings.agents[agent].account.leverage();
        let held = units.iter().zip(self.prices).map(|(units, price)| (units * price).abs());
        let gross: f64 = held.sum();
        let keep = if gross > 0.0 { (limit * value.max(0.0) / gross).min(1.0) } else { 0.0 };
        for (asset, change) in changes.iter_mut().enumerate() {
            let units = units[asset];
            let most = units * keep;
            let target = self.target(asset, request);
            // On the same side and no larger; without an order, the allowed position.
            let target = if target.is_nan() { most } else { target };
            let target = target.clamp(most.min(0.0), most.max(0.0));
            *change = (target - units) * self.gates[asset];
        }
    }

    /// Keep carried orders where there is no new one, and carry the unfilled part.
    #[inline(never)]
    fn carry(
        &self,
        request: &Request<'_>,
        is_forced: bool,
        carried: &mut [f64],
        changes: &mut [f64],
    ) {
        let Request { orders, value, .. } = *request;
        let dust = DUST * value;
        for (asset, carried) in carried.iter_mut().enumerate() {
            let is_open = self.gates[asset] > 0.0;
            let is_ordered = !orders[asset].is_nan() && asset < self.panel.width().assets;
            if is_ordered {
                *carried = if is_open { 0.0 } else { self.ordered(asset, request) };
            } else if is_open && !is_forced {
                // The rounding residue of an order does not count as an order, and costs no commission.
                let is_order = (*carried * self.prices[asset]).abs() >= dust;
                changes[asset] = if is_order { *carried } else { 0.0 };
                *carried = 0.0;
            }
        }
    }

    /// Compute the plan of an agent, and the share of its increases that it can afford.
    ///
    /// Reductions are filled in full. Increases are scaled down alike until gross exposure is
    /// within the leverage limit times equity after costs: for a cash account, until cash pays for
    /// them.
    #[inline(always)]
    fn plan(
        &self,
        agent: usize,
        account: &AgentAccount,
        changes: &[f64],
        rates: &[f64],
        plan: &mut Plan,
    ) {
        let leverage = self.settings.agents[agent].account.leverage();
        let it = self.machine;
        let none = it.all(0.0);
        let (mut held, mut reduced, mut reduced_cost) = (none, none, none);
        let (mut increases, mut increases_cost) = (none, none);
        let rows = it.lanes(changes).zip(it.lanes(&account.units));
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
        (plan.reductions, plan.only_increases) = self.orders(account, changes);
        let fixed = self.settings.costs.fixed * (plan.reductions + plan.only_increases);
        (plan.reduced, plan.reduced_cost) = (total(reduced), total(reduced_cost));
        (plan.increases, plan.increases_cost) = (total(increases), total(increases_cost));
        plan.held = total(held) - plan.reduced;
        let buffers = leverage * (plan.value - plan.reduced_cost - fixed) - plan.held;
        let needed = plan.increases + leverage * plan.increases_cost;
        // Displacement may lower what purchases cost, but no more than all of them fill.
        plan.share = if needed <= buffers { 1.0 } else { (buffers / needed).clamp(0.0, 1.0) };
    }

    /// Number of orders that reduce positions, and of orders that only increase them; 0 unless
    /// orders have a fixed cost.
    #[inline(always)]
    fn orders(&self, account: &AgentAccount, changes: &[f64]) -> (f64, f64) {
        if self.settings.costs.fixed == 0.0 {
            return (0.0, 0.0);
        }
        let orders = changes.iter().zip(&account.units).filter(|(change, _)| **change != 0.0);
        orders.fold((0.0, 0.0), |(reductions, increases), (change, units)| {
            if change * units < 0.0 {
                (reductions + 1.0, increases)
            } else {
                (reductions, increases + 1.0)
            }
        })
    }

    /// Cash after an agent's reductions and their costs, before its increases.
    #[inline(always)]
    fn after_sales(&self, account: &AgentAccount, plan: &Plan) -> f64 {
        let fixed = self.settings.costs.fixed * plan.reductions;
        if plan.reduced > 0.0 {
            account.cash + plan.reduced - plan.reduced_cost - fixed
        } else {
            0.0
        }
    }

    /// Refuse the sales of a cash account whose cost exceeds their proceeds most, one by one, until
    /// cash is not negative, and plan again.
    #[cold]
    #[inline(never)]
    fn refuse_sales(
        &self,
        agent: usize,
        account: &AgentAccount,
        changes: &mut [f64],
        rates: &[f64],
        plan: &mut Plan,
    ) {
        let mut cash = self.after_sales(account, plan);
        let mut refused = 0.0;
        while cash < 0.0 {
            let sales = changes.iter().zip(&account.units).enumerate();
            let sales = sales.filter(|(_, (change, units))| **change * **units < 0.0);
            let proceeds = sales.map(|(asset, (change, _))| {
                let value = (change * self.prices[asset]).abs();
                (asset, value, value * (1.0 - rates[asset]) - self.settings.costs.fixed)
            });
            let worst = proceeds.min_by(|(_, _, first), (_, _, other)| first.total_cmp(other));
            let Some((asset, value, net)) = worst.filter(|(_, _, net)| *net < 0.0) else { break };
            changes[asset] = 0.0;
            refused += value;
            cash -= net;
        }
        self.plan(agent, account, changes, rates, plan);
        plan.refused = refused;
    }

    /// Scale the increases of all agents alike until the shared leverage limit holds.
    fn share_limit(&self, plans: &mut [Plan]) {
        let Some(leverage) = self.settings.shared_leverage else { return };
        let equity: f64 = plans.iter().map(|plan| plan.value.max(0.0)).sum();
        let held: f64 = plans.iter().map(|plan| plan.held).sum();
        let increases: f64 = plans.iter().map(|plan| plan.share * plan.increases).sum();
        let buffers = (leverage * equity - held).max(0.0);
        if increases > buffers {
            for plan in plans {
                plan.share *= buffers / increases;
            }
        }
    }

    /// Scale the changes to the affordable share.
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

    /// Settle the fills in cash and units.
    #[inline(always)]
    fn settle(&self, account: &mut AgentAccount, changes: &[f64], plan: &Plan, base: f64) {
        let (costs, machine) = (&self.settings.costs, self.machine);
        let mut bought = machine.all(0.0);
        let rows = lanes_mut(&mut account.units).iter_mut().zip(machine.lanes(changes));
        for ((units, changes), prices) in rows.zip(machine.lanes(self.prices)) {
            *units = (machine.four(*units) + changes).to_array();
            bought = bought + changes * prices;
        }
        let traded = plan.reduced + plan.share * plan.increases;
        let rated = plan.reduced_cost + plan.share * plan.increases_cost;
        let orders = plan.reductions + if plan.share > 0.0 { plan.only_increases } else { 0.0 };
        let fixed = costs.fixed * orders;
        account.cash -= total(bought) + rated + fixed;
        account.step_report.traded += traded;
        account.step_report.refused += plan.refused + (1.0 - plan.share) * plan.increases;
        let paid = &mut account.step_report.paid;
        paid.proportional += traded * costs.proportional.of(0);
        paid.spread += traded * costs.half_spread.of(0);
        paid.impact += (rated - traded * base).max(0.0);
        paid.fixed += fixed;
        if plan.value > 0.0 {
            account.step_report.turnover += traded / plan.value;
        }
    }

    fn note(&self, agent: usize, changes: &[f64], rates: &[f64], log: &mut Vec<Trade>) {
        for (asset, units) in changes.iter().enumerate().filter(|(_, units)| **units != 0.0) {
            let (price, rate) = (self.prices[asset], rates[asset]);
            log.push(Trade { row: self.row as u64, agent, asset, units: *units, price, rate });
        }
    }
}

/// Split each change into the part that reduces the position and the part beyond that.
#[inline(always)]
fn parts<M: Machine>(machine: M, changes: M::Lanes, units: M::Lanes) -> (M::Lanes, M::Lanes) {
    let none = machine.all(0.0);
    let towards_zero = none - (changes ^ (units & machine.all(-0.0)));
    let less = towards_zero.larger(none).smaller(units.abs());
    (less, changes.abs() - less)
}
