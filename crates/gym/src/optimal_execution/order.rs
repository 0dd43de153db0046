//! State of a parent order: remaining size, price and cost.

use market::{EpisodeKey, SnapshotError, Stream};
use serde::{Deserialize, Serialize};

use super::Rules;
use super::settings::OptimalExecutionSettings;

const PRICE_STREAM: u64 = 0;

/// Mutable state of an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) steps: u32,
    pub(super) inventory: f64,
    pub(super) price: f64,
    pub(super) cash: f64,
    pub(super) shortfall: f64,
    pub(super) expected_cost: f64,
    pub(super) variance: f64,
    pub(super) last: Fill,
    stream: Stream,
}

/// Fill of one step: size and price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Fill {
    pub(super) amount: f64,
    pub(super) price: f64,
}

impl Order {
    pub(super) fn new(settings: &OptimalExecutionSettings, key: EpisodeKey) -> Self {
        Self {
            steps: 0,
            inventory: settings.shares,
            price: settings.initial_price,
            cash: 0.0,
            shortfall: 0.0,
            expected_cost: 0.0,
            variance: 0.0,
            last: Fill { amount: 0.0, price: settings.initial_price },
            stream: key.stream(PRICE_STREAM),
        }
    }

    /// Fill `amount`, move the price, and return the implementation shortfall of the step: impact
    /// and spread of the fill, and the price change on the remaining inventory, risk included.
    #[inline]
    pub(super) fn trade(&mut self, rules: &Rules, amount: f64) -> f64 {
        let settings = &rules.settings;
        let concession = settings.half_spread + rules.impact * amount;
        let lasting = settings.permanent_impact * amount;
        // Drawn whatever is traded, so that all policies see the same price path.
        let shock = rules.step_spread * self.stream.normal();

        let price = self.price - rules.sign * concession;
        self.last = Fill { amount, price };
        self.cash += rules.sign * amount * price;
        self.inventory -= amount;
        self.price += shock - rules.sign * lasting;
        self.steps += 1;

        let expected = amount * concession + self.inventory * lasting;
        let shortfall = expected - rules.sign * self.inventory * shock;
        let variance = rules.step_variance * self.inventory * self.inventory;
        self.shortfall += shortfall;
        self.expected_cost += expected;
        self.variance += variance;
        shortfall + settings.risk_aversion * variance
    }

    pub(super) fn check(&self, settings: &OptimalExecutionSettings) -> Result<(), SnapshotError> {
        let impossible = |got| Err(SnapshotError::Impossible { got });
        if self.steps > settings.episode_steps {
            return impossible("an episode longer than episodes are");
        }
        let possible = 0.0..=settings.shares;
        if !(possible.contains(&self.inventory) && possible.contains(&self.last.amount)) {
            return impossible("more or less than the order");
        }
        let money = [self.cash, self.shortfall, self.expected_cost, self.variance];
        if ![self.price, self.last.price].iter().chain(&money).all(|number| number.is_finite()) {
            return impossible("prices or money that are not finite");
        }
        Ok(())
    }
}
