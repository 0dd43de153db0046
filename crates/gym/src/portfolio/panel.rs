//! What portfolios trade on: rows of prices, volumes and features, known one after the other.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

mod slots;

use super::bar::{Bar, BarError, Width};
use super::lanes::{fetch, stride};
use super::settings::FillAt;
use sha2::{Digest, Sha256};
pub use slots::SlotError;

/// Rows that trailing volumes and volatilities look back on.
const TRAILING_ROWS: usize = 20;

const DAY_NANOSECONDS: f64 = 86_400e9;

/// What a row has of each asset, in the order in which a step reads it: what belongs together
/// lies together, since envs that are at different rows have to fetch all of it.
#[derive(Clone, Copy)]
enum Column {
    /// Where orders are filled at the beginning of the row, and one over that; the last mark where
    /// the asset is not tradable, so that arithmetic stays finite.
    Open,
    InverseOpen,
    /// The standard deviation of log returns over the root of the mean volume, of the rows before.
    Impact,
    /// The last close that was quoted.
    Mark,
    /// As `Open`, at the end of the row.
    Close,
    InverseClose,
    /// 1 where orders are filled, 0 where they are not.
    Gate,
    Volume,
}

const COLUMNS: usize = 8;

/// Columns that a step reads in every row: prices of fills, and what is between them.
const READ: usize = 4;

/// What a row is apart from its assets.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// Calendar days since the row before.
    days: f64,
    benchmark: f64,
    decides: bool,
    /// Whether every asset was listed, and whether every asset could be traded.
    all_listed: bool,
    all_movable: bool,
}

/// Gates of a row in which everything can be traded.
static ALL_OPEN: [f64; 512] = [1.0; 512];

/// Rows that are known so far, and what follows from each of them.
#[derive(Clone, Debug)]
pub struct Panel {
    width: Width,
    /// Numbers in a column of a row.
    stride: usize,
    /// Rows before those that are kept.
    forgotten: usize,
    times: Vec<i64>,
    facts: Vec<Facts>,
    /// All columns of a row, then all of the next.
    numbers: Vec<f64>,
    movable: Vec<bool>,
    listed: Vec<bool>,
    /// What the next row's `Impact` will be.
    impacts: Vec<f64>,
    log_returns: Vec<f64>,
    /// Which assets have been quoted at all: a first price is no return.
    known: Vec<bool>,
    features: Vec<f32>,
    /// A digest of each row and all before it.
    digests: Vec<[u8; 32]>,
    /// Whether more rows may come, so that the last one is not the end.
    is_open_ended: bool,
}

impl Panel {
    /// No rows yet.
    #[must_use]
    pub fn new(width: Width, is_open_ended: bool) -> Self {
        let stride = stride(width.assets);
        Self {
            width,
            stride,
            forgotten: 0,
            times: Vec::new(),
            facts: Vec::new(),
            numbers: Vec::new(),
            movable: Vec::new(),
            listed: Vec::new(),
            impacts: vec![0.0; stride],
            log_returns: Vec::new(),
            known: vec![false; stride],
            features: Vec::new(),
            digests: Vec::new(),
            is_open_ended,
        }
    }

    /// Bytes that a row of this width occupies, roughly.
    #[must_use]
    pub fn row_bytes(width: Width) -> usize {
        let Width { assets, features, .. } = width;
        let asset =
            (COLUMNS + 1) * size_of::<f64>() + 2 + features.saturating_mul(size_of::<f32>());
        asset.saturating_mul(stride(assets)).saturating_add(128)
    }

    /// How many rows are known.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.forgotten + self.times.len()
    }

    /// How many rows are known and no more kept.
    #[must_use]
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// Forgets the first of the rows that are kept; numbers of rows stay what they are.
    pub fn forget(&mut self, rows: usize) {
        let rows = rows.min(self.times.len());
        let Width { assets, features, .. } = self.width;
        self.times.drain(..rows);
        self.facts.drain(..rows);
        self.digests.drain(..rows);
        self.numbers.drain(..rows * COLUMNS * self.stride);
        self.log_returns.drain(..rows * self.stride);
        self.movable.drain(..rows * assets);
        self.listed.drain(..rows * assets);
        self.features.drain(..rows * assets * features);
        self.forgotten += rows;
    }

    /// Where a row is kept. What is asked of a row that is forgotten, the first one answers: only
    /// accounts that are ruined still look at the row of their last mark.
    #[inline(always)]
    fn at(&self, row: usize) -> usize {
        row.saturating_sub(self.forgotten)
    }

    /// How wide they are.
    #[must_use]
    pub fn width(&self) -> Width {
        self.width
    }

    /// Numbers in a column of a row, see `lanes`.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Whether more rows may come.
    #[must_use]
    pub fn is_open_ended(&self) -> bool {
        self.is_open_ended
    }

    /// Takes the next row in.
    ///
    /// # Errors
    /// When it is not as wide as the others, not later, or has a price that cannot be.
    pub fn push(&mut self, bar: &Bar<'_>) -> Result<(), BarError> {
        bar.check(self.width, self.times.last().copied())?;
        let digest = self.chained(bar);
        self.push_facts(bar);
        self.times.push(bar.time);
        self.push_prices(bar);
        self.push_trailing();
        self.features.extend_from_slice(bar.features);
        self.digests.push(digest);
        Ok(())
    }

    fn push_facts(&mut self, bar: &Bar<'_>) {
        let last = self.times.last().copied();
        #[allow(clippy::cast_precision_loss)] // a share of a day
        let days = last.map_or(0.0, |last| (bar.time - last) as f64 / DAY_NANOSECONDS);
        self.facts.push(Facts {
            days,
            benchmark: bar.benchmark,
            decides: bar.decides,
            all_listed: all(bar.listed),
            all_movable: all(bar.tradable),
        });
    }

    fn push_prices(&mut self, bar: &Bar<'_>) {
        let (assets, stride) = (self.width.assets, self.stride);
        let row = self.rows() - 1;
        let mut columns = [const { Vec::new() }; COLUMNS];
        for asset in 0..stride {
            // An asset that was never quoted, and what is none, is never held: any price will do.
            let mark = if row == 0 { 1.0 } else { self.marks(row - 1)[asset] };
            let is_asset = asset < assets;
            let close = if is_asset && bar.quoted[asset] { bar.close[asset] } else { mark };
            let gate = is_asset && bar.tradable[asset];
            let open = if gate && self.width.has_open { bar.open[asset] } else { close };
            let volume = if is_asset && self.width.has_volume { bar.volume[asset] } else { 0.0 };
            let (fill_open, fill_close) = if gate { (open, close) } else { (mark, mark) };
            let mut put = |column: Column, number: f64| columns[column as usize].push(number);
            put(Column::Open, fill_open);
            put(Column::InverseOpen, 1.0 / fill_open);
            put(Column::Gate, f64::from(u8::from(gate)));
            put(Column::Impact, self.impacts[asset]);
            put(Column::Mark, close);
            put(Column::Close, fill_close);
            put(Column::InverseClose, 1.0 / fill_close);
            put(Column::Volume, if volume.is_finite() { volume } else { 0.0 });
            let was_known = self.known[asset];
            self.known[asset] |= is_asset && bar.quoted[asset];
            self.log_returns.push(if was_known { libm::log(close / mark) } else { 0.0 });
        }
        for column in &columns {
            self.numbers.extend_from_slice(column);
        }
        self.movable.extend_from_slice(bar.tradable);
        self.listed.extend_from_slice(bar.listed);
    }

    fn push_trailing(&mut self) {
        let (stride, rows) = (self.stride, self.rows());
        let first = rows.saturating_sub(TRAILING_ROWS).max(self.forgotten);
        let count = f64::from(u32::try_from(rows - first).expect("few rows"));
        for asset in 0..stride {
            let volume = (first..rows).map(|row| self.volumes(row)[asset]).sum::<f64>() / count;
            let returns = (first..rows).map(|row| self.log_returns[self.at(row) * stride + asset]);
            let mean = returns.clone().sum::<f64>() / count;
            let squares: f64 = returns.map(|value| (value - mean) * (value - mean)).sum();
            let volatility = (squares / (count - 1.0).max(1.0)).sqrt();
            // Where nothing trades, size costs as much as it can.
            let is_traded = volume > 0.0;
            self.impacts[asset] = if is_traded { volatility / volume.sqrt() } else { f64::MAX };
        }
    }

    /// The digest of a row and of all before it.
    fn chained(&self, bar: &Bar<'_>) -> [u8; 32] {
        let mut state = Sha256::new();
        state.update(self.digests.last().unwrap_or(&[0; 32]));
        state.update(bar.time.to_le_bytes());
        for column in [bar.open, bar.close, bar.volume, &[bar.benchmark]] {
            for value in column {
                state.update(value.to_bits().to_le_bytes());
            }
        }
        for mask in [bar.listed, bar.quoted, bar.tradable, &[bar.decides]] {
            for value in mask {
                state.update([u8::from(*value)]);
            }
        }
        for value in bar.features {
            state.update(value.to_bits().to_le_bytes());
        }
        state.finalize().into()
    }
}

/// What the rest of a portfolio reads.
impl Panel {
    #[inline(always)]
    fn column(&self, row: usize, column: Column) -> &[f64] {
        &self.numbers[(self.at(row) * COLUMNS + column as usize) * self.stride..][..self.stride]
    }

    fn mask<'a>(&self, values: &'a [bool], row: usize) -> &'a [bool] {
        &values[self.at(row) * self.width.assets..][..self.width.assets]
    }

    /// When a row was known.
    #[must_use]
    pub fn time(&self, row: usize) -> i64 {
        self.times[self.at(row)]
    }

    /// The digest of a row and of all before it.
    #[must_use]
    pub fn digest(&self, row: usize) -> &[u8; 32] {
        &self.digests[self.at(row)]
    }

    pub(super) fn days(&self, row: usize) -> f64 {
        self.facts[self.at(row)].days
    }

    /// Where orders are filled at the beginning of a row, and one over that.
    #[inline(always)]
    pub(super) fn opens(&self, row: usize) -> (&[f64], &[f64]) {
        (self.column(row, Column::Open), self.column(row, Column::InverseOpen))
    }

    /// Where orders are filled at the end of a row, and one over that.
    #[inline(always)]
    pub(super) fn closes(&self, row: usize) -> (&[f64], &[f64]) {
        (self.column(row, Column::Close), self.column(row, Column::InverseClose))
    }

    #[inline(always)]
    pub(super) fn marks(&self, row: usize) -> &[f64] {
        self.column(row, Column::Mark)
    }

    pub(super) fn volumes(&self, row: usize) -> &[f64] {
        self.column(row, Column::Volume)
    }

    /// What size costs in a row, from what was known before it.
    #[inline(always)]
    pub(super) fn impacts(&self, row: usize) -> &[f64] {
        self.column(row, Column::Impact)
    }

    /// 1 where orders are filled, 0 where they are not; what is no asset may be either.
    #[inline(always)]
    pub(super) fn gates(&self, row: usize) -> &[f64] {
        // Nearly always all are open, and that is known without fetching them.
        match ALL_OPEN.get(..self.stride) {
            Some(open) if self.facts[self.at(row)].all_movable => open,
            _ => self.column(row, Column::Gate),
        }
    }

    /// Asks for what a step reads of a row, see `Task::warm`.
    #[inline(always)]
    pub(super) fn fetch(&self, row: usize, fill: FillAt) {
        let first = match fill {
            FillAt::NextOpen => Column::Open,
            FillAt::NextClose => Column::Impact,
        };
        let row = self.at(row);
        let start = (row * COLUMNS + first as usize) * self.stride;
        fetch(&self.numbers[start..][..READ * self.stride]);
        fetch(&self.facts[row..=row]);
    }

    pub(super) fn movable(&self, row: usize) -> &[bool] {
        self.mask(&self.movable, row)
    }

    pub(super) fn listed(&self, row: usize) -> &[bool] {
        self.mask(&self.listed, row)
    }

    pub(super) fn all_listed(&self, row: usize) -> bool {
        self.facts[self.at(row)].all_listed
    }

    pub(super) fn all_movable(&self, row: usize) -> bool {
        self.facts[self.at(row)].all_movable
    }

    pub(super) fn decides(&self, row: usize) -> bool {
        self.facts[self.at(row)].decides
    }

    pub(super) fn benchmark(&self, row: usize) -> f64 {
        self.facts[self.at(row)].benchmark
    }

    /// The features of the `rows` rows that end with `row`.
    pub(super) fn window(&self, row: usize, rows: usize) -> &[f32] {
        let width = self.width.assets * self.width.features;
        let end = self.at(row) + 1;
        &self.features[(end - rows) * width..end * width]
    }
}

fn all(mask: &[bool]) -> bool {
    mask.iter().all(|one| *one)
}
