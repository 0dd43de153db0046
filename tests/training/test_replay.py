"""A ring of steps: every step that is drawn is one that happened, whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from sekai.spaces import Box
from sekai.training.actions import ActionMap
from sekai.training.replay import ReplayBuffer
from sekai.training.rng import RandomStream
from tests.training.optima.batch import Floats, NumpyBatch, vector


class Counter(NumpyBatch):
    """See the env's number and a clock that never goes back: no observation comes twice.

    Reward: the clock before the step, plus the action.
    """

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, num_envs: int, episode_steps: int, ends: bool = False) -> None:
        super().__init__(num_envs, episode_steps)
        self.ends = ends
        self.total = np.zeros(num_envs, np.int64)

    def _start(self, ids: NDArray[np.int64]) -> None:
        # A new episode begins far from where the one before was.
        self.total[ids] += 1000

    def _observe(self) -> NDArray[np.float32]:
        return np.stack([np.arange(self.num_envs), self.total], axis=1).astype(np.float32)

    def _earn(self, actions: NDArray[Any]) -> Floats:
        earned = self.total + actions[:, 0].astype(np.float64)
        self.total += 1
        return np.asarray(earned)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {**super()._state(), "total": self.total}


def _replay(batch: NumpyBatch, steps: int) -> ReplayBuffer:
    vec = vector(batch)
    replay = ReplayBuffer(vec, ActionMap(vec.action_space), steps)
    replay.begin(0)
    return replay


def _go_on(replay: ReplayBuffer, steps: int) -> None:
    for _ in range(steps):
        replay.step(torch.rand(replay.vec.num_envs, 1) * 2 - 1)


def _assert_whole(drawn: dict[str, Any]) -> None:
    seen, after = drawn["observation"]["observation"], drawn["next"]["observation"]
    assert torch.equal(seen[:, 0], after[:, 0])
    assert torch.allclose(drawn["reward"], seen[:, 1].double() + drawn["action"][:, 0].double())
    follows = ~drawn["terminated"]
    assert torch.equal(after[follows, 1], seen[follows, 1] + 1)


@settings(max_examples=40, deadline=None)
@given(
    num_envs=st.integers(1, 4),
    rows=st.integers(1, 12),
    episode=st.integers(1, 7),
    steps=st.integers(1, 60),
    ends=st.booleans(),
)
def test_every_drawn_step_is_one_that_happened(
    num_envs: int, rows: int, episode: int, steps: int, ends: bool
) -> None:
    with RandomStream(0):
        replay = _replay(Counter(num_envs, episode, ends), rows)
        _go_on(replay, steps)
        drawn = replay.sample(200)

    _assert_whole(drawn)
    assert len(replay) == num_envs * min(steps, rows)
    newest = {int(total) for total in drawn["observation"]["observation"][:, 1]}
    assert len(newest) <= min(steps, rows)


def test_all_steps_that_are_remembered_are_drawn_and_no_others() -> None:
    with RandomStream(1):
        replay = _replay(Counter(2, 100), 5)
        _go_on(replay, 23)
        drawn = replay.sample(500)["observation"]["observation"]

    pairs = {(int(env), int(total) - 1000) for env, total in drawn}
    assert pairs == {(env, clock) for env in range(2) for clock in range(18, 23)}


def test_the_last_observations_of_cut_off_episodes_find_room_however_many_there_are() -> None:
    with RandomStream(2):
        replay = _replay(Counter(3, 1), 100)
        _go_on(replay, 350)
        drawn = replay.sample(1000)

    _assert_whole(drawn)
    assert bool(drawn["truncated"].all())
    assert len(replay._finals) == len(replay) == 300


def test_drawing_follows_the_stream() -> None:
    replay = _replay(Counter(2, 4), 20)
    _go_on(replay, 20)

    with RandomStream(5):
        first = replay.sample(64)["reward"]
    with RandomStream(5):
        again = replay.sample(64)["reward"]
    with RandomStream(6):
        other = replay.sample(64)["reward"]

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_drawing_from_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="the replay buffer is empty"):
        _replay(Counter(1, 4), 4).sample(1)


def test_envs_write_into_the_ring_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = _replay(Counter(2, 4), 4)
    written: list[Any] = []
    step = replay.vec.step

    def watched(actions: Any, *, out: Any) -> Any:
        written.append(out)
        return step(actions, out=out)

    monkeypatch.setattr(replay.vec, "step", watched)
    _go_on(replay, 1)

    assert np.shares_memory(
        written[0].observations, replay.current_observations()["observation"].numpy()
    )
    assert np.shares_memory(written[0].rewards, replay.rewards)


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def flat(drawn: dict[str, Any]) -> list[Tensor]:
        parts = [drawn[key] for key in ("action", "reward", "terminated", "truncated")]
        return [*parts, drawn["observation"]["observation"], drawn["next"]["observation"]]

    return all(torch.equal(a, b) for a, b in zip(flat(one), flat(other), strict=True))


@pytest.mark.parametrize("steps", [3, 7, 40])
def test_a_saved_ring_goes_on_alike(steps: int) -> None:
    with RandomStream(3):
        replay = _replay(Counter(2, 3), 7)
        _go_on(replay, steps)
    other = _replay(Counter(2, 3), 7)
    other.load_state(replay.state())
    other.vec.load_state_dict(replay.vec.state_dict())

    for one in (replay, other):
        with RandomStream(4):
            _go_on(one, 5)

    with RandomStream(8):
        first = replay.sample(100)
    with RandomStream(8):
        second = other.sample(100)
    assert _same(first, second)
    _assert_whole(second)


def test_without_memory_only_what_is_seen_now_is_saved() -> None:
    replay = _replay(Counter(2, 3), 7)
    _go_on(replay, 5)
    other = _replay(Counter(2, 3), 7)
    _go_on(other, 2)

    other.load_state(replay.state(remember=False))

    assert len(other) == 0
    assert torch.equal(
        other.current_observations()["observation"], replay.current_observations()["observation"]
    )


def test_beginning_anew_cuts_off_what_was_under_way() -> None:
    replay = _replay(Counter(2, 30), 9)
    _go_on(replay, 4)

    replay.begin(1)
    _go_on(replay, 3)
    with RandomStream(9):
        drawn = replay.sample(300)

    _assert_whole(drawn)
    cut = drawn["observation"]["observation"][drawn["truncated"], 1]
    assert set(cut.tolist()) == {1003.0}
