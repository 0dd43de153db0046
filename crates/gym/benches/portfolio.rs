//! Env-steps of portfolios a second on one thread, observations by index and materialised.

use std::sync::Arc;

use gym::portfolio::projection::Constraints;
use gym::portfolio::{
    AccountKind, ActionMode, AgentSettings, Bar, Costs, FillAt, Panel, Portfolio,
    PortfolioSettings, PortfolioTerm, RewardMode, RewardRule, ShownFeatures, Starts, Unfilled,
    Width,
};
use gym::{Batch, Observation, StepOut, Task};
use market::EpisodeKey;

const ROWS: usize = 1_260;
const FEATURES: usize = 5;

fn panel(assets: usize) -> Panel {
    let width = Width { assets, features: FEATURES, has_open: true, has_volume: true };
    let mut panel = Panel::new(width, false);
    let mut stream = EpisodeKey { seed: 1, episode: 0 }.stream(0);
    let mut prices = vec![100.0; assets];
    for row in 0..ROWS {
        let open: Vec<f64> =
            prices.iter().map(|price| price * (1.0 + 0.005 * stream.normal())).collect();
        for price in &mut prices {
            *price *= 1.0 + 0.01 * stream.normal();
        }
        let volume: Vec<f64> = prices.iter().map(|_| 1e6 * (1.0 + stream.uniform())).collect();
        #[allow(clippy::cast_possible_truncation)]
        let features: Vec<f32> = (0..assets * FEATURES).map(|_| stream.normal() as f32).collect();
        let yes = vec![true; assets];
        let bar = Bar {
            time: row as i64 * 86_400_000_000_000,
            open: &open,
            close: &prices,
            volume: &volume,
            listed: &yes,
            quoted: &yes,
            tradable: &yes,
            features: &features,
            decides: true,
            benchmark: 0.0,
        };
        panel.push(&bar).expect("a row");
    }
    panel
}

fn settings(assets: usize, shown: ShownFeatures) -> PortfolioSettings {
    let constraints = Constraints {
        lower: vec![0.0; assets],
        upper: vec![1.0; assets],
        cash_lower: 0.0,
        cash_upper: 1.0,
        leverage: None,
        sectors: vec![],
        sector_caps: vec![],
        turnover: None,
    };
    let agent = AgentSettings {
        initial_cash: 1e6,
        account: AccountKind::Cash,
        constraints,
        reward: RewardRule {
            terms: vec![(PortfolioTerm::LogReturn, 1.0)],
            memory: 0.01,
            risk_aversion: 1.0,
        },
        ruin: 0.0,
    };
    PortfolioSettings {
        lookback: 30,
        shown,
        action: ActionMode::Weights,
        fill: FillAt::NextOpen,
        delay: 0,
        unfilled: Unfilled::Drop,
        participation: None,
        smallest_trade: 1e-6,
        costs: Costs {
            proportional: 5e-4,
            fixed: 0.0,
            half_spread: 5e-4,
            impact: 1.0,
            borrow: 0.01,
            financing: 0.05,
            interest: 0.0,
            delisting: 0.3,
        },
        agents: vec![agent],
        shared_leverage: None,
        reward_mode: RewardMode::Own,
        episode_rows: Some(252),
        starts: Starts::Random,
        first_row: 0,
    }
}

/// Seconds that this thread has spent on a processor.
fn cpu_seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let nanoseconds: f64 =
        told.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    1e-9 * nanoseconds
}

fn measure(name: &str, envs: usize, assets: usize, shown: ShownFeatures, on_simplex: bool) {
    let task = Portfolio::new(Arc::new(panel(assets)), settings(assets, shown)).expect("settings");
    let layout = task.layout();
    let mut batch = Batch::new(&task, envs, Some(1), 0);
    let mut memory = <Portfolio as Task>::Observation::zeros(&layout, envs);
    let mut finals = <Portfolio as Task>::Observation::zeros(&layout, envs);
    let ids: Vec<i64> = (0..envs as i64).collect();
    let seeds: Vec<u64> = (0..envs as u64).collect();
    batch.reset(&ids, Some(&seeds), memory.rows()).expect("reset");
    let mut stream = EpisodeKey { seed: 2, episode: 0 }.stream(0);
    let sets: Vec<Vec<f64>> = (0..8)
        .map(|_| {
            let mut all = Vec::new();
            for _ in 0..envs {
                let mut row: Vec<f64> = (0..=assets)
                    .map(|_| if on_simplex { stream.exponential() } else { stream.normal() })
                    .collect();
                if on_simplex {
                    let sum: f64 = row.iter().sum();
                    row.iter_mut().for_each(|weight| *weight /= sum);
                }
                all.extend(row);
            }
            all
        })
        .collect();
    let (mut rewards, mut terminated, mut truncated) =
        (vec![0.0; envs], vec![false; envs], vec![false; envs]);
    let steps = 100_000_000 / envs / (10 * assets);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let begin = cpu_seconds();
        for step in 0..steps {
            let out = StepOut {
                observations: memory.rows(),
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
                finals: Some(finals.rows()),
            };
            batch.step(&sets[step % 8], out, None).expect("step");
        }
        best = best.min((cpu_seconds() - begin) / (steps * envs) as f64);
    }
    println!(
        "{name:<24} {envs:>6} envs {assets:>4} assets {:>8.0} ns {:>8.2} M/s",
        best * 1e9,
        1e-6 / best
    );
}

fn main() {
    if let Ok(only) = std::env::var("ONLY") {
        return measure("only", 1024, 20, ShownFeatures::Index, only == "simplex");
    }
    for on_simplex in [true, false] {
        let name = if on_simplex { "index, on simplex" } else { "index, normal" };
        measure(name, 1024, 20, ShownFeatures::Index, on_simplex);
    }
    measure("window", 1024, 20, ShownFeatures::Window, true);
    measure("index", 1024, 100, ShownFeatures::Index, true);
}
