"""The spec of a wrapped env builds the same stack again."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.core.env import Env
from sekai.core.wrapper import Wrapper
from sekai.registry import EnvSpec, WrapperSpec, make, register, register_kind
from sekai.wrappers import (
    FrameStackObservation,
    NormalizeReward,
    OrderEnforcing,
    RecordEpisodeStatistics,
    RescaleAction,
    TimeLimit,
    TransformReward,
    ValidateAction,
)
from sekai.wrappers.multi_agent import MultiAgentTimeLimit
from tests.worlds import Duel, RandomWalk


def double(reward: float) -> float:
    return 2 * reward


class Labelled(Wrapper[Any, Any, Any, Any]):
    """Takes arguments in every way there is."""

    def __init__(
        self,
        env: Env[Any, Any],
        first: int,
        /,
        second: int = 2,
        *rest: int,
        key: str = "k",
        **more: Any,
    ) -> None:
        super().__init__(env)
        self.taken = (first, second, rest, key, more)


LAYERS = st.sampled_from(
    [
        lambda env: TimeLimit(env, 7),
        lambda env: TimeLimit(env, max_episode_steps=8),
        lambda env: RecordEpisodeStatistics(env),
        lambda env: NormalizeReward(env, 0.9),
        lambda env: NormalizeReward(env=env, gamma=0.95),
        lambda env: RescaleAction(env, -2.0, 2.0),
        lambda env: OrderEnforcing(env),
        lambda env: ValidateAction(env),
        lambda env: FrameStackObservation(env, 2),
        lambda env: TransformReward(env, double),
        lambda env: Labelled(env, 1, 2, 3, key="x", more=np.float32(4)),
        lambda env: Labelled(env, 5),
    ]
)


@pytest.fixture(autouse=True)
def kinds(clean_registry: None) -> None:
    register_kind("double", double)
    register_kind("tests.Labelled", Labelled)


def described(env: Any) -> list[tuple[type, Any]]:
    """Every layer with what it holds that tells how it was built."""
    names = ("max_episode_steps", "gamma", "taken", "noise", "n")
    return [(type(layer), [vars(layer).get(name) for name in names]) for layer in env]


def rebuilt(env: Any) -> Any:
    return make(EnvSpec.from_json(env.spec.to_json()))


@settings(deadline=None)
@given(
    limit=st.none() | st.integers(1, 9),
    order_enforce=st.booleans(),
    validate_actions=st.booleans(),
    layers=st.lists(LAYERS, max_size=4),
)
def test_any_stack_is_rebuilt_from_the_json_of_its_spec(
    limit: int | None, order_enforce: bool, validate_actions: bool, layers: list[Any]
) -> None:
    register("Walk-v0", RandomWalk, force=True)
    spec = EnvSpec(
        "Walk-v0",
        RandomWalk,
        max_episode_steps=limit,
        order_enforce=order_enforce,
        validate_actions=validate_actions,
    )
    env = make(spec, noise=0.25)
    for layer in layers:
        env = layer(env)

    again = rebuilt(env)

    assert described(again) == described(env)
    assert again.spec == env.spec


def test_a_rebuilt_stack_runs_the_same_episode() -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=6, kwargs={"noise": 0.1})
    env = TransformReward(RescaleAction(make("Walk-v0", noise=0.2), -2.0, 2.0), double)
    again = rebuilt(env)

    assert env.reset(seed=3) == again.reset(seed=3)
    action = np.array([0.5, -1.5], dtype=np.float32)
    assert env.step(action) == again.step(action)


def test_the_layers_that_make_adds_are_recorded_by_the_flags_alone() -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=6)

    env = make("Walk-v0")

    assert env.spec is not None
    assert env.spec.wrappers == ()
    assert env.unwrapped.spec == env.spec


def test_arguments_are_recorded_under_their_names() -> None:
    register("Walk-v0", RandomWalk)

    spec = RescaleAction(make("Walk-v0"), -2.0, max=2.0).spec

    assert spec is not None
    assert spec.wrappers == (WrapperSpec(RescaleAction, {"min": -2.0, "max": 2.0}),)


def test_a_spec_that_make_was_given_lists_its_layers_once() -> None:
    limit = WrapperSpec("sekai.wrappers:TimeLimit", {"max_episode_steps": 3})
    register("Walk-v0", RandomWalk, max_episode_steps=6, wrappers=[limit])

    env = make("Walk-v0")

    assert env.spec is not None
    assert env.spec.wrappers == (WrapperSpec(TimeLimit, {"max_episode_steps": 3}),)
    assert described(rebuilt(env)) == described(env)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_an_env_has_the_same_spec(copied: Any) -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=6)
    env = TimeLimit(make("Walk-v0"), 3)

    assert copied(env).spec == env.spec
    assert described(rebuilt(copied(env))) == described(env)


@pytest.mark.parametrize(
    "rewrap",
    [
        lambda env: TimeLimit(env.unwrapped, 3),
        lambda env: NormalizeReward(env.unwrapped),
        lambda env: TimeLimit(ValidateAction(env.unwrapped), 6),
        lambda env: TimeLimit(TimeLimit(OrderEnforcing(ValidateAction(env.unwrapped)), 5), 6),
    ],
)
def test_an_env_taken_out_of_its_layers_is_recorded_as_it_is_now(rewrap: Any) -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=6)

    env = rewrap(make("Walk-v0"))

    assert described(rebuilt(env)) == described(env)


def test_a_multi_agent_stack_is_rebuilt() -> None:
    register("Duel-v0", Duel, max_episode_steps=6)
    env: Any = MultiAgentTimeLimit(make("Duel-v0"), 3)  # type: ignore[arg-type]

    assert described(rebuilt(env)) == described(env)
    assert rebuilt(env).spec == env.spec


def test_an_env_that_was_not_made_by_id_has_no_spec() -> None:
    assert TimeLimit(RandomWalk(), 3).spec is None


def test_a_stack_with_local_code_is_made_again_in_the_same_process() -> None:
    register("Walk-v0", RandomWalk)
    env = TransformReward(make("Walk-v0"), lambda reward: -reward)

    assert env.spec is not None
    assert described(make(env.spec)) == described(env)


def test_taking_the_state_of_a_made_env_leaves_its_spec_alone() -> None:
    register("Walk-v0", RandomWalk, max_episode_steps=6)
    env = make("Walk-v0")
    env.reset(seed=1)
    other = make("Walk-v0", noise=0.9)

    other.load_state_dict(env.state_dict())

    assert other.spec is not None
    assert other.spec.kwargs == {"noise": 0.9}
