//! Reference book for the benchmark: a map of queues for each side, and a map from ids to prices.

use std::collections::{BTreeMap, HashMap, VecDeque};

use market::{AccountId, Fill, Lots, Order, OrderId, Side, Ticks, TimeInForce};

use crate::Book;

struct Waiting {
    id: u64,
    account: AccountId,
    size: Lots,
}

/// Prices of both sides as keys: the lower, the better.
#[derive(Default)]
pub(crate) struct TreeBook {
    sides: [BTreeMap<i32, VecDeque<Waiting>>; 2],
    orders: HashMap<u64, (Side, i32)>,
    next: u64,
}

fn key(side: Side, price: Ticks) -> i32 {
    if side == Side::Buy { -price.0 } else { price.0 }
}

impl TreeBook {
    fn sweep(&mut self, order: &Order, fills: &mut Vec<Fill>) -> u32 {
        let side = order.side.opposite();
        let mut left = order.size.0;
        while left > 0 {
            let Some(mut best) = self.sides[side as usize].first_entry() else { break };
            if *best.key() > key(side, order.price) {
                break;
            }
            let price = Ticks(best.key().abs());
            let queue = best.get_mut();
            let Some(maker) = queue.front_mut() else { break };
            let traded = if maker.account == order.account {
                maker.size.0 = 0;
                0
            } else {
                left.min(maker.size.0)
            };
            left -= traded;
            maker.size.0 = maker.size.0.saturating_sub(traded);
            if traded > 0 {
                fills.push(Fill {
                    maker: OrderId::from_bits(maker.id),
                    maker_account: maker.account,
                    taker_account: order.account,
                    price,
                    size: Lots(traded),
                    maker_left: maker.size,
                    taker_side: order.side,
                });
            }
            if maker.size.0 == 0 {
                self.orders.remove(&maker.id);
                queue.pop_front();
                if queue.is_empty() {
                    best.remove();
                }
            }
        }
        left
    }
}

impl Book for TreeBook {
    type Id = u64;

    fn place(&mut self, order: Order, fills: &mut Vec<Fill>) -> Option<u64> {
        let left = self.sweep(&order, fills);
        if left == 0 || order.time_in_force != TimeInForce::GoodTillCancelled {
            return None;
        }
        let (id, key) = (self.next, key(order.side, order.price));
        self.next += 1;
        let waiting = Waiting { id, account: order.account, size: Lots(left) };
        self.sides[order.side as usize].entry(key).or_default().push_back(waiting);
        self.orders.insert(id, (order.side, key));
        Some(id)
    }

    fn cancel(&mut self, id: u64) -> bool {
        let Some((side, key)) = self.orders.remove(&id) else { return false };
        let Some(queue) = self.sides[side as usize].get_mut(&key) else { return false };
        queue.retain(|order| order.id != id);
        if queue.is_empty() {
            self.sides[side as usize].remove(&key);
        }
        true
    }
}
