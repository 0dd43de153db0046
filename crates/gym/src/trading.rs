//! Trading task in a simulated market: sell, hold or buy, or set the share of equity to hold.

mod decision;
mod observation;
mod reward;
mod scene;
mod settings;
mod starts;

use std::marker::PhantomData;
use std::sync::Arc;

use market::{EpisodeKey, Holding, Lots, Market, Money, SnapshotError};
use serde::{Deserialize, Serialize};

use crate::reward_memory::RewardMemory;
use crate::task::{ActionError, Outcome, Task};
use decision::LEARNER;
use observation::FeatureSets;
use reward::{Earned, reward};
use starts::{OWN_TICKS, Starts};

pub use decision::{Decision, SellHoldBuy, TargetWeight};
pub use reward::RewardTerm;
pub use scene::{Scene, SceneNews, SceneTrade};
pub use settings::{TradingError, TradingSettings};

const INFO: [&str; 7] = ["tick", "equity", "realized_pnl", "cash", "exposure", "fees", "traded"];

/// Estimated cost of a tick of one symbol with a hundred trading agents, in nanoseconds.
const TICK_NANOSECONDS: usize = 2_500;

/// One episode of trading.
pub struct Trading<D> {
    settings: Arc<TradingSettings>,
    starts: Starts,
    market: Market,
    feature_sets: FeatureSets,
    account: AccountState,
    decision: PhantomData<D>,
}

impl<D> Clone for Trading<D> {
    fn clone(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            starts: self.starts.clone(),
            market: self.market.clone(),
            feature_sets: self.feature_sets.clone(),
            account: self.account,
            decision: PhantomData,
        }
    }

    /// Reuses the existing allocations: the cost is linear in the orders, not in the size of the
    /// books.
    fn clone_from(&mut self, other: &Self) {
        self.settings.clone_from(&other.settings);
        self.starts.clone_from(&other.starts);
        self.market.restore(&other.market);
        self.feature_sets.clone_from(&other.feature_sets);
        self.account = other.account;
    }
}

/// Account state of the agent at the last step, in currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct AccountState {
    ticks: u64,
    equity: f64,
    traded: u32,
    memory: RewardMemory,
}

impl<D: Decision> Trading<D> {
    /// A task with these settings.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn new(settings: TradingSettings) -> Result<Self, TradingError> {
        settings.check()?;
        let settings = Arc::new(settings);
        let market = Market::new(Arc::new(settings.market.clone()), EpisodeKey::default());
        let feature_sets = FeatureSets::new(&settings);
        Ok(Self {
            starts: Starts::new(),
            market,
            feature_sets,
            account: AccountState::default(),
            settings,
            decision: PhantomData,
        })
    }

    /// Settings of the task.
    #[must_use]
    pub fn settings(&self) -> &TradingSettings {
        &self.settings
    }

    /// Market of the episode.
    #[must_use]
    pub fn market(&self) -> &Market {
        &self.market
    }

    /// Names of the values of an observation.
    #[must_use]
    pub fn feature_names(&self) -> Vec<String> {
        observation::names(&self.settings)
    }

    /// Execute the action and return its transaction costs, in currency: fees, and slippage from
    /// the previous mid.
    #[allow(clippy::cast_precision_loss)] // amounts of one step are small
    fn trade(&mut self, action: &[D::Number]) -> f64 {
        let mut cost = 0.0;
        self.account.traded = 0;
        for (symbol, number) in action.iter().enumerate() {
            let (side, size) = D::order(*number, &self.market, symbol, self.settings.order_size);
            if size == Lots(0) {
                continue;
            }
            let (before, mid) = self.holding_and_mid(symbol);
            self.account.traded += self.market.take(LEARNER, symbol, side, size).0;
            let (after, _) = self.holding_and_mid(symbol);
            let (cash, lots) = (after.cash - before.cash, after.lots - before.lots);
            cost -= cash.0 as f64 + lots as f64 * mid;
        }
        self.settings.tick_size * cost
    }

    fn holding_and_mid(&self, symbol: usize) -> (Holding, f64) {
        let symbol = &self.market.symbols()[symbol];
        (*symbol.holding(LEARNER), symbol.mid())
    }

    fn observe(&self, observation: &mut [f64]) {
        #[allow(clippy::cast_precision_loss)] // only a share
        let left = 1.0 - self.account.ticks as f64 / self.settings.max_ticks as f64;
        self.feature_sets.write(&self.market, &self.settings, left, observation);
    }

    fn equity(&self) -> f64 {
        self.settings.tick_size * self.market.equity(LEARNER)
    }
}

impl<D: Decision> Task for Trading<D> {
    type Action = D::Number;
    type Observation = Vec<f64>;

    const NAME: &'static str = D::NAME;
    const VERSION: u32 = 1;

    fn step_nanoseconds(&self) -> u32 {
        let config = &self.settings.market;
        let agents = 20 + config.population.accounts();
        let cost = config.symbols.len() * TICK_NANOSECONDS * agents / 120;
        u32::try_from(cost).unwrap_or(u32::MAX)
    }

    fn bytes(&self) -> usize {
        let feature_sets =
            self.feature_sets.symbols.len() * size_of_val(&self.feature_sets.symbols[0]);
        size_of::<Self>() + feature_sets + self.settings.market.bytes()
    }

    fn layout(&self) -> usize {
        observation::observation_len(&self.settings)
    }

    fn action_len(&self) -> usize {
        self.settings.market.symbols.len()
    }

    fn check(&self, action: &[D::Number]) -> Result<(), ActionError> {
        action.iter().try_for_each(|number| D::check(*number))
    }

    fn is_over(&self) -> bool {
        self.account.ticks >= self.settings.max_ticks
    }

    fn begin(&mut self, key: EpisodeKey, observation: &mut [f64]) {
        let start = self.starts.of(key, &self.settings);
        self.market.restore(&start.market);
        self.feature_sets.clone_from(&start.feature_sets);
        self.market.rekey(key);
        for _ in 0..OWN_TICKS {
            self.market.tick();
            self.feature_sets.push(&self.market, &self.settings);
        }
        let equity = self.equity();
        let memory = RewardMemory::new(equity);
        self.account = AccountState { ticks: 0, equity, traded: 0, memory };
        self.observe(observation);
    }

    /// Trade in the observed book, then step the population.
    fn step(&mut self, action: &[D::Number], observation: &mut [f64]) -> Outcome {
        let cost = self.trade(action);
        self.market.tick();
        self.feature_sets.push(&self.market, &self.settings);
        self.account.ticks += 1;
        let earned = Earned { before: self.account.equity, after: self.equity(), cost };
        self.account.equity = earned.after;
        let terminated = self.market.equity(LEARNER) <= self.settings.market.ruin_level();
        let truncated = !terminated && self.account.ticks >= self.settings.max_ticks;
        let outcome = Outcome { reward: 0.0, terminated, truncated };
        let (terms, memory) = (&self.settings.reward, self.settings.reward_memory);
        let reward = reward(&mut self.account.memory, terms, memory, earned, &outcome);
        self.observe(observation);
        Outcome { reward, ..outcome }
    }

    fn info_names(&self) -> &[&'static str] {
        &INFO
    }

    #[allow(clippy::cast_precision_loss)] // for display only
    fn write_info(&self, row: &mut [f64]) {
        let symbols = self.market.symbols();
        let sum = |part: fn(&Holding) -> Money| -> f64 {
            symbols.iter().map(|symbol| part(symbol.holding(LEARNER))).sum::<Money>().0 as f64
        };
        let exposure = symbols.iter().map(|symbol| {
            let lots = symbol.holding(LEARNER).lots;
            lots.unsigned_abs() as f64 * symbol.mid()
        });
        let unit = self.settings.tick_size;
        row.copy_from_slice(&[
            self.account.ticks as f64,
            self.account.equity,
            unit * sum(|holding| holding.realised),
            unit * self.market.cash(LEARNER).0 as f64,
            unit * exposure.sum::<f64>(),
            unit * sum(|holding| holding.fees),
            f64::from(self.account.traded),
        ]);
    }

    fn encode_rules(&self, body: &mut Vec<u8>) {
        body.extend(to_bytes(&*self.settings));
    }

    fn encode(&self, body: &mut Vec<u8>) {
        self.market.encode(body);
        body.extend(to_bytes(&(&self.feature_sets, &self.account)));
    }

    fn decode(&mut self, body: &mut &[u8]) -> Result<(), SnapshotError> {
        let mut left = *body;
        let mut market = self.market.clone();
        market.decode(&mut left)?;
        let ((feature_sets, account), left): ((FeatureSets, AccountState), _) =
            postcard::take_from_bytes(left).map_err(|_| SnapshotError::Impossible {
                got: "bytes that do not hold an account",
            })?;
        if !feature_sets.fits(&self.feature_sets)
            || !account.memory.is_valid()
            || !account.equity.is_finite()
        {
            return Err(SnapshotError::Impossible { got: "an account of another market" });
        }
        (self.market, self.feature_sets, self.account, *body) =
            (market, feature_sets, account, left);
        Ok(())
    }
}

fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("writing into memory cannot fail")
}
