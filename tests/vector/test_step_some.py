"""Some envs of a vector act while the others wait."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.core.result import ResetResult, StepResult, equal_values
from sekai.error import InvalidActionError, ResetRequired, WorkerError
from sekai.spaces import Box, Space
from sekai.vector import (
    NormalizeVecReward,
    PipeVecEnv,
    ProcVecEnv,
    RecordVecEpisodeStatistics,
    StepBuffers,
    SyncVecEnv,
    VecEnv,
    VecObservationWrapper,
    env_seed,
)
from sekai.vector.batching import Batcher
from tests.vector.native_batch import lottery_vector
from tests.vector.worlds import ALL_BACKENDS, SPACES, Drifter, Faulty, Scripted, build

ENVS = 4
SOME = st.permutations(range(ENVS)).flatmap(
    lambda order: st.integers(0, ENVS).map(lambda count: order[:count])
)
"""Some of the envs, in any order."""
MODES = ["same_step", "next_step", "disabled"]


def vector(backend: str, count: int = ENVS, autoreset: str = "same_step") -> VecEnv:
    """A vector with random episodes; native ones are lotteries."""
    if backend == "native":
        return lottery_vector(count, autoreset=autoreset)  # type: ignore[arg-type]
    return build(backend, [partial(Drifter, "dict", mean_length=3)] * count, autoreset=autoreset)


def row_of(result: Any, at: int, rows: Any) -> list[Any]:
    return [
        rows(result.observations)[at],
        result.rewards[at],
        result.terminated[at],
        result.truncated[at],
        result.infos[at],
    ]


@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("backend", [*ALL_BACKENDS, "native"])
@given(plan=st.lists(SOME, min_size=1, max_size=12))
@settings(max_examples=8, deadline=None)
def test_an_env_acts_as_if_it_were_alone(backend: str, autoreset: str, plan: list[Any]) -> None:
    kind = "native" if backend == "native" else "sync"
    alone = [vector(kind, 1, autoreset) for _ in range(ENVS)]
    with vector(backend, ENVS, autoreset) as vec:
        rows = Batcher(vec.observation_space).rows
        vec.reset(seed=7)
        for index, one in enumerate(alone):
            one.reset(seed=[env_seed(7, index)])
        for ids in plan:
            result = vec.step([index % 2 for index in ids], ids=ids)
            assert len(result.rewards) == len(result.infos) == len(ids)
            for at, index in enumerate(ids):
                expected = alone[index].step([index % 2])
                assert equal_values(row_of(result, at, rows), row_of(expected, 0, rows))
                if autoreset == "disabled" and expected.dones[0]:
                    alone[index].reset()
                    vec.reset(ids=[index])


@pytest.mark.parametrize("backend", ALL_BACKENDS)
def test_a_mask_and_an_array_name_envs_too(backend: str) -> None:
    with build(backend, [partial(Scripted, 9)] * 3) as vec:
        vec.reset()

        vec.step([0, 0], ids=np.array([True, False, True]))
        shown = vec.step([0, 0, 0], ids=np.array([2, 1, 0])).observations[:, 1]

    assert shown.tolist() == [2.0, 1.0, 2.0]


@pytest.mark.parametrize("backend", ALL_BACKENDS)
def test_who_waits_for_a_reset_does_not_keep_the_others_waiting(backend: str) -> None:
    lengths = [partial(Scripted, 1), partial(Scripted, 2), partial(Scripted, 5)]
    with build(backend, lengths, autoreset="disabled") as vec:
        vec.reset()
        vec.step([0, 0, 0])

        with pytest.raises(ResetRequired, match=r"reset\(ids=\[0\]\)"):
            vec.step([0, 0, 0])
        with pytest.raises(ResetRequired, match=r"reset\(ids=\[0\]\)"):
            vec.step([0, 0], ids=[1, 0])
        rest = vec.step([0, 0], ids=[2, 1])
        vec.reset(ids=[0])
        with pytest.raises(ResetRequired, match=r"reset\(ids=\[1\]\)"):
            vec.step([0, 0, 0])
        vec.reset(ids=[1])

        assert rest.observations[:, 1].tolist() == [2.0, 2.0]
        assert vec.step([0, 0, 0]).observations[:, 1].tolist() == [1.0, 1.0, 3.0]


@pytest.mark.parametrize("backend", ALL_BACKENDS)
def test_a_refused_step_of_some_envs_moves_nothing(backend: str) -> None:
    with build(backend, [partial(Scripted, 9)] * 3) as vec:
        vec.reset()

        for actions, ids, error in (
            ([0, 0, 0], [0, 1], InvalidActionError),
            ([], [0], InvalidActionError),
            ([0], [], InvalidActionError),
            ([0, 0], [0, 3], ValueError),
            ([0, 0], [1, 1], ValueError),
        ):
            with pytest.raises(error):
                vec.step(actions, ids=ids)

        assert vec.step([], ids=[]).rewards.shape == (0,)
        assert vec.step([0, 0, 0]).observations[:, 1].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("backend", [*ALL_BACKENDS, "native"])
def test_rows_of_some_envs_go_where_they_are_asked_to(backend: str) -> None:
    with vector(backend) as vec, vector(backend) as twin:
        for one in (vec, twin):
            one.reset(seed=1)
        wanted = StepBuffers.allocate(Batcher(vec.observation_space), 2)

        result = vec.step([1, 0], ids=[3, 1], out=wanted)

        assert result.rewards is wanted.rewards
        assert equal_values(result.observations, twin.step([1, 0], ids=[3, 1]).observations)
        with pytest.raises(ValueError, match="out.observations"):
            vec.step([1, 0, 1], ids=[3, 1, 0], out=wanted)


@pytest.mark.parametrize("backend", ["sync", "proc"])
def test_results_before_the_last_step_of_some_stay_as_they_are(backend: str) -> None:
    with build(backend, [partial(Scripted, 99)] * 3, copy=False) as vec:
        vec.reset()
        first = vec.step([0, 0, 0])

        some = vec.step([0, 0], ids=[0, 1])
        vec.step([0], ids=[0])

        assert some.observations[:, 1].tolist() == [2.0, 2.0]
        if backend == "sync":
            assert first.observations[:, 1].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("harm", ["raise", "kill"])
def test_an_env_that_fails_among_some_is_begun_anew_at_what_it_showed_last(harm: str) -> None:
    env_fns = [partial(Faulty, harm)] * 3
    options = {"num_workers": 3, "start_method": "fork", "autoreset": "disabled"}
    with ProcVecEnv(env_fns, on_error="restart", **options) as vec:  # type: ignore[arg-type]
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        vec.step([0, 0], ids=[0, 1])

        result = vec.step([0, 1], ids=[0, 2])

        assert result.truncated.tolist() == [False, True]
        assert result.observations[:, 1].tolist() == [3.0, 1.0]
        assert result.infos[1]["restart"].restarts == 1


@pytest.mark.parametrize("harm", ["raise", "exit"])
@pytest.mark.parametrize("backend", ["proc", "pipe"])
def test_an_env_that_fails_among_some_is_named(backend: str, harm: str) -> None:
    vec = build(backend, [partial(Faulty, harm)] * 4)
    vec.reset()

    with pytest.raises(WorkerError, match="env 2") as raised:
        # Of each worker's two envs one acts, and not the one that was reset last.
        vec.step([0, 1], ids=[1, 2])

    assert raised.value.env_index == 2
    assert raised.value.last_action == 1
    assert vec.closed


@pytest.mark.parametrize("autoreset", MODES)
def test_statistics_count_only_who_acts(autoreset: str) -> None:
    lengths = [partial(Scripted, 2), partial(Scripted, 9), partial(Scripted, 3)]
    vec = RecordVecEpisodeStatistics(SyncVecEnv(lengths, autoreset=autoreset))  # type: ignore[arg-type]
    vec.reset()

    vec.step([0], ids=[2])
    vec.step([0, 0], ids=[2, 0])
    reported = vec.step([0, 0, 0], ids=[2, 0, 1])

    assert "episode" not in reported.infos[2]
    assert [reported.infos[row]["episode"].episode_length for row in (0, 1)] == [3, 2]
    assert [reported.infos[row]["episode"].episode_return for row in (0, 1)] == [6.0, 3.0]


def test_rewards_are_scaled_by_what_their_own_env_has_earned() -> None:
    def scaled(order: list[list[int]]) -> list[float]:
        vec = NormalizeVecReward(SyncVecEnv([partial(Scripted, 50)] * 2))
        vec.reset()
        for ids in order:
            last = vec.step([0] * len(ids), ids=ids).rewards
        return [float(reward) for reward in last]

    # The returns that are learnt from are the same set, whoever of the two acts first.
    assert scaled([[0], [1], [0, 1]]) == pytest.approx(scaled([[1], [0], [1, 0]]))
    assert scaled([[0, 1], [0, 1]]) == pytest.approx(scaled([[0], [1], [0, 1]]))


class Halved(VecObservationWrapper):
    def observation(self, obs: Any) -> Any:
        return obs / 2


def test_a_layer_maps_the_rows_of_some_envs() -> None:
    vec = Halved(SyncVecEnv([partial(Scripted, 9)] * 3))
    vec.reset()

    assert vec.step([0, 0], ids=[2, 0]).observations[:, 1].tolist() == [0.5, 0.5]
    assert vec.step([], ids=[]).observations.shape == (0, 2)


class Words(Space[str]):
    """All words."""

    def sample(self, mask: Any = None) -> str:
        return "word"

    def mismatch(self, value: object) -> str | None:
        return None if isinstance(value, str) else "not a word"


class Talker(Scripted):
    """Says one letter more at every step."""

    def __init__(self) -> None:
        super().__init__(9)
        self.observation_space: Any = Words()
        self.said = ""

    def reset(self, **options: Any) -> ResetResult[Any]:
        self.said = ""
        return ResetResult(self.said, {})

    def step(self, action: Any) -> StepResult[Any]:
        self.said += "ab"[action]
        return StepResult(self.said, 0.0, False, False, {})


def test_values_of_no_fixed_size_go_through_pipes() -> None:
    with PipeVecEnv([Talker] * 3, num_workers=2, start_method="fork") as vec:
        assert list(vec.reset().observations) == [""] * 3
        vec.step([0, 1, 0])
        assert list(vec.step([1, 1], ids=[2, 0]).observations) == ["ab", "ab"]


@pytest.mark.parametrize("space", SPACES)
def test_pipes_carry_every_space_as_one_process_does(space: str) -> None:
    make = partial(Drifter, space, space)
    with (
        PipeVecEnv([make] * 3, num_workers=2, start_method="fork") as vec,
        SyncVecEnv([make] * 3) as here,
    ):
        assert equal_values(vec.reset(seed=3).observations, here.reset(seed=3).observations)
        for _ in range(12):
            actions = [here.action_space.sample() for _ in range(3)]
            reported, expected = vec.step(actions), here.step(actions)
            assert equal_values(reported.observations, expected.observations)
            assert equal_values(reported.rewards, expected.rewards)
            assert equal_values(list(reported.infos), list(expected.infos))


def test_an_observation_of_the_wrong_form_is_blamed_on_its_env() -> None:
    class Wrong(Scripted):
        def step(self, action: Any) -> Any:
            return StepResult(np.zeros(5 if action else 2), 0.0, False, False, {})

    vec = PipeVecEnv([Wrong] * 3, num_workers=3, start_method="fork")
    vec.reset()

    with pytest.raises(WorkerError, match="env 2 returned an observation"):
        vec.step([0, 1], ids=[0, 2])
    assert vec.closed
    assert isinstance(vec.observation_space, Box)
