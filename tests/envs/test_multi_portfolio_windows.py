"""Windows that were computed before, in a file, shown to several agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.data import PanelWindows, Pipeline, Windows
from sekai.envs import MemberConfig, PortfolioState
from sekai.error import DataError
from sekai.utils.checker import check_env
from tests.envs.agents_apart import AGENTS, alike, many, play_on, recorded, together
from tests.envs.shared_markets import FEATURES, market

pytest.importorskip("pyarrow")

DATA = market()
PANEL = Pipeline(FEATURES, clip=5.0).transform(DATA)
LESS = {
    "all": MemberConfig(ruin=0.97),
    "less": MemberConfig(lookback=2, features=("log_return",)),
    "turned": MemberConfig(features=("volatility(rows=5)", "log_return")),
}


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    about: dict[str, Any] = {
        "times": DATA.times, "assets": DATA.assets, "features": PANEL.names,
    }  # fmt: skip
    Windows.write(tmp_path / "windows", PANEL.values, 4, **about)
    return Windows.open(tmp_path / "windows")


@pytest.mark.parametrize("agents", [AGENTS, LESS, {"only": MemberConfig()}])
def test_windows_from_a_file_are_shown_as_computed_ones_are(windows: Windows, agents: Any) -> None:
    computed, read = (
        together(DATA, features=source, agents=agents, episode_rows=12)
        for source in (FEATURES, windows)
    )
    assert computed.observation_spaces == read.observation_spaces

    for seed in (3, None):
        assert alike(computed.reset(seed=seed), read.reset(seed=seed))
        for one, other in zip(play_on(computed, 12), play_on(read, 12), strict=True):
            assert alike(one, other)
    shown = next(iter(other.observations.values()))["windows"]
    assert not shown.flags.writeable


@pytest.mark.parametrize("observation", ["window", "index"])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_a_vector_env_on_a_file_equals_its_single_envs(
    windows: Windows, autoreset: str, observation: str
) -> None:
    agents = LESS if observation == "window" else AGENTS
    native, single = (
        many(3, mode, DATA, features=windows, agents=agents, episode_rows=7,
             autoreset=autoreset, observation=observation)
        for mode in ("native", "sync")
    )  # fmt: skip

    for one, other in zip(recorded(native, 25), recorded(single, 25), strict=True):
        assert equal_values(one, other)


@pytest.mark.parametrize("is_read", [True, False])
def test_an_index_is_the_number_of_a_window(windows: Windows, is_read: bool) -> None:
    source = windows if is_read else FEATURES
    shown, indexed = (
        together(DATA, features=source, observation=kind) for kind in ("window", "index")
    )
    shown.reset(seed=0)
    indexed.reset(seed=0)
    assert isinstance(indexed.windows, Windows if is_read else PanelWindows)

    for one, other in zip(play_on(shown, 9), play_on(indexed, 9), strict=True):
        for name, observation in other.observations.items():
            gathered = indexed.windows.gather(observation["index"])[0]
            assert gathered.tobytes() == one.observations[name]["windows"].tobytes()


@pytest.mark.parametrize("is_read", [True, False])
def test_a_vector_env_has_the_windows_of_its_indices(windows: Windows, is_read: bool) -> None:
    source = windows if is_read else FEATURES
    shown, indexed = (
        many(3, data=DATA, features=source, observation=kind) for kind in ("window", "index")
    )
    wanted, found = shown.reset(seed=0), indexed.reset(seed=0)
    (first, *_) = indexed.get_attr("windows")

    assert indexed.batch.windows is first
    gathered = first.gather(found.observations["plain"]["index"][:, 0])
    assert gathered.tobytes() == wanted.observations["plain"]["windows"].tobytes()


def test_a_restored_env_shows_the_same_windows(windows: Windows) -> None:
    env, other = (together(DATA, features=windows) for _ in range(2))
    env.reset(seed=0)
    play_on(env, 4)

    other.load_state_dict(env.state_dict())

    for one, two in zip(play_on(env, 9, 1), play_on(other, 9, 1), strict=True):
        assert alike(one, two)


def test_functions_reward_and_logs_record_on_a_file_too(windows: Windows) -> None:
    def pnl(state: PortfolioState) -> Any:
        return state.pnl

    env = together(DATA, features=windows, agents=3, reward=pnl, record=True)
    env.reset(seed=0)

    for result in play_on(env, 5):
        assert result.rewards == {name: info["pnl"] for name, info in result.info.items()}
    assert [len(log.steps) for (log,) in env.take_log().values()] == [5, 5, 5]


@pytest.mark.parametrize("observation", ["window", "index"])
def test_the_checker_finds_nothing_wrong(windows: Windows, observation: str) -> None:
    env = together(DATA, features=windows, observation=observation, episode_rows=10)

    assert check_env(env) == []


def test_windows_of_other_assets_or_rows_are_refused(windows: Windows) -> None:
    with pytest.raises(DataError, match="assets of the windows do not match"):
        together(DATA.select(("A", "B")), features=windows)
    with pytest.raises(ValueError, match="lookback must be 4 as in the windows, got 3"):
        together(DATA, features=windows, lookback=3)
    with pytest.raises(ValueError, match="features of 'a': unknown feature"):
        together(DATA, features=windows, agents={"a": MemberConfig(features=("beta",))})


def test_agents_that_would_be_shown_less_are_refused_where_all_are_shown_an_index(
    windows: Windows,
) -> None:
    with pytest.raises(ValueError, match="'less' has its own.*observation='index'"):
        together(DATA, features=windows, agents=LESS, observation="index")


def test_what_was_shown_is_not_written_into_later(windows: Windows) -> None:
    env = together(DATA, features=windows)
    env.reset(seed=0)
    shown = [result.observations["plain"]["windows"] for result in play_on(env, 6)]
    copies = [array.copy() for array in shown]
    play_on(env, 6)

    assert all(map(np.array_equal, shown, copies))
