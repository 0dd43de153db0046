"""Recording of the steps of a policy in vector envs, for replay data sets."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.policy.actions import counts_of
from sekai.policy.base import PolicyState
from sekai.policy.load import load_policy
from sekai.policy.observations import leaves_of
from sekai.spaces import Space
from sekai.training.actions import ActionMap, takes_info_masks
from sekai.training.multi_agent.joint_env import JointTrainingEnv
from sekai.training.observations import observed_mask, tensors_of, window_gather
from sekai.training.policies.off_policy import random_choices
from sekai.training.replay import NOT_CUT, FinalObservations, ReplayMasks
from sekai.training.rng import RandomStream, uniform
from sekai.training.training_envs import BatchPolicy, masked_actions
from sekai.vector.batching import Batcher, StepBuffers, map_arrays
from sekai.vector.vec_env import VecEnv

__all__ = ["EpisodeRecording", "RandomPolicy", "policy_of", "require_recordable"]


class RandomPolicy:
    """Uniform random actions within action masks.

    Args:
        action_space: action space of the env.
        seed: seed of the actions.
    """

    def __init__(self, action_space: Space[Any], seed: int) -> None:
        self.actions = ActionMap(action_space)
        self.randomness = RandomStream(seed)

    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Random actions, also if `deterministic`."""
        actions, leaves = self.actions, tensors_of(observations)
        rows = len(next(iter(leaves.values())))
        with self.randomness:
            if not actions.is_choice:
                return actions.to_env(uniform((rows, actions.width)) * 2 - 1)
            mask = observed_mask(leaves)
            if action_mask is not None:
                listed = [np.ones(sum(actions.choices)) if m is None else m for m in action_mask]
                mask = torch.from_numpy(np.stack(listed))
            return actions.to_env(random_choices(actions.choices, rows, mask))


class _FunctionPolicy:
    """Function of observations as a policy."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_masks = "action_mask" in inspect.signature(function).parameters

    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        if self._takes_masks:
            return self._function(observations, action_mask=action_mask)
        return self._function(observations)


class EpisodeRecording:
    """Steps of all envs, rows by envs, and their conversion to episodes."""

    def __init__(self, vec: VecEnv, rows: int) -> None:
        self.vec, self.rows = vec, rows
        count, self._batcher = vec.num_envs, Batcher(vec.observation_space)
        self.observations = map_arrays(
            lambda array: array.reshape(rows + 1, count, *array.shape[1:]),
            self._batcher.allocate((rows + 1) * count),
        )
        actions = Batcher(vec.action_space).allocate(rows * count)
        self.actions = actions.reshape(rows, count, *actions.shape[1:])
        self.rewards = np.zeros((rows, count))
        self.terminated, self.truncated = (np.zeros((rows, count), np.bool_) for _ in range(2))
        self._last = self._batcher.allocate(count)
        self._finals = FinalObservations(self._batcher)
        self._final = np.full((rows, count), NOT_CUT)
        self._masks: ReplayMasks | None = None
        if takes_info_masks(vec.observation_space, vec.action_space):
            width = sum(counts_of(vec.action_space))
            self._masks = ReplayMasks(vec.action_space, (rows + 1, count, width))

    def run(self, policy: BatchPolicy, seed: int, deterministic: bool) -> None:
        """Step all envs with the actions of a policy."""
        result: Any = self.vec.reset(seed=seed)
        map_arrays(np.copyto, self._row(0), result.observations)
        if self._masks is not None:
            self._masks.read(0, result.infos)
        act = PolicyState(policy.predict_batch)
        starts: NDArray[np.bool_] | None = None
        for row in range(self.rows):
            self.actions[row] = masked_actions(act, self.vec, result, deterministic, starts)
            out = StepBuffers(
                self._row(row + 1),
                self.rewards[row],
                self.terminated[row],
                self.truncated[row],
                self._last,
            )
            result = self.vec.step(self.actions[row], out=out)
            starts = self.terminated[row] | self.truncated[row]
            over = np.flatnonzero(starts)
            if over.size:
                finals = map_arrays(lambda array, ids=over: array[ids], self._last)
                self._final[row, over] = self._finals.add(finals, over.size)
            if self._masks is not None:
                self._masks.read_step(row, row + 1, result.infos, over)

    def episodes(self) -> dict[str, Any]:
        """Arrays of a data set, env after env; running episodes are truncated."""
        self.truncated[-1] |= ~self.terminated[-1]
        terminated, truncated = _by_env(self.terminated), _by_env(self.truncated)
        done = terminated | truncated
        ends = np.flatnonzero(done)
        rows = np.arange(len(done)) + np.cumsum(done) - done
        numbers = _by_env(self._final)[ends]
        observations = self._batcher.allocate(len(done) + len(ends))
        latest = ends // self.rows

        def put(out: NDArray[Any], table: NDArray[Any]) -> None:
            out[rows] = _by_env(table[:-1])
            out[rows[ends] + 1] = table[-1][latest]

        map_arrays(put, observations, self.observations)
        is_kept = numbers != NOT_CUT

        def put_final(out: NDArray[Any], finals: NDArray[Any]) -> None:
            out[(rows[ends] + 1)[is_kept]] = finals

        map_arrays(put_final, observations, self._finals.read(numbers[is_kept]))
        masks = None
        if self._masks is not None and self._masks.is_used:
            masks = np.ones((len(done) + len(ends), self._masks.own.shape[-1]), np.bool_)
            masks[rows] = _by_env(self._masks.own[:-1]) != 0
            masks[rows[ends] + 1] = _by_env(self._masks.following[:-1])[ends] != 0
        return {
            "observations": observations,
            "actions": _by_env(self.actions),
            "rewards": _by_env(self.rewards),
            "terminated": terminated,
            "truncated": truncated,
            "action_masks": masks,
        }

    def _row(self, row: int) -> Any:
        return map_arrays(lambda array: array[row], self.observations)


def _by_env(table: NDArray[Any]) -> NDArray[Any]:
    """Rows of a table of rows by envs, env after env."""
    turned = np.swapaxes(table, 0, 1)
    return np.ascontiguousarray(turned).reshape(-1, *table.shape[2:])


def require_recordable(vec: VecEnv) -> None:
    """Raise for envs whose steps no data set can hold."""
    if isinstance(vec, JointTrainingEnv):
        raise TypeError("data sets are of single-agent envs, got one of several agents")
    if window_gather(vec, leaves_of(vec.observation_space)) is not None:
        raise ValueError(
            "observations are row numbers, which mean nothing without the windows of the env; "
            "make it with observation='window'"
        )


def policy_of(policy: Any, vec: VecEnv, seed: int) -> BatchPolicy:
    """Policy of an argument of `collect`."""
    if policy == "random":
        return RandomPolicy(vec.action_space, seed)
    if isinstance(policy, (str, os.PathLike)):
        loaded: BatchPolicy = load_policy(policy)
        return loaded
    if hasattr(policy, "predict_batch"):
        known: BatchPolicy = policy
        return known
    if callable(policy):
        return _FunctionPolicy(policy)
    raise TypeError(
        f"policy must be an agent, a policy, a path, a function or 'random', got {policy!r}"
    )
