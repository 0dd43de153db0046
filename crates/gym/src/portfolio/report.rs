//! Account reports of a broker: after a row, the reported account replaces the simulated one.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Portfolio;
use super::costs::Paid;
use super::execution::Execution;
use super::lanes::Machine;
use super::log::Trade;

/// Account state after one row as reported by a broker, and the changes of the row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountReport {
    /// Cash after the row.
    pub cash: f64,
    /// Units of each asset after the row.
    pub units: Vec<f64>,
    /// Unfilled units of open orders, per asset.
    pub open_units: Vec<f64>,
    /// Costs paid in the row.
    pub paid: Paid,
    /// Traded value of the row, in currency.
    pub traded: f64,
}

/// Current account; costs and traded value are those of the last step.
pub type Account = AccountReport;

/// Error of a refused report; the state is unchanged.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ReportError {
    /// Reports need a single agent.
    #[error(
        "expected the account of a single agent, got {got} agents: use a Portfolio for \
         each account"
    )]
    Agents {
        /// Actual number.
        got: usize,
    },
    /// Wrong number of assets.
    #[error("expected {field} of {expected} assets, got {got}")]
    Assets {
        /// The field of the report.
        field: &'static str,
        /// Number of assets.
        expected: usize,
        /// Actual number of values.
        got: usize,
    },
    /// Invalid number.
    #[error("{field} must be {expected}, got {got}")]
    Number {
        /// The field of the report.
        field: &'static str,
        /// Expected value, in words.
        expected: &'static str,
        /// Actual value.
        got: f64,
    },
}

impl AccountReport {
    fn check(&self, assets: usize) -> Result<(), ReportError> {
        for (field, units) in [("units", &self.units), ("open_units", &self.open_units)] {
            if units.len() != assets {
                let got = units.len();
                return Err(ReportError::Assets { field, expected: assets, got });
            }
        }
        let paid = self.paid.by_kind();
        let traded = [self.traded];
        for (field, numbers) in [
            ("cash", &[self.cash][..]),
            ("units", &self.units),
            ("open_units", &self.open_units),
            ("paid", &paid),
            ("traded", &traded),
        ] {
            if let Some(&got) = numbers.iter().find(|number| !number.is_finite()) {
                return Err(ReportError::Number { field, expected: "finite", got });
            }
        }
        if self.traded < 0.0 {
            let (field, got) = ("traded", self.traded);
            return Err(ReportError::Number { field, expected: "at least 0", got });
        }
        Ok(())
    }

    /// Cost of a change of units as a share of its value: the delisting cost of delisted positions,
    /// and for others the cost of all trades together, without the fixed cost per order.
    fn rate(&self, delisted: f64, is_listed: bool) -> f64 {
        let (paid, value) = if is_listed {
            (self.paid.with_fills(), self.traded)
        } else {
            (self.paid.delisting, delisted)
        };
        if value > 0.0 { paid / value } else { 0.0 }
    }
}

impl Portfolio {
    /// Queue the account report of the next row without one. That row accrues, delists and fills
    /// nothing of its own: cash and units are taken from the report.
    ///
    /// # Errors
    /// If the report is invalid for this portfolio.
    pub fn expect(&mut self, report: AccountReport) -> Result<(), ReportError> {
        self.check_report(&report)?;
        self.episode.reports.push(report);
        Ok(())
    }

    pub(super) fn check_report(&self, report: &AccountReport) -> Result<(), ReportError> {
        match self.agents() {
            1 => report.check(self.panel.width().assets),
            got => Err(ReportError::Agents { got }),
        }
    }

    /// Current account of an agent, and the changes of the last step.
    ///
    /// # Panics
    /// If there is no such agent.
    #[must_use]
    pub fn account_of(&self, agent: usize) -> Account {
        let (account, assets) = (&self.episode.accounts[agent], self.panel.width().assets);
        let mut open_units = account.carried.clone();
        open_units.resize(assets, 0.0);
        Account {
            cash: account.cash,
            units: account.owned().to_vec(),
            open_units,
            paid: account.step_report.paid,
            traded: account.step_report.traded,
        }
    }

    /// Apply a report to the account.
    #[cold]
    pub(super) fn take_report<M: Machine>(&mut self, machine: M) {
        let (row, settings) = (self.row() + 1, &*self.settings);
        let report = self.episode.reports.remove(0);
        let execution = Execution::new(machine, &self.panel, settings, row, &[]);
        let account = &mut self.episode.accounts[0];
        let (mut before, paid) = (account.owned().to_vec(), account.step_report.paid);
        // Turnover is a share of equity before fills. Pending orders in delisted assets are dropped
        // here too.
        let (kind, waived) = (settings.agents[0].account, account.step_report.waived);
        account.accrue(&self.panel, row, &settings.costs, kind);
        account.settle_delisted(&self.panel, row, settings, kind);
        account.apply_actions(&self.panel, row, settings.is_in_units());
        for (_, asset, action) in self.panel.actions(row) {
            before[*asset] *= action.split;
        }
        account.step_report.waived = waived;
        let value = account.cash + execution.value_of(&account.units);
        account.step_report.paid = paid.and(&report.paid);
        account.step_report.traded += report.traded;
        if value > 0.0 {
            account.step_report.turnover += report.traded / value;
        }
        account.cash = report.cash;
        account.units[..before.len()].copy_from_slice(&report.units);
        if !account.carried.is_empty() {
            account.carried[..before.len()].copy_from_slice(&report.open_units);
        }
        if let Some(log) = &mut self.log {
            let trades = changes(&execution, &before, &report);
            log.current().trades.extend(trades);
        }
    }
}

/// Changes of units in a report, as trades at the fill prices of the row.
fn changes<M: Machine>(
    execution: &Execution<'_, M>,
    before: &[f64],
    report: &AccountReport,
) -> Vec<Trade> {
    let listed = execution.panel.listed(execution.row);
    let changed = before.iter().zip(&report.units).map(|(before, after)| after - before);
    let changed: Vec<f64> = changed.collect();
    let gone = changed.iter().enumerate().filter(|(asset, _)| !listed[*asset]);
    let delisted = gone.map(|(asset, units)| (units * execution.prices[asset]).abs()).sum();
    let trades = changed.iter().enumerate().filter(|(_, units)| **units != 0.0);
    let trade = |(asset, units): (usize, &f64)| Trade {
        row: execution.row as u64,
        agent: 0,
        asset,
        units: *units,
        price: execution.prices[asset],
        rate: report.rate(delisted, listed[asset]),
    };
    trades.map(trade).collect()
}
