//! Recording of a market over many ticks, as columns.

use crate::fill::Fill;
use crate::interrupt::InterruptCheck;
use crate::market::Market;
use crate::side::Side;

/// Recorded columns: a number for each tick and symbol (ticks first), and a row for each trade.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Mid price after the tick, in ticks.
    pub mid: Vec<f64>,
    /// Fair value of a share, in ticks.
    pub fair: Vec<f64>,
    /// Highest trade of the tick.
    pub high: Vec<i64>,
    /// Lowest trade of the tick.
    pub low: Vec<i64>,
    /// Last price traded.
    pub close: Vec<i64>,
    /// Lots taken by buyers.
    pub bought: Vec<i64>,
    /// Lots taken by sellers.
    pub sold: Vec<i64>,
    /// Incoming orders that traded.
    pub trades: Vec<i64>,
    /// Spread in ticks; 0 where a side is empty.
    pub spread: Vec<i64>,
    /// News sentiment.
    pub sentiment: Vec<f64>,
    /// The tick of each trade, counted from 0.
    pub trade_tick: Vec<i64>,
    /// Its symbol.
    pub trade_symbol: Vec<i64>,
    /// Sign of the taker: buyer (1) or seller (-1).
    pub trade_sign: Vec<i64>,
    /// Price.
    pub trade_price: Vec<i64>,
    /// Its lots.
    pub trade_size: Vec<i64>,
}

impl Market {
    /// Advance the market by `ticks` ticks, or until interrupted.
    pub fn run(&mut self, ticks: usize, interrupt: &mut InterruptCheck<'_>) {
        for _ in 0..ticks {
            self.tick();
            if !interrupt.should_continue_after_piece() {
                return;
            }
        }
    }

    /// Advance the market by `ticks` ticks and return the recording. Fills of one incoming order at
    /// one price count as one trade.
    pub fn record(&mut self, ticks: usize) -> Recording {
        self.record_slices(ticks, &mut InterruptCheck::new(&mut || true))
    }

    /// Interruptible [`Market::record`]: returns the recording up to then.
    pub fn record_slices(&mut self, ticks: usize, interrupt: &mut InterruptCheck<'_>) -> Recording {
        let mut recording = Recording::default();
        for tick in 0..ticks {
            self.tick();
            if !interrupt.should_continue_after_piece() {
                break;
            }
            for symbol in 0..self.symbols.len() {
                recording.note_symbol(self, symbol);
                recording.note_trades(self, tick, symbol);
            }
        }
        recording
    }
}

impl Recording {
    /// Bytes that the recording of a tick occupies for each symbol, roughly: a row of ten columns,
    /// and some trades.
    pub const TICK_BYTES: usize = 400;

    fn note_symbol(&mut self, market: &Market, index: usize) {
        let symbol = &market.symbols[index];
        let bar = symbol.bar;
        self.mid.push(symbol.mid());
        self.fair.push(symbol.fair());
        self.high.push(bar.high.0.into());
        self.low.push(bar.low.0.into());
        self.close.push(bar.last.0.into());
        self.bought.push(bar.bought.cast_signed());
        self.sold.push(bar.sold.cast_signed());
        self.trades.push(bar.trades.into());
        let best = Side::BOTH.map(|side| symbol.floor.book.best(side));
        self.spread.push(match best {
            [Some(bid), Some(ask)] => (ask.0 - bid.0).into(),
            _ => 0,
        });
        self.sentiment.push(market.news_of(index).1);
    }

    fn note_trades(&mut self, market: &Market, tick: usize, index: usize) {
        let fills = &market.symbols[index].trades;
        let of_one_order = |chunk: &[Fill]| {
            let size: i64 = chunk.iter().map(|fill| i64::from(fill.size.0)).sum();
            (chunk[0], size)
        };
        let is_same = |first: &Fill, next: &Fill| {
            (first.taker_account, first.taker_side, first.price)
                == (next.taker_account, next.taker_side, next.price)
        };
        for (fill, size) in fills.chunk_by(is_same).map(of_one_order) {
            self.trade_tick.push(i64::try_from(tick).unwrap_or(i64::MAX));
            self.trade_symbol.push(i64::try_from(index).unwrap_or(i64::MAX));
            self.trade_sign.push(fill.taker_side.sign());
            self.trade_price.push(fill.price.0.into());
            self.trade_size.push(size);
        }
    }
}
