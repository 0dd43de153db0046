"""Several agents that say for each asset less, as much or more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.error import InvalidActionError
from sekai.spaces import MultiDiscrete
from sekai.utils.checker import check_env
from tests.envs.agents_apart import AGENTS, alone, is_as_alone, many, recorded, together

TILTS: dict[str, Any] = {"action": "tilts", "tilt": 0.2}


def test_agents_tilt_as_they_do_alone() -> None:
    env = together(starts=15, **TILTS)
    singles = {name: alone(name, starts=15, **TILTS) for name in AGENTS}
    rng = np.random.default_rng(0)
    for one in (env, *singles.values()):
        one.reset(seed=0)  # type: ignore[attr-defined]
    assert env.action_spaces["plain"] == MultiDiscrete([3, 3, 3])

    for _ in range(20):
        drawn = {name: rng.integers(0, 3, 3) for name in AGENTS}
        alive = {name: drawn[name] for name in env.agents}
        result = env.step(alive)
        assert is_as_alone(result, {name: singles[name].step(drawn[name]) for name in alive})


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_a_vector_env_of_them_gives_what_single_envs_give(mode: str) -> None:
    native, single = (
        many(3, kind, autoreset=mode, episode_rows=7, reward_mode="cooperative", **TILTS)
        for kind in ("native", "sync")
    )

    for one, other in zip(recorded(native, 30), recorded(single, 30), strict=True):
        assert equal_values(one, other)


def test_cooperating_agents_share_one_reward_in_every_env() -> None:
    own, shared = (many(4, agents=3, reward_mode=mode, **TILTS) for mode in ("own", "cooperative"))
    for one, other in zip(recorded(own, 12)[1:], recorded(shared, 12)[1:], strict=True):
        if not hasattr(one, "rewards"):
            continue
        rewards = np.stack(list(other.rewards.values()))
        assert (rewards == rewards[0]).all()
        mean = np.mean(list(one.rewards.values()), axis=0)
        np.testing.assert_allclose(rewards[0], mean, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("wrong", [[0, 1, 3], [0, 1], [0.5, 1, 1]])
def test_what_is_no_tilt_is_refused_and_moves_nothing(wrong: Any) -> None:
    env, vec = together(agents=3, **TILTS), many(2, agents=3, **TILTS)
    env.reset(seed=0)
    vec.reset(seed=0)
    before = env.batch.state_dict(), vec.batch.state_dict()
    actions: dict[str, Any] = {name: [1, 1, 1] for name in env.agents}

    with pytest.raises(InvalidActionError):
        env.step({**actions, "agent_1": wrong})
    with pytest.raises(InvalidActionError):
        vec.step({name: [row, row] for name, row in {**actions, "agent_1": wrong}.items()})

    assert (env.batch.state_dict(), vec.batch.state_dict()) == before


def test_the_checker_finds_nothing_wrong() -> None:
    assert check_env(together(reward_mode="cooperative", episode_rows=10, **TILTS)) == []
