//! Optimal market making in closed form (GLFT: Guéant, Lehalle and Fernandez-Tapia).
//!
//! With exponential utility and fills of intensity `A exp(-k distance)`, the value of holding
//! `q` with `t` left is `cash + q mid + ln(v_q(t)) / k`, where `v` solves the linear system
//! `v' = -M v` with a tridiagonal `M`: `k (risk_aversion volatility² / 2 + running_penalty) q²`
//! on the diagonal, `-A (1 + risk_aversion / k)^-(1 + k / risk_aversion)` beside it.

use crate::market_making::{MarketMakingSettings, Quotes};
use crate::settings_error::SettingsError;

/// Tabulated `ln(v_q)` at each decision, with the optimal quotes.
#[derive(Clone, Debug)]
pub(crate) struct Glft {
    /// Rows of `2 inventory_limit + 1` numbers, from the last moment of an episode to its first.
    log_values: Vec<f64>,
    width: usize,
    fill_decay: f64,
    /// Optimal distance from the indifference price.
    margin: f64,
}

/// Number of terms of the series for a matrix exponential: further ones are below rounding.
const TERMS: u32 = 24;

/// Largest norm for which that number of terms is enough.
const LARGEST_NORM: f64 = 2.0;

/// Most operations for the table: some seconds.
const MOST_OPERATIONS: f64 = 1e10;

/// Check that the table takes a bounded time.
pub(crate) fn check(settings: &MarketMakingSettings) -> Result<(), SettingsError> {
    let width = 2.0 * f64::from(settings.inventory_limit) + 1.0;
    let parts = (norm(settings) / LARGEST_NORM).max(1.0);
    let got = parts * width * f64::from(TERMS) * f64::from(settings.episode_steps);
    let expected = "at most 1e10; lower the volatility, penalties, limit or number of steps";
    SettingsError::unless(got <= MOST_OPERATIONS, "operations for the closed form", expected, got)
}

/// Norm of the matrix of one step.
fn norm(settings: &MarketMakingSettings) -> f64 {
    let limit = f64::from(settings.inventory_limit);
    let rate = settings.fill_rate * best_share(settings.risk_aversion, settings.fill_decay);
    (curvature(settings) * limit * limit + 2.0 * rate) * settings.step_time()
}

/// Cost of an inventory of one, per unit of time.
fn curvature(settings: &MarketMakingSettings) -> f64 {
    let risk = settings.risk_aversion * settings.volatility * settings.volatility / 2.0;
    settings.fill_decay * (risk + settings.running_penalty)
}

impl Glft {
    pub(crate) fn new(settings: &MarketMakingSettings) -> Self {
        let (limit, decay) = (settings.inventory_limit, settings.fill_decay);
        let inventories = || (0..=2 * limit).map(|index| f64::from(index) - f64::from(limit));
        let penalty = decay * settings.liquidation_penalty;
        let mut row: Vec<f64> = inventories().map(|inventory| -penalty * inventory.abs()).collect();
        let mut log_values = row.clone();
        let flow = Flow::new(settings, &inventories().collect::<Vec<_>>());
        for _ in 0..settings.episode_steps {
            flow.apply(&mut row);
            log_values.extend_from_slice(&row);
        }
        let margin = best_margin(settings.risk_aversion, decay);
        Self { log_values, width: row.len(), fill_decay: decay, margin }
    }

    /// Value function of the optimal quotes beyond marked wealth: expected gain until the end of
    /// the episode.
    pub(crate) fn value(&self, steps_left: u32, inventory: i32) -> f64 {
        self.log_value(steps_left, inventory) / self.fill_decay
    }

    /// The optimal distances; infinite on a side where a fill would exceed the limit.
    pub(crate) fn quotes(&self, steps_left: u32, inventory: i32) -> Quotes {
        let here = self.log_value(steps_left, inventory);
        let towards = |next| match self.get(steps_left, next) {
            Some(there) => (here - there) / self.fill_decay + self.margin,
            None => f64::INFINITY,
        };
        Quotes { bid: towards(inventory + 1), ask: towards(inventory - 1) }
    }

    fn log_value(&self, steps_left: u32, inventory: i32) -> f64 {
        self.get(steps_left, inventory).expect("an episode stays within its time and its limit")
    }

    fn get(&self, steps_left: u32, inventory: i32) -> Option<f64> {
        let middle = i64::try_from(self.width / 2).ok()?;
        let column = usize::try_from(middle + i64::from(inventory)).ok()?;
        let row = self.log_values.chunks_exact(self.width).nth(steps_left as usize)?;
        row.get(column).copied()
    }
}

/// `exp(-M dt)` for one step, applied to logarithms.
struct Flow {
    /// `-M` with its least diagonal element added to the diagonal: nothing in it is negative, so
    /// that no digit is lost by cancellation however large the limit.
    diagonal: Vec<f64>,
    beside: f64,
    shift: f64,
    /// Number of parts of a step for which the series converges.
    parts: u32,
}

impl Flow {
    fn new(settings: &MarketMakingSettings, inventories: &[f64]) -> Self {
        let curvature = curvature(settings);
        let costs: Vec<f64> =
            inventories.iter().map(|inventory| curvature * inventory * inventory).collect();
        let largest = costs.iter().copied().fold(0.0, f64::max);
        let rate = settings.fill_rate * best_share(settings.risk_aversion, settings.fill_decay);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bounded by `check`
        let parts = (norm(settings) / LARGEST_NORM).ceil().max(1.0) as u32;
        let part = settings.step_time() / f64::from(parts);
        Self {
            diagonal: costs.iter().map(|cost| (largest - cost) * part).collect(),
            beside: rate * part,
            shift: -largest * part,
            parts,
        }
    }

    fn apply(&self, logarithms: &mut [f64]) {
        for _ in 0..self.parts {
            let scale = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut sum: Vec<f64> =
                logarithms.iter().map(|value| libm::exp(value - scale)).collect();
            let mut term = sum.clone();
            for order in 1..=TERMS {
                term = self.times(&term, 1.0 / f64::from(order));
                sum.iter_mut().zip(&term).for_each(|(total, more)| *total += more);
            }
            for (value, sum) in logarithms.iter_mut().zip(&sum) {
                *value = libm::log(*sum) + scale + self.shift;
            }
        }
    }

    /// The matrix times `vector`, times `factor`.
    fn times(&self, vector: &[f64], factor: f64) -> Vec<f64> {
        let at = |index: Option<usize>| index.and_then(|index| vector.get(index)).unwrap_or(&0.0);
        let beside = |index: usize| at(index.checked_sub(1)) + at(index.checked_add(1));
        let row = |(index, (own, value)): (usize, (&f64, &f64))| {
            (own * value + self.beside * beside(index)) * factor
        };
        self.diagonal.iter().zip(vector).enumerate().map(row).collect()
    }
}

/// `ln(1 + risk_aversion / k) / risk_aversion`, and its limit without risk aversion.
fn best_margin(aversion: f64, decay: f64) -> f64 {
    if aversion == 0.0 { 1.0 / decay } else { libm::log1p(aversion / decay) / aversion }
}

/// `(1 + risk_aversion / k)^-(1 + k / risk_aversion)`, and its limit without risk aversion.
fn best_share(aversion: f64, decay: f64) -> f64 {
    if aversion == 0.0 {
        return libm::exp(-1.0);
    }
    libm::exp(-(1.0 + decay / aversion) * libm::log1p(aversion / decay))
}
