//! Laws of the simulated market.

use std::sync::Arc;

use market::{
    Agent, EpisodeKey, Lots, Market, MarketConfig, Money, Regime, Side, SymbolConfig, Ticks,
    TimeInForce, TradeError,
};
use proptest::prelude::*;

fn config() -> MarketConfig {
    let symbols = vec![
        SymbolConfig { price: 10_000, sector: 0 },
        SymbolConfig { price: 2_500, sector: 1 },
        SymbolConfig { price: 40_000, sector: 1 },
    ];
    MarketConfig { symbols, external: 2, ..MarketConfig::default() }
}

fn market(seed: u64) -> Market {
    Market::new(Arc::new(config()), EpisodeKey { seed, episode: 0 })
}

fn bytes(market: &Market) -> Vec<u8> {
    let mut body = Vec::new();
    market.encode(&mut body);
    body
}

/// Action of an agent, valid or not.
#[derive(Clone, Debug)]
enum Try {
    Take(u32, usize, Side, u32),
    Place(u32, usize, Side, i32, u32, TimeInForce),
    Tick,
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Buy), Just(Side::Sell)]
}

fn tries() -> impl Strategy<Value = Try> {
    let force = prop_oneof![
        Just(TimeInForce::GoodTillCancelled),
        Just(TimeInForce::PostOnly),
        Just(TimeInForce::ImmediateOrCancel),
        Just(TimeInForce::FillOrKill),
    ];
    prop_oneof![
        (0..2u32, 0..3usize, side(), 0..2_000u32).prop_map(|(a, s, d, n)| Try::Take(a, s, d, n)),
        (0..2u32, 0..3usize, side(), -40..40i32, 0..500u32, force)
            .prop_map(|(a, s, d, p, n, f)| Try::Place(a, s, d, p, n, f)),
        Just(Try::Tick),
    ]
}

fn act(market: &mut Market, attempt: &Try) {
    match *attempt {
        Try::Take(agent, symbol, side, size) => {
            market.take(Agent(agent), symbol, side, Lots(size));
        }
        Try::Place(agent, symbol, side, away, size, force) => {
            #[allow(clippy::cast_possible_truncation)]
            let price = Ticks(market.symbols()[symbol].mid() as i32 + away);
            let before = bytes(market);
            if market.trade(Agent(agent), symbol, side, price, Lots(size), force).is_err() {
                assert_eq!(bytes(market), before, "a refused order moved something");
            }
        }
        Try::Tick => market.tick(),
    }
}

fn check(market: &Market) {
    assert_eq!(market.total_cash(), Money(0));
    for (index, symbol) in market.symbols().iter().enumerate() {
        assert_eq!(market.total_lots(index), 0);
        let best = Side::BOTH.map(|side| symbol.book().best(side));
        assert!(!matches!(best, [Some(bid), Some(ask)] if bid >= ask), "a crossed book: {best:?}");
        for agent in [Agent(0), Agent(1)] {
            let holding = symbol.holding(agent);
            assert!(holding.lots.abs() <= 900, "{holding:?}");
            assert_eq!(holding.cash, holding.realised - holding.cost - holding.fees);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cash_and_lots_are_conserved_under_any_actions(
        seed in any::<u64>(), attempts in prop::collection::vec(tries(), 1..80),
    ) {
        let mut market = market(seed);
        market.tick();

        for attempt in &attempts {
            act(&mut market, attempt);
            check(&market);
            for agent in [Agent(0), Agent(1)] {
                // Without short positions cash never becomes negative.
                let is_short = market.symbols().iter().any(|symbol| symbol.holding(agent).lots < 0);
                prop_assert!(is_short || market.cash(agent) >= Money(0));
            }
        }
    }

    #[test]
    fn a_market_continues_from_its_bytes_as_if_nothing_had_happened(
        seed in any::<u64>(), attempts in prop::collection::vec(tries(), 1..40),
    ) {
        let mut first = market(seed);
        let mut other = market(seed.wrapping_add(1));

        for attempt in &attempts {
            act(&mut first, attempt);
            let saved = bytes(&first);
            let mut rest = &saved[..];
            other.decode(&mut rest).expect("just written");
            prop_assert!(rest.is_empty());
            first.tick();
            other.tick();
            prop_assert_eq!(bytes(&first), bytes(&other));
        }
    }
}

#[test]
fn the_same_key_gives_the_same_market() {
    let (mut first, mut other) = (market(5), market(5));

    for _ in 0..200 {
        first.tick();
        other.tick();
    }

    assert_eq!(bytes(&first), bytes(&other));
}

#[test]
fn other_keys_give_other_markets() {
    let (mut first, mut other, mut next) = (market(5), market(6), market(5));
    next.rekey(EpisodeKey { seed: 5, episode: 1 });

    for market in [&mut first, &mut other, &mut next] {
        market.tick();
    }

    assert_ne!(bytes(&first), bytes(&other));
    assert_ne!(bytes(&first), bytes(&next));
}

#[test]
fn a_restored_market_is_the_other_one() {
    let (mut first, mut other) = (market(1), market(2));
    for _ in 0..50 {
        first.tick();
        other.tick();
    }
    other.tick();

    other.restore(&first);

    assert_eq!(bytes(&first), bytes(&other));
    first.tick();
    other.tick();
    assert_eq!(bytes(&first), bytes(&other));
}

#[test]
fn the_first_symbol_does_not_depend_on_the_others_orders() {
    let (mut first, mut other) = (market(3), market(3));
    for _ in 0..20 {
        first.tick();
        other.tick();
    }

    first.take(Agent(0), 2, Side::Buy, Lots(200));
    for _ in 0..20 {
        first.tick();
        other.tick();
    }

    assert_eq!(first.symbols()[0].trades(), other.symbols()[0].trades());
    assert_ne!(first.symbols()[2].trades(), other.symbols()[2].trades());
}

#[test]
fn bytes_of_a_market_of_other_size_are_refused() {
    let mut larger = market(1);
    let single = Arc::new(MarketConfig::default());
    let smaller = Market::new(single, EpisodeKey::default());
    let before = bytes(&larger);

    let error = larger.decode(&mut &bytes(&smaller)[..]).expect_err("other symbols");

    assert!(error.to_string().contains("another number of symbols"), "{error}");
    assert_eq!(bytes(&larger), before);
}

#[test]
fn damaged_bytes_never_change_a_market() {
    let mut market = market(4);
    for _ in 0..30 {
        market.tick();
    }
    let (before, length) = (bytes(&market), bytes(&market).len());

    for cut in [0, 1, length / 2, length - 1] {
        assert!(market.decode(&mut &before[..cut]).is_err(), "cut at {cut}");
    }
    for index in (0..length).step_by(7) {
        let mut damaged = before.clone();
        damaged[index] ^= 0x55;
        if market.decode(&mut &damaged[..]).is_ok() {
            market.decode(&mut &before[..]).expect("whole");
        }
        assert_eq!(bytes(&market), before);
    }
}

#[test]
fn an_agent_that_could_not_pay_is_told_what_it_has() {
    let mut config = config();
    config.account.cash = 50_000;
    let mut market = Market::new(Arc::new(config), EpisodeKey::default());
    market.tick();

    let refused = market.trade(
        Agent(0),
        0,
        Side::Buy,
        Ticks(9_990),
        Lots(10),
        TimeInForce::GoodTillCancelled,
    );

    assert_eq!(
        refused,
        Err(TradeError::NotEnoughCash { needed: Money(99_910), held: Money(50_000) })
    );
    assert!(market.take(Agent(0), 0, Side::Buy, Lots(30)) <= Lots(4));
    assert!(market.cash(Agent(0)) >= Money(0));
}

#[test]
fn waiting_orders_count_towards_limits() {
    let mut market = market(0);
    market.tick();
    let far = Ticks(9_000);
    let place = |market: &mut Market, size| {
        market.trade(Agent(1), 0, Side::Buy, far, Lots(size), TimeInForce::PostOnly)
    };
    let id = place(&mut market, 500).expect("room").id.expect("it rests");

    let refused = place(&mut market, 401);

    assert_eq!(
        refused.err(),
        Some(TradeError::PositionLimit { allowed: Lots(400), got: Lots(401) })
    );
    assert_eq!(market.cancel(Agent(0), 0, id).err(), Some(TradeError::NotYours { id }));
    market.cancel(Agent(1), 0, id).expect("its own");
    assert_eq!(market.room(Agent(1), 0, Side::Buy), Lots(900));
}

#[test]
fn an_episode_starts_fairly_priced() {
    for seed in 0..20 {
        let mut market = market(seed);
        for _ in 0..100 {
            market.tick();
        }
        for symbol in market.symbols() {
            let apart = (symbol.mid() / symbol.fair() - 1.0).abs();
            assert!(apart < 0.01, "seed {seed}: {apart}");
        }
    }
}

#[test]
fn rougher_weather_moves_prices_more() {
    let spread_of = |regime| {
        let config = MarketConfig::default().in_regime(regime);
        let mut market = Market::new(Arc::new(config), EpisodeKey::default());
        let mut moves = 0.0;
        for _ in 0..3_000 {
            let before = market.symbols()[0].mid();
            market.tick();
            moves += (market.symbols()[0].mid() - before).powi(2);
        }
        moves
    };

    let moves = [Regime::Calm, Regime::Normal, Regime::Volatile, Regime::Crisis].map(spread_of);

    assert!(moves.windows(2).all(|pair| pair[0] * 1.5 < pair[1]), "{moves:?}");
}

#[test]
fn symbols_of_a_sector_move_together() {
    let mut market = market(9);
    let mut values: Vec<[f64; 3]> = Vec::new();
    for _ in 0..6_000 {
        market.tick();
        values.push([0, 1, 2].map(|symbol| market.symbols()[symbol].fair().ln()));
    }
    let correlation = |first: usize, other: usize| {
        let moves = |symbol: usize| {
            let pick = move |pair: &[[f64; 3]]| pair[1][symbol] - pair[0][symbol];
            values.windows(2).map(pick).map(|step| step.clamp(-3e-4, 3e-4)).collect::<Vec<f64>>()
        };
        let (first, second) = (moves(first), moves(other));
        let product: f64 = first.iter().zip(&second).map(|(a, b)| a * b).sum();
        let square = |steps: &[f64]| steps.iter().map(|step| step * step).sum::<f64>();
        product / (square(&first) * square(&second)).sqrt()
    };

    let (within, across) = (correlation(1, 2), correlation(0, 1));

    assert!(within > 0.4 && within < 0.6, "{within}");
    assert!(across > 0.2 && across < 0.4, "{across}");
}

#[test]
fn a_configuration_that_cannot_run_says_which_setting() {
    let mut config = MarketConfig::default();
    config.population.noise_activity = 1.5;

    let error = config.check().expect_err("a probability above 1");

    assert_eq!(error.to_string(), "expected noise_activity from 0 to 1, got 1.5");
}

#[test]
fn a_waiting_order_that_is_filled_lot_by_lot_never_overdraws_its_account() {
    let mut config = config();
    config.account.maker_fee = 7;
    let price = 9_990;
    config.account.cash = i64::from(price) * 40 + 40;
    let mut market = Market::new(Arc::new(config), EpisodeKey::default());
    let wait = TimeInForce::GoodTillCancelled;
    market
        .trade(Agent(0), 0, Side::Buy, Ticks(price), Lots(40), wait)
        .expect("one unit a lot is kept back for fees");

    for _ in 0..40 {
        market.take(Agent(1), 0, Side::Sell, Lots(1));
    }

    assert_eq!(market.symbols()[0].holding(Agent(0)).lots, 40);
    assert_eq!(market.cash(Agent(0)), Money(0));
}
