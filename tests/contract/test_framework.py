"""The framework's contract, section by section, as a user would type it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import sekai
from sekai.core.result import MAResetResult, MAStepResult, ResetResult, StepResult
from sekai.registry import isolated
from sekai.spaces import flatdim, flatten, flatten_space, unflatten
from sekai.stats.tracker import EpisodeStats
from sekai.vector import VecObservationWrapper, VecResetResult, VecStepResult, stack_infos

Array = NDArray[Any]


class Pole(sekai.Env[Array, Any]):
    """A pole that nobody balances: four numbers that grow, pushed left or right."""

    def __init__(self) -> None:
        self.observation_space = sekai.Box(-4.0, 4.0, shape=(4,), dtype=np.float32)
        self.action_space = sekai.Discrete(2)
        self._state = np.zeros(4, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> sekai.ResetResult[Array]:
        self._set_rng(seed)
        self._state = self.rng.uniform(-0.05, 0.05, size=4).astype(np.float32)
        return sekai.ResetResult(observation=self._state.copy(), info={})

    def step(self, action: int) -> sekai.StepResult[Array]:
        self._state = np.clip(self._state + np.float32(0.4 * action), -4.0, 4.0)
        fell = bool(np.any(np.abs(self._state) > 3.0))
        return sekai.StepResult(self._state.copy(), 1.0, fell, truncated=False, info={})


class Desk(sekai.Env[Array, Array]):
    """Returns of a few assets; the action's profit is the reward, and is told."""

    metadata: ClassVar[dict[str, Any]] = {"description": "a desk"}

    def __init__(self, n_assets: int = 10) -> None:
        self.n_assets = n_assets
        self.closed = False
        self.observation_space = sekai.Box(low=-np.inf, high=np.inf, shape=(n_assets * 5,))
        self.action_space = sekai.Box(low=-1.0, high=1.0, shape=(n_assets,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> sekai.ResetResult[Array]:
        self._set_rng(seed)
        return sekai.ResetResult(self._seen(), info={"episode_start": True})

    def step(self, action: Array) -> sekai.StepResult[Array]:
        pnl = float(np.dot(action, self.rng.standard_normal(self.n_assets)))
        return sekai.StepResult(self._seen(), pnl, False, False, info={"pnl": pnl})

    def named(self, loud: bool = False) -> str:
        return "DESK" if loud else "desk"

    def close(self) -> None:
        self.closed = True

    def _seen(self) -> Array:
        return self.rng.standard_normal(self.n_assets * 5).astype(np.float32)


class TestResults:
    def test_have_names_and_unpack(self) -> None:
        with Desk(4) as env:
            result = env.reset(seed=42)
            assert result.observation.shape == (20,)
            assert result.info == {"episode_start": True}
            observation, info = env.reset(seed=42)
            assert np.array_equal(observation, result.observation)
            stepped = env.step(env.action_space.sample())
            assert isinstance(stepped.reward, float)
            assert stepped.done is (stepped.terminated or stepped.truncated) is False
            observation, reward, terminated, truncated, info = stepped
            assert (reward, terminated, truncated) == (info["pnl"], False, False)
        assert env.closed

    @pytest.mark.parametrize("kind", [sekai.StepResult, sekai.ResetResult])
    def test_are_frozen_value_objects(self, kind: Any) -> None:
        def make() -> Any:
            values: list[Any] = [np.arange(3.0), 1.5, False, True, {"a": np.ones(2)}]
            return kind(*values) if kind is sekai.StepResult else kind(values[0], values[4])

        assert make() == make()
        assert dataclasses.is_dataclass(kind)
        with pytest.raises(dataclasses.FrozenInstanceError):
            make().info = {}


class TestSpaces:
    def test_sample_what_they_contain(self) -> None:
        depth = sekai.Box(low=0, high=10_000, shape=(10, 2), dtype=np.int32)
        returns = sekai.Box(low=-np.inf, high=np.inf, shape=(50,), dtype=np.float64)
        orders = sekai.MultiDiscrete(nvec=[3, 3, 3], start=[-1, -1, -1])
        mask = np.array([1, 0, 1, 0, 1], dtype=np.int8)

        assert all(space.sample() in space for space in (depth, returns, orders))
        assert (depth.is_bounded, returns.is_bounded) == ((True, True), (False, False))
        assert {int(sekai.Discrete(n=5).sample(mask=mask)) for _ in range(50)} == {0, 2, 4}
        assert {int(sekai.Discrete(n=5, start=-2).sample()) for _ in range(99)} <= {*range(-2, 3)}

    def test_flatten_to_float32_and_back(self) -> None:
        space = sekai.Dict(
            {
                "prices": sekai.Box(-np.inf, np.inf, shape=(100, 8), dtype=np.float64),
                "order_book": sekai.Box(0, 2**30, shape=(20, 2), dtype=np.int64),
                "regime": sekai.Discrete(4),
                "signals": sekai.Tuple([sekai.MultiBinary(10), sekai.Box(-1.0, 1.0, shape=(3,))]),
            }
        )
        sample = space.sample()

        flat, box = flatten(space, sample), flatten_space(space)
        restored = unflatten(space, flat)

        assert flat.shape == (flatdim(space),) == box.shape
        assert flat.dtype == box.dtype == np.float32
        assert isinstance(box, sekai.Box)
        assert flat in box
        assert restored["regime"] == sample["regime"]
        assert np.allclose(restored["prices"], sample["prices"])
        assert np.array_equal(restored["signals"][0], sample["signals"][0])
        exact = unflatten(space, flatten(space, sample, dtype=np.float64))
        assert np.array_equal(exact["prices"], sample["prices"])
        assert np.array_equal(exact["order_book"], sample["order_book"])

    def test_are_extended_by_sample_and_contains_and_the_hooks(self) -> None:
        class Side(sekai.Space[str]):
            def sample(self, mask: Any = None) -> str:
                return "buy" if self.rng.random() < 0.5 else "sell"

            def contains(self, x: object) -> bool:
                return x in ("buy", "sell")

        from sekai.spaces import utils

        utils.flatdim.register(Side)(lambda space: 1)
        utils.flatten.register(Side)(lambda space, x: np.array([float(x == "buy")]))
        utils.unflatten.register(Side)(lambda space, flat: "buy" if flat[0] > 0.5 else "sell")
        utils.flatten_space.register(Side)(lambda space: sekai.Box(0.0, 1.0, shape=(1,)))
        space = sekai.Dict({"side": Side(), "size": sekai.Discrete(3)})
        value = {"side": "buy", "size": 2}

        assert value in space
        assert {"side": "hold", "size": 2} not in space
        assert space.is_flattenable
        assert flatten(space, value).tolist() == [1, 0, 0, 1]
        assert flatten(space, value).dtype == np.float32
        assert unflatten(space, flatten(space, value)) == value
        assert flatten(space, value) in flatten_space(space)


class TestWrappers:
    def test_compose_and_can_be_looked_through(self) -> None:
        env: sekai.Env[Any, Any] = sekai.TimeLimit(Desk(), max_episode_steps=252)
        env = sekai.RecordEpisodeStatistics(env)
        env = sekai.NormalizeReward(sekai.NormalizeObservation(env), gamma=0.99)

        kinds = [type(layer).__name__ for layer in env]

        assert kinds[0] == "NormalizeReward"
        assert kinds[-2:] == ["TimeLimit", "Desk"]
        assert "RecordEpisodeStatistics(<TimeLimit(<Desk" in repr(env)
        assert isinstance(env.unwrapped, Desk)

    def test_of_the_table_are_top_level_names(self) -> None:
        env: sekai.Env[Any, Any] = sekai.RescaleAction(Desk(2), -10.0, 10.0)
        env = sekai.FrameStackObservation(sekai.ClipAction(env), 3)
        env = sekai.TransformReward(env, lambda reward: 2 * reward)
        env = sekai.TransformObservation(env, lambda obs: obs + 1)
        env = sekai.OrderEnforcing(sekai.FlattenObservation(env))

        with pytest.raises(sekai.ResetRequired):
            env.step(np.zeros(2, np.float32))
        assert env.reset(seed=0).observation.shape == (30,)
        result = env.step(np.array([99.0, -5.0], np.float32))
        assert result.reward == pytest.approx(2 * result.info["pnl"])

    def test_of_one_s_own_state_what_they_change(self) -> None:
        class Halved(sekai.ObservationWrapper[Any, Any, Any]):
            def observation(self, obs: Array) -> Array:
                return obs / 2

        class Signed(sekai.RewardWrapper[Any, Any]):
            def reward(self, reward: float) -> float:
                return float(np.sign(reward))

        class Small(sekai.ActionWrapper[Any, Any, Any]):
            def action(self, action: Array) -> Array:
                return action / 100

            def reverse_action(self, action: Array) -> Array:
                return action * 100

        env = Small(Signed(Halved(Desk(2))))
        seen = env.reset(seed=1).observation

        assert np.array_equal(seen, Desk(2).reset(seed=1).observation / 2)
        assert env.step(np.ones(2, np.float32)).reward in (-1.0, 1.0)
        assert env.reverse_action(env.action(np.ones(2))).tolist() == [1, 1]

    def test_auto_reset_tells_of_the_finished_episode(self) -> None:
        env = sekai.AutoReset(sekai.RecordEpisodeStatistics(sekai.TimeLimit(Desk(2), 3)))
        env.reset(seed=0)

        result = [env.step(np.ones(2, np.float32)) for _ in range(3)][-1]

        assert result.done
        assert result.info["episode"].episode_length == 3
        assert result.info["episode_start"] is True
        assert result.info["pnl"] == result.info["final_info"]["pnl"] == result.reward
        assert result.info["final_observation"].shape == (10,)
        assert not env.step(np.ones(2, np.float32)).done


class TestVectors:
    def test_give_batches(self) -> None:
        vec = sekai.SyncVecEnv([Pole] * 8)
        first = vec.reset(seed=0)
        actions = np.stack([vec.action_space.sample() for _ in range(8)])
        result = vec.step(actions)

        assert isinstance(vec, sekai.VecEnv)
        assert isinstance(first, VecResetResult)
        assert isinstance(result, VecStepResult)
        assert first.observations.shape == result.observations.shape == (8, 4)
        assert (result.rewards.dtype.name, result.dones.dtype.name) == ("float64", "bool")
        assert len(result.infos) == 8
        observations, rewards, terminated, truncated, infos = result
        assert (observations is result.observations, rewards is result.rewards) == (True, True)
        assert np.array_equal(terminated | truncated, result.dones)
        observations, infos = first
        assert infos == [{}] * 8
        vec.close()

    def test_reach_into_their_envs_and_stack_infos(self) -> None:
        with sekai.SyncVecEnv([Desk] * 3) as vec:
            vec.reset(seed=0)
            batch = vec.step(np.ones((3, 10), np.float32))
            assert stack_infos(batch.infos)["pnl"].tolist() == batch.rewards.tolist()
            vec.set_attr("n_assets", 10)
            assert vec.get_attr("n_assets") == [10, 10, 10]
            assert vec.call("named", loud=True) == ["DESK"] * 3

    def test_are_wrapped(self) -> None:
        class Centred(VecObservationWrapper):
            def observation(self, obs: Any) -> Any:
                return obs - obs.mean(axis=0)

        with Centred(sekai.SyncVecEnv([Desk] * 4)) as vec:
            assert np.allclose(vec.reset(seed=0).observations.mean(axis=0), 0, atol=1e-6)

    @pytest.mark.parametrize("kind", ["SyncVecEnv", "AsyncVecEnv", "ProcVecEnv"])
    def test_keep_the_statistics_of_a_finished_episode(self, kind: str) -> None:
        def make() -> sekai.Env[Any, Any]:
            return sekai.RecordEpisodeStatistics(sekai.TimeLimit(Desk(2), 2))

        with getattr(sekai, kind)([make] * 2) as vec:
            vec.reset(seed=0)
            vec.step(np.ones((2, 2), np.float32))
            info = vec.step(np.ones((2, 2), np.float32)).infos[1]

        assert isinstance(info["episode"], EpisodeStats)
        assert info["episode"].episode_length == 2
        assert info["final_info"]["episode"] == info["episode"]

    def test_await_live_feeds_together(self) -> None:
        class Feed(sekai.Env[Array, Any]):
            def __init__(self) -> None:
                self.observation_space = sekai.Box(-np.inf, np.inf, shape=(2,))
                self.action_space = sekai.Discrete(3)

            async def async_reset(self, *, seed: int | None = None, options: Any = None) -> Any:
                self._set_rng(seed)
                await asyncio.sleep(0)
                return sekai.ResetResult(observation=np.zeros(2, np.float32), info={})

            async def async_step(self, action: Any) -> Any:
                await asyncio.sleep(0)
                return sekai.StepResult(np.ones(2, np.float32), 0.0, False, False, info={})

        async def main() -> Any:
            vec = sekai.AsyncVecEnv([Feed] * 4)
            await vec.async_reset(seed=0)
            return await vec.async_step(np.stack([vec.action_space.sample() for _ in range(4)]))

        assert asyncio.run(main()).observations.tolist() == [[1, 1]] * 4


class TestSeveralAgents:
    def test_have_spaces_and_results_by_name(self) -> None:
        class Floor(sekai.MultiAgentEnv):
            def __init__(self) -> None:
                self.possible_agents = ["maker", "taker"]
                self.agents = list(self.possible_agents)
                book = sekai.Dict({"book": sekai.Box(0, np.inf, shape=(4,))})
                self.observation_spaces = {"maker": book, "taker": sekai.Box(-1, 1, shape=(2,))}
                self.action_spaces = {"maker": sekai.Box(-1, 1, shape=(4,)),
                                      "taker": sekai.Discrete(3)}  # fmt: skip

            def reset(self, *, seed: int | None = None, options: Any = None) -> MAResetResult:
                self.agents = list(self.possible_agents)
                return MAResetResult(observations=self._seen(), info={a: {} for a in self.agents})

            def step(self, actions: Any) -> MAStepResult:
                never = dict.fromkeys(self.agents, False)
                rewards = {"maker": 0.01, "taker": -0.005}
                info: dict[str, Any] = {agent: {} for agent in self.agents}
                return MAStepResult(self._seen(), rewards, never, dict(never), info=info)

            def _seen(self) -> dict[str, Any]:
                return {agent: self.observation_spaces[agent].sample() for agent in self.agents}

        env = Floor()
        observations, info = env.reset(seed=0)
        result = env.step({name: env.action_spaces[name].sample() for name in env.agents})
        shown, rewards, terminated, truncated, _ = result

        assert observations.keys() == info.keys() == {"maker", "taker"}
        assert shown is result.observations
        assert rewards == {"maker": 0.01, "taker": -0.005}
        assert (result.all_done, result.any_done) == (False, False)
        assert not any([*terminated.values(), *truncated.values()])


class TestRegistry:
    @pytest.fixture(autouse=True)
    def desk(self) -> Iterator[None]:
        with isolated():
            sekai.register(
                id="contract/Desk-v1",
                entry_point=Desk,
                max_episode_steps=5,
                kwargs={"n_assets": 3},
                reward_threshold=0.25,
            )
            yield

    def test_makes_envs_by_name(self) -> None:
        spec = sekai.spec("contract/Desk-v1")
        env = sekai.make("contract/Desk-v1")

        assert isinstance(spec, sekai.EnvSpec)
        assert (spec.max_episode_steps, spec.reward_threshold) == (5, 0.25)
        assert env.unwrapped.get_attr("n_assets") == 3
        assert sekai.make("contract/Desk-v1", n_assets=7).unwrapped.get_attr("n_assets") == 7
        assert "contract/Desk-v1" in [one.id for one in sekai.all_specs()]
        env.reset(seed=0)
        assert [env.step(np.zeros(3, np.float32)).done for _ in range(5)] == [False] * 4 + [True]


class TestChecksAndStatistics:
    def test_a_sound_env_has_no_issues(self) -> None:
        from sekai.utils.checker import check_env

        assert check_env is sekai.check_env
        assert check_env(Desk(), n_steps=50, warn_on_anomaly=True, check_reset_seed=True) == []

    def test_a_tracker_of_one_s_own_hears_of_every_episode(self) -> None:
        class Board:
            def __init__(self) -> None:
                self.episodes: list[EpisodeStats] = []

            def on_reset(self, env_id: str, seed: int | None) -> None: ...
            def on_step(self, reward: Any, terminated: Any, truncated: Any, info: Any) -> None: ...
            def on_episode_end(self, stats: EpisodeStats) -> None:
                self.episodes.append(stats)

            def summary(self) -> dict[str, Any]:
                return {}

        board = Board()
        env = sekai.RecordEpisodeStatistics(sekai.TimeLimit(Desk(2), 4), tracker=board)
        env.reset(seed=0)
        results = [env.step(np.ones(2, np.float32)) for _ in range(4)]

        (episode,) = board.episodes
        assert episode is results[-1].info["episode"]
        assert episode.episode_return == pytest.approx(sum(one.reward for one in results))
        assert (episode.episode_length, episode.terminated) == (4, False)
        assert episode.elapsed_time >= 0.0


class Holdings(sekai.Env[dict[str, Array], Array]):
    """A portfolio of many assets with nested observations and costs of trading."""

    def __init__(self, n_assets: int = 20, lookback: int = 60, episode_length: int = 252) -> None:
        self.n_assets, self.lookback, self.episode_length = n_assets, lookback, episode_length
        window = (lookback, n_assets, 5)
        self.observation_space = sekai.Dict(
            {
                "prices": sekai.Box(-np.inf, np.inf, shape=window, dtype=np.float32),
                "holdings": sekai.Box(-1.0, 1.0, shape=(n_assets,), dtype=np.float32),
            }
        )
        self.action_space = sekai.Box(-1.0, 1.0, shape=(n_assets,), dtype=np.float32)
        self._holdings = np.zeros(n_assets, dtype=np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self._set_rng(seed)
        self._holdings = np.zeros(self.n_assets, dtype=np.float32)
        self._steps = 0
        return ResetResult(observation=self._seen(), info={"holdings": self._holdings.copy()})

    def step(self, action: Array) -> StepResult[Any]:
        weights = action / (np.abs(action).sum() + 1e-8)
        pnl = float(weights @ self.rng.standard_normal(self.n_assets)) * 0.01
        turnover = float(np.abs(weights - self._holdings).sum())
        self._holdings = weights.astype(np.float32)
        self._steps += 1
        over = self._steps >= self.episode_length
        info = {"pnl": pnl, "turnover": turnover}
        return StepResult(self._seen(), pnl - 1e-4 * turnover, False, over, info=info)

    def _seen(self) -> dict[str, Array]:
        shape = (self.lookback, self.n_assets, 5)
        prices = self.rng.standard_normal(shape).astype(np.float32)
        return {"prices": prices, "holdings": self._holdings.copy()}


def test_a_pipeline_of_portfolios_runs_from_check_to_vector() -> None:
    def make() -> sekai.Env[Any, Any]:
        return sekai.RecordEpisodeStatistics(Holdings(n_assets=3, lookback=2, episode_length=3))

    assert sekai.check_env(Holdings(n_assets=4, lookback=3), n_steps=60) == []
    with sekai.SyncVecEnv([make] * 4) as vec:
        vec.reset(seed=0)
        for _ in range(3):
            batch = vec.step(np.stack([vec.action_space.sample() for _ in range(4)]))

    assert batch.observations["prices"].shape == (4, 2, 3, 5)
    stacked = stack_infos(batch.infos)
    assert stacked["pnl"].shape == (4,)
    assert [episode.episode_length for episode in stacked["episode"]] == [3] * 4
    assert np.array_equal(stacked["holdings"], np.zeros((4, 3)))
