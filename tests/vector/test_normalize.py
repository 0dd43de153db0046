"""Layers that normalise: on columns as on dicts, and by rewards that were earned alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.spaces import Box
from sekai.vector import (
    NormalizeVecObservation,
    NormalizeVecReward,
    RecordVecEpisodeStatistics,
    SyncVecEnv,
    VecEnv,
    VecObservationWrapper,
    VecWrapper,
)
from tests.vector.native_batch import Lottery, lottery_vector
from tests.vector.worlds import Scripted, actions_for


def stack(vec: VecEnv) -> VecEnv:
    return NormalizeVecReward(NormalizeVecObservation(RecordVecEpisodeStatistics(vec)))


def timeless(infos: Any) -> Any:
    """Infos without the seconds that episodes took."""
    if isinstance(infos, dict):
        return {key: timeless(value) for key, value in infos.items()}
    if hasattr(infos, "elapsed_time"):
        return infos.episode_return, infos.episode_length, infos.terminated, infos.truncated
    return infos


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_layers_make_of_columns_what_they_make_of_dicts(mode: Any) -> None:
    native = stack(lottery_vector(5, autoreset=mode))
    single = stack(SyncVecEnv([Lottery] * 5, autoreset=mode))
    assert equal_values(native.reset(seed=2).observations, single.reset(seed=2).observations)
    ended = 0
    for action in actions_for(single, 60):
        one, other = native.step(action), single.step(action)
        ended += int(one.dones.sum())
        for name in ("observations", "rewards", "terminated", "truncated"):
            assert equal_values(getattr(one, name), getattr(other, name))
        assert equal_values([*map(timeless, one.infos)], [*map(timeless, other.infos)])
    assert ended > 30
    assert equal_values(native.state_dict()["layer"], single.state_dict()["layer"])


def test_statistics_build_no_dicts() -> None:
    vec = NormalizeVecObservation(RecordVecEpisodeStatistics(lottery_vector(5)))
    vec.reset(seed=0)
    columns = []
    for action in actions_for(vec, 30):
        infos: Any = vec.step(action).infos
        columns.append((infos.column("episode"), infos.column("final_observation")))
        assert infos._built is None

    for episodes, finals in columns:
        assert episodes.indices.tolist() == finals.indices.tolist()
        assert len(episodes.values) == len(finals.values)


def test_a_row_that_only_begins_an_episode_earns_nothing_to_learn_from() -> None:
    vec = NormalizeVecReward(SyncVecEnv([lambda: Scripted(2)] * 2, autoreset="next_step"))
    same = NormalizeVecReward(SyncVecEnv([lambda: Scripted(2)] * 2))
    vec.reset(seed=0)
    same.reset(seed=0)

    for steps in range(1, 4):
        earned = [vec.step([0, 0]).rewards.tolist() for _ in range(2)]
        assert [same.step([0, 0]).rewards.tolist() for _ in range(2)] == earned
        assert vec.scale.count == same.scale.count == 4 * steps
        assert vec.step([0, 0]).rewards.tolist() == [0, 0]

    assert vec.scale.variance == same.scale.variance


def test_a_reset_in_the_callers_hands_runs_from_its_first_step() -> None:
    vec = NormalizeVecReward(SyncVecEnv([lambda: Scripted(2)], autoreset="next_step"))
    vec.reset(seed=0)
    vec.step([0])
    vec.step([0])
    vec.reset()
    vec.step([0])

    assert vec.scale.count == 3


def test_a_saved_scale_knows_which_rows_only_begin() -> None:
    def build() -> NormalizeVecReward:
        return NormalizeVecReward(SyncVecEnv([lambda: Scripted(2)], autoreset="next_step"))

    vec, other = build(), build()
    vec.reset(seed=0)
    vec.step([0])
    vec.step([0])
    other.load_state_dict(vec.state_dict())
    other.step([0])

    assert other.scale.count == 2


def test_statistics_leave_final_infos_out_where_there_are_none() -> None:
    class Forgetful(VecWrapper):
        def _map_step(self, result: Any) -> Any:
            infos = [dict(info) for info in result.infos]
            del infos[0]["final_info"]
            return dataclasses.replace(result, infos=infos)

    vec = RecordVecEpisodeStatistics(Forgetful(SyncVecEnv([lambda: Scripted(1)] * 3)))
    vec.reset(seed=0)
    infos = vec.step([0] * 3).infos

    assert "final_info" not in infos[0]
    for info in infos[1:]:
        assert info["final_info"] == {"step": 1.0, "episode": info["episode"]}


class Halving(VecObservationWrapper):
    """Halves in place what it is given."""

    def observation(self, obs: Any) -> Any:
        obs /= 2
        return obs


def test_a_layer_that_writes_into_its_batch_changes_no_inner_result() -> None:
    seen: list[Any] = []

    class Listening(Halving):
        def _map_step(self, result: Any) -> Any:
            seen.append((result.infos, [*result.infos.column("final_observation").values]))
            before = [row.copy() for row in seen[-1][1]]
            shown = super()._map_step(result)
            assert equal_values(seen[-1][1], before)
            return shown

    vec = Listening(lottery_vector(5))
    vec.reset(seed=0)
    for action in actions_for(vec, 20):
        vec.step(action)

    assert sum(len(finals) for _, finals in seen) > 5


def test_a_final_observation_too_few_is_refused() -> None:
    class Losing(VecObservationWrapper):
        def observation(self, obs: Any) -> Any:
            return obs

        def final_observation(self, obs: Any) -> Any:
            return obs[1:]

    vec = Losing(SyncVecEnv([lambda: Scripted(1)] * 3))
    vec.reset(seed=0)

    with pytest.raises(ValueError, match="must return 3 observations.*got 2"):
        vec.step([0] * 3)


def test_a_layer_above_takes_final_observations_of_another_form() -> None:
    class Doubled(VecObservationWrapper):
        def __init__(self, env: VecEnv) -> None:
            super().__init__(env)
            self.observation_space = Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)

        def observation(self, obs: Any) -> Any:
            return (obs * 2).astype(np.float32)  # not what the space says

    vec = Doubled(Doubled(SyncVecEnv([lambda: Scripted(1)] * 2)))
    vec.reset(seed=0)
    infos = vec.step([0, 0]).infos

    assert [info["final_observation"].tolist() for info in infos] == [[0, 4]] * 2
