"""Vector envs whose results are made by another array library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.vector import (
    NormalizeVecObservation,
    NormalizeVecReward,
    RecordVecEpisodeStatistics,
    StepBuffers,
    SyncVecEnv,
    VecEnv,
)
from tests.spaces.equality import identical, in_numpy
from tests.vector.native_batch import lottery_vector
from tests.vector.worlds import BACKENDS, Drifter, actions_for
from tests.vector.worlds import build as build_vector
from tests.worlds import RandomWalk

torch = pytest.importorskip("torch")


def test_an_unknown_array_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown backend"):
        SyncVecEnv([RandomWalk], backend="abacus")


def vector(where: str, arrays: str) -> VecEnv:
    factories = [lambda: Drifter("nested", "box", 3)] * 3
    if where == "sync":
        return SyncVecEnv(factories, backend=arrays)
    return _with_backend(where, factories, arrays)


def _with_backend(where: str, factories: Any, arrays: str) -> VecEnv:
    from sekai.vector import AsyncVecEnv, ProcVecEnv

    if where == "async":
        return AsyncVecEnv(factories, backend=arrays)
    return ProcVecEnv(factories, backend=arrays, num_workers=2, start_method="fork")


@pytest.mark.parametrize("where", BACKENDS)
def test_results_are_tensors_with_the_numbers_of_numpy(where: str) -> None:
    with vector(where, "torch") as tensors, vector("sync", "numpy") as arrays:
        first, expected = tensors.reset(seed=0), arrays.reset(seed=0)
        assert identical(in_numpy(first.observations), expected.observations)
        for actions in actions_for(arrays, 8):
            batch = torch.from_numpy(np.stack(actions)).requires_grad_()
            result, expected_step = tensors.step(batch), arrays.step(actions)

            assert isinstance(result.rewards, torch.Tensor)
            assert result.rewards.dtype == torch.float64
            assert result.terminated.dtype == result.dones.dtype == torch.bool
            assert identical(in_numpy(result.observations), expected_step.observations)
            assert np.array_equal(result.rewards.numpy(), expected_step.rewards)
            assert result.infos == list(expected_step.infos)


def test_tensors_do_not_change_when_the_envs_go_on() -> None:
    vec = lottery_vector(2, backend="torch")
    vec.reset(seed=0)
    result: Any = vec.step(torch.zeros(2, dtype=torch.int64))
    seen = result.observations.clone()
    for _ in range(4):
        vec.step([0, 0])

    assert torch.equal(result.observations, seen)


def test_layers_pass_tensors_on() -> None:
    def stack(arrays: str) -> VecEnv:
        vec = RecordVecEpisodeStatistics(lottery_vector(3, backend=arrays))
        return NormalizeVecReward(NormalizeVecObservation(vec))

    tensors, arrays = stack("torch"), stack("numpy")
    tensors.reset(seed=0)
    arrays.reset(seed=0)
    for _ in range(10):
        result: Any = tensors.step([1] * 3)
        expected = arrays.step([1] * 3)
        assert isinstance(result.observations, torch.Tensor)
        assert np.array_equal(result.observations.numpy(), expected.observations)
        assert np.array_equal(result.rewards.numpy(), expected.rewards)
        for one, other in zip(result.infos, expected.infos, strict=True):
            assert one.keys() == other.keys()


def test_envs_may_show_tensors_of_their_own() -> None:
    class Tensors(RandomWalk):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = self.observation_space.with_backend("torch")
            self.action_space = self.action_space.with_backend("torch")

        def reset(self, **arguments: Any) -> Any:
            first = super().reset(**arguments)
            return type(first)(torch.from_numpy(first.observation), {})

        def step(self, action: Any) -> Any:
            assert isinstance(action, torch.Tensor)
            result = super().step(action.numpy())
            shown: Any = torch.from_numpy(result.observation)
            return type(result)(shown, result.reward, False, False, {})

    with build_vector("proc", [Tensors] * 2) as vec, SyncVecEnv([Tensors] * 2) as other:
        first = vec.reset(seed=0)
        assert isinstance(first.observations, np.ndarray)
        assert np.array_equal(first.observations, other.reset(seed=0).observations)
        actions = np.ones((2, 2), np.float32)
        assert vec.step(actions) == other.step(actions)


def test_arrays_to_write_into_are_numpys() -> None:
    vec = SyncVecEnv([RandomWalk], backend="torch")
    vec.reset(seed=0)
    flags = np.zeros((2, 1), np.bool_)
    out = StepBuffers(np.zeros((1, 2), np.float32), np.zeros(1), flags[0], flags[1])

    with pytest.raises(ValueError, match="out requires backend='numpy'"):
        vec.step(np.zeros((1, 2), np.float32), out=out)
