//! Laws of portfolios, on random panels with halts and delistings and random decisions.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rows are few

use std::sync::Arc;

use gym::panel::ActionColumns;
use gym::portfolio::projection::Constraints;
use gym::portfolio::{
    AccountKind, AccountReport, ActionMode, AgentSettings, AssetRate, Bar, Costs, FillAt, INFO,
    ObservedFeatures, Panel, Portfolio, PortfolioSettings, PortfolioTerm, RewardMode, RewardRule,
    Sizing, Starts, Unfilled, Width, push,
};
use gym::{Batch, Observation, Outcome, StepOut, Task};
use market::{EpisodeKey, Stream};
use proptest::prelude::*;

const ROWS: usize = 40;
const DAY: i64 = 86_400_000_000_000;

type Shown = <Portfolio as Task>::Observation;

/// A bar that owns its columns.
struct Row {
    open: Vec<f64>,
    close: Vec<f64>,
    volume: Vec<f64>,
    listed: Vec<bool>,
    quoted: Vec<bool>,
    features: Vec<f32>,
    time: i64,
}

impl Row {
    fn bar(&self) -> Bar<'_> {
        Bar {
            time: self.time,
            open: &self.open,
            close: &self.close,
            volume: &self.volume,
            listed: &self.listed,
            quoted: &self.quoted,
            tradable: &self.quoted,
            actions: ActionColumns::default(),
            features: &self.features,
            decides: true,
            benchmark: 0.0,
        }
    }
}

/// Random walks, some of which are halted for a while and some of which end.
fn history(assets: usize, stream: &mut Stream) -> Vec<Row> {
    let mut prices = vec![50.0; assets];
    let ends: Vec<usize> = (0..assets)
        .map(|_| if stream.bernoulli(0.2) { 10 + stream.below(25) as usize } else { ROWS })
        .collect();
    let row = |number: usize| {
        let open: Vec<f64> =
            prices.iter().map(|price| price * (1.0 + 0.02 * stream.normal())).collect();
        for price in &mut prices {
            *price *= (0.04 * stream.normal()).exp();
        }
        let listed: Vec<bool> = ends.iter().map(|end| number < *end).collect();
        let quoted = listed.iter().map(|listed| *listed && stream.bernoulli(0.9)).collect();
        let volume = prices.iter().map(|_| 1e4 * stream.uniform()).collect();
        let features = prices.iter().map(|_| 0.5).collect();
        let time = i64::try_from(number).expect("few") * DAY;
        Row { open, close: prices.clone(), volume, listed, quoted, features, time }
    };
    (0..ROWS).map(row).collect()
}

fn panel(rows: &[Row], is_open_ended: bool) -> Panel {
    let assets = rows[0].close.len();
    let width = Width { assets, features: 1, has_open: true, has_volume: true };
    let mut panel = Panel::new(width, is_open_ended);
    for row in rows {
        panel.push(&row.bar()).expect("a row in order");
    }
    panel
}

/// Settings that differ in every cost, constraint and order rule.
fn settings(assets: usize, stream: &mut Stream) -> PortfolioSettings {
    let is_margin = stream.bernoulli(0.5);
    let lower = if is_margin { -0.6 } else { 0.0 };
    let constraints = Constraints {
        lower: vec![lower; assets],
        upper: vec![0.6; assets],
        cash_lower: if is_margin { -5.0 } else { 0.0 },
        cash_upper: 5.0,
        leverage: is_margin.then_some(1.8),
        sectors: vec![],
        sector_caps: vec![],
        turnover: stream.bernoulli(0.3).then_some(0.7),
        ..Constraints::default()
    };
    let account = if is_margin {
        AccountKind::Margin { leverage: 1.8, maintenance: 0.4 }
    } else {
        AccountKind::Cash
    };
    let reward =
        RewardRule { terms: vec![(PortfolioTerm::Profit, 1.0)], memory: 0.05, risk_aversion: 1.0 };
    let agent = AgentSettings { initial_cash: 1e5, account, constraints, reward, ruin: 0.0 };
    PortfolioSettings {
        lookback: 3,
        shown: ObservedFeatures::Window,
        action: ActionMode::Weights,
        fill: if stream.bernoulli(0.5) { FillAt::NextOpen } else { FillAt::NextClose },
        sizing: if stream.bernoulli(0.5) { Sizing::Fill } else { Sizing::Decision },
        delay: u64::from(stream.below(3)),
        unfilled: if stream.bernoulli(0.5) { Unfilled::Drop } else { Unfilled::Carry },
        participation: stream.bernoulli(0.5).then_some(0.2),
        smallest_trade: 0.0,
        lot_size: None,
        costs: Costs {
            proportional: AssetRate::All(0.001),
            fixed: 2.0,
            half_spread: AssetRate::All(0.002),
            impact: AssetRate::All(0.5),
            borrow: AssetRate::All(0.03),
            financing: 0.06,
            interest: 0.01,
            delisting: 0.3,
            ..Costs::default()
        },
        agents: vec![agent],
        shared_leverage: None,
        reward_mode: RewardMode::Own,
        episode_rows: None,
        starts: Starts::Fixed(4),
        first_row: 0,
    }
}

/// Observation and info of a step.
#[derive(Clone, Debug, PartialEq)]
struct Moment {
    shown: Shown,
    outcome: Outcome,
    info: Vec<f64>,
}

fn begin(batch: &mut Batch<Portfolio>) {
    let mut memory = Shown::zeros(&batch.task(0).layout(), 1);
    batch.reset(&[0], Some(&[7]), memory.rows()).expect("a reset");
}

fn step(batch: &mut Batch<Portfolio>, action: &[f64]) -> Moment {
    let mut shown = Shown::zeros(&batch.task(0).layout(), 1);
    let (mut reward, mut terminated, mut truncated) = ([0.0], [false], [false]);
    let out = StepOut {
        observations: shown.rows(),
        rewards: &mut reward,
        terminated: &mut terminated,
        truncated: &mut truncated,
        finals: None,
    };
    batch.step(action, out, None).expect("a step");
    let outcome = Outcome { reward: reward[0], terminated: terminated[0], truncated: truncated[0] };
    Moment { shown, outcome, info: batch.infos().to_vec() }
}

fn decision(assets: usize, stream: &mut Stream) -> Vec<f64> {
    (0..=assets).map(|_| 0.5 * stream.normal() + 0.2).collect()
}

fn info_value(moment: &Moment, name: &str) -> f64 {
    moment.info[INFO.iter().position(|known| *known == name).expect("a known name")]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The change of equity equals the PnL of positions less costs.
    #[test]
    fn profit_is_price_pnl_less_costs(seed: u64, assets in 1_usize..7) {
        let mut stream = EpisodeKey { seed, episode: 0 }.stream(0);
        let rows = history(assets, &mut stream);
        let settings = settings(assets, &mut stream);
        let mut task = Portfolio::new(Arc::new(panel(&rows, false)), settings).expect("sound");
        task.keep_log(true);
        let mut batch = Batch::new(&task, 1, Some(1), 0);
        batch.tasks_mut().for_each(|task| task.keep_log(true));
        begin(&mut batch);
        let (mut cash, mut units, mut equity) = (1e5, vec![0.0; assets], 1e5);
        loop {
            let moment = step(&mut batch, &decision(assets, &mut stream));
            let row = info_value(&moment, "time_index") as usize;
            let trades: Vec<_> = batch.tasks_mut().flat_map(Portfolio::take_log).flat_map(|log| log.trades).collect();
            for trade in trades {
                let is_gone = !rows[row].listed[trade.asset];
                prop_assert!(rows[row].quoted[trade.asset] || is_gone);
                cash -= trade.units * trade.price;
                units[trade.asset] += trade.units;
            }
            cash -= info_value(&moment, "cost");
            let value: f64 = (0..assets).map(|asset| units[asset] * last_close(&rows, row, asset)).sum();
            let scale = 1e-9 * (1e5 + value.abs());
            prop_assert!((info_value(&moment, "cash") - cash).abs() < scale);
            prop_assert!((info_value(&moment, "equity") - cash - value).abs() < scale);
            prop_assert!((moment.outcome.reward - (cash + value - equity)).abs() < scale);
            equity = cash + value;
            if moment.outcome.is_done() {
                break;
            }
        }
    }

    /// Saved and restored steps, and steps on streamed rows, are identical.
    #[test]
    fn restored_and_streamed_portfolios_go_on_bit_for_bit(seed: u64, assets in 1_usize..7) {
        let mut stream = EpisodeKey { seed, episode: 0 }.stream(0);
        let rows = history(assets, &mut stream);
        let settings = settings(assets, &mut stream);
        let full = Portfolio::new(Arc::new(panel(&rows, false)), settings.clone()).expect("sound");
        let live = Portfolio::new(Arc::new(panel(&rows[..5], true)), settings).expect("sound");
        let (mut batch, mut other) = (Batch::new(&full, 1, Some(1), 0), Batch::new(&full, 1, Some(1), 1));
        let mut streamed = Batch::new(&live, 1, Some(1), 2);
        begin(&mut batch);
        begin(&mut streamed);
        for row in &rows[5..] {
            let action = decision(assets, &mut stream);
            other.decode(&batch.encode()).expect("its own state");
            let moment = step(&mut batch, &action);
            prop_assert_eq!(&step(&mut other, &action), &moment);
            prop_assert!(streamed.task(0).waits());
            push(&mut streamed, &row.bar()).expect("the next row");
            let again = step(&mut streamed, &action);
            prop_assert_eq!((&again.shown, &again.info), (&moment.shown, &moment.info));
            prop_assert_eq!(again.outcome.reward.to_bits(), moment.outcome.reward.to_bits());
            if moment.outcome.is_done() {
                break;
            }
        }
    }

    /// Orders filled by a broker and reported give the same result as the step itself.
    #[test]
    fn reported_accounts_are_those_of_the_step_itself(seed: u64, assets in 1_usize..7) {
        let mut stream = EpisodeKey { seed, episode: 0 }.stream(0);
        let panel = Arc::new(panel(&history(assets, &mut stream), false));
        let settings = PortfolioSettings { sizing: Sizing::Decision, ..settings(assets, &mut stream) };
        let paper = PortfolioSettings { action: ActionMode::Orders, ..settings.clone() };
        let make = |settings| Portfolio::new(panel.clone(), settings).expect("sound");
        let (own, paper) = (make(settings), make(paper));
        let mut batches = [&own, &own, &paper].map(|task| Batch::new(task, 1, Some(1), 0));
        batches.iter_mut().for_each(begin);
        let [own, reported, paper] = &mut batches;
        loop {
            let action = decision(assets, &mut stream);
            let before = reported.encode();
            let orders = reported.task(0).orders(&action).expect("orders");
            prop_assert_eq!(reported.encode(), before);
            step(paper, &orders);
            let report = paper.task(0).account_of(0);
            reported.running(0).expect("an episode").expect(report).expect("sound");
            let moment = step(own, &action);
            prop_assert_eq!(&step(reported, &action), &moment);
            prop_assert_eq!(reported.encode(), own.encode());
            if moment.outcome.is_done() {
                break;
            }
        }
    }
}

#[test]
fn rows_that_are_saved_are_those_of_their_panel_or_refused() {
    let mut stream = EpisodeKey { seed: 5, episode: 0 }.stream(0);
    let rows = history(3, &mut stream);
    let (mut whole, other) = (panel(&rows[..35], true), panel(&rows[..2], true));

    let bytes = whole.encode_rows(10);
    let mut last = other.decode_rows(&bytes).expect("rows of the same width");

    assert_eq!((last.rows(), last.forgotten()), (35, 10));
    for row in &rows[35..] {
        whole.push(&row.bar()).expect("a row in order");
        last.push(&row.bar()).expect("a row in order");
        assert_eq!(whole.digest(whole.rows() - 1), last.digest(last.rows() - 1));
    }
    assert_eq!(whole.encode_rows(20), last.encode_rows(20));
    assert!(panel(&history(2, &mut stream), true).decode_rows(&bytes).is_err());
    assert!(panel(&rows, false).decode_rows(&bytes).is_err());
    assert!((0..bytes.len()).step_by(97).all(|end| other.decode_rows(&bytes[..end]).is_err()));
}

#[test]
fn invalid_reports_change_nothing() {
    let mut stream = EpisodeKey { seed: 1, episode: 0 }.stream(0);
    let (panel, mut settings) = (panel(&history(3, &mut stream), false), settings(3, &mut stream));
    settings.sizing = Sizing::Fill;
    let task = Portfolio::new(Arc::new(panel), settings).expect("sound");
    let mut batch = Batch::new(&task, 1, Some(1), 0);
    assert!(batch.running(0).is_err() && batch.running(1).is_err());
    begin(&mut batch);
    let before = batch.encode();
    let sound = batch.task(0).account_of(0);
    for report in [
        AccountReport { cash: f64::NAN, ..sound.clone() },
        AccountReport { units: vec![0.0; 2], ..sound.clone() },
        AccountReport { open_units: vec![f64::INFINITY; 3], ..sound.clone() },
        AccountReport { traded: -1.0, ..sound.clone() },
    ] {
        assert!(batch.running(0).expect("an episode").expect(report).is_err());
    }
    assert!(batch.task(0).orders(&[0.25; 4]).is_err());
    assert_eq!(batch.encode(), before);
    batch.running(0).expect("an episode").expect(sound).expect("sound");
    let waiting = batch.encode();
    assert_ne!(waiting, before);
    batch.decode(&before).expect("its own state");
    batch.decode(&waiting).expect("its own state");
    assert_eq!(batch.encode(), waiting);
}

#[test]
fn orders_are_finite_or_none() {
    let mut stream = EpisodeKey { seed: 2, episode: 0 }.stream(0);
    let (panel, mut settings) = (panel(&history(2, &mut stream), false), settings(2, &mut stream));
    settings.action = ActionMode::Orders;
    let task = Portfolio::new(Arc::new(panel), settings).expect("sound");
    assert!(task.check_choice(&[f64::NAN, 3.0]).is_ok());
    assert!(task.check_choice(&[f64::INFINITY, 3.0]).is_err());
    assert!(task.check_choice(&[0.0, f64::NEG_INFINITY]).is_err());
}

fn last_close(rows: &[Row], row: usize, asset: usize) -> f64 {
    let quoted = rows[..=row].iter().rev().find(|row| row.quoted[asset]);
    quoted.map_or(1.0, |row| row.close[asset])
}
