"""Windows of a file that go on with the rows of a stream: the same bytes as one long file."""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, MarketData, Pipeline, RollingWindows, Windows
from sekai.envs import Portfolio
from sekai.error import DataError, NotFittedError, NotReadyError
from sekai.live import LiveRunner, PaperBroker, ReplayFeed, check_parity
from sekai.market import Execution
from sekai.vector import NativeVecEnv
from tests.data.holed_panels import make_panel
from tests.envs.streamed_worlds import (
    LOOKBACK,
    push_until_ready,
    same,
    steps_together,
    worlds,
)

pytest.importorskip("pyarrow")

DATA = make_panel(rows=60, assets=3, seed=1, holes=0.0)
NAMES = ["log_return", "volatility(4)"]
HALF = np.array([0.2, 0.2, 0.2, 0.4])


def pipeline_of(features: Any = NAMES, **options: Any) -> Pipeline:
    return Pipeline(features, **{"clip": 5.0, **options})


def write(path: Path, data: MarketData, pipeline: Pipeline, lookback: int = LOOKBACK) -> Path:
    """The windows that a pipeline makes of data, in a folder."""
    Windows.write(path, pipeline.transform(data), lookback, dtype=pipeline.dtype)
    return path


@contextmanager
def files(data: MarketData, split: int, pipeline: Pipeline) -> Iterator[tuple[Windows, Windows]]:
    """One long file, and one of the rows before the split that goes on by a pipeline."""
    with tempfile.TemporaryDirectory() as folder:
        long = Windows.open(write(Path(folder) / "long", data, pipeline))
        short = Windows.open(
            write(Path(folder) / "short", data.rows(0, split), pipeline), pipeline=pipeline
        )
        with long, short:
            yield long, short


@given(
    world=worlds(), draw=st.data(), seed=st.integers(0, 2**32),
    observation=st.sampled_from(["window", "index"]),
    dtype=st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_a_file_and_the_rows_after_it_give_the_bytes_of_one_long_file(
    world: dict[str, Any], draw: st.DataObject, seed: int, observation: str, dtype: Any
) -> None:
    data, pipeline = world.pop("data"), pipeline_of(world.pop("features"), dtype=dtype)
    start = draw.draw(st.integers(LOOKBACK, len(data) - 3))
    # The file may end before what is known when the stream begins.
    split = draw.draw(st.integers(LOOKBACK, start + 1))
    world.update(observation=observation, episode_rows=len(data) - 1 - start)
    with files(data, split, pipeline) as (long, short):
        whole = Portfolio(data=data, features=long, starts=start, **world)
        live = Portfolio(data=data.rows(0, start + 1), features=short, stream=True, **world)
        first = whole.reset(seed=seed)
        assume(first.info["time_index"] == start)
        bars, rng = list(Bar.each(data, start + 1)), np.random.default_rng(seed)

        assert same(first, live.reset(seed=seed))
        for expected, found in steps_together(whole, live, bars, rng):
            assert same(expected, found)
            assert live.observation_space.contains(found.observation)
        number = len(live.windows) - 1
        assert live.windows.times[number] == long.times[number]
        assert same(long.gather([0, number]), live.windows.gather([0, number]))


@pytest.fixture
def short(tmp_path: Path) -> Windows:
    """Windows of the first 30 rows, which go on by the pipeline that made them."""
    pipeline = pipeline_of()
    path = write(tmp_path / "short", DATA.rows(0, 30), pipeline)
    return Windows.open(path, pipeline=pipeline)


@pytest.fixture
def long(tmp_path: Path) -> Windows:
    return Windows.open(write(tmp_path / "long", DATA, pipeline_of()))


def rolled(short: Windows, rows: int = 30, **options: Any) -> tuple[Portfolio, list[Bar]]:
    """A stream after so many rows of history, and the bars that follow."""
    given_ = {"features": short, "lookback": LOOKBACK, "stream": True, **options}
    env = Portfolio(data=DATA.rows(0, rows), **given_)
    env.reset(seed=0)
    return env, list(Bar.each(DATA, rows))


def test_windows_of_the_file_stay_in_the_file_and_later_ones_are_in_memory(
    short: Windows, long: Windows
) -> None:
    env, bars = rolled(short, observation="index")
    for bar in bars[:10]:
        env.push(bar)

    assert isinstance(env.windows, RollingWindows)
    assert len(env.windows) == len(short) + 10
    everything = np.arange(len(env.windows))[::-1]
    assert env.windows.gather(everything).tobytes() == long.gather(everything).tobytes()
    with pytest.raises(ValueError, match=f"rows must be from 0 to {len(short) + 9}"):
        env.windows.gather([len(short) + 10])


def test_a_file_that_knows_more_than_the_history_shows_nothing_of_the_future(
    tmp_path: Path, long: Windows
) -> None:
    values = np.array(DATA.values)
    values[30:] *= 3.0
    changed = DATA.replace(values=values)
    pipeline = pipeline_of()
    path = write(tmp_path / "changed", changed, pipeline)
    env, bars = rolled(Windows.open(path, pipeline=pipeline), observation="index")

    # The rows that come are those of other data: what they are is computed, not looked up.
    for bar in bars:
        env.push(bar)

    everything = np.arange(len(env.windows))
    assert env.windows.gather(everything).tobytes() == long.gather(everything).tobytes()


def test_history_beyond_the_file_needs_no_stream(short: Windows, long: Windows) -> None:
    made = [
        Portfolio(data=DATA, features=windows, lookback=LOOKBACK, starts=25, episode_rows=None)
        for windows in (short, long)
    ]
    assert same(made[0].reset(seed=0), made[1].reset(seed=0))
    for _ in range(20):
        assert same(made[0].step(HALF), made[1].step(HALF))


def test_a_stream_over_a_file_without_a_pipeline_says_what_to_give(long: Windows) -> None:
    with pytest.raises(ValueError, match=r"Windows.open\(\.\.\., pipeline=\.\.\.\)"):
        rolled(long)


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        (["log_return"], {}, r"feature mismatch: .*'volatility.* in the file, .*pipeline"),
        (NAMES, {"dtype": np.float64}, "dtype mismatch: float32 in the file, float64 .*pipeline"),
        (NAMES, {"clip": 0.001}, r"first difference at .*asset '.*', feature '.*'"),
    ],
)
def test_a_pipeline_that_did_not_make_the_file_is_refused_with_what_differs(
    tmp_path: Path, features: list[str], options: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "windows", DATA.rows(0, 30), pipeline_of())
    other = pipeline_of(features, **options)

    with pytest.raises(DataError, match=message):
        rolled(Windows.open(path, pipeline=other))


def test_the_first_difference_is_named_by_time_asset_and_feature(tmp_path: Path) -> None:
    pipeline = pipeline_of()
    panel = pipeline.transform(DATA.rows(0, 30))
    values = panel.values.copy()
    values[28:, 1, 0] += 0.5
    path = tmp_path / "windows"
    Windows.write(
        path, values, LOOKBACK, times=panel.times, assets=panel.assets, features=panel.names
    )

    with pytest.raises(DataError) as error:
        rolled(Windows.open(path, pipeline=pipeline))

    message = str(error.value)
    assert f"{DATA.times[28]}" in message
    assert f"asset {DATA.assets[1]!r}, feature 'log_return'" in message
    assert f"{values[28, 1, 0]}" in message
    assert f"{panel.values[28, 1, 0]}" in message


def test_a_pipeline_that_is_not_fitted_is_refused_when_the_file_is_opened(tmp_path: Path) -> None:
    path = write(tmp_path / "windows", DATA.rows(0, 30), pipeline_of())

    with pytest.raises(NotFittedError):
        Windows.open(path, pipeline=pipeline_of(scaling="zscore"))


def test_a_history_too_short_for_the_pipeline_is_refused(short: Windows) -> None:
    with pytest.raises(DataError, match="history"):
        Portfolio(data=DATA.rows(28, 30), features=short, lookback=LOOKBACK, stream=True)


def test_a_history_that_begins_within_the_file_is_enough_for_the_pipeline(
    short: Windows, long: Windows
) -> None:
    history = DATA.rows(30 - 5, 30)
    env = Portfolio(data=history, features=short, lookback=LOOKBACK, stream=True)
    whole = Portfolio(data=DATA, features=long, lookback=LOOKBACK, starts=29)
    env.reset(seed=0)
    whole.reset(seed=0)

    for bar in list(Bar.each(DATA, 30))[:20]:
        env.push(bar)
        expected, found = whole.step(HALF).observation, env.step(HALF).observation
        assert same(expected["windows"], found["windows"])


def test_a_fitted_pipeline_rolls_on_with_what_it_learned(tmp_path: Path) -> None:
    pipeline = pipeline_of(scaling="zscore", mask="feature").fit(DATA.rows(0, 20))
    long = Windows.open(write(tmp_path / "long", DATA, pipeline))
    path = write(tmp_path / "short", DATA.rows(0, 30), pipeline)
    env, bars = rolled(Windows.open(path, pipeline=pipeline), observation="index")
    for bar in bars:
        env.push(bar)

    everything = np.arange(len(long))
    assert env.windows.gather(everything).tobytes() == long.gather(everything).tobytes()


@pytest.mark.parametrize("observation", ["window", "index"])
def test_a_restored_env_goes_on_in_the_middle_of_the_stream(
    short: Windows, observation: str
) -> None:
    env, bars = rolled(short, observation=observation)
    for bar in bars[:8]:
        env.push(bar)
        env.step(HALF)
    state = env.state_dict()
    # One that was given the rows one by one, and one that has them as history.
    pushed, _ = rolled(short, observation=observation)
    for bar in bars[:8]:
        pushed.push(bar)
    longer, _ = rolled(short, 38, observation=observation)
    for other in (pushed, longer):
        other.load_state_dict(state)

    for bar in bars[8:16]:
        results = []
        for one in (env, pushed, longer):
            one.push(bar)
            results.append(one.step(HALF))
        assert same(results[0], results[1])
        assert same(results[0], results[2])


def test_a_step_before_its_row_moves_nothing(short: Windows) -> None:
    env, bars = rolled(short)
    before = env.batch.state_dict()

    with pytest.raises(NotReadyError):
        env.step(HALF)

    assert env.batch.state_dict() == before
    env.push(bars[0])
    assert env.step(HALF).info["time_index"] == 30


def test_a_row_that_is_refused_leaves_no_window(short: Windows, long: Windows) -> None:
    env, bars = rolled(short, observation="index")
    volume = np.full(np.shape(bars[0].values), -1.0)
    volume[:, :4] = 10.0
    everywhere = np.ones(3, bool)
    # Features can be computed from this one; only the core refuses it.
    bad = Bar(bars[0].time, volume, everywhere, everywhere, everywhere, bars[0].market)

    with pytest.raises(ValueError, match="volume"):
        env.push(bad)

    assert len(env.windows) == len(short)
    for bar in bars:
        env.push(bar)
    everything = np.arange(len(long))
    assert env.windows.gather(everything).tobytes() == long.gather(everything).tobytes()


@pytest.mark.parametrize("observation", ["window", "index"])
def test_many_envs_share_a_stream_of_windows(short: Windows, observation: str) -> None:
    env, bars = rolled(short, observation=observation)
    vec = sekai.make_vec(
        "Portfolio-v0", num_envs=3, data=DATA.rows(0, 30), stream=True, lookback=LOOKBACK,
        features=short, observation=observation,
    )  # fmt: skip
    assert isinstance(vec, NativeVecEnv)
    vec.reset(seed=[0, 0, 0])

    for bar in bars:
        env.push(bar)
        vec.batch.push(bar)  # type: ignore[attr-defined]
        one, many = env.step(HALF), vec.step(np.tile(HALF, (3, 1)))
        assert (many.rewards == one.reward).all()
        for name, seen in one.observation.items():
            assert all(same(np.asarray(row), np.asarray(seen)) for row in many.observations[name])
    vec.close()


def test_a_feed_rolls_the_windows_on(short: Windows, long: Windows) -> None:
    feed = ReplayFeed(DATA, start_row=30)
    env = sekai.make("Portfolio-v0", data=feed, features=short, lookback=LOOKBACK)
    whole = Portfolio(data=DATA, features=long, lookback=LOOKBACK, starts=29)

    async def run() -> None:
        assert same(whole.reset(seed=0).observation, (await env.async_reset(seed=0)).observation)
        for number in range(20):
            found = await env.async_step(HALF) if number % 2 else env.step(HALF)
            assert same(whole.step(HALF), found)

    asyncio.run(run())


def test_rows_may_come_from_another_thread_while_windows_are_shown(
    short: Windows, long: Windows
) -> None:
    env, bars = rolled(short, observation="index", episode_rows=None)

    async def run() -> list[int]:
        feed = threading.Thread(target=lambda: any(map(env.push, bars)))
        feed.start()
        seen = [int((await env.async_step(HALF)).observation["index"][0]) for _ in bars]
        feed.join()
        return seen

    assert asyncio.run(run()) == list(range(len(short), len(long)))


def test_a_stream_that_forgets_rows_forgets_their_windows(tmp_path: Path) -> None:
    data = make_panel(rows=400, assets=2, seed=3, holes=0.0)
    pipeline = pipeline_of()
    long = Windows.open(write(tmp_path / "long", data, pipeline))
    path = write(tmp_path / "short", data.rows(0, 40), pipeline)
    windows = Windows.open(path, pipeline=pipeline)
    env = Portfolio(
        data=data.rows(0, 40), features=windows, lookback=LOOKBACK, stream=True, keep_rows=32,
        episode_rows=None,
    )  # fmt: skip
    env.reset(seed=0)
    for number, bar in enumerate(Bar.each(data, 40), 1):
        env.push(bar)
        shown = env.step(np.array([0.3, 0.3, 0.4])).observation["windows"]
        place = len(windows) + number - 1
        # All that is kept of the stream has its windows.
        kept = np.arange(max(0, place - 31), place + 1)
        assert env.windows.gather(kept).tobytes() == long.gather(kept).tobytes()
        assert shown.tobytes() == long.gather([place])[0].tobytes()

    assert isinstance(env.windows, RollingWindows)
    assert env.windows.nbytes < 4 * 64 * long.gather([0]).nbytes
    assert env.windows.gather([0]).tobytes() == long.gather([0]).tobytes()
    with pytest.raises(ValueError, match="was dropped"):
        env.windows.gather([len(windows) + 5])


def test_opened_windows_keep_their_pipeline_in_another_process(short: Windows) -> None:
    again = pickle.loads(pickle.dumps(short))

    env, bars = rolled(again)
    env.push(bars[0])

    assert env.step(HALF).info["time_index"] == 30


def test_a_live_session_on_a_file_of_windows_replays_to_the_same_bytes(
    short: Windows, tmp_path: Path
) -> None:
    feed = ReplayFeed(DATA, start_row=30)
    options: dict[str, Any] = {
        "data": feed.history, "features": short, "lookback": LOOKBACK, "stream": True,
        "episode_rows": None, "execution": Execution(sizing="decision"),
    }  # fmt: skip
    env = sekai.make("Portfolio-v0", **options)
    runner = LiveRunner(lambda seen: HALF, env, feed, PaperBroker.like(env), tmp_path / "session")

    status = asyncio.run(runner.run())
    parity = check_parity(tmp_path / "session", sekai.make("Portfolio-v0", **options))

    assert status.fills > 0
    assert (parity.rows, parity.equal) == (30, 30)


def test_a_live_session_on_a_file_of_windows_goes_on_after_a_restart(
    short: Windows, tmp_path: Path
) -> None:
    def begin(stop: int | None = None) -> LiveRunner:
        feed = ReplayFeed(DATA, start_row=30, stop_row=stop)
        env = sekai.make(
            "Portfolio-v0", data=feed.history, features=short, lookback=LOOKBACK, stream=True,
            episode_rows=None, execution=Execution(sizing="decision"),
        )  # fmt: skip
        broker = PaperBroker.like(env, tmp_path / "ledger.jsonl")
        return LiveRunner(lambda seen: HALF, env, feed, broker, tmp_path / "session")

    asyncio.run(begin(stop=41).run())
    again = begin()
    asyncio.run(again.run())

    assert again.episode.row == 30
    whole = again.episode.portfolio
    assert check_parity(tmp_path / "session", begin().episode.portfolio).is_whole
    assert len(whole.windows) == len(short) + 30


def test_a_file_without_windows_of_rows_without_a_decision_goes_on(
    tmp_path: Path, long: Windows
) -> None:
    from sekai.data.windows.window_file import write_index

    tradable = DATA.tradable.copy()
    tradable[5:60:2] = False
    data, pipeline = DATA.replace(tradable=tradable), pipeline_of()
    kept = np.flatnonzero(tradable[LOOKBACK - 1 : 31].any(axis=1))
    np.save(tmp_path / "gappy.npy", long.gather(kept))
    write_index(tmp_path / "gappy.parquet", long.times[kept], {})
    names: dict[str, Any] = {"assets": DATA.assets, "features": long.features}
    gappy = Windows.open(tmp_path / "gappy.npy", **names, pipeline=pipeline)
    env = Portfolio(
        data=data.rows(0, 31), features=gappy, lookback=LOOKBACK, stream=True,
        decisions="trading_days",
    )  # fmt: skip
    env.reset(seed=0)

    bars = list(Bar.each(data, 31))
    for row in range(32, 50, 2):
        push_until_ready(env, bars)
        result = env.step(HALF)
        assert result.info["time_index"] == row
        assert same(result.observation["windows"], long.gather([row - LOOKBACK + 1])[0])
