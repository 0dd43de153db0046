//! Accounts that somebody else keeps: after a row, what they say is what is.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Portfolio;
use super::costs::Paid;
use super::execution::Execution;
use super::lanes::Machine;
use super::log::Trade;

/// What a broker says an account is after one row, and what the row did to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountReport {
    /// Cash after the row.
    pub cash: f64,
    /// Units of each asset after the row.
    pub units: Vec<f64>,
    /// Units of each asset that are still to be traded of orders that stand.
    pub open_units: Vec<f64>,
    /// What was paid in the row.
    pub paid: Paid,
    /// Value that was traded in the row, in currency.
    pub traded: f64,
}

/// An account as it stands; what was paid and traded is that of the last step.
pub type Account = AccountReport;

/// Why a report is refused. Nothing has changed.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ReportError {
    /// Several agents have several accounts.
    #[error(
        "a report is of the account of a single agent, found {found} agents: use a Portfolio for \
         each account"
    )]
    Agents {
        /// How many there are.
        found: usize,
    },
    /// There are more or fewer assets.
    #[error("{field} of {wanted} assets were wanted, found {found}")]
    Assets {
        /// The field of the report.
        field: &'static str,
        /// How many assets there are.
        wanted: usize,
        /// How many it has.
        found: usize,
    },
    /// A number is none.
    #[error("{field} must be {wanted}, was {found}")]
    Number {
        /// The field of the report.
        field: &'static str,
        /// What it should be.
        wanted: &'static str,
        /// What it was.
        found: f64,
    },
}

impl AccountReport {
    fn check(&self, assets: usize) -> Result<(), ReportError> {
        for (field, units) in [("units", &self.units), ("open_units", &self.open_units)] {
            if units.len() != assets {
                let found = units.len();
                return Err(ReportError::Assets { field, wanted: assets, found });
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
            if let Some(&found) = numbers.iter().find(|number| !number.is_finite()) {
                return Err(ReportError::Number { field, wanted: "finite", found });
            }
        }
        if self.traded < 0.0 {
            let (field, found) = ("traded", self.traded);
            return Err(ReportError::Number { field, wanted: "at least 0", found });
        }
        Ok(())
    }

    /// What a change of units cost as a share of its value: of delisted positions, what delistings
    /// cost, and of others, what all trades cost together, apart from what every order costs.
    fn rate(&self, delisted: f64, is_listed: bool) -> f64 {
        let Paid { proportional, spread, impact, delisting, .. } = self.paid;
        let (paid, value) = if is_listed {
            (proportional + spread + impact, self.traded)
        } else {
            (delisting, delisted)
        };
        if value > 0.0 { paid / value } else { 0.0 }
    }
}

impl Portfolio {
    /// Takes down what the account will be after the next row that has no report yet. That row
    /// accrues, delists and fills nothing of its own: cash and units are what the report says.
    ///
    /// # Errors
    /// When the report cannot be one of this portfolio.
    pub fn expect(&mut self, report: AccountReport) -> Result<(), ReportError> {
        self.check_report(&report)?;
        self.episode.reports.push(report);
        Ok(())
    }

    pub(super) fn check_report(&self, report: &AccountReport) -> Result<(), ReportError> {
        match self.agents() {
            1 => report.check(self.panel.width().assets),
            found => Err(ReportError::Agents { found }),
        }
    }

    /// What the account of an agent is now, and what the last step did to it.
    ///
    /// # Panics
    /// When there is no such agent.
    #[must_use]
    pub fn account_of(&self, agent: usize) -> Account {
        let (trader, assets) = (&self.episode.traders[agent], self.panel.width().assets);
        let mut open_units = trader.carried.clone();
        open_units.resize(assets, 0.0);
        Account {
            cash: trader.cash,
            units: trader.owned().to_vec(),
            open_units,
            paid: trader.told.paid,
            traded: trader.told.traded,
        }
    }

    /// Lets the account become what was said of it.
    #[cold]
    pub(super) fn take_report<M: Machine>(&mut self, machine: M) {
        let (row, settings) = (self.row() + 1, &*self.settings);
        let report = self.episode.reports.remove(0);
        let execution = Execution::new(machine, &self.panel, settings, row, &[]);
        let trader = &mut self.episode.traders[0];
        let (before, paid) = (trader.owned().to_vec(), trader.told.paid);
        // Turnover is a share of what the account was worth before its fills. Orders that are on
        // their way in what is gone are gone here too.
        let (kind, waived) = (settings.agents[0].account, trader.told.waived);
        trader.accrue(&self.panel, row, &settings.costs, kind);
        trader.settle_delisted(&self.panel, row, settings, kind);
        trader.told.waived = waived;
        let value = trader.cash + execution.value_of(&trader.units);
        trader.told.paid = paid.and(&report.paid);
        trader.told.traded += report.traded;
        if value > 0.0 {
            trader.told.turnover += report.traded / value;
        }
        trader.cash = report.cash;
        trader.units[..before.len()].copy_from_slice(&report.units);
        if !trader.carried.is_empty() {
            trader.carried[..before.len()].copy_from_slice(&report.open_units);
        }
        if let Some(log) = &mut self.log {
            let trades = changes(&execution, &before, &report);
            log.current().trades.extend(trades);
        }
    }
}

/// What a report changed, as trades at the prices at which the row would have filled orders.
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
