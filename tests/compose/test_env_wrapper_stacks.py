"""A composed env goes wherever an env goes: layers, checks, vectors, the registry, gymnasium."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import (
    ActionInterpreter,
    EnvWrapper,
    ExhaustedError,
    StateInterpreter,
    check_nan_observation,
)
from sekai.core.env import Env
from sekai.core.result import ResetResult, equal_values
from sekai.error import InvalidActionError, ResetRequired, WorkerError
from sekai.registry import isolated
from sekai.spaces import Box
from sekai.vector import AsyncVecEnv, ProcVecEnv, SyncVecEnv, VecEnv, stack_infos
from sekai.wrappers import (
    ActionMask,
    AutoReset,
    ClipAction,
    DelayAction,
    DelayObservation,
    FlattenObservation,
    FrameStackObservation,
    NormalizeObservation,
    NormalizeReward,
    OrderEnforcing,
    RecordEpisodeStatistics,
    RescaleAction,
    TimeLimit,
    TransformObservation,
    TransformReward,
    ValidateAction,
)
from tests.compose.walks import Nearness, Place, Walk, walk_env
from tests.worlds import RandomWalk


class Spot(StateInterpreter[Place, Any]):
    """The position and the steps."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)

    def interpret(self, simulator_state: Place) -> Any:
        return np.array([simulator_state.position, simulator_state.steps], np.float32)


class Lean(ActionInterpreter[Place, Any, float]):
    """A push of any strength."""

    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def interpret(self, simulator_state: Place, action: Any) -> float:
        return float(action[0])


def lean_env(seeds: list[float] | None = None) -> Any:
    def simulator_fn(start: float = 0.0) -> Walk:
        return Walk(start, 6, 0.5)

    return EnvWrapper(simulator_fn, Spot(), Lean(), seeds, Nearness())


def mask_of(env: Any) -> Any:
    return np.ones(3, np.int8)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "limit": lambda env: TimeLimit(env, 3),
    "statistics": RecordEpisodeStatistics,
    "observation": NormalizeObservation,
    "reward": NormalizeReward,
    "flatten": FlattenObservation,
    "stack": lambda env: FrameStackObservation(env, 3),
    "clip": ClipAction,
    "rescale": lambda env: RescaleAction(env, -2.0, 2.0),
    "transform observation": lambda env: TransformObservation(env, lambda row: 2 * row),
    "transform reward": lambda env: TransformReward(env, lambda reward: 2 * reward),
    "order": OrderEnforcing,
    "validate": ValidateAction,
    "late observation": lambda env: DelayObservation(env, 2),
    "late action": lambda env: DelayAction(env, 2),
    "reset": AutoReset,
}


@pytest.mark.parametrize("name", LAYERS)
def test_nothing_is_wrong_with_it_in_any_layer(name: str) -> None:
    assert sekai.check_env(LAYERS[name](lean_env()), n_steps=30) == []


@pytest.mark.parametrize("name", LAYERS)
def test_the_end_of_all_episodes_is_told_through_any_layer(name: str) -> None:
    env = LAYERS[name](lean_env([1.0]))
    first = env.reset()
    assert not first.info["exhausted"]

    last = env.reset()

    assert last.info["exhausted"]
    assert check_nan_observation(last.observation)
    assert np.shape(last.observation) == env.observation_space.shape
    again = LAYERS[name](lean_env([]))
    assert equal_values(asyncio.run(again.async_reset()).observation, last.observation)


# The state of statistics holds seconds, which go on.
@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"statistics"}))
def test_no_layer_takes_the_end_for_an_episode(name: str) -> None:
    env = LAYERS[name](lean_env([1.0]))
    env.reset()
    held = pickle.dumps(env.state_dict()["layer"])

    env.reset()

    assert pickle.dumps(env.state_dict()["layer"]) == held


def test_numbers_out_of_their_space_reach_no_layer() -> None:
    env = NormalizeObservation(FlattenObservation(walk_env([])))

    last = env.reset()

    assert last.info["exhausted"]
    assert last.observation.shape == env.observation_space.shape
    assert np.isnan(last.observation).all()


def test_a_key_of_the_same_name_means_nothing_elsewhere() -> None:
    class Tired(RandomWalk):
        def reset(self, **kwargs: Any) -> Any:
            return ResetResult(super().reset(**kwargs).observation, {"exhausted": True})

    doubled = TransformObservation(Tired(), lambda row: 2 * row)

    assert (
        doubled.reset(seed=1).observation.tolist()
        == (2 * RandomWalk().reset(seed=1).observation).tolist()
    )


def test_actions_can_be_masked() -> None:
    assert sekai.check_env(ActionMask(walk_env(None, noise=1.0), mask_of), n_steps=30) == []


@pytest.mark.parametrize("seeds", [None, [2.0] * 2000], ids=["no seeds", "equal seeds"])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_checker_finds_nothing(seeds: Any, noise: float) -> None:
    assert sekai.check_env(walk_env(seeds, noise=noise), n_steps=40) == []


def test_the_checker_notices_that_other_seeds_begin_other_episodes() -> None:
    lines = sekai.check_env(walk_env([float(seed) for seed in range(2000)]), n_steps=10)

    assert len(lines) == 1
    assert "reset(seed=0) is not deterministic" in lines[0]
    assert sekai.check_env(
        walk_env([float(seed) for seed in range(2000)]), n_steps=10, check_reset_seed=False
    ) == []  # fmt: skip


def test_the_async_path_gives_the_same() -> None:
    async def play() -> list[Any]:
        env = walk_env([1.0], noise=1.0)
        return [await env.async_reset(seed=3), *[await env.async_step(a) for a in (0, 1, 2)]]

    env = walk_env([1.0], noise=1.0)
    sync = [env.reset(seed=3), *[env.step(action) for action in (0, 1, 2)]]

    assert asyncio.run(play()) == sync


def build(kind: str, factories: list[Any], **options: Any) -> VecEnv:
    if kind == "proc":
        return ProcVecEnv(factories, num_workers=2, start_method="fork", **options)
    return (SyncVecEnv if kind == "sync" else AsyncVecEnv)(factories, **options)


def play(vec: VecEnv, steps: int, seed: int = 5) -> list[Any]:
    rng = np.random.default_rng(0)
    results: list[Any] = [vec.reset(seed=seed)]
    results += [vec.step(rng.integers(0, 3, vec.num_envs)) for _ in range(steps)]
    return results


@pytest.mark.parametrize("kind", ["async", "proc"])
def test_every_vector_gives_what_the_loop_gives(kind: str) -> None:
    factories = [partial(walk_env, [float(start)] * 4, noise=1.0) for start in range(3)]
    with build("sync", factories) as loop, build(kind, factories) as vec:
        wanted, found = play(loop, 11), play(vec, 11)

        assert all(map(equal_values, _fields(wanted), _fields(found)))
        assert [result.infos for result in wanted] == [result.infos for result in found]


@pytest.mark.parametrize("kind", ["sync", "async", "proc"])
def test_a_vector_tells_by_a_column_which_envs_are_exhausted(kind: str) -> None:
    factories = [partial(walk_env, [0.0] * count, length=2) for count in (1, 2)]
    with build(kind, factories) as vec:
        vec.reset()
        vec.step([2, 2])
        result = vec.step([2, 2])

        flags = stack_infos(result.infos)["exhausted"]
        assert flags.dtype == np.bool_
        assert flags.tolist() == [True, False]
        assert result.infos[0]["final_observation"]["position"] == 2.0
        assert result.infos[0]["final_info"]["log"]["steps_per_episode"][1] == 2.0
        row = {key: column[0] for key, column in result.observations.items()}
        assert check_nan_observation(row)
        with pytest.raises((WorkerError, ExhaustedError), match="the seeds are used up"):
            vec.step([1, 1])


@pytest.mark.parametrize("kind", ["sync", "proc"])
def test_a_vector_continues_from_its_state(kind: str) -> None:
    factories = [partial(walk_env, [float(start)] * 9, noise=1.0) for start in range(3)]
    with build(kind, factories) as vec, build(kind, factories) as other:
        play(vec, 3)
        state = vec.state_dict()
        wanted = [vec.step([0, 1, 2]) for _ in range(6)]

        other.reset(seed=1)
        other.load_state_dict(state)
        found = [other.step([0, 1, 2]) for _ in range(6)]

    assert all(map(equal_values, _fields(wanted), _fields(found)))


def make_walk(starts: int = 3, length: int = 4) -> Env[Any, Any]:
    return walk_env([float(start) for start in range(starts)], length=length)


def test_a_factory_is_registered_and_made() -> None:
    with isolated():
        sekai.register("walks/Walk-v0", make_walk, max_episode_steps=3, nondeterministic=True)
        env = sekai.make("walks/Walk-v0", length=5)

        assert isinstance(env.unwrapped, EnvWrapper)
        assert env.spec is not None
        assert env.spec.id == "walks/Walk-v0"
        with pytest.raises(ResetRequired):
            env.step(1)
        env.reset()
        with pytest.raises(InvalidActionError, match="action is not in"):
            env.step(7)
        assert [env.step(1).truncated for _ in range(3)] == [False, False, True]
        assert sekai.check_env(sekai.make("walks/Walk-v0", starts=999), n_steps=20) == []
        assert env.spec.make(starts=1).reset().info["exhausted"] is False


@pytest.mark.parametrize("mode", ["sync", "async", "proc"])
def test_a_factory_makes_vectors(mode: Any) -> None:
    with isolated():
        sekai.register("walks/Walk-v0", f"{__name__}:make_walk")
        with sekai.make_vec("walks/Walk-v0", num_envs=2, mode=mode, starts=9) as vec:
            vec.reset()
            result = vec.step([2, 0])

    assert result.observations["position"].tolist() == [[1.0], [-1.0]]
    assert [info["log"]["reward"][1] for info in result.infos] == [-1.0, -1.0]


@pytest.mark.filterwarnings("ignore:.*value is -?infinity")
def test_gymnasium_checks_it_and_sees_the_same_numbers() -> None:
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    check_env(sekai.compat.to_gymnasium(walk_env(None, noise=1.0)), skip_render_check=True)
    theirs, ours = sekai.compat.to_gymnasium(walk_env([1.0])), walk_env([1.0])

    obs, info = theirs.reset(seed=3)
    first = ours.reset(seed=3)
    assert equal_values(obs, first.observation)
    assert info == first.info
    for action in (0, 2, 2, 1):
        obs, reward, terminated, truncated, info = theirs.step(action)
        result = ours.step(action)
        assert equal_values(obs, result.observation)
        assert (reward, terminated, truncated) == (result.reward, result.terminated, False)
        assert info == result.info
    _, info = theirs.reset()
    assert info["exhausted"]


@pytest.mark.parametrize("starts", [0, 1, 3])
def test_a_vector_finds_its_mode_though_there_are_few_seeds(starts: int) -> None:
    with isolated():
        sekai.register("walks/Walk-v0", make_walk)
        with sekai.make_vec("walks/Walk-v0", num_envs=2, mode="auto", starts=starts) as vec:
            flags = [info["exhausted"] for info in vec.reset().infos]

    assert flags == [starts == 0] * 2


def test_gymnasium_steps_a_vector_of_them() -> None:
    pytest.importorskip("gymnasium")
    factories = [partial(walk_env, [float(start)] * 4, length=2) for start in range(3)]
    with SyncVecEnv(factories) as ours:
        theirs = sekai.compat.gymnasium_vector(ours)
        theirs.reset(seed=1)
        _, rewards, terminated, _, infos = theirs.step(np.array([2, 2, 2]))

        assert rewards.tolist() == [-1.0, -2.0, -3.0]
        assert not terminated.any()
        assert infos["exhausted"].tolist() == [False] * 3


def _fields(results: list[Any]) -> list[Any]:
    names = ("observations", "rewards", "terminated", "truncated")
    return [[getattr(result, name, None) for name in names] for result in results]
