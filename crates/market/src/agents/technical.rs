//! Technical traders: hold the target position of their rule: long, flat or short.

use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::maker::account_of;
use super::{AgentGroup, MarketView, PopulationConfig, take_within_collar};
use crate::id::AccountId;
use crate::market::floor::Floor;
use crate::market::signals::Signals;
use crate::random::Stream;
use crate::side::Side;

/// Lots of a position.
const SIZE: i64 = 20;

/// Technical signal that an agent trades on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Rule {
    /// Momentum: buys rising prices, by the relative strength index.
    Momentum,
    /// Buys when the fast average is above the slow one.
    Trend,
    /// Buys when that difference grows.
    Convergence,
    /// Mean reversion: sells far above the average.
    Reversion,
}

impl Rule {
    /// Target position: long (1), flat (0) or short (-1); `patience` is from 0 to 1.
    fn target(self, signals: &Signals, patience: f64) -> i64 {
        match self {
            Self::Momentum => sign_beyond(signals.strength(), 15.0 + 15.0 * patience),
            Self::Trend => sign_beyond(signals.trend(), 0.5 + 1.5 * patience),
            Self::Convergence => sign_beyond(signals.convergence(), 0.3 + 0.9 * patience),
            Self::Reversion => -sign_beyond(signals.band(), 0.75 + 0.5 * patience),
        }
    }
}

fn sign_beyond(value: f64, threshold: f64) -> i64 {
    i64::from(value > threshold) - i64::from(value < -threshold)
}

/// All technical traders of a symbol that follow one rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TechnicalTraders {
    rule: Rule,
    activation: Activation,
    first: AccountId,
}

impl TechnicalTraders {
    pub(super) fn new(rule: Rule, config: &PopulationConfig, first: AccountId, count: u32) -> Self {
        Self { rule, activation: Activation::new(count, config.technical_activity), first }
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        self == other
    }
}

impl AgentGroup for TechnicalTraders {
    fn act(&mut self, view: &MarketView<'_>, floor: &mut Floor, stream: &mut Stream) {
        let count = f64::from(self.activation.count());
        self.activation.each(stream, |index, _| {
            let account = account_of(self.first, index);
            #[allow(clippy::cast_precision_loss)] // few agents
            let target = SIZE * self.rule.target(view.signals, index as f64 / count);
            let missing = target - floor.lots(account);
            let side = if missing > 0 { Side::Buy } else { Side::Sell };
            let size = u32::try_from(missing.unsigned_abs()).unwrap_or(u32::MAX);
            take_within_collar(floor, account, side, size, view);
        });
    }
}
