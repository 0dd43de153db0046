"""A vector is saved and continued bit for bit, in its own process or another's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.error import StateError
from sekai.vector import SyncVecEnv, VecEnv
from sekai.wrappers import TimeLimit
from tests.vector.worlds import BACKENDS, Drifter, Scripted, actions_for, build
from tests.worlds import RandomWalk

MODES = ["same_step", "next_step", "disabled"]


def run(vec: VecEnv, actions: list[list[Any]]) -> list[Any]:
    """Step through the actions; in `disabled` mode reset what has ended."""
    results: list[Any] = []
    for action in actions:
        results.append(vec.step(action))
        if vec.autoreset == "disabled" and results[-1].dones.any():
            results.append(vec.reset(ids=results[-1].dones))
    return results


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_restored_vector_continues_bit_for_bit(backend: str, mode: Any) -> None:
    factories = [lambda: TimeLimit(Drifter("dict", "tuple", 3), 4)] * 3
    with build(backend, factories, autoreset=mode) as vec:
        actions = actions_for(vec, 24)
        vec.reset(seed=2)
        run(vec, actions[:9])
        state = vec.state_dict()
        expected = run(vec, actions[9:])

        vec.load_state_dict(state)
        assert equal_values(run(vec, actions[9:]), expected)

    with build(backend, factories, autoreset=mode) as other:
        other.load_state_dict(pickle.loads(pickle.dumps(state)))
        assert equal_values(run(other, actions[9:]), expected)


@pytest.mark.parametrize("target", BACKENDS)
@pytest.mark.parametrize("source", BACKENDS)
def test_a_state_of_one_backend_continues_in_another(source: str, target: str) -> None:
    factories = [lambda: Drifter("nested", "box", 4)] * 3
    with build(source, factories) as first, build(target, factories) as second:
        actions = actions_for(first, 12)
        first.reset(seed=2)
        run(first, actions[:5])
        second.load_state_dict(first.state_dict())

        assert equal_values(run(first, actions[5:]), run(second, actions[5:]))


def test_the_action_space_continues_too() -> None:
    vec = SyncVecEnv([RandomWalk] * 2)
    vec.reset(seed=0)
    vec.action_space.seed(5)
    vec.action_space.sample()
    state = vec.state_dict()
    drawn = vec.action_space.sample()
    vec.load_state_dict(state)

    assert np.array_equal(vec.action_space.sample(), drawn)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sampling_actions_moves_no_env(backend: str) -> None:
    with build(backend, [RandomWalk] * 2) as vec:
        vec.reset(seed=0)
        before = vec.state_dict()["envs"]
        vec.action_space.sample()

        assert equal_values(vec.state_dict()["envs"], before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(backend: str) -> None:
    with build(backend, [RandomWalk] * 4) as vec:
        vec.reset(seed=0)
        before = vec.state_dict()
        spoilt = vec.state_dict()
        spoilt["envs"][3]["env"] = {"type": "Another", "generators": {}, "parts": {}, "values": {}}
        moved = vec.step(np.ones((4, 2), np.float32))
        after = vec.state_dict()

        for state, words in [
            (spoilt, "env 3 cannot load its state"),
            ({**before, "num_envs": 5}, "num_envs=4, got 5"),
            ({**before, "autoreset": "disabled"}, "expected a state with autoreset='same_step'"),
            ({"envs": []}, "with the keys"),
        ]:
            with pytest.raises(StateError, match=words):
                vec.load_state_dict(state)
            assert equal_values(vec.state_dict(), after)

        vec.load_state_dict(before)
        assert vec.step(np.ones((4, 2), np.float32)) == moved


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_vector_that_waits_for_a_reset_still_waits_when_it_is_restored(backend: str) -> None:
    factories = [lambda: Scripted(1)] * 2
    with build(backend, factories, autoreset="disabled") as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        state = vec.state_dict()
        vec.reset(ids=[0, 1])
        vec.load_state_dict(state)

        with pytest.raises(RuntimeError, match=r"envs|no episode"):
            vec.step([0, 0])
