//! Panel of a portfolio: rows of prices, volumes and features, appended over time.

#![allow(clippy::inline_always)] // steps are compiled for the widest lanes, with all they call

mod slots;
mod state;

use std::ops::Range;

use super::bar::{Bar, BarError, Width};
use super::lanes::{fetch, stride};
use super::settings::FillAt;
use crate::panel::Action;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
pub use slots::SlotError;

/// Window of trailing volumes and volatilities, in rows.
const TRAILING_ROWS: usize = 20;

const DAY_NANOSECONDS: f64 = 86_400e9;

/// Columns of a row, one value per asset, in the order in which a step reads them: adjacent in
/// memory, since envs at different rows have to fetch all of them.
#[derive(Clone, Copy)]
enum Column {
    /// Fill price at the open of the row, and its inverse; the last mark where the asset is not
    /// tradable, so that arithmetic stays finite.
    Open,
    InverseOpen,
    /// Standard deviation of log returns over the square root of the mean volume, of previous rows.
    Impact,
    /// The last close that was quoted.
    Mark,
    /// As `Open`, at the close of the row.
    Close,
    InverseClose,
    /// 1 where orders are filled, 0 where they are not.
    Gate,
    Volume,
}

const COLUMNS: usize = 8;

/// Number of columns that a step reads in every row: fill prices and those between them.
const READ: usize = 4;

/// Data of a row that is not per asset.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Facts {
    /// Calendar days since the row before.
    days: f64,
    benchmark: f64,
    decides: bool,
    /// True if every asset was listed, and if every asset could be traded.
    all_listed: bool,
    all_movable: bool,
    /// Number of assets with a dividend or a split.
    actions: usize,
}

/// Gates of a row in which everything can be traded.
static ALL_OPEN: [f64; 512] = [1.0; 512];

/// Panel: known rows and derived columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Panel {
    width: Width,
    /// Numbers in a column of a row.
    stride: usize,
    /// Number of rows dropped from the front.
    forgotten: usize,
    times: Vec<i64>,
    facts: Vec<Facts>,
    /// All columns of a row, then all of the next.
    numbers: Vec<f64>,
    movable: Vec<bool>,
    listed: Vec<bool>,
    /// `Impact` of the next row.
    impacts: Vec<f64>,
    log_returns: Vec<f64>,
    /// Dividends and splits of listed assets by row and asset, in this order.
    actions: Vec<(usize, usize, Action)>,
    /// Mask of assets that have been quoted before: a first price is no return.
    known: Vec<bool>,
    features: Vec<f32>,
    /// A digest of each row and all before it.
    digests: Vec<[u8; 32]>,
    /// True if more rows may be pushed, so that the last one is not the end.
    is_open_ended: bool,
}

impl Panel {
    /// An empty panel.
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
            actions: Vec::new(),
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

    /// Number of known rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.forgotten + self.times.len()
    }

    /// Number of known rows that are no longer stored.
    #[must_use]
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// Drop the first stored rows; row numbers stay the same.
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
        let known = self.actions.partition_point(|(row, _, _)| *row < self.forgotten);
        self.actions.drain(..known);
    }

    /// Index at which a row is stored. A row no longer stored maps to the first one: only ruined
    /// accounts still read the row of their last mark.
    #[inline(always)]
    fn at(&self, row: usize) -> usize {
        row.saturating_sub(self.forgotten)
    }

    /// Width of the rows.
    #[must_use]
    pub fn width(&self) -> Width {
        self.width
    }

    /// Numbers in a column of a row, see `lanes`.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Return true if more rows may be pushed.
    #[must_use]
    pub fn is_open_ended(&self) -> bool {
        self.is_open_ended
    }

    /// Push the next row.
    ///
    /// # Errors
    /// If its width differs, it is not later, or it has an invalid price.
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
            actions: 0,
        });
    }

    fn push_prices(&mut self, bar: &Bar<'_>) {
        let (assets, stride) = (self.width.assets, self.stride);
        let row = self.rows() - 1;
        let mut columns = [const { Vec::new() }; COLUMNS];
        for asset in 0..stride {
            // An asset that was never quoted, and padding, is never held: any price will do.
            let last = if row == 0 { 1.0 } else { self.marks(row - 1)[asset] };
            let is_asset = asset < assets;
            let is_listed = is_asset && bar.listed[asset];
            let action = if is_listed { bar.actions.of(asset) } else { Action::NONE };
            if action != Action::NONE {
                self.actions.push((row, asset, action));
            }
            let mark = action.ex_price(last);
            let close = if is_asset && bar.quoted[asset] { bar.close[asset] } else { mark };
            let gate = is_asset && bar.tradable[asset];
            let open = if gate && self.width.has_open { bar.open[asset] } else { close };
            let volume = if is_asset && self.width.has_volume { bar.volume[asset] } else { 0.0 };
            let (fill_open, fill_close) = if gate { (open, close) } else { (mark, mark) };
            let mut put = |column: Column, number: f64| columns[column as usize].push(number);
            put(Column::Open, fill_open);
            put(Column::InverseOpen, 1.0 / fill_open);
            put(Column::Gate, f64::from(u8::from(gate)));
            // Orders of the row are in units after its split.
            let impact = (self.impacts[asset] / action.split.sqrt()).min(f64::MAX);
            put(Column::Impact, impact);
            put(Column::Mark, close);
            put(Column::Close, fill_close);
            put(Column::InverseClose, 1.0 / fill_close);
            put(Column::Volume, if volume.is_finite() { volume } else { 0.0 });
            let was_known = self.known[asset];
            self.known[asset] |= is_asset && bar.quoted[asset];
            let growth = action.growth(last, close);
            self.log_returns.push(if was_known { libm::log(growth) } else { 0.0 });
        }
        for column in &columns {
            self.numbers.extend_from_slice(column);
        }
        self.movable.extend_from_slice(bar.tradable);
        self.listed.extend_from_slice(bar.listed);
        let actions = self.actions_in(row..row + 1).len();
        self.facts.last_mut().expect("the row was just pushed").actions = actions;
    }

    fn push_trailing(&mut self) {
        let (stride, rows) = (self.stride, self.rows());
        let first = rows.saturating_sub(TRAILING_ROWS).max(self.forgotten);
        let count = f64::from(u32::try_from(rows - first).expect("few rows"));
        for asset in 0..stride {
            let volume = self.traded_units(asset, first..rows) / count;
            let returns = (first..rows).map(|row| self.log_returns[self.at(row) * stride + asset]);
            let mean = returns.clone().sum::<f64>() / count;
            let squares: f64 = returns.map(|value| (value - mean) * (value - mean)).sum();
            let volatility = (squares / (count - 1.0).max(1.0)).sqrt();
            // Without volume, impact is at its maximum.
            let is_traded = volume > 0.0;
            self.impacts[asset] = if is_traded { volatility / volume.sqrt() } else { f64::MAX };
        }
    }

    /// Sum of the volumes of an asset in rows, in units after the splits of these rows.
    fn traded_units(&self, asset: usize, rows: Range<usize>) -> f64 {
        let splits = self.actions_in(rows.clone()).iter();
        let mut splits = splits.filter(|(_, index, _)| *index == asset).peekable();
        if splits.peek().is_none() {
            return rows.map(|row| self.volumes(row)[asset]).sum();
        }
        rows.fold(0.0, |sum, row| {
            let split = splits.next_if(|(split, _, _)| *split == row);
            let ratio = split.map_or(1.0, |(_, _, action)| action.split);
            sum * ratio + self.volumes(row)[asset]
        })
    }

    /// The digest of a row and of all before it.
    fn chained(&self, bar: &Bar<'_>) -> [u8; 32] {
        let mut state = Sha256::new();
        state.update(self.digests.last().unwrap_or(&[0; 32]));
        state.update(bar.time.to_le_bytes());
        let actions = [bar.actions.dividend, bar.actions.split];
        let columns = [bar.open, bar.close, bar.volume, &[bar.benchmark]];
        for column in columns.into_iter().chain(actions) {
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

/// Row accessors for the rest of the portfolio.
impl Panel {
    #[inline(always)]
    fn column(&self, row: usize, column: Column) -> &[f64] {
        &self.numbers[(self.at(row) * COLUMNS + column as usize) * self.stride..][..self.stride]
    }

    fn mask<'a>(&self, values: &'a [bool], row: usize) -> &'a [bool] {
        &values[self.at(row) * self.width.assets..][..self.width.assets]
    }

    /// Timestamp of a row.
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

    /// Fill prices at the open of a row, and their inverses.
    #[inline(always)]
    pub(super) fn opens(&self, row: usize) -> (&[f64], &[f64]) {
        (self.column(row, Column::Open), self.column(row, Column::InverseOpen))
    }

    /// Fill prices at the close of a row, and their inverses.
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

    /// Impact factors of a row, from data known before it.
    #[inline(always)]
    pub(super) fn impacts(&self, row: usize) -> &[f64] {
        self.column(row, Column::Impact)
    }

    /// 1 where orders are filled, 0 where they are not; padding may be either.
    #[inline(always)]
    pub(super) fn gates(&self, row: usize) -> &[f64] {
        // Nearly always all are open: a static row saves fetching them.
        match ALL_OPEN.get(..self.stride) {
            Some(open) if self.facts[self.at(row)].all_movable => open,
            _ => self.column(row, Column::Gate),
        }
    }

    /// Prefetch the data that a step reads of a row, see `Task::warm`.
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

    /// Dividends and splits of a row by asset.
    #[inline(always)]
    pub(super) fn actions(&self, row: usize) -> &[(usize, usize, Action)] {
        if self.facts[self.at(row)].actions > 0 { self.actions_in(row..row + 1) } else { &[] }
    }

    fn actions_in(&self, rows: Range<usize>) -> &[(usize, usize, Action)] {
        let first = self.actions.partition_point(|(row, _, _)| *row < rows.start);
        let count = self.actions[first..].partition_point(|(row, _, _)| *row < rows.end);
        &self.actions[first..][..count]
    }

    pub(super) fn decides(&self, row: usize) -> bool {
        self.facts[self.at(row)].decides
    }

    pub(super) fn benchmark(&self, row: usize) -> f64 {
        self.facts[self.at(row)].benchmark
    }

    /// Feature window of `rows` rows that ends with `row`.
    pub(super) fn window(&self, row: usize, rows: usize) -> &[f32] {
        let width = self.width.assets * self.width.features;
        let end = self.at(row) + 1;
        &self.features[(end - rows) * width..end * width]
    }
}

fn all(mask: &[bool]) -> bool {
    mask.iter().all(|flag| *flag)
}
