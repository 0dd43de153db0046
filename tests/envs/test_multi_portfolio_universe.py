"""Assets that leave and come while several agents trade."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.data import MarketData
from sekai.error import ResetRequired
from tests.data.holed_panels import make_panel
from tests.envs.agents_apart import (
    AGENTS,
    alike,
    alone,
    is_as_alone,
    many,
    member,
    new_asset,
    play_on,
    recorded,
    together,
    weights,
)

DATA = make_panel(rows=40, assets=4, seed=1, holes=0.0)
OLD = DATA.select(DATA.assets[:3])
TURNED = ("volatility(rows=4)", "log_return")
FIXED: dict[str, Any] = {"starts": 10, "features": ("log_return", "volatility(4)")}


def test_agents_lose_and_win_assets_as_they_do_alone() -> None:
    env = together(OLD, slots=1, **FIXED)
    singles = {name: alone(name, OLD, slots=1, **FIXED) for name in AGENTS}
    rng = np.random.default_rng(0)
    begun = {name: single.reset(seed=0) for name, single in singles.items()}
    assert is_as_alone(env.reset(seed=0), begun)

    for step in range(15):
        for one in (env, *singles.values()):
            if step == 3:
                one.remove_asset("asset0")  # type: ignore[attr-defined]
            if step == 6:
                one.add_asset("asset3", new_asset(DATA))  # type: ignore[attr-defined]
            if step == 9:
                one.add_asset("asset0")  # type: ignore[attr-defined]
        drawn = dict(zip(AGENTS, weights(rng, len(AGENTS), assets=4), strict=True))
        alive = {name: drawn[name] for name in env.agents}
        result = env.step(alive)
        assert is_as_alone(result, {name: singles[name].step(drawn[name]) for name in alive})
        mask = result.observations[next(iter(alive))]["mask"].tolist()
        assert mask == [not 3 <= step < 9, 1, 1, step >= 6]

    assert env.assets == DATA.assets
    assert env.agents


def test_what_is_removed_is_sold_by_all() -> None:
    env = together(OLD, agents=3, record=True, **FIXED)
    env.reset(seed=0)
    play_on(env, 2)

    env.remove_asset("asset1")
    (result,) = play_on(env, 1)

    assert all(shown["weights"][1] == 0.0 for shown in result.observations.values())


def test_slots_are_free_places_that_an_asset_comes_into() -> None:
    env = together(OLD, agents=3, slots=2, **FIXED)

    assert env.observation_spaces["agent_0"]["windows"].shape[:2] == (4, 5)  # type: ignore[index]
    assert env.assets == OLD.assets
    env.reset(seed=0)
    before = env.step({name: np.full(6, 1 / 6) for name in env.agents})
    env.add_asset("asset3", new_asset(DATA))
    after = env.step({name: np.full(6, 1 / 6) for name in env.agents})

    assert not before.observations["agent_1"]["windows"][:, 3:].any()
    assert after.observations["agent_1"]["windows"][:, 3].any()
    assert after.observations["agent_1"]["mask"].tolist() == [1, 1, 1, 1, 0]


def test_an_agent_that_is_shown_less_sees_its_part_of_a_new_asset() -> None:
    agents = {
        "all": member("plain"),
        "less": member("plain", lookback=2, features=("volatility(rows=4)",)),
        "turned": member("plain", features=TURNED),
    }
    env = together(OLD, agents=agents, slots=1, **FIXED)
    env.reset(seed=0)

    env.add_asset("asset3", new_asset(DATA))
    shown = play_on(env, 1)[0].observations
    whole = shown["all"]["windows"]

    places = [env.features.names.index(name) for name in TURNED]
    assert np.array_equal(shown["less"]["windows"], whole[-2:, :, places[:1]])
    assert np.array_equal(shown["turned"]["windows"], whole[:, :, places])
    assert not whole.flags.writeable
    assert not shown["less"]["windows"].flags.writeable


def test_a_vector_env_has_them_as_single_envs_have() -> None:
    native, single = (
        many(3, mode, OLD, slots=1, episode_rows=9, **FIXED) for mode in ("native", "sync")
    )
    for vec in (native, single):
        vec.reset(seed=5)
    native.batch.add_asset("asset3", new_asset(DATA))
    single.call("add_asset", "asset3", new_asset(DATA))

    for one, other in zip(recorded(native, 25), recorded(single, 25), strict=True):
        assert equal_values(one, other)


@pytest.mark.parametrize("slots", [0, 1])
def test_a_restored_env_goes_on_without_what_was_removed(slots: int) -> None:
    env, other = (together(OLD, slots=slots, **FIXED) for _ in range(2))
    env.reset(seed=0)
    play_on(env, 3)
    env.remove_asset("asset2")
    if slots:
        for one in (env, other):
            one.add_asset("asset3", new_asset(DATA))

    other.load_state_dict(env.state_dict())

    for one, two in zip(play_on(env, 12, 1), play_on(other, 12, 1), strict=True):
        assert alike(one, two)


def no_place(data: MarketData) -> None:
    env = together(data, **FIXED)
    env.reset(seed=0)
    env.add_asset("asset3", new_asset(DATA))


def test_what_cannot_come_or_go_is_refused_and_changes_nothing() -> None:
    env = together(OLD, **FIXED)
    with pytest.raises(ResetRequired):
        env.remove_asset("asset0")
    env.reset(seed=0)
    before = env.batch.state_dict()

    with pytest.raises(KeyError, match="asset9"):
        env.remove_asset("asset9")
    with pytest.raises(ValueError, match="no free slot"):
        no_place(OLD)

    assert env.batch.state_dict() == before
