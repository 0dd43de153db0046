//! Continuous matching: an incoming order trades at once with the best price, then the oldest
//! order at it.

use crate::book::queues::Queues;
use crate::fill::Fill;
use crate::id::OrderId;
use crate::order::Order;
use crate::self_trade::SelfTrade;
use crate::side::Side;
use crate::units::{Lots, Ticks};

/// Outcome of an incoming order after matching with the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchResult {
    /// Lots that traded.
    pub(crate) filled: Lots,
    /// Lots that may still rest.
    pub(crate) left: Lots,
    /// Lots that self-trade prevention removed from resting orders.
    pub(crate) prevented: u64,
}

/// Match of two orders: sizes taken from each.
struct Match {
    trade: bool,
    from_maker: u32,
    from_taker: u32,
}

/// The best price of the other side, if an order at `price` would trade there.
pub(crate) fn crossed(queues: &Queues, side: Side, price: Ticks) -> Option<Ticks> {
    let other = side.opposite();
    let best = queues.ladder(other).best()?;
    (best <= other.key(price)).then(|| other.price(best))
}

/// Match `order` with the other side up to its price and size.
pub(crate) fn sweep(
    queues: &mut Queues,
    order: &Order,
    rule: SelfTrade,
    fills: &mut Vec<Fill>,
) -> MatchResult {
    let side = order.side.opposite();
    let worst = side.key(order.price);
    let Queues { ladders, slab } = queues;
    let ladder = &mut ladders[side as usize];
    let mut swept = MatchResult { filled: Lots(0), left: order.size, prevented: 0 };
    while swept.left.0 > 0 {
        let Some((key, level)) = ladder.best_mut().filter(|(key, _)| *key <= worst) else { break };
        let slot = level.head;
        let maker = slab.node_mut(slot);
        let own = maker.account == order.account;
        let Some(meeting) = match_sizes(own, rule, maker.size.0, swept.left.0) else {
            swept.left = Lots(0);
            break;
        };
        maker.size.0 -= meeting.from_maker;
        level.quantity -= meeting.from_maker;
        swept.left.0 -= meeting.from_taker;
        if meeting.trade {
            swept.filled.0 += meeting.from_taker;
            fills.push(Fill {
                maker: OrderId { generation: maker.generation, slot },
                maker_account: maker.account,
                taker_account: order.account,
                price: maker.price,
                size: Lots(meeting.from_maker),
                maker_left: maker.size,
                taker_side: order.side,
            });
        } else {
            swept.prevented += u64::from(meeting.from_maker);
        }
        if maker.size.0 == 0 {
            level.head = maker.next;
            level.count -= 1;
            if level.count == 0 {
                ladder.close(key);
            }
            slab.release(slot);
        }
    }
    swept
}

/// Sizes that two matching orders take from each other; `None` if the incoming one is cancelled.
fn match_sizes(own: bool, rule: SelfTrade, maker: u32, taker: u32) -> Option<Match> {
    let both = maker.min(taker);
    match rule {
        SelfTrade::CancelIncoming if own => None,
        SelfTrade::CancelResting if own => {
            Some(Match { trade: false, from_maker: maker, from_taker: 0 })
        }
        SelfTrade::DecrementBoth if own => {
            Some(Match { trade: false, from_maker: both, from_taker: both })
        }
        _ => Some(Match { trade: true, from_maker: both, from_taker: both }),
    }
}

/// Lots of `order` that would trade at once; nothing changes.
pub(crate) fn fillable(queues: &Queues, order: &Order, rule: SelfTrade) -> Lots {
    let side = order.side.opposite();
    let worst = side.key(order.price);
    let mut left = order.size.0;
    let mut filled = 0;
    for maker in queues.orders(side).take_while(|maker| side.key(maker.price) <= worst) {
        let own = maker.account == order.account;
        let Some(meeting) = match_sizes(own, rule, maker.size.0, left) else { break };
        left -= meeting.from_taker;
        filled += if meeting.trade { meeting.from_taker } else { 0 };
        if left == 0 {
            break;
        }
    }
    Lots(filled)
}
