"""Row indices of observations, and windows from a file as portfolio features."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import MarketData, PanelWindows, Pipeline, Windows
from sekai.error import DataError
from sekai.utils.checker import check_env
from sekai.vector import NativeBatch, NativeVecEnv
from tests.envs.portfolio_runs import DATA, SHORT, plans, record, same, single, vector

pytest.importorskip("pyarrow")

MODES = ["same_step", "next_step", "disabled"]
FEATURES = Pipeline(SHORT["features"], clip=5.0).transform(DATA)


def write(path: Path, rows: slice = slice(None), **options: Any) -> Windows:
    """The windows of the same features that the env would compute, of some rows."""
    panel = FEATURES.values[rows]
    about = {"times": DATA.times[rows], "assets": DATA.assets, "features": FEATURES.names}
    Windows.write(path, panel, SHORT["lookback"], **{**about, **options})
    return Windows.open(path)


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    return write(tmp_path / "windows")


def swapped(observations: dict[str, Any], source: Any) -> dict[str, Any]:
    """Observations with windows in the place of their indices."""
    rest = dict(observations)
    indices = np.atleast_2d(rest.pop("index"))
    return {"windows": source.gather(indices[:, 0]), **rest}


@pytest.mark.parametrize("mode", MODES)
def test_gathered_windows_are_those_that_would_have_been_shown_byte_for_byte(mode: Any) -> None:
    shown, indexed = (vector(4, autoreset=mode, observation=kind) for kind in ("window", "index"))
    source = indexed.get_attr("windows")[0]

    assert isinstance(source, PanelWindows)
    for wanted, found in zip(record(shown), record(indexed), strict=True):
        assert same(wanted[0], swapped(found[0], source))
        assert same(wanted[1:-1], found[1:-1])


def test_a_single_env_has_the_windows_of_its_indices() -> None:
    shown, indexed = single(), single(observation="index")
    wanted, found = shown.reset(seed=2), indexed.reset(seed=2)

    for actions in plans(1, 5):
        windows = indexed.unwrapped.windows.gather(found.observation["index"])[0]
        assert windows.tobytes() == wanted.observation["windows"].tobytes()
        wanted, found = shown.step(actions[0]), indexed.step(actions[0])


def test_the_windows_beside_an_env_share_the_memory_of_its_features() -> None:
    values = FEATURES.values.copy()
    values.flags.writeable = False
    features = dataclasses.replace(FEATURES, values=values)
    env = single(observation="index", features=features).unwrapped

    assert np.shares_memory(env.windows.panel, env.features.values)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_windows_from_a_file_are_shown_as_computed_ones_are(
    windows: Windows, mode: Any, copy: bool
) -> None:
    options = {"autoreset": mode, "copy": copy}

    assert same(record(vector(4, features=windows, **options)), record(vector(4, **options)))


@pytest.mark.parametrize("observation", ["window", "index"])
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_on_a_file_equals_its_single_envs(
    windows: Windows, mode: Any, observation: str
) -> None:
    options = {"features": windows, "autoreset": mode, "observation": observation}

    assert same(record(vector(3, **options)), record(vector(3, "sync", **options)))


def test_envs_in_worker_processes_open_the_file_for_themselves(windows: Windows) -> None:
    options: Any = {"num_workers": 2, "vector_kwargs": {"start_method": "spawn"}}
    with vector(3, "proc", features=windows, **options) as workers:
        assert same(record(vector(3, features=windows)), record(workers))


@pytest.mark.parametrize("mode", MODES)
def test_an_index_is_the_number_of_a_window_in_the_file(windows: Windows, mode: Any) -> None:
    shown = vector(4, features=windows, autoreset=mode)
    indexed = vector(4, features=windows, autoreset=mode, observation="index")

    assert indexed.get_attr("windows")[0] is windows
    for wanted, found in zip(record(shown), record(indexed), strict=True):
        assert same(wanted[0], swapped(found[0], windows))
        times = [info["time_index"] for info in found[-1]]
        stamps = windows.times[found[0]["index"][:, 0]]
        assert np.array_equal(DATA.times[np.array(times, np.int64)], stamps)


@pytest.mark.parametrize("observation", ["window", "index"])
def test_last_observations_are_those_of_the_row_that_an_episode_ended_with(
    windows: Windows, observation: str
) -> None:
    vec = vector(4, features=windows, observation=observation)
    vec.reset(seed=0)
    endings = 0
    for actions in plans(4, 30):
        result = vec.step(actions)
        for env in np.flatnonzero(result.dones):
            info = result.infos[env]
            row = int(info["final_info"]["time_index"])
            place = int(np.searchsorted(windows.times, DATA.times[row]))
            last = info["final_observation"]
            if observation == "index":
                assert last["index"].tolist() == [place]
            else:
                assert last["windows"].tobytes() == windows.gather([place])[0].tobytes()
            endings += 1

    assert endings > 10


@pytest.mark.parametrize("observation", ["window", "index"])
def test_the_checker_finds_nothing_to_report(windows: Windows, observation: str) -> None:
    env = single(features=windows, observation=observation)

    assert check_env(env) == []


def test_a_batch_on_a_file_fulfils_the_protocol(windows: Windows) -> None:
    vec = vector(2, features=windows)
    assert isinstance(vec, NativeVecEnv)

    assert isinstance(vec.batch, NativeBatch)


def test_windows_and_a_reward_in_python_go_together(windows: Windows) -> None:
    options: dict[str, Any] = {"features": windows, "reward": lambda state: state.pnl}
    vec = vector(3, **options)

    assert vec.get_attr("windows")[0] is windows
    assert same(record(vec), record(vector(3, "sync", **options)))


def test_a_restored_batch_on_a_file_continues_bit_for_bit(windows: Windows) -> None:
    vec, other = vector(3, features=windows), vector(3, features=windows)
    vec.reset(seed=0)
    for actions in plans(3, 4):
        vec.step(actions)
    other.load_state_dict(vec.state_dict())

    assert same(record(vec, seed=None), record(other, seed=None))


def test_windows_of_doubles_are_shown_as_doubles(tmp_path: Path) -> None:
    windows = write(tmp_path / "doubles", dtype=np.float64)
    env = single(features=windows)

    shown = env.reset(seed=0).observation["windows"]

    assert env.observation_space["windows"].dtype == shown.dtype == np.float64
    assert env.observation_space.contains(env.reset(seed=0).observation)


def test_history_before_the_data_lets_decisions_begin_with_its_first_row(tmp_path: Path) -> None:
    windows = write(tmp_path / "windows")
    later = DATA.rows(20, 80)

    shown = single(data=later, features=windows, starts=0).reset().observation["windows"]

    assert np.array_equal(shown, FEATURES.values[17:21])


def test_decisions_begin_with_the_first_row_that_has_a_window(tmp_path: Path) -> None:
    windows = write(tmp_path / "windows", slice(30, None))
    first = 30 + SHORT["lookback"] - 1

    vec = vector(300, features=windows)
    rows = vec.reset(seed=0).infos.column("time_index").values

    assert rows.min() == first
    with pytest.raises(ValueError, match=f"from row {first} to row 78"):
        single(features=windows, starts=first - 1)


def test_no_decision_falls_on_rows_of_the_warm_up(windows: Windows) -> None:
    vec = vector(300, data=DATA.rows(0, 80, warm_up=20), features=windows)

    assert vec.reset(seed=0).infos.column("time_index").values.min() == 20


@pytest.mark.parametrize("observation", ["window", "index"])
def test_rows_of_envs_that_are_skipped_stay_untouched(windows: Windows, observation: str) -> None:
    vec = vector(3, features=windows, observation=observation)
    observations = vec.reset(seed=0).observations
    part = "windows" if observation == "window" else "index"
    observations[part][:] = 7
    out = np.empty(3), np.empty(3, np.bool_), np.empty(3, np.bool_)

    vec.batch.step(plans(3, 1)[0], observations, *out, None, np.array([False, True, False]))

    assert np.all(observations[part][1] == 7)
    assert (observations[part][0] != 7).any()
    assert (observations[part][2] != 7).any()


def test_the_first_missing_window_is_named(tmp_path: Path) -> None:
    windows = write(tmp_path / "windows", slice(0, 60))

    with pytest.raises(DataError) as error:
        single(features=windows)

    assert f"no window for the decision at {DATA.times[60]} (20 of 77 rows have none)" in str(
        error.value
    )


def gappy(tmp_path: Path) -> tuple[MarketData, Windows]:
    """Data with rows in which nothing can be traded, and windows of all the others."""
    tradable = DATA.tradable.copy()
    tradable[10::5] = False
    data = DATA.replace(tradable=tradable)
    folder = tmp_path / "whole"
    whole = write(folder)
    kept = np.flatnonzero(tradable[3:].any(axis=1))
    np.save(tmp_path / "gappy.npy", whole.gather(kept))
    from sekai.data.windows.window_file import write_index

    write_index(tmp_path / "gappy.parquet", whole.times[kept], {})
    names: dict[str, Any] = {"assets": DATA.assets, "features": FEATURES.names}
    return data, Windows.open(tmp_path / "gappy.npy", **names)


def test_rows_without_a_decision_need_no_window_and_show_the_last_one(tmp_path: Path) -> None:
    data, windows = gappy(tmp_path)
    with pytest.raises(DataError, match=f"no window for the decision at {data.times[10]}"):
        single(data=data, features=windows)
    options: dict[str, Any] = {"data": data, "features": windows, "decisions": "trading_days"}
    env = single(**options, starts=3, episode_rows=7, ruin=0.0)
    env.reset(seed=0)

    result = env.step(np.array([0.0, 0.0, 0.0, 1.0]))
    while not result.done:
        result = env.step(np.array([0.0, 0.0, 0.0, 1.0]))

    assert result.info["time_index"] == 10
    assert np.array_equal(result.observation["windows"], FEATURES.values[6:10])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lookback": 5}, "lookback must be 4 as in the windows, got 5"),
        ({"data": DATA.select(DATA.assets[::-1])}, "assets of the windows do not match"),
        (
            {"data": DATA.replace(times=DATA.times + np.timedelta64(1, "s"))},
            "no window has the time of a row",
        ),
    ],
)
def test_windows_that_do_not_belong_to_the_data_are_refused(
    windows: Windows, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        single(features=windows, **change)


@pytest.mark.parametrize("order", [[1, 0], [0, 0], []])
def test_windows_that_are_not_in_order_are_refused(tmp_path: Path, order: list[int]) -> None:
    from sekai.data.windows.window_file import write_index

    whole = write(tmp_path / "whole")
    np.save(tmp_path / "other.npy", whole.gather(np.array(order, np.int64)))
    write_index(tmp_path / "other.parquet", whole.times[np.array(order, np.int64)], {})
    names: dict[str, Any] = {"assets": DATA.assets, "features": FEATURES.names}

    with pytest.raises(DataError, match="windows must be strictly ascending in time"):
        single(features=Windows.open(tmp_path / "other.npy", **names))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4, 3, 1), np.float32),
        np.zeros((3, 4, 3, 3), np.float64),
        np.zeros((3, 4, 3, 6), np.float32)[..., ::2],
        None,
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_anything_moves(
    windows: Windows, array: Any
) -> None:
    vec: Any = vector(3, features=windows)
    vec.reset(seed=0)
    shown, before = vec.step(plans(3, 1)[0]), vec.state_dict()
    observations = {**shown.observations, "windows": array}
    out = np.empty(3), np.empty(3, np.bool_), np.empty(3, np.bool_)

    with pytest.raises(ValueError, match=r"observations\['windows'\] must be"):
        vec.batch.step(plans(3, 1)[0], observations, *out, None, None)

    assert same(vec.state_dict(), before)
