"""Some of the envs: what they draw, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.error import StateError
from sekai.training.ray.env_state import (
    cut_rows,
    cut_states,
    env_slices,
    joined_native,
    joined_rows,
    joined_state,
)
from sekai.training.rng import EnvSlice, env_slice_drawn, exponential, normal, uniform
from sekai.vector import SyncVecEnv, make_vec
from sekai.vector.multi_agent import MultiAgentVecEnv
from tests.training.distributed.walks import Walk
from tests.training.multi.worlds import Coming

NATIVE = ("Trading-v0", "MarketMaking-v0", "OptimalExecution-v0", "Portfolio-v0")


@given(st.integers(1, 40), st.data())
def test_portions_are_all_envs_once_and_nearly_equally_many(envs: int, data: Any) -> None:
    workers = data.draw(st.integers(1, envs))

    portions = env_slices(envs, workers)

    everyone = [env for one in portions for env in range(one.first, one.end)]
    assert everyone == list(range(envs))
    assert len(portions) == workers
    assert {one.count for one in portions} <= {envs // workers, -(-envs // workers)}


@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 4), st.data())
@pytest.mark.parametrize("draw", [normal, uniform, exponential])
def test_portions_draw_what_all_draw(
    draw: Callable[[Any], torch.Tensor], envs: int, agents: int, width: int, data: Any
) -> None:
    portions = env_slices(envs, data.draw(st.integers(1, envs)))
    torch.manual_seed(envs)
    whole = draw((agents * envs, width)).reshape(agents, envs, width)
    after = torch.get_rng_state()

    for portion in portions:
        torch.manual_seed(envs)
        with env_slice_drawn(portion):
            own = draw((agents * portion.count, width)).reshape(agents, portion.count, width)

        assert torch.equal(own, whole[:, portion.first : portion.end])
        assert torch.equal(torch.get_rng_state(), after)


def test_rows_that_are_no_envs_are_refused() -> None:
    with env_slice_drawn(EnvSlice(0, 2, 4)), pytest.raises(ValueError, match="multiple of 2 envs"):
        normal((3, 1))


def test_rows_that_were_cut_can_be_joined() -> None:
    rows: dict[str, Any] = {"a": np.arange(10).reshape(5, 2), "b": (np.arange(5.0),)}

    parts = [cut_rows(rows, portion) for portion in env_slices(5, 3)]

    joined = joined_rows(parts)
    assert np.array_equal(joined["a"], rows["a"])
    assert np.array_equal(joined["b"][0], rows["b"][0])


def moved(vec: Any, steps: int) -> Any:
    """A vector env after some steps."""
    vec.reset(seed=7)
    space = vec.action_space
    space.seed(3)
    for _ in range(steps):
        vec.step([space.sample() for _ in range(vec.num_envs)])
    return vec


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(NATIVE), st.integers(1, 7), st.integers(0, 5), st.data())
def test_states_of_native_envs_can_be_cut_and_joined(
    name: str, envs: int, steps: int, data: Any
) -> None:
    vec = moved(make_vec(name, envs), steps)
    before = vec.state_dict()
    portions = env_slices(envs, data.draw(st.integers(1, envs)))

    states = cut_states(vec, portions)

    assert vec.state_dict()["envs"]["batch"] == before["envs"]["batch"], "it is left as it was"
    assert joined_state(states)["envs"]["batch"] == before["envs"]["batch"]
    fewer = make_vec(name, portions[-1].count)
    fewer.load_state_dict(states[-1])
    actions = [vec.action_space.sample() for _ in range(envs)]
    whole, part = vec.step(actions), fewer.step(actions[portions[-1].first :])
    assert np.array_equal(part.rewards, whole.rewards[portions[-1].first :])


def test_states_of_python_envs_can_be_cut_and_joined() -> None:
    vec = moved(SyncVecEnv([Walk] * 5), 4)
    states = cut_states(vec, env_slices(5, 2))
    other = SyncVecEnv([Walk] * 5)
    other.reset(seed=0)

    other.load_state_dict(joined_state(states))

    actions = np.zeros((5, 1), np.float32)
    one, two = vec.step(actions), other.step(actions)
    assert np.array_equal(one.observations, two.observations)
    assert np.array_equal(one.rewards, two.rewards)


def test_states_of_several_agents_can_be_cut_and_joined() -> None:
    vec, other = (MultiAgentVecEnv([Coming] * 4) for _ in range(2))
    for world in (vec, other):
        world.reset(seed=3)
    for _ in range(3):
        vec.step({name: np.zeros(4, np.int64) for name in vec.possible_agents})

    other.load_state_dict(joined_state(cut_states(vec, env_slices(4, 3))))

    acts = {name: np.ones(4, np.int64) for name in vec.possible_agents}
    one, two = vec.step(acts), other.step(acts)
    for name in vec.possible_agents:
        assert np.array_equal(one.rewards[name], two.rewards[name])
        assert np.array_equal(one.alive[name], two.alive[name])


def test_states_of_other_tasks_and_versions_are_not_joined() -> None:
    one, two = (make_vec(name, 2).state_dict()["envs"]["batch"] for name in NATIVE[:2])
    newer = {"native": one["native"][:4] + b"\x02" + one["native"][5:]}

    with pytest.raises(StateError, match="states of different tasks or rules"):
        joined_native([one, two])
    with pytest.raises(StateError, match="expected a state .* of version 1"):
        joined_native([newer])
