"""Dividends and splits: point-in-time events that accounts, features and benchmarks know."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, MarketData, Pipeline, bootstrap, check_features, simulate_gbm
from sekai.data.corporate_actions import adjusted
from sekai.evaluation import evaluate
from sekai.evaluation.look_ahead import replace_future
from sekai.live.paper.account import PaperAccount
from sekai.market import Constraints, Costs, Execution, MarginAccount
from sekai.utils.checker import check_causal
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import Floats, World, env_of, market_of, play, settings
from tests.envs.test_portfolio_money import gains

FEATURES = ["log_return", "volatility(5)", "momentum(8)", "relative_volume(5)", "gap", "drawdown"]
SHORT: Any = {"account": MarginAccount(), "constraints": Constraints(long_short=True)}


def with_actions(data: MarketData, **columns: Any) -> MarketData:
    """Data with fields of dividends and splits, NaN where there are none."""
    extra = [np.broadcast_to(np.array(column, np.float64), data.listed.shape)[..., None]
             for column in columns.values()]  # fmt: skip
    values = np.concatenate([data.values, *extra], axis=2)
    return data.replace(fields=(*data.fields, *columns), values=values)


def split_data(data: MarketData, splits: Floats) -> MarketData:
    """The same market with splits: prices, volumes and the splits themselves."""
    ratio = np.cumprod(np.where(np.isnan(splits), 1.0, splits), axis=0)
    values = data.values.copy()
    for index, name in enumerate(data.fields):
        values[:, :, index] *= ratio if name == "volume" else 1.0 / ratio
    return with_actions(data.replace(values=values), split=splits)


def some_splits(data: MarketData, seed: int, rate: float = 0.1) -> Floats:
    rng = np.random.default_rng(seed)
    splits = rng.choice([2.0, 3.0, 0.5, 0.1], data.listed.shape)
    splits[(rng.random(data.listed.shape) >= rate) | ~data.listed] = np.nan
    return splits


def eventful(seed: int = 4, rows: int = 80) -> MarketData:
    """A simulated market with dividends and splits."""
    data = simulate_gbm(3, rows, seed=seed)
    rng = np.random.default_rng(seed)
    shape = data.listed.shape
    dividends = np.where(rng.random(shape) < 0.05, 0.02 * data.field("close"), np.nan)
    return with_actions(split_data(data, some_splits(data, seed, 0.04)), dividend=dividends)


def run(data: MarketData, actions: Any, **given: Any) -> Any:
    return play(World(data=data, config=settings(**given), actions=np.array(actions, np.float64)))


def test_long_positions_receive_dividends_and_short_ones_pay_them() -> None:
    data = with_actions(market_of([10.0, 10.0, 9.5, 9.5]), dividend=[[np.nan], [7.0], [0.5], [0.0]])
    hold = [[0.5, 0.5], [0.5, 0.5]]
    long = run(data, hold, execution=Execution(smallest_trade=0.5))
    short = run(data, [[-0.5, 1.5]] * 2, execution=Execution(smallest_trade=0.6), **SHORT)

    # 5,000 units are bought in row 1, after its dividend; row 2 pays 0.5 each.
    assert long.of("dividends").tolist() == [0.0, 2500.0]
    assert long.of("cash")[1] == 52_500.0
    assert long.of("equity")[1] == 100_000.0
    assert short.of("dividends").tolist() == [0.0, -0.0]
    sold = run(data, [[-0.5, 1.5], [-0.5, 1.5]], **SHORT)
    assert sold.of("dividends").tolist() == [0.0, -2500.0]
    assert sold.of("equity")[1] == pytest.approx(100_000.0)


def test_a_split_changes_units_and_not_the_value() -> None:
    data = with_actions(market_of([10.0, 10.0, 5.0, 5.0]), split=[[np.nan], [np.nan], [2.0], [1.0]])
    keep = Execution(smallest_trade=0.5)
    episode = run(data, [[0.5, 0.5], [0.4, 0.6], [0.0, 1.0]], execution=keep)

    assert [(row, units) for row, _, units, _, _ in episode.fills()] == [
        (1, 5000.0),
        (3, -10_000.0),
    ]
    assert episode.of("equity").tolist() == [100_000.0] * 3


def test_the_split_comes_before_the_dividend_of_the_row() -> None:
    data = with_actions(
        market_of([10.0, 10.0, 4.0, 4.0]), split=[[np.nan], [np.nan], [2.0], [np.nan]],
        dividend=[[np.nan], [np.nan], [1.0], [np.nan]],
    )  # fmt: skip
    episode = run(data, [[0.5, 0.5]] * 2, execution=Execution(smallest_trade=0.5))

    assert episode.of("dividends")[1] == 10_000.0
    assert episode.of("equity")[1] == 100_000.0


@pytest.mark.parametrize("delay", [0, 1, 2])
def test_pending_orders_in_units_are_split(delay: int) -> None:
    closes = [10.0, 10.0, 5.0, 5.0, 5.0]
    data = with_actions(market_of(closes), split=[[np.nan]] * 2 + [[2.0]] + [[np.nan]] * 2)
    execution = Execution(sizing="decision", delay=delay)
    env = env_of(data, execution=execution, starts=1)
    env.reset(seed=0)
    assert env.orders([0.5, 0.5]).tolist() == [5000.0]
    result = env.step([0.5, 0.5])
    for _ in range(delay):
        result = env.step([0.5, 0.5])

    # Ordered at 10 before the split, filled at 5 after it.
    assert result.observation["weights"].tolist() == [0.5, 0.5]


@given(world=worlds(max_agents=2), seed=st.integers(0, 1000))
@examples(50)
def test_splits_change_nothing_but_units(world: World, seed: int) -> None:
    costs = world.config.costs
    # Orders of rounding size pay a fixed cost or none, by their last bit.
    world = replace(world, config=replace(world.config, costs=replace(costs, fixed=0.0)))
    split = replace(world, data=split_data(world.data, some_splits(world.data, seed)))
    plain, done = play(world), play(split)
    if world.config.decisions == "complete":
        return

    assert (plain.terminated, plain.truncated) == (done.terminated, done.truncated)
    for agent in range(len(world.agents)):
        most = max(1.0, float(np.abs(plain.of("gross", agent)).max()))
        for name in ("equity", "cash", "cost", "gross", "net", "impact", "borrow", "delisted"):
            np.testing.assert_allclose(
                done.of(name, agent), plain.of(name, agent), rtol=1e-7, atol=1e-7 * most,
                err_msg=name,
            )  # fmt: skip


@given(world=worlds(decisions="every_row"), seed=st.integers(0, 1000))
@examples(50)
def test_equity_changes_by_price_moves_and_dividends_less_costs(world: World, seed: int) -> None:
    data, rng = world.data, np.random.default_rng(seed)
    pays = data.quoted & (rng.random(data.listed.shape) < 0.2)
    dividends = np.where(pays, 0.03 * data.field("close"), np.nan)
    world = replace(world, data=with_actions(data, dividend=dividends))
    episode = play(world)
    equity = np.append(world.config.initial_cash, episode.of("equity"))

    wanted = gains(world, episode) + episode.of("dividends") - episode.of("cost")
    scale = np.maximum(np.abs(equity[:-1]), episode.of("gross"))
    assert (np.abs(np.diff(equity) - wanted) <= 1e-9 * np.maximum(scale, np.abs(wanted))).all()


def test_features_do_not_see_a_split_as_a_crash() -> None:
    data = simulate_gbm(3, 80, seed=4)
    split = split_data(data, some_splits(data, 1))
    plain, done = (Pipeline(FEATURES).transform(rows).values for rows in (data, split))

    np.testing.assert_allclose(done, plain, rtol=1e-5, atol=1e-5)


def test_a_dividend_counts_as_return() -> None:
    data = with_actions(market_of([10.0, 10.0, 9.0]), dividend=[[np.nan], [np.nan], [1.0]])
    shown = Pipeline(["log_return"], dtype=np.float64).transform(data)

    assert shown.values[2, 0, 0] == pytest.approx(0.0, abs=1e-15)
    assert adjusted(data).field("close")[2, 0] == pytest.approx(10.0)


def test_later_actions_change_no_feature() -> None:
    data = eventful()
    known, all_rows = (
        Pipeline(FEATURES).transform(rows).values for rows in (data.rows(0, 40), data)
    )

    assert np.array_equal(known, all_rows[:40])
    assert check_features(Pipeline(FEATURES), data) == []


def test_streamed_rows_give_the_bytes_of_history() -> None:
    data = eventful()
    options: Any = {
        "features": FEATURES, "lookback": 3, "benchmark": data.assets[0],
        "reward": "benchmark_relative", "execution": Execution(sizing="decision", delay=1),
    }  # fmt: skip
    past: Any = sekai.make(
        "Portfolio-v0", data=data, starts=49, episode_rows=None, **options
    ).unwrapped
    live: Any = sekai.make("Portfolio-v0", data=data.rows(0, 50), stream=True, **options).unwrapped
    past.reset(seed=0)
    live.reset(seed=0)
    paid = 0.0
    for bar, weights in zip(
        Bar.each(data, 50), np.random.default_rng(1).dirichlet(np.ones(4), 30), strict=True
    ):
        live.push(bar)
        first, second = past.step(weights), live.step(weights)
        assert dict(first.info) == dict(second.info)
        assert first.reward == second.reward
        for name, part in first.observation.items():
            assert part.tobytes() == second.observation[name].tobytes(), name
        paid += first.info["dividends"]
    assert paid > 0.0


def test_looking_ahead_finds_nothing() -> None:
    def make(data: MarketData) -> Any:
        return sekai.make("Portfolio-v0", data=data, features=FEATURES, lookback=3, starts=20)

    assert check_causal(make, eventful(), n_episodes=1, n_steps=24, max_cuts=8) == []


@pytest.mark.parametrize("benchmark", ["equal_weight", "A0"])
def test_the_benchmark_earns_dividends(benchmark: str) -> None:
    data = with_actions(
        market_of([10.0, 10.0, 9.0, 4.8]), dividend=[[np.nan], [np.nan], [1.0], [np.nan]],
        split=[[np.nan], [np.nan], [np.nan], [2.0]],
    )  # fmt: skip
    episode = run(
        data, [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], benchmark=benchmark, reward="benchmark_relative"
    )

    np.testing.assert_allclose(episode.of("reward"), 0.0, atol=1e-12)


def test_vectorbt_on_total_return_prices_has_the_same_equity() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vectorbt = pytest.importorskip("vectorbt")
    data = eventful(rows=60)
    weights = 0.9 * np.random.default_rng(2).dirichlet(np.ones(3), 59)
    actions = np.column_stack([weights, 1 - weights.sum(axis=1)])
    execution = Execution(fill="next_close", smallest_trade=0.0)
    free = Costs(proportional=0.0, half_spread=0.0, impact=0.0)
    episode = run(data, actions, execution=execution, costs=free)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = vectorbt.Portfolio.from_orders(
            close=adjusted(data).field("close"), size=np.vstack([np.full(3, np.nan), weights]),
            size_type="targetpercent", init_cash=100_000.0, cash_sharing=True, group_by=True,
            call_seq="auto",
        )  # fmt: skip
        value = np.asarray(theirs.value())[1:]

    assert episode.of("dividends").sum() > 0
    np.testing.assert_allclose(episode.of("equity"), value, rtol=1e-10)


def test_a_paper_account_trades_as_the_env() -> None:
    data = eventful()
    env: Any = sekai.make(
        "Portfolio-v0", data=data.rows(0, 50), features=["log_return"], lookback=2, stream=True,
        execution=Execution(sizing="decision", delay=1, unfilled="carry", participation=0.001),
    ).unwrapped  # fmt: skip
    twin = sekai.make(
        "Portfolio-v0", data=data, features=["log_return"], lookback=2, starts=49,
        episode_rows=None, execution=env.config.execution,
    )  # fmt: skip
    env.reset(seed=0)
    twin.reset(seed=0)
    account = PaperAccount.like(env)
    for bar, weights in zip(
        Bar.each(data, 50), np.random.default_rng(1).dirichlet(np.ones(4), 30), strict=True
    ):
        units = dict(zip(env.assets, env.orders(weights), strict=True))
        account.advance(bar, {name: n for name, n in units.items() if not np.isnan(n)})
        env.report(account.report())
        env.push(bar)
        here, there = env.step(weights), twin.step(weights)
        assert dict(here.info) == dict(there.info)


def test_the_log_has_dividends_on_their_own_line() -> None:
    env: Any = sekai.make(
        "Portfolio-v0", data=eventful(), features=["log_return"], lookback=2, record=True, starts=5,
        episode_rows=60,
    ).unwrapped  # fmt: skip
    env.reset(seed=0)
    total = sum(env.step([0.3, 0.3, 0.3, 0.1]).info["dividends"] for _ in range(60))
    (log,) = env.take_log()

    assert log.dividends == pytest.approx(total, rel=1e-12)
    assert total > 0


def test_readers_take_missing_actions_as_none(tmp_path: Any) -> None:
    data = eventful()
    again = MarketData.from_frame(data.to_frame())
    data.to_parquet(tmp_path / "data.parquet")

    assert again.fields == data.fields
    np.testing.assert_array_equal(again.field("dividend"), data.field("dividend"))
    assert MarketData.from_parquet(tmp_path / "data.parquet") == data


@pytest.mark.parametrize("wrong", [-2.0, np.inf])
@pytest.mark.parametrize("name", ["dividend", "split"])
def test_impossible_actions_are_refused(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=f"{name} of A0 must be finite and at least 0, or NaN"):
        with_actions(market_of([10.0] * 3), **{name: [[np.nan], [wrong], [np.nan]]})


def moves(data: MarketData) -> Floats:
    close = adjusted(data).field("close")
    changes: Floats = np.log(close[1:] / close[:-1])
    return changes


def test_resampled_and_replaced_rows_keep_actions_beside_their_prices() -> None:
    data = eventful(rows=200)
    drawn = bootstrap(data, 300, seed=1)
    other = replace_future(data, 50, np.random.default_rng(0))

    # No total return is as large as a split would be.
    most = 1.5 * float(np.abs(moves(data)).max())
    assert np.abs(moves(drawn)).max() <= most
    assert np.abs(moves(other)).max() <= most
    assert np.array_equal(other.values[:51], data.values[:51], equal_nan=True)
    yields = drawn.field("dividend") / drawn.field("close")
    assert np.nanmax(yields) <= 1.01 * np.nanmax(data.field("dividend") / data.field("close"))


def test_baselines_estimate_from_total_returns() -> None:
    data = simulate_gbm(3, 200, seed=4)
    split = split_data(data, some_splits(data, 1))
    equities = []
    for rows in (data, split):
        options: Any = {
            "data": rows,
            "features": ["log_return"],
            "lookback": 80,
            "episode_rows": 30,
        }
        report = evaluate(
            "minimum_variance",
            "Portfolio-v0",
            env_options=options,
            seeds=[0, 1],
            sensitivity=False,
            baselines=["equal_weight"],
        )
        equities.append(report.agent.episodes[0].equity)

    np.testing.assert_allclose(equities[0], equities[1], rtol=1e-6)
