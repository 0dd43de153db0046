//! CPU time per bar of one symbol, compared with recomputing every window.
//!
//! `cargo bench -p gym` prints a table; the measured parts are interleaved, and the median of
//! the rounds is shown.

#![allow(clippy::print_stdout)] // the program prints a table

use std::hint::black_box;
use std::time::Instant;

use gym::features::{Bar, FeatureOptions, Features, NewsView, View};

const BARS: usize = 4_096;
/// The system counts CPU time in steps of up to 4 ms, so a round repeats its bars.
const REPEATS: usize = 50;
const ROUNDS: usize = 9;

fn main() {
    let bars = bars();
    let normal = FeatureOptions { normalize: true, ..FeatureOptions::default() };
    let mut nanoseconds: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        nanoseconds[0].push(measure(|| push_all(&bars)));
        nanoseconds[1].push(measure(|| push_and_write(FeatureOptions::default(), &bars)));
        nanoseconds[2].push(measure(|| push_and_write(normal, &bars)));
        nanoseconds[3].push(measure(|| go_through_windows(&bars)));
    }
    let names = ["push", "push + write", "push + write, normalised", "windows and logs anew"];
    println!("{:>26} {:>10}", "one bar of one symbol", "ns");
    for (name, values) in names.into_iter().zip(nanoseconds) {
        println!("{name:>26} {:>10.0}", median(values));
    }
}

fn push_all(bars: &[Bar]) -> f64 {
    let mut features = Features::new(FeatureOptions::default());
    for bar in bars {
        black_box(&mut features).push(bar);
    }
    let mut row = [0.0; 54];
    features.write(&view(&bars[0]), &mut row);
    row[25]
}

fn push_and_write(options: FeatureOptions, bars: &[Bar]) -> f64 {
    let mut features = Features::new(options);
    let mut row = [0.0; 54];
    for bar in bars {
        features.push(bar);
        features.write(&view(bar), black_box(&mut row));
    }
    row[25]
}

/// Means, deviations and log returns recomputed without running sums.
fn go_through_windows(bars: &[Bar]) -> f64 {
    let closes: Vec<f64> = bars.iter().map(|bar| bar.close).collect();
    let mut total = 0.0;
    for now in 64..closes.len() {
        let seen = &closes[now - 64..=now];
        let logs =
            [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64].map(|lag| (seen[64] / seen[64 - lag]).ln());
        let mut returns = [0.0; 32];
        for (index, value) in returns.iter_mut().enumerate() {
            *value = (seen[33 + index] / seen[32 + index]).ln();
        }
        total += black_box(logs)[0] + mean(&seen[57..]) + mean(&seen[49..]);
        total += deviation(&seen[53..]) + deviation(&returns) + deviation(&returns[24..]);
    }
    total
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / as_f64(values.len())
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let spread: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (spread / as_f64(values.len())).sqrt()
}

/// Nanoseconds per bar.
fn measure(pass: impl Fn() -> f64) -> f64 {
    let start = cpu_seconds();
    for _ in 0..REPEATS {
        black_box(pass());
    }
    1e9 * (cpu_seconds() - start) / as_f64(BARS * REPEATS)
}

/// A random walk of closes, from a multiplicative congruential generator.
fn bars() -> Vec<Bar> {
    let (mut state, mut close) = (1_u64, 100.0);
    let mut uniform = move || {
        state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        f64::from(u32::try_from(state >> 33).expect("31 bits")) / f64::from(1_u32 << 31)
    };
    let bar = |_| {
        close *= 1.0 + 0.02 * (uniform() - 0.5);
        let (high, low) = (close * (1.0 + 0.01 * uniform()), close * (1.0 - 0.01 * uniform()));
        Bar { high, low, close, volume: 100.0 * uniform(), trades: 7 }
    };
    (0..BARS).map(bar).collect()
}

fn view(bar: &Bar) -> View {
    let news = NewsView { sentiment: 0.5, magnitude: 2.0, elapsed: 3, duration: 20 };
    View {
        bid: Some(bar.close - 0.5),
        ask: Some(bar.close + 0.5),
        bid_volume: 20.0,
        ask_volume: 30.0,
        buy_volume: 40.0,
        sell_volume: 60.0,
        news: Some(news),
        sentiment: 0.4,
        fair: 101.0,
        ..View::of_last(bar.close)
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
