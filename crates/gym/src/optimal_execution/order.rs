//! An order while it is worked: what is left of it, where the price stands, what it has cost.

use market::{EpisodeKey, SnapshotError, Stream};
use serde::{Deserialize, Serialize};

use super::Rules;
use super::settings::OptimalExecutionSettings;

const PRICE_STREAM: u64 = 0;

/// Everything that changes during an episode.
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

/// What a step traded, and at which price.
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

    /// Fills `amount`, lets the price move, and returns what falls short by that: what the fill
    /// gave way, and what the price took from what is still left, its risk included.
    #[inline]
    pub(super) fn trade(&mut self, rules: &Rules, amount: f64) -> f64 {
        let settings = &rules.settings;
        let concession = settings.half_spread + rules.impact * amount;
        let lasting = settings.permanent_impact * amount;
        // Drawn whatever is traded, so that all policies meet the same path.
        let chance = rules.step_spread * self.stream.normal();

        let price = self.price - rules.sign * concession;
        self.last = Fill { amount, price };
        self.cash += rules.sign * amount * price;
        self.inventory -= amount;
        self.price += chance - rules.sign * lasting;
        self.steps += 1;

        let expected = amount * concession + self.inventory * lasting;
        let shortfall = expected - rules.sign * self.inventory * chance;
        let variance = rules.step_variance * self.inventory * self.inventory;
        self.shortfall += shortfall;
        self.expected_cost += expected;
        self.variance += variance;
        shortfall + settings.risk_aversion * variance
    }

    pub(super) fn check(&self, settings: &OptimalExecutionSettings) -> Result<(), SnapshotError> {
        let impossible = |found| Err(SnapshotError::Impossible { found });
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
