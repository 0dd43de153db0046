"""Our vector envs are what the algorithms of stable-baselines3 expect."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from sekai.compat import from_stable_baselines3, to_gymnasium, to_stable_baselines3
from sekai.compat.stable_baselines3 import ImportedSB3VecEnv
from sekai.stats import EpisodeStats
from sekai.vector import StepBuffers, SyncVecEnv, VecEnv
from sekai.wrappers import RecordEpisodeStatistics, TimeLimit
from tests.worlds import Market, RandomWalk


class Numbered(RandomWalk):
    """A walk that counts its episodes, and may both end and be cut at its third step."""

    def __init__(self, ends: bool = False) -> None:
        super().__init__()
        self.ends = ends
        self._episodes = 0

    def reset(self, **arguments: Any) -> Any:
        result = super().reset(**arguments)
        self._episodes += 1
        self._steps = 0
        return type(result)(result.observation, {"episode_number": self._episodes})

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self._steps += 1
        is_over = self.ends and self._steps == 3
        return type(result)(result.observation, 0.0, is_over, is_over, {"steps": self._steps})


def limited() -> Any:
    return RecordEpisodeStatistics(TimeLimit(RandomWalk(), 8))


def actions_of(venv: Any, seed: int, count: int) -> list[Any]:
    venv.action_space.seed(seed)
    return [
        np.stack([venv.action_space.sample() for _ in range(venv.num_envs)]) for _ in range(count)
    ]


def contents(info: dict[str, Any]) -> list[str]:
    """Items of an info, independent of their order."""
    return sorted(map(str, info.items()))


def test_it_does_what_their_own_vector_env_does() -> None:
    def cut() -> Any:
        return TimeLimit(Numbered(), 4)

    def cut_as_it_ends() -> Any:
        return Numbered(ends=True)

    theirs: Any = DummyVecEnv([lambda: to_gymnasium(cut()), lambda: to_gymnasium(cut_as_it_ends())])
    ours: Any = to_stable_baselines3(SyncVecEnv([cut, cut_as_it_ends]))
    theirs.seed(5)
    ours.seed(5)

    assert np.array_equal(theirs.reset(), ours.reset())
    assert theirs.reset_infos == ours.reset_infos
    for actions in actions_of(ours, 0, 60):
        expected, found = theirs.step(actions), ours.step(actions)
        assert np.array_equal(found[0], expected[0])
        assert found[1].dtype == np.float32
        assert np.array_equal(found[1], expected[1])
        assert np.array_equal(found[2], expected[2])
        assert list(map(contents, found[3])) == list(map(contents, expected[3]))
        assert theirs.reset_infos == ours.reset_infos


def test_the_end_of_an_episode_keeps_its_last_observation_and_its_cause() -> None:
    venv: Any = to_stable_baselines3(SyncVecEnv([lambda: TimeLimit(RandomWalk(0.0), 3)] * 2))
    venv.seed(0)
    venv.reset()

    steps = [venv.step(np.zeros((2, 2), np.float32)) for _ in range(3)]

    observations, _, dones, infos = steps[-1]
    assert dones.tolist() == [True, True]
    assert [info["TimeLimit.truncated"] for info in infos] == [True, True]
    assert np.array_equal(infos[0]["terminal_observation"], steps[1][0][0])
    assert not np.array_equal(infos[0]["terminal_observation"], observations[0])
    assert "final_info" not in infos[0]
    assert venv.reset_infos[0] == {"begun": True}


def test_seeds_and_options_are_used_once() -> None:
    class Optional(RandomWalk):
        def reset(self, **arguments: Any) -> Any:
            result = super().reset(**arguments)
            return type(result)(result.observation, {"options": arguments.get("options")})

    venv = to_stable_baselines3(SyncVecEnv([Optional] * 2))
    venv.seed(3)
    venv.set_options({"start": 1})

    first = venv.reset()
    given = [info["options"] for info in venv.reset_infos]
    second = venv.reset()

    assert np.array_equal(first[1], RandomWalk().reset(seed=4).observation)
    assert given == [{"start": 1}, {"start": 1}]
    assert not np.array_equal(first, second)
    assert [info["options"] for info in venv.reset_infos] == [None, None]


def test_attributes_and_methods_reach_the_chosen_envs() -> None:
    venv = to_stable_baselines3(SyncVecEnv([limited] * 3))

    venv.set_attr("noise", 0.1)
    venv.set_attr("noise", 0.9, indices=[0, 2])

    assert venv.get_attr("noise") == [0.9, 0.1, 0.9]
    assert venv.get_attr("noise", indices=1) == [0.1]
    assert venv.get_attr("render_mode") == [None, None, None]
    assert len(venv.env_method("state_dict")) == 3
    assert len(venv.env_method("state_dict", indices=[1])) == 1
    assert venv.env_is_wrapped(TimeLimit) == [True, True, True]
    assert venv.has_attr("max_episode_steps")


def test_another_autoreset_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="autoreset must be 'same_step'"):
        to_stable_baselines3(SyncVecEnv([RandomWalk], autoreset="next_step"))


def test_what_is_no_vector_env_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a sekai vector env"):
        to_stable_baselines3(RandomWalk())  # type: ignore[arg-type]


def test_ppo_learns_on_it_and_logs_our_statistics() -> None:
    venv = to_stable_baselines3(SyncVecEnv([limited] * 4))
    model = PPO("MlpPolicy", venv, n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu")

    model.learn(256)

    assert model.num_timesteps == 256
    assert model.ep_info_buffer is not None
    assert {"r", "l", "t"} == set(model.ep_info_buffer[0])
    assert all(info["l"] <= 8 for info in model.ep_info_buffer)


def test_a_nested_observation_is_learned_from() -> None:
    venv = to_stable_baselines3(SyncVecEnv([Market] * 2))
    model = A2C("MultiInputPolicy", venv, n_steps=8, seed=0, device="cpu")

    model.learn(64)

    assert model.num_timesteps == 64


def test_their_wrappers_work_around_it() -> None:
    venv = VecNormalize(VecMonitor(to_stable_baselines3(SyncVecEnv([limited] * 2))))
    venv.reset()

    steps = [venv.step(np.zeros((2, 2), np.float32)) for _ in range(8)]

    ended = [infos[0] for _, _, dones, infos in steps if dones[0]]
    assert ended
    assert all(info["episode"]["l"] <= 8 for info in ended)


def dummy(count: int = 3, *, monitored: bool = False) -> Any:
    """Their own vector env: walks that are cut after five steps or end after three."""

    def make(ends: bool) -> Any:
        env: Any = to_gymnasium(TimeLimit(Numbered(ends), 5))
        return Monitor(env) if monitored else env

    return DummyVecEnv([partial(make, index % 2 == 1) for index in range(count)])


@pytest.mark.parametrize("seed", [7, [3, 9, 4]])
def test_an_imported_vec_env_gives_the_same_trajectory(seed: Any) -> None:
    theirs, ours = dummy(), from_stable_baselines3(dummy())
    theirs._seeds = [7, 8, 9] if seed == 7 else seed

    start, result = theirs.reset(), ours.reset(seed=seed)

    assert isinstance(ours, VecEnv)
    assert np.array_equal(result.observations, start)
    assert result.infos == theirs.reset_infos
    for actions in actions_of(theirs, 0, 30):
        observations, rewards, dones, infos = theirs.step(actions)
        step = ours.step(actions)
        assert np.array_equal(step.observations, observations)
        assert np.array_equal(step.rewards, rewards)
        assert step.rewards.dtype == np.float64
        assert np.array_equal(step.dones, dones)
        for index in np.flatnonzero(dones).tolist():
            info = step.infos[index]
            assert step.truncated[index] == infos[index]["TimeLimit.truncated"]
            assert np.array_equal(info["final_observation"], infos[index]["terminal_observation"])
            assert info["final_info"] == {"steps": infos[index]["steps"]}
            assert info["episode_number"] == theirs.reset_infos[index]["episode_number"]
    ours.close()
    ours.close()
    assert ours.closed


def test_statistics_of_their_monitor_become_ours_also_through_wrappers() -> None:
    vec = from_stable_baselines3(VecNormalize(dummy(2, monitored=True)))
    vec.reset(seed=0, options={"start": 1})

    steps = [vec.step(np.zeros((2, 2), np.float32)) for _ in range(5)]

    ended = [step.infos[0] for step in steps if step.dones[0]]
    assert [info["episode"].episode_length for info in ended] == [5]
    assert isinstance(ended[0]["episode"], EpisodeStats)
    assert ended[0]["episode"].truncated
    assert ended[0]["episode_number"] == 2


def test_an_imported_vec_env_goes_there_and_back_through_both_bridges() -> None:
    plain = SyncVecEnv([lambda: TimeLimit(Numbered(), 4)] * 2)
    inner = SyncVecEnv([lambda: TimeLimit(Numbered(), 4)] * 2)
    assert from_stable_baselines3(to_stable_baselines3(inner)) is inner
    both = ImportedSB3VecEnv(to_stable_baselines3(inner))
    first, last = np.zeros((2, 2, 2), np.float32)
    ends = np.zeros((2, 2), np.bool_)
    buffers = StepBuffers(first, np.zeros(2), ends[0], ends[1], last)

    assert np.array_equal(
        both.reset(seed=[1, 2]).observations, plain.reset(seed=[1, 2]).observations
    )
    for actions in actions_of(both, 1, 12):
        ours, expected = both.step(actions, out=buffers), plain.step(actions)
        assert ours.observations is buffers.observations
        assert np.array_equal(ours.observations, expected.observations)
        assert np.array_equal(ours.truncated, expected.truncated)
        assert list(map(contents, ours.infos)) == list(map(contents, expected.infos))
        for index in np.flatnonzero(expected.dones).tolist():
            assert np.array_equal(last[index], expected.infos[index]["final_observation"])


def test_an_imported_vec_env_continues_from_its_state() -> None:
    vec = from_stable_baselines3(dummy())
    vec.reset(seed=5)
    state = vec.state_dict()
    actions = np.zeros((3, 2), np.float32)
    first = [vec.step(actions).observations for _ in range(8)]

    vec.load_state_dict(state)

    assert np.array_equal([vec.step(actions).observations for _ in range(8)], first)
    vec.set_attr("noise", [0.1, 0.2, 0.3], per_env=True)
    assert vec.get_attr("noise") == [0.1, 0.2, 0.3]
    assert len(vec.call("state_dict")) == 3


def test_what_an_imported_vec_env_cannot_do_is_refused_with_the_remedy() -> None:
    vec = from_stable_baselines3(dummy())

    with pytest.raises(ValueError, match="take no ids.*SyncVecEnv"):
        vec.reset(ids=[0])
    with pytest.raises(ValueError, match="expected 3 seeds, one per env, got 2"):
        vec.reset(seed=[1, 2])
    with pytest.raises(TypeError, match="must be a VecEnv of stable-baselines3"):
        from_stable_baselines3(RandomWalk())  # type: ignore[arg-type]
