"""Episode logs of portfolios: trades and accounts, in memory and in files."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import MarketData
from sekai.envs import EpisodeLog, Portfolio
from sekai.envs.portfolio.log import COST_KINDS
from sekai.envs.portfolio.log_files import read_jsonl, read_parquet, write_jsonl, write_parquet
from sekai.error import DataError
from sekai.market import Costs
from tests.data.holed_panels import make_panel
from tests.envs.streamed_worlds import LOOKBACK, wanted, worlds

SECTORS = {"asset0": "tech", "asset1": "tech", "asset2": "banks"}
DATA = make_panel(rows=60, assets=4, seed=3).replace(sectors=SECTORS)


def recorded(steps: int = 20, data: MarketData = DATA, **options: Any) -> Portfolio:
    """An env after some steps with random weights."""
    given = {"lookback": LOOKBACK, "features": ("log_return",), "starts": 5, **options}
    env = Portfolio(data=data, record=True, **given)
    env.reset(seed=7)
    act(env, steps)
    return env


def act(env: Portfolio, steps: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [env.step(wanted(rng, len(env.data.assets))) for _ in range(steps)]


def marks(data: MarketData) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The last quoted close of each asset at each row; 0 before the first."""
    closes = np.where(data.quoted, data.field("close"), np.nan)
    for row in range(1, len(closes)):
        closes[row] = np.where(np.isnan(closes[row]), closes[row - 1], closes[row])
    return np.nan_to_num(closes)


def equity_from(log: EpisodeLog, data: MarketData) -> list[float]:
    """The equity after each step by the log's trades and costs, and the data's prices."""
    prices, trades, steps = marks(data), log.trades, log.steps
    cash, units = float(log.opening_cash[0]), log.opening_units[0].copy()
    before, equity = log.opening_row, []
    for row, cost in zip(steps.row, steps.cost, strict=True):
        for place in np.flatnonzero((trades.row > before) & (trades.row <= row)):
            cash -= trades.value[place]
            units[log.assets.index(trades.asset[place])] += trades.units[place]
        cash -= cost
        before = row
        equity.append(cash + float(units @ prices[row]))
    return equity


@given(world=worlds(), draw=st.data(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
def test_trades_and_costs_account_for_all_money(
    world: dict[str, Any], draw: st.DataObject, seed: int
) -> None:
    data, rng = world["data"], np.random.default_rng(seed)
    env = Portfolio(**world, starts=LOOKBACK, record=True, episode_rows=len(data))
    env.reset(seed=seed)
    taken = draw.draw(st.integers(0, 9))
    equity: list[float] = []
    logs: list[EpisodeLog] = []
    is_done = False
    while not is_done:
        if len(equity) == taken:
            logs += env.take_log()
        result = env.step(wanted(rng, len(data.assets)))
        equity.append(result.info["equity"])
        is_done = result.done

    logs += env.take_log()
    found = [value for log in logs for value in equity_from(log, data)]
    np.testing.assert_allclose(found, equity, rtol=1e-9, atol=1e-9 * world["initial_cash"])
    for log in logs:
        np.testing.assert_allclose(log.steps.costs.sum(axis=1), log.steps.cost, rtol=1e-12)
        changes, scale = np.diff(log.steps.equity), world["initial_cash"]
        np.testing.assert_allclose(changes, log.steps.pnl[1:], atol=1e-9 * scale)
        by_value = [log.costs[kind] for kind in ("commission", "spread", "impact", "delisting")]
        scale = np.abs(log.trades.value).sum() + 1.0
        np.testing.assert_allclose(log.trades.cost.sum(), sum(by_value), atol=1e-9 * scale)


def test_steps_are_what_the_env_told() -> None:
    env = recorded(0)
    results = act(env, 20)

    (log,) = env.take_log()

    assert (log.env, log.seed, log.episode, log.opening_row) == (0, 7, 0, 5)
    assert log.assets == DATA.assets
    assert log.steps.reward.tolist() == [result.reward for result in results]
    for name in ("equity", "cash", "pnl", "cost", "turnover", "drawdown"):
        assert getattr(log.steps, name).tolist() == [result.info[name] for result in results]
    for kind in COST_KINDS:
        assert log.steps.cost_of(kind).tolist() == [result.info[kind] for result in results]
    weights = np.array([result.observation["weights"] for result in results])
    assert (log.steps.weights.astype(np.float32) == weights).all()
    assert log.steps.row.tolist() == list(range(6, 26))
    assert (log.steps.time == DATA.times[6:26]).all()
    assert (log.trades.time == DATA.times[log.trades.row]).all()
    assert log.pnl == pytest.approx(results[-1].info["equity"] - 100_000)


def test_exposures_follow_from_weights_and_sectors() -> None:
    (log,) = recorded().take_log()
    weights = log.steps.weights

    exposure = log.sector_exposure()

    assert sorted(exposure) == ["banks", "tech"]
    np.testing.assert_allclose(exposure["tech"], np.abs(weights[:, :2]).sum(axis=1))
    np.testing.assert_allclose(log.sector_exposure(net=True)["banks"], weights[:, 2])
    np.testing.assert_allclose(log.steps.gross_exposure, np.abs(weights[:, :4]).sum(axis=1))
    np.testing.assert_allclose(log.steps.net_exposure, 1 - weights[:, 4])


def test_steps_tell_how_long_they_took() -> None:
    (log,) = recorded().take_log()

    assert 0 < log.steps.latency(0.5) <= log.steps.latency(0.99) < 1


def test_a_log_that_is_taken_in_between_goes_on_with_what_is_held() -> None:
    env, whole = recorded(10), recorded(0)
    (first,) = env.take_log()
    act(env, 10, seed=1)
    act(whole, 10), act(whole, 10, seed=1)

    (second,), (both,) = env.take_log(), whole.take_log()

    assert (second.seed, second.episode, second.opening_row) == (7, 0, 15)
    assert np.concatenate([first.steps.equity, second.steps.equity]).tolist() == (
        both.steps.equity.tolist()
    )
    held = np.zeros(4)
    np.add.at(held, [DATA.assets.index(name) for name in first.trades.asset], first.trades.units)
    np.testing.assert_allclose(second.opening_units[0], held, atol=1e-12)
    assert env.take_log() == []


def test_each_episode_has_a_log() -> None:
    env = recorded(5)
    env.reset()
    act(env, 3)

    first, second = env.take_log()

    assert [(log.episode, len(log.steps)) for log in (first, second)] == [(0, 5), (1, 3)]


def test_a_state_that_is_loaded_begins_a_log_of_its_own() -> None:
    env, other = recorded(5), recorded(8)
    other.load_state_dict(env.state_dict())
    act(other, 4, seed=1)

    before, after = other.take_log()

    assert (len(before.steps), len(after.steps)) == (8, 4)
    assert (after.seed, after.episode, after.opening_row) == (7, 0, 10)
    np.testing.assert_allclose(equity_from(after, DATA), after.steps.equity, rtol=1e-9)


def test_envs_of_a_vector_are_logged_one_by_one() -> None:
    vec: Any = sekai.make_vec(
        "Portfolio-v0", num_envs=3, data=DATA, record=True, lookback=LOOKBACK, starts=5,
        features=("log_return",), episode_rows=4,
    )  # fmt: skip
    vec.reset(seed=[1, 2, 3])
    for _ in range(6):
        vec.step(np.full((3, 5), 0.2))

    logs = EpisodeLog.take(vec.batch)

    assert [(log.env, log.seed, log.episode, len(log.steps)) for log in logs] == [
        (env, env + 1, episode, steps) for env in range(3) for episode, steps in ((0, 4), (1, 2))
    ]
    vec.close()


def test_recording_changes_nothing_else() -> None:
    options: dict[str, Any] = {"lookback": LOOKBACK, "features": ("log_return",), "starts": 5}
    silent = Portfolio(data=DATA, **options)
    silent.reset(seed=7)

    rewards = [result.reward for result in act(silent, 20)]

    assert recorded().take_log()[0].steps.reward.tolist() == rewards
    with pytest.raises(ValueError, match="record=True"):
        silent.take_log()


def test_delistings_are_logged_as_sales_at_the_mark() -> None:
    data = make_panel(rows=30, assets=2, seed=0, holes=0.0)
    listed = data.listed.copy()
    listed[15:, 0] = False
    values = data.values.copy()
    values[15:, 0] = np.nan
    data = data.replace(listed=listed, quoted=listed, tradable=listed, values=values)
    env = recorded(0, data, costs=Costs(delisting=0.25))
    for _ in range(12):
        env.step(np.array([0.5, 0.5, 0.0]))

    trades = env.take_log()[0].trades

    last = np.flatnonzero(trades.asset == "asset0")[-1]
    assert (trades.row[last], trades.rate[last]) == (15, 0.25)
    assert trades.price[last] == data.field("close")[14, 0]


def test_several_agents_can_be_told_apart() -> None:
    (log,) = recorded().take_log()

    assert len(log.of_agent(0).steps) == len(log.steps)
    assert len(log.of_agent(0).trades) == len(log.trades)


def same_logs(left: Any, right: Any) -> bool:
    """Return True if two logs, or parts of them, are equal."""
    if is_dataclass(left):
        names = [each.name for each in fields(left)]
        return all(same_logs(getattr(left, name), getattr(right, name)) for name in names)
    if isinstance(left, np.ndarray):
        same_kind = left.dtype.kind == right.dtype.kind and left.shape == right.shape
        return bool(same_kind and (left == right).all())
    return bool(left == right)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("steps", [0, 12])
def test_files_give_back_what_was_written(tmp_path: Path, kind: str, steps: int) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    env = recorded(steps)
    env.reset(seed=2**64 - 1)
    act(env, 3)
    logs = env.take_log()
    path = tmp_path / f"log.{kind}"
    write, read = {"jsonl": (write_jsonl, read_jsonl), "parquet": (write_parquet, read_parquet)}[
        kind
    ]

    write(logs, path)

    found = read(path)
    assert len(found) == len(logs) == 2
    assert all(same_logs(one, other) for one, other in zip(logs, found, strict=True))
    (logs[1].to_jsonl if kind == "jsonl" else logs[1].to_parquet)(path)
    assert same_logs(read(path)[0], logs[1])


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (log,) = recorded(3).take_log()
    path = tmp_path / "log.jsonl"
    log.to_jsonl(path)
    before = path.read_bytes()

    def broken() -> Any:
        yield log
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_jsonl(broken(), path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_lines_can_be_read_by_anybody(tmp_path: Path) -> None:
    (log,) = recorded(3).take_log()
    log.to_jsonl(tmp_path / "log.jsonl")

    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]

    steps = [record for record in records if record["kind"] == "step"]
    assert [record["equity"] for record in steps] == log.steps.equity.tolist()
    assert steps[0]["time"] == str(log.steps.time[0])


@pytest.mark.parametrize("line", ["{", "[]", '{"log": 0, "kind": "other"}'])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    (log,) = recorded(1).take_log()
    path = tmp_path / "log.jsonl"
    log.to_jsonl(path)
    count = len(path.read_text().splitlines())
    path.write_text(path.read_text() + line + "\n")

    with pytest.raises(DataError, match=f"line {count + 1}"):
        read_jsonl(path)
