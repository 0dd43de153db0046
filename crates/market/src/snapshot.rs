//! A book as bytes: versioned, checked, and the same bytes again after it is read back.

use thiserror::Error;

use crate::book::OrderBook;
use crate::bytes::{Reader, checksum};
use crate::id::AccountId;
use crate::order::Order;
use crate::queues::Queues;
use crate::self_trade::SelfTrade;
use crate::side::Side;
use crate::slab::{NO_SLOT, Node, SLOT_LIMIT, Slab};
use crate::units::{Lots, Ticks};

const MAGIC: [u8; 4] = *b"SKLB";
const VERSION: u32 = 1;
/// Magic, version, and the length of the body that follows.
const HEADER: usize = 4 + 4 + 8;
const CHECKSUM: usize = 8;

/// Why bytes are not a book.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// They are something else.
    #[error("the snapshot of an order book was wanted, found bytes that begin otherwise")]
    NotASnapshot,
    /// A newer version of this code wrote them.
    #[error("a snapshot of version {VERSION} was wanted, found version {found}; update sekai")]
    OtherVersion {
        /// The version that was found.
        found: u32,
    },
    /// Some are missing.
    #[error("{wanted} bytes were wanted, found {found}")]
    Truncated {
        /// Bytes that the snapshot should have.
        wanted: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// Some have changed.
    #[error("checksum {wanted:016x} was wanted, found {found:016x}: the bytes have changed")]
    Corrupted {
        /// The checksum that was written.
        wanted: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// They contradict themselves.
    #[error("a book that can exist was wanted, found {found}")]
    Impossible {
        /// What cannot be.
        found: &'static str,
    },
}

impl OrderBook {
    /// The whole state as bytes. Books with equal bytes behave alike for ever, ids included.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.push(self.self_trade as u8);
        body.extend(self.traded.to_le_bytes());
        let slab = &self.queues.slab;
        put_count(&mut body, slab.nodes.len());
        for side in Side::BOTH {
            encode_side(&self.queues, side, &mut body);
        }
        let next_free = |&slot: &u32| Some(slab.node(slot).next);
        let free = std::iter::successors(Some(slab.free), next_free);
        for slot in free.take_while(|&slot| slot != NO_SLOT) {
            body.extend(slot.to_le_bytes());
            body.extend(slab.node(slot).generation.to_le_bytes());
        }
        sealed(&body)
    }

    /// The book that [`OrderBook::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are truncated, corrupted, of another version, or no book at all.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut reader = Reader(opened(bytes)?);
        let rule = SelfTrade::ALL.get(usize::from(reader.u8()?));
        let self_trade = *rule.ok_or(impossible("an unknown self-trade rule"))?;
        let traded = reader.u64()?;
        let slots = reader.u32()? as usize;
        if slots > SLOT_LIMIT {
            return Err(impossible("more slots than a book can have"));
        }
        let mut queues = Queues::new();
        queues.slab.nodes = vec![RETIRED; slots];
        for side in Side::BOTH {
            decode_side(&mut queues, side, &mut reader)?;
        }
        decode_free(&mut queues.slab, &mut reader)?;
        if let (Some(bid), Some(ask)) = (queues.best(Side::Buy), queues.best(Side::Sell))
            && bid >= ask
        {
            return Err(impossible("a bid at or above an ask"));
        }
        Ok(Self { queues, self_trade, traded })
    }
}

/// A slot that neither holds an order nor is free has used up its generations.
const RETIRED: Node = Node {
    price: Ticks(0),
    size: Lots(0),
    account: AccountId(0),
    generation: u32::MAX,
    previous: NO_SLOT,
    next: NO_SLOT,
    side: Side::Buy,
};

fn impossible(found: &'static str) -> SnapshotError {
    SnapshotError::Impossible { found }
}

fn put_count(body: &mut Vec<u8>, count: usize) {
    body.extend(u32::try_from(count).expect("a book holds under 2^32 orders").to_le_bytes());
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len() + CHECKSUM);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// The body of sealed bytes, once all of them are known to be there and unchanged.
fn opened(bytes: &[u8]) -> Result<&[u8], SnapshotError> {
    let mut header = Reader(bytes);
    if header.u32()?.to_le_bytes() != MAGIC {
        return Err(SnapshotError::NotASnapshot);
    }
    let version = header.u32()?;
    if version != VERSION {
        return Err(SnapshotError::OtherVersion { found: version });
    }
    let length = usize::try_from(header.u64()?).unwrap_or(usize::MAX);
    let wanted = length.saturating_add(HEADER + CHECKSUM);
    if bytes.len() != wanted {
        return Err(SnapshotError::Truncated { wanted, found: bytes.len() });
    }
    let (content, written) = bytes.split_at(HEADER + length);
    let (wanted, found) = (Reader(written).u64()?, checksum(content));
    if wanted != found {
        return Err(SnapshotError::Corrupted { wanted, found });
    }
    Ok(&content[HEADER..])
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
