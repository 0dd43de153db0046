//! CPU time per portfolio step, in batches on one thread.
//!
//! `cargo bench -p gym --bench portfolio` prints a table; words after `--` choose lines of
//! it. The measured parts are interleaved, and the median of the rounds is shown.

#![allow(clippy::print_stdout)] // the program prints a table
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // numbers are small
#![allow(clippy::cast_precision_loss)]

use std::fs;
use std::sync::Arc;

use gym::panel::ActionColumns;
use gym::portfolio::projection::Constraints;
use gym::portfolio::{
    AccountKind, ActionMode, AgentSettings, AssetRate, Bar, Costs, FillAt, ObservedFeatures, Panel,
    Portfolio, PortfolioSettings, PortfolioTerm, RewardMode, RewardRule, Sizing, Starts, Unfilled,
    Width,
};
use gym::{Batch, Observation, StepOut, Task};
use market::{EpisodeKey, Stream};

const ENVS: usize = 1_024;
const ROWS: usize = 1_260;
const FEATURES: usize = 5;
const ROUNDS: usize = 7;
const STEPS: usize = 100;
/// Number of batches of decisions, which are cycled through.
const DECISIONS: usize = 8;

type Shown = <Portfolio as Task>::Observation;

struct Bench {
    name: &'static str,
    batch: Batch<Portfolio>,
    shown: Shown,
    finals: Shown,
    decisions: Vec<Vec<f64>>,
    nanoseconds: Vec<f64>,
}

fn main() {
    let mut stream = EpisodeKey { seed: 1, episode: 0 }.stream(0);
    let (few, many) = (Arc::new(panel(20, &mut stream)), Arc::new(panel(100, &mut stream)));
    let mut benches = vec![
        Bench::new("20 assets, index, allowed weights", &few, ObservedFeatures::Index, true),
        Bench::new("20 assets, index, any weights", &few, ObservedFeatures::Index, false),
        Bench::new("20 assets, window, allowed weights", &few, ObservedFeatures::Window, true),
        Bench::new("100 assets, index, allowed weights", &many, ObservedFeatures::Index, true),
    ];
    // Words after `--` filter them, as they filter tests.
    let chosen = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    benches.retain(|bench| bench.name.contains(&chosen));
    for _ in 0..ROUNDS {
        benches.iter_mut().for_each(Bench::round);
    }
    println!("{:>36} {:>8} {:>14}", "one step of one portfolio", "ns", "steps a second");
    for bench in &mut benches {
        bench.nanoseconds.sort_by(f64::total_cmp);
        let median = bench.nanoseconds[ROUNDS / 2];
        println!("{:>36} {median:>8.0} {:>12.2} M", bench.name, 1e3 / median);
    }
}

impl Bench {
    fn new(
        name: &'static str,
        panel: &Arc<Panel>,
        shown: ObservedFeatures,
        is_allowed: bool,
    ) -> Self {
        let assets = panel.width().assets;
        let task = Portfolio::new(panel.clone(), settings(assets, shown)).expect("sound settings");
        let mut batch = Batch::new(&task, ENVS, Some(1), 0);
        let mut memory = Shown::zeros(&task.layout(), ENVS);
        let ids: Vec<i64> = (0..ENVS as i64).collect();
        let seeds: Vec<u64> = (0..ENVS as u64).collect();
        batch.reset(&ids, Some(&seeds), memory.rows()).expect("a reset");
        let mut stream = EpisodeKey { seed: 2, episode: 0 }.stream(0);
        let mut decisions = || {
            (0..ENVS).flat_map(|_| decision(assets, is_allowed, &mut stream)).collect::<Vec<_>>()
        };
        Self {
            name,
            batch,
            finals: memory.clone(),
            shown: memory,
            decisions: (0..DECISIONS).map(|_| decisions()).collect(),
            nanoseconds: Vec::new(),
        }
    }

    fn round(&mut self) {
        let (mut rewards, mut ended) = ([0.0; ENVS], [[false; ENVS]; 2]);
        let began = cpu_nanoseconds();
        for step in 0..STEPS {
            let [terminated, truncated] = &mut ended;
            let out = StepOut {
                observations: self.shown.rows(),
                rewards: &mut rewards,
                terminated,
                truncated,
                finals: Some(self.finals.rows()),
            };
            self.batch.step(&self.decisions[step % DECISIONS], out, None).expect("a step");
        }
        self.nanoseconds.push((cpu_nanoseconds() - began) / (STEPS * ENVS) as f64);
    }
}

/// CPU time of this thread, in nanoseconds.
fn cpu_nanoseconds() -> f64 {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    statistics.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn decision(assets: usize, is_allowed: bool, stream: &mut Stream) -> Vec<f64> {
    if !is_allowed {
        return (0..=assets).map(|_| stream.normal()).collect();
    }
    let weights: Vec<f64> = (0..=assets).map(|_| stream.exponential()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn panel(assets: usize, stream: &mut Stream) -> Panel {
    let width = Width { assets, features: FEATURES, has_open: true, has_volume: true };
    let mut panel = Panel::new(width, false);
    let (mut prices, yes) = (vec![100.0; assets], vec![true; assets]);
    for row in 0..ROWS {
        let open = prices.clone();
        for price in &mut prices {
            *price *= 1.0 + 0.01 * stream.normal();
        }
        let volume: Vec<f64> = prices.iter().map(|_| 1e6 * (1.0 + stream.uniform())).collect();
        let features: Vec<f32> = (0..assets * FEATURES).map(|_| stream.normal() as f32).collect();
        let bar = Bar {
            time: row as i64 * 86_400_000_000_000,
            open: &open,
            close: &prices,
            volume: &volume,
            listed: &yes,
            quoted: &yes,
            tradable: &yes,
            actions: ActionColumns::default(),
            features: &features,
            decides: true,
            benchmark: 0.0,
        };
        panel.push(&bar).expect("a row in order");
    }
    panel
}

/// Default portfolio settings.
fn settings(assets: usize, shown: ObservedFeatures) -> PortfolioSettings {
    let constraints = Constraints {
        lower: vec![0.0; assets],
        upper: vec![1.0; assets],
        cash_lower: 0.0,
        cash_upper: 1e6,
        leverage: None,
        sectors: vec![],
        sector_caps: vec![],
        turnover: None,
        ..Constraints::default()
    };
    let reward = RewardRule {
        terms: vec![(PortfolioTerm::LogReturn, 1.0)],
        memory: 0.01,
        risk_aversion: 1.0,
    };
    let account = AccountKind::Cash;
    PortfolioSettings {
        lookback: 30,
        shown,
        action: ActionMode::Weights,
        fill: FillAt::NextOpen,
        sizing: Sizing::Fill,
        delay: 0,
        unfilled: Unfilled::Drop,
        participation: None,
        smallest_trade: 1e-6,
        lot_size: None,
        costs: Costs {
            proportional: AssetRate::All(5e-4),
            fixed: 0.0,
            half_spread: AssetRate::All(5e-4),
            impact: AssetRate::All(1.0),
            borrow: AssetRate::All(0.01),
            financing: 0.05,
            interest: 0.0,
            delisting: 0.3,
            ..Costs::default()
        },
        agents: vec![AgentSettings { initial_cash: 1e5, account, constraints, reward, ruin: 0.0 }],
        shared_leverage: None,
        reward_mode: RewardMode::Own,
        episode_rows: Some(252),
        starts: Starts::Random,
        first_row: 0,
    }
}
