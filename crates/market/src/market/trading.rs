//! Learning agents: orders, accounts and market data.

use thiserror::Error;

use crate::agents::mid_of;
use crate::book::OrderBook;
use crate::error::OrderError;
use crate::fees::Fees;
use crate::fill::Fill;
use crate::id::{AccountId, OrderId};
use crate::market::account::Holding;
use crate::market::floor::Tape;
use crate::market::{Market, Symbol, sentiment_of};
use crate::news::NewsEvent;
use crate::order::{Order, Placement, Resting, TimeInForce};
use crate::side::Side;
use crate::units::{Lots, Money, Ticks};

/// Index of a learning agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Agent(pub u32);

/// Error of a refused agent order; the state is unchanged.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TradeError {
    /// The book refused it.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The agent's position could grow beyond its limit.
    #[error("position limit allows at most {allowed} more lots, got {got}")]
    PositionLimit {
        /// Lots that it may still trade on this side.
        allowed: Lots,
        /// The order's size.
        got: Lots,
    },
    /// Insufficient cash.
    #[error("the order needs {needed} of cash, the account has {held} to spare")]
    NotEnoughCash {
        /// Largest cost of the order.
        needed: Money,
        /// Cash not reserved by open orders.
        held: Money,
    },
    /// The order belongs to another account.
    #[error("the agent has no resting order with id {id}")]
    NotYours {
        /// Rejected id.
        id: OrderId,
    },
}

impl Market {
    /// Submit an agent's order, subject to its account limits.
    ///
    /// # Errors
    /// If the account or the book refuses it.
    pub fn trade(
        &mut self,
        agent: Agent,
        symbol: usize,
        side: Side,
        price: Ticks,
        size: Lots,
        time_in_force: TimeInForce,
    ) -> Result<Placement, TradeError> {
        let allowed = self.room(agent, symbol, side);
        if size > allowed {
            return Err(TradeError::PositionLimit { allowed, got: size });
        }
        if side == Side::Buy {
            let needed = if time_in_force.rests() {
                self.cost_at_worst(price, size)
            } else {
                self.cost_now(agent, symbol, price, size)
            };
            let held = self.spare(agent);
            if needed > held {
                return Err(TradeError::NotEnoughCash { needed, held });
            }
        }
        let order = Order { account: AccountId(agent.0), side, price, size, time_in_force };
        Ok(self.symbols[symbol].floor.place(order, &self.fees)?)
    }

    /// Submit a market order of up to `requested` lots, as far as the account and the book allow.
    ///
    /// # Panics
    /// Never: an order with a size at any price is never refused.
    pub fn take(&mut self, agent: Agent, symbol: usize, side: Side, requested: Lots) -> Lots {
        let mut size = requested.min(self.room(agent, symbol, side));
        if side == Side::Buy {
            size = self.affordable(agent, symbol, size);
        }
        if size.0 == 0 {
            return Lots(0);
        }
        let order = Order::market(AccountId(agent.0), side, size);
        let placed = self.symbols[symbol].floor.place(order, &self.fees);
        placed.expect("an order with a size at any price is never refused").filled
    }

    /// Cancel an agent's order.
    ///
    /// # Errors
    /// If no such order of this agent rests.
    pub fn cancel(
        &mut self,
        agent: Agent,
        symbol: usize,
        id: OrderId,
    ) -> Result<Resting, TradeError> {
        let floor = &mut self.symbols[symbol].floor;
        match floor.book.order(id) {
            Some(order) if order.account == AccountId(agent.0) => Ok(floor.cancel(id)?),
            _ => Err(TradeError::NotYours { id }),
        }
    }

    /// Lots that an agent may still trade on a side before its position limit, resting orders
    /// included.
    #[must_use]
    pub fn room(&self, agent: Agent, symbol: usize, side: Side) -> Lots {
        let floor = &self.symbols[symbol].floor;
        let held = side.sign() * floor.lots(AccountId(agent.0));
        let resting_lots = floor.resting_lots[agent.0 as usize][side as usize];
        let limit = match side {
            Side::Buy => self.config.account.most_long,
            Side::Sell => self.config.account.most_short,
        };
        let room = i64::from(limit) - held - i64::try_from(resting_lots).unwrap_or(i64::MAX);
        Lots(u32::try_from(room.max(0)).unwrap_or(u32::MAX))
    }

    /// Cash of an agent.
    #[must_use]
    pub fn cash(&self, agent: Agent) -> Money {
        let traded: Money = self.symbols.iter().map(|symbol| symbol.holding(agent).cash).sum();
        Money(self.config.account.cash) + traded
    }

    /// Equity of an agent: cash and lots at mid prices.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // halves of ticks below 2^53 are exact
    pub fn equity(&self, agent: Agent) -> f64 {
        let lots =
            self.symbols.iter().map(|symbol| symbol.holding(agent).lots as f64 * symbol.mid());
        self.cash(agent).0 as f64 + lots.sum::<f64>()
    }

    /// Ticks since the market opened.
    #[must_use]
    pub fn now(&self) -> u32 {
        self.tick
    }

    /// The symbols.
    #[must_use]
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Active news events, oldest first.
    #[must_use]
    pub fn news(&self) -> &[NewsEvent] {
        &self.news
    }

    /// Oldest active event of a symbol, and the sentiment of all of its events.
    #[must_use]
    pub fn news_of(&self, symbol: usize) -> (Option<&NewsEvent>, f64) {
        let sector = self.symbols[symbol].sector;
        let first = self.news.iter().find(|event| event.concerns(symbol, sector));
        (first, sentiment_of(&self.news, symbol, sector, self.tick))
    }

    /// Total cash of all accounts and the market; trading never changes it.
    #[must_use]
    pub fn total_cash(&self) -> Money {
        self.symbols.iter().map(|symbol| symbol.floor.total_cash()).sum()
    }

    /// Total lots of all accounts of a symbol; trading never changes them.
    #[must_use]
    pub fn total_lots(&self, symbol: usize) -> i64 {
        self.symbols[symbol].floor.holdings.iter().map(|holding| holding.lots).sum()
    }

    /// Cash not reserved by resting orders.
    fn spare(&self, agent: Agent) -> Money {
        let account = AccountId(agent.0);
        let spoken_for = self.symbols.iter().map(|symbol| {
            if symbol.floor.resting_lots[agent.0 as usize][Side::Buy as usize] == 0 {
                return Money(0);
            }
            let own = symbol.floor.book.orders(Side::Buy).filter(|order| order.account == account);
            own.map(|order| self.cost_at_worst(order.price, order.size)).sum()
        });
        self.cash(agent) - spoken_for.sum()
    }

    /// Cost of a buy order that is not to rest, if it trades with the book now.
    fn cost_now(&self, agent: Agent, symbol: usize, limit: Ticks, size: Lots) -> Money {
        let mut left = size;
        self.offers_to(agent, symbol)
            .take_while(|offer| offer.price <= limit)
            .map(|offer| {
                let taken = left.min(offer.size);
                left = Lots(left.0 - taken.0);
                self.price_with_fee(offer.price, taken)
            })
            .sum()
    }

    /// Largest part of `requested` lots that an agent can buy now with its cash, best offers first.
    fn affordable(&self, agent: Agent, symbol: usize, requested: Lots) -> Lots {
        let mut spare = self.spare(agent);
        let mut bought = Lots(0);
        for offer in self.offers_to(agent, symbol) {
            let size = offer.size.min(Lots(requested.0 - bought.0));
            let cost = self.price_with_fee(offer.price, size);
            if size.0 == 0 {
                break;
            }
            if cost > spare {
                let each = self.price_with_fee(offer.price, Lots(1));
                let most = u32::try_from((spare.0 / each.0).max(0)).unwrap_or(u32::MAX);
                return Lots(bought.0 + most.min(size.0));
            }
            spare = spare - cost;
            bought = Lots(bought.0 + size.0);
        }
        bought
    }

    /// Offers available to an agent, best first. Its own offers leave the book when it meets them,
    /// and it then pays the price behind them.
    fn offers_to(&self, agent: Agent, symbol: usize) -> impl Iterator<Item = Resting> + '_ {
        let offers = self.symbols[symbol].floor.book.orders(Side::Sell);
        offers.filter(move |offer| offer.account != AccountId(agent.0))
    }

    /// Largest cost of an order that may rest: it may trade lot by lot, and each trade's fee is
    /// rounded up.
    fn cost_at_worst(&self, price: Ticks, size: Lots) -> Money {
        Money(self.price_with_fee(price, Lots(1)).0 * i64::from(size.0))
    }

    fn price_with_fee(&self, price: Ticks, size: Lots) -> Money {
        let notional = Money::notional(price, size);
        let fee = self.fees.taker(price, size).max(self.fees.maker(price, size));
        notional + fee.max(Money(0))
    }
}

impl Symbol {
    /// Order book of the symbol.
    #[must_use]
    pub fn book(&self) -> &OrderBook {
        &self.floor.book
    }

    /// Holding of an agent in it.
    #[must_use]
    pub fn holding(&self, agent: Agent) -> &Holding {
        &self.floor.holdings[agent.0 as usize]
    }

    /// Mid price, or the last price if a side is empty, in ticks.
    #[must_use]
    pub fn mid(&self) -> f64 {
        mid_of(&self.floor)
    }

    /// Tape of the last complete tick.
    #[must_use]
    pub fn bar(&self) -> &Tape {
        &self.bar
    }

    /// The trades of the last complete tick.
    #[must_use]
    pub fn trades(&self) -> &[Fill] {
        &self.trades
    }
}
