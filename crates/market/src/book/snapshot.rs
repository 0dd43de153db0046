//! Snapshot of a book: encoding to bytes and decoding.

use crate::book::OrderBook;
use crate::book::ladder::KEY_LIMIT;
use crate::book::queues::Queues;
use crate::book::slab::{NO_SLOT, SLOT_LIMIT, Slab};
use crate::id::{AccountId, OrderId};
use crate::order::Resting;
use crate::sealed::{Kind, Reader, SnapshotError, open, seal};
use crate::self_trade::SelfTrade;
use crate::side::Side;
use crate::units::{Lots, Ticks};

const BOOK: Kind = Kind { magic: *b"SKLB", version: 1, name: "an order book" };

impl OrderBook {
    /// Encode the full state as bytes. Books with equal bytes behave identically, ids included.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = vec![self.self_trade as u8];
        body.extend(self.traded.to_le_bytes());
        put_count(&mut body, self.queues.slab.nodes.len());
        for side in Side::BOTH {
            encode_side(&self.queues, side, &mut body);
        }
        for slot in self.queues.slab.free_slots() {
            body.extend(slot.to_le_bytes());
            body.extend(self.queues.slab.node(slot).generation.to_le_bytes());
        }
        seal(BOOK, &body)
    }

    /// Decode a book from the bytes of [`OrderBook::encode`].
    ///
    /// # Errors
    /// If the bytes are truncated, corrupted, of another version, or do not hold a book.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut reader = Reader(open(BOOK, bytes)?);
        let rule = SelfTrade::ALL.get(usize::from(reader.u8()?));
        let self_trade = *rule.ok_or(impossible("an unknown self-trade rule"))?;
        let traded = reader.u64()?;
        let slots = reader.u32()? as usize;
        if slots > SLOT_LIMIT {
            return Err(impossible("more slots than a book can have"));
        }
        let mut queues = Queues::new();
        queues.slab = Slab::retired(slots);
        let mut unread = vec![true; slots];
        for side in Side::BOTH {
            decode_side(&mut queues, side, &mut reader, &mut unread)?;
        }
        decode_free(&mut queues.slab, &mut reader, &mut unread)?;
        match (queues.best(Side::Buy), queues.best(Side::Sell)) {
            (Some(bid), Some(ask)) if bid >= ask => Err(impossible("a bid at or above an ask")),
            _ => Ok(Self { queues, self_trade, traded }),
        }
    }
}

fn impossible(got: &'static str) -> SnapshotError {
    SnapshotError::Impossible { got }
}

fn put_count(body: &mut Vec<u8>, count: usize) {
    body.extend(u32::try_from(count).expect("a book has under 2^32 slots").to_le_bytes());
}

fn encode_side(queues: &Queues, side: Side, body: &mut Vec<u8>) {
    body.extend(queues.ladder(side).base.to_le_bytes());
    put_count(body, queues.orders(side).count());
    for order in queues.orders(side) {
        body.extend(order.price.0.to_le_bytes());
        let words = [order.size.0, order.account.0, order.id.slot, order.id.generation];
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}

fn decode_side(
    queues: &mut Queues,
    side: Side,
    reader: &mut Reader<'_>,
    unread: &mut [bool],
) -> Result<(), SnapshotError> {
    let base = reader.i32()?;
    if base.unsigned_abs() > KEY_LIMIT.unsigned_abs() {
        return Err(impossible("a window beyond all prices"));
    }
    queues.ladders[side as usize].base = base;
    let mut last = None;
    for _ in 0..reader.u32()? {
        let order = decode_order(side, reader, unread)?;
        let key = Some(side.key(order.price));
        if key < last {
            return Err(impossible("a better price behind a worse one"));
        }
        if last.is_none() && !queues.ladder(side).reaches(side.key(order.price)) {
            return Err(impossible("a best price outside its window"));
        }
        if u64::from(queues.volume_at(side, order.price).0) + u64::from(order.size.0)
            > u64::from(u32::MAX)
        {
            return Err(impossible("a level with more lots than it can hold"));
        }
        last = key;
        queues.restore(&order);
    }
    Ok(())
}

fn decode_order(
    side: Side,
    reader: &mut Reader<'_>,
    unread: &mut [bool],
) -> Result<Resting, SnapshotError> {
    let (price, size) = (Ticks(reader.i32()?), Lots(reader.u32()?));
    let account = AccountId(reader.u32()?);
    let (slot, generation) = (reader.u32()?, reader.u32()?);
    if size.0 == 0 || !(Ticks::MIN..=Ticks::MAX).contains(&price) {
        return Err(impossible("an invalid order"));
    }
    first_use(slot, generation, unread)?;
    Ok(Resting { id: OrderId { generation, slot }, account, side, price, size })
}

fn decode_free(
    slab: &mut Slab,
    reader: &mut Reader<'_>,
    unread: &mut [bool],
) -> Result<(), SnapshotError> {
    let mut last = NO_SLOT;
    while !reader.is_empty() {
        let (slot, generation) = (reader.u32()?, reader.u32()?);
        first_use(slot, generation, unread)?;
        slab.node_mut(slot).generation = generation;
        match last {
            NO_SLOT => slab.free = slot,
            last => slab.node_mut(last).next = slot,
        }
        last = slot;
    }
    Ok(())
}

fn first_use(slot: u32, generation: u32, unread: &mut [bool]) -> Result<(), SnapshotError> {
    if generation >= OrderId::GENERATIONS {
        return Err(impossible("a slot generation out of range"));
    }
    match unread.get_mut(slot as usize).map(std::mem::take) {
        Some(true) => Ok(()),
        Some(false) => Err(impossible("two uses of one slot")),
        None => Err(impossible("a slot beyond the last")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Order;

    /// A bid of 5 at 99 and an ask of 5 at 101, with four bytes of the body written over.
    fn forged(index: usize, value: i32) -> Option<SnapshotError> {
        let mut book = OrderBook::new(SelfTrade::Allow);
        for (side, price) in [(Side::Buy, 99), (Side::Sell, 101)] {
            let order = Order::limit(AccountId(1), side, Ticks(price), Lots(5));
            book.place(order, &mut Vec::new()).expect("a good order");
        }
        let bytes = book.encode();
        let mut body = bytes[16..bytes.len() - 8].to_vec();
        body[index..index + 4].copy_from_slice(&value.to_le_bytes());
        OrderBook::decode(&seal(BOOK, &body)).err()
    }

    #[test]
    fn an_invalid_book_reports_the_flaw() {
        let cases = [
            (0, 9, "an unknown self-trade rule"),
            (9, i32::MAX, "more slots than a book can have"),
            (13, i32::MIN, "a window beyond all prices"),
            (13, 5_000, "a best price outside its window"),
            (21, 0, "an invalid order"),
            (25, 0, "an invalid order"),
            (33, 7, "a slot beyond the last"),
            (37, -1, "a slot generation out of range"),
            (61, 0, "two uses of one slot"),
            (21, 101, "a bid at or above an ask"),
        ];

        for (index, value, got) in cases {
            assert_eq!(forged(index, value), Some(impossible(got)), "{value} at {index}");
        }
    }

    #[test]
    fn a_body_that_ends_early_says_so() {
        assert_eq!(forged(17, 2), Some(impossible("an invalid order")));
        assert!(matches!(forged(45, 2), Some(SnapshotError::Length { .. })));
    }
}
