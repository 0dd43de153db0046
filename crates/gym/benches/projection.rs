//! CPU time per projection of target weights, by mandate.
//!
//! `cargo bench -p gym --bench projection` prints a table; the cases are interleaved, and the
//! median of the rounds is shown.

#![allow(clippy::print_stdout)] // the program prints a table

use std::hint::black_box;
use std::time::Instant;

use gym::portfolio::projection::{Constraints, Workspace};

/// Number of different targets in a pass, so that branches are not memorised by the predictor.
const TARGETS: usize = 1_024;
/// The system counts CPU time in steps of up to 4 ms, so a round repeats its targets: more often if
/// one takes nanoseconds.
const REPEATS: usize = 10;
const REPEATS_OF_SHORT: usize = 200;
const ROUNDS: usize = 9;
const SECTORS: usize = 5;

/// One kind of mandate, with random targets and holdings.
struct Case {
    name: &'static str,
    constraints: Constraints,
    targets: Vec<f64>,
    held: Vec<f64>,
    movable: Vec<bool>,
    repeats: usize,
}

fn main() {
    println!("{:>34} {:>8} {:>8}", "one projection", "20", "100");
    let (small, large) = (measured(20), measured(100));
    for ((name, small), (_, large)) in small.into_iter().zip(large) {
        println!("{name:>34} {small:>8.0} {large:>8.0}");
    }
}

fn measured(assets: usize) -> Vec<(&'static str, f64)> {
    let cases = cases(assets);
    let mut nanoseconds = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (case, values) in cases.iter().zip(&mut nanoseconds) {
            values.push(case.measure());
        }
    }
    cases.iter().zip(nanoseconds).map(|(case, values)| (case.name, median(values))).collect()
}

fn cases(assets: usize) -> Vec<Case> {
    let long = long_only(assets);
    let short = Constraints { lower: long.upper.iter().map(|cap| -cap).collect(), ..long.clone() };
    let leverage = Constraints { leverage: Some(0.8), ..short.clone() };
    let sectors = Constraints {
        sectors: (0..assets).map(|asset| Some(asset % SECTORS)).collect(),
        sector_caps: vec![Some(0.15); SECTORS],
        ..long.clone()
    };
    let turnover = Constraints { turnover: Some(0.2), ..long.clone() };
    let everything = Constraints {
        leverage: Some(0.8),
        turnover: Some(0.2),
        lower: short.lower.clone(),
        ..sectors.clone()
    };
    vec![
        Case::new("allowed already", long.clone(), 0.0, 1.0),
        Case::new("bounds and sum", long, 0.05, 1.0),
        Case::new("leverage", leverage, 0.2, 1.0),
        Case::new("sectors", sectors, 0.05, 1.0),
        Case::new("turnover", turnover, 0.05, 1.0),
        Case::new("everything", everything.clone(), 0.1, 1.0),
        Case::new("everything, a tenth cannot move", everything, 0.1, 0.9),
    ]
}

fn long_only(assets: usize) -> Constraints {
    Constraints {
        lower: vec![0.0; assets],
        upper: vec![2.0 / as_f64(assets); assets],
        cash_lower: 0.0,
        cash_upper: 1.0,
        leverage: None,
        sectors: Vec::new(),
        sector_caps: Vec::new(),
        turnover: None,
        ..Constraints::default()
    }
}

impl Case {
    /// Targets are holdings of about half the equity in equal parts, and noise of this size.
    fn new(name: &'static str, constraints: Constraints, noise: f64, can_move: f64) -> Self {
        let assets = constraints.assets();
        let mut uniform = uniforms();
        let part = 0.5 / as_f64(assets);
        let mut held = vec![part; assets];
        held.push(1.0 - held.iter().sum::<f64>());
        let mut target_weight =
            |index: usize| held[index % (assets + 1)] + 2.0 * noise * (uniform() - 0.5);
        let targets = (0..TARGETS * (assets + 1)).map(&mut target_weight).collect();
        let movable = (0..TARGETS * assets).map(|_| uniform() < can_move).collect();
        constraints.check().expect("a mandate that can be met");
        let is_short = constraints.leverage.or(constraints.turnover).is_none()
            && constraints.sector_caps.is_empty();
        let repeats = if is_short { REPEATS_OF_SHORT } else { REPEATS };
        Self { name, constraints, targets, held, movable, repeats }
    }

    /// Nanoseconds per target.
    fn measure(&self) -> f64 {
        let assets = self.constraints.assets();
        let mut workspace = Workspace::new(assets, self.constraints.sector_caps.len());
        let mut allowed = vec![0.0; assets + 1];
        let start = cpu_seconds();
        for _ in 0..self.repeats {
            let rows = self.targets.chunks_exact(assets + 1).zip(self.movable.chunks_exact(assets));
            for (target, movable) in rows {
                let target = black_box(target);
                let (held, space) = (&self.held, &mut workspace);
                black_box(self.constraints.project(target, held, movable, space, &mut allowed));
            }
        }
        1e9 * (cpu_seconds() - start) / as_f64(TARGETS * self.repeats)
    }
}

/// Numbers from 0 to 1, from a multiplicative congruential generator.
fn uniforms() -> impl FnMut() -> f64 {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        f64::from(u32::try_from(state >> 33).expect("31 bits")) / f64::from(1_u32 << 31)
    }
}

/// CPU time of this thread where available (Linux), else wall-clock time.
fn cpu_seconds() -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match schedule.split(' ').next().map(str::parse::<u64>) {
        Some(Ok(nanoseconds)) => 1e-9 * as_f64(usize::try_from(nanoseconds).unwrap_or(0)),
        _ => START.elapsed().as_secs_f64(),
    }
}

static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn as_f64(count: usize) -> f64 {
    count as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);

    values[values.len() / 2]
}
