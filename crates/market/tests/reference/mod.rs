//! Reference order book: slow and simple, one list of orders in order of arrival, and scans.

use std::cmp::Reverse;

use market::{
    AccountId, Fill, Lots, Order, OrderError, OrderId, Placement, Resting, SelfTrade, Side, Ticks,
    TimeInForce,
};

#[derive(Clone)]
pub(crate) struct ReferenceBook {
    orders: Vec<Resting>,
    generations: Vec<u64>,
    free: Vec<usize>,
    self_trade: SelfTrade,
}

impl ReferenceBook {
    pub(crate) fn new(self_trade: SelfTrade) -> Self {
        Self { orders: Vec::new(), generations: Vec::new(), free: Vec::new(), self_trade }
    }

    pub(crate) fn orders(&self, side: Side) -> Vec<Resting> {
        let mut orders: Vec<_> = self.orders.iter().copied().filter(|o| o.side == side).collect();
        // Sorting is stable, so that orders of one price stay in order of arrival.
        match side {
            Side::Buy => orders.sort_by_key(|order| Reverse(order.price)),
            Side::Sell => orders.sort_by_key(|order| order.price),
        }
        orders
    }

    pub(crate) fn place(
        &mut self,
        order: Order,
        fills: &mut Vec<Fill>,
    ) -> Result<Placement, OrderError> {
        check(order.price, order.size)?;
        let rests =
            matches!(order.time_in_force, TimeInForce::GoodTillCancelled | TimeInForce::PostOnly);
        let best = self.orders(order.side.opposite()).first().map(|maker| maker.price);
        match (order.time_in_force, best) {
            (TimeInForce::PostOnly, Some(best)) if trades(&order, best) => {
                return Err(OrderError::WouldTrade { got: order.price, best });
            }
            (TimeInForce::FillOrKill, _) => {
                let filled = self.clone().trade(order, false, &mut Vec::new()).filled;
                if filled < order.size {
                    return Err(OrderError::NotFillable { expected: order.size, got: filled });
                }
            }
            _ => {}
        }
        if rests {
            self.check_level(&order, None)?;
        }
        Ok(self.trade(order, rests, fills))
    }

    pub(crate) fn cancel(&mut self, id: OrderId) -> Result<Resting, OrderError> {
        let index = self.find(id)?;
        Ok(self.remove(index))
    }

    pub(crate) fn reduce(&mut self, id: OrderId, by: Lots) -> Result<Lots, OrderError> {
        if by == Lots(0) {
            return Err(OrderError::SizeOutOfRange { got: 0 });
        }
        let index = self.find(id)?;
        let resting = self.orders[index].size;
        if by >= resting {
            return Err(OrderError::NothingLeft { resting, got: by });
        }
        self.orders[index].size.0 -= by.0;
        Ok(self.orders[index].size)
    }

    pub(crate) fn replace(
        &mut self,
        id: OrderId,
        price: Ticks,
        size: Lots,
        fills: &mut Vec<Fill>,
    ) -> Result<Placement, OrderError> {
        check(price, size)?;
        let index = self.find(id)?;
        let old = self.orders[index];
        let order = Order::limit(old.account, old.side, price, size);
        if price == old.price && size <= old.size {
            self.orders[index].size = size;
            let (filled, cancelled) = (Lots(0), Lots(0));
            return Ok(Placement { id: Some(id), filled, resting: size, cancelled, prevented: 0 });
        }
        self.check_level(&order, Some(id))?;
        self.remove(index);
        Ok(self.trade(order, true, fills))
    }

    pub(crate) fn cancel_all(&mut self, account: AccountId) -> Vec<Resting> {
        let mut own = [self.orders(Side::Buy), self.orders(Side::Sell)].concat();
        own.retain(|order| order.account == account);
        for order in &own {
            self.cancel(order.id).expect("it rests");
        }
        own
    }

    fn trade(&mut self, order: Order, rests: bool, fills: &mut Vec<Fill>) -> Placement {
        let (mut left, mut filled, mut prevented, mut lost) = (order.size.0, 0, 0, 0);
        while left > 0 {
            let makers = self.orders(order.side.opposite());
            let Some(maker) = makers.first().filter(|maker| trades(&order, maker.price)) else {
                break;
            };
            let index = self.find(maker.id).expect("it rests");
            let both = left.min(maker.size.0);
            let own = maker.account == order.account;
            let (from_maker, from_taker) = match self.self_trade {
                SelfTrade::CancelResting if own => (maker.size.0, 0),
                SelfTrade::CancelIncoming if own => (0, left),
                _ => (both, both),
            };
            left -= from_taker;
            self.orders[index].size.0 -= from_maker;
            let maker_left = self.orders[index].size;
            if own && self.self_trade != SelfTrade::Allow {
                prevented += u64::from(from_maker);
                lost += from_taker;
            } else {
                filled += both;
                fills.push(Fill {
                    maker: maker.id,
                    maker_account: maker.account,
                    taker_account: order.account,
                    price: maker.price,
                    size: Lots(both),
                    maker_left,
                    taker_side: order.side,
                });
            }
            if maker_left == Lots(0) {
                self.remove(index);
            }
        }
        let resting = if rests { left } else { 0 };
        let id = (resting > 0).then(|| self.rest(&order, Lots(resting)));
        let cancelled = Lots(lost + left - resting);
        Placement { id, filled: Lots(filled), resting: Lots(resting), cancelled, prevented }
    }

    fn rest(&mut self, order: &Order, size: Lots) -> OrderId {
        let &Order { account, side, price, .. } = order;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.generations.push(0);
            self.generations.len() - 1
        });
        let id = OrderId::from_bits(self.generations[slot] << 32 | slot as u64);
        self.orders.push(Resting { id, account, side, price, size });
        id
    }

    fn remove(&mut self, index: usize) -> Resting {
        let order = self.orders.remove(index);
        self.generations[slot(order.id)] += 1;
        self.free.push(slot(order.id));
        order
    }

    fn find(&self, id: OrderId) -> Result<usize, OrderError> {
        let index = self.orders.iter().position(|order| order.id == id);
        index.ok_or(OrderError::NotResting { id })
    }

    fn check_level(&self, order: &Order, leaving: Option<OrderId>) -> Result<(), OrderError> {
        let stays = |other: &&Resting| {
            (other.side, other.price) == (order.side, order.price) && Some(other.id) != leaving
        };
        let held: u32 = self.orders.iter().filter(stays).map(|other| other.size.0).sum();
        if u64::from(held) + u64::from(order.size.0) > u64::from(u32::MAX) {
            let room = Lots(u32::MAX - held);
            return Err(OrderError::LevelFull { price: order.price, room, got: order.size });
        }
        Ok(())
    }
}

fn check(price: Ticks, size: Lots) -> Result<(), OrderError> {
    if price.0 < 1 || price.0 > 1 << 30 {
        return Err(OrderError::PriceOutOfRange { got: price.0.into() });
    }
    if size == Lots(0) {
        return Err(OrderError::SizeOutOfRange { got: 0 });
    }
    Ok(())
}

fn trades(order: &Order, price: Ticks) -> bool {
    match order.side {
        Side::Buy => price <= order.price,
        Side::Sell => price >= order.price,
    }
}

fn slot(id: OrderId) -> usize {
    usize::try_from(id.to_bits() & 0xffff_ffff).expect("32 bits")
}
