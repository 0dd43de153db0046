"""Rollout buffer and episode statistics of on-policy collection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.policy.observations import ACTION_MASK
from sekai.stats.tracker import EpisodeStats
from sekai.training.actions import ActionMap, info_masks, takes_info_masks
from sekai.training.observations import tensors_of
from sekai.training.rng import EnvSlice
from sekai.vector.batching import Batcher, StepBuffers, map_arrays
from sekai.vector.vec_env import Seeds, VecEnv

__all__ = ["Cut", "EpisodeStatistics", "RolloutBuffer"]

Cut = tuple[int, NDArray[np.int64], dict[str, Tensor]]
"""Step, envs whose episode was truncated in it, and their final observations."""


class RolloutBuffer:
    """Buffer of `steps` steps of every env; native envs write into it without copies.

    Observations have one time more than the rest: the last is the first of the next rollout. Final
    observations of truncated episodes are stored beside, to bootstrap their value.
    """

    def __init__(self, vec: VecEnv, actions: ActionMap, steps: int) -> None:
        self.vec, self.actions, self.steps = vec, actions, steps
        self.count = count = vec.num_envs
        batcher = Batcher(vec.observation_space)
        rows = batcher.allocate((steps + 1) * count)
        self._observations = map_arrays(
            lambda array: array.reshape(steps + 1, count, *array.shape[1:]), rows
        )
        self._finals = batcher.allocate(count)
        self.cuts: list[Cut] = []
        """Truncated episodes."""
        self.observed: dict[str, Tensor] = {}
        """Observations of the last rollout: times by envs by shape, one more time than steps."""
        self.rewards = np.zeros((steps, count))
        self.terminated = np.zeros((steps, count), np.bool_)
        self.truncated = np.zeros((steps, count), np.bool_)
        kind = torch.int64 if actions.is_choice else torch.float32
        self.chosen = torch.zeros((steps, count, actions.width), dtype=kind)
        self._masks: np.ndarray[Any, Any] | None = None
        """Action masks from infos: times by envs by actions."""
        if takes_info_masks(vec.observation_space, vec.action_space):
            self._masks = np.ones((steps + 1, count, sum(actions.choices)), np.int8)
        self._is_masked = np.zeros(steps + 1, np.bool_)
        """Times at which a mask forbids an action."""
        # Views are made once, not in every step.
        self._views = [tensors_of(self._row(step)) for step in range(steps)]
        self._outs = [self._out(step) for step in range(steps)]

    def begin(self, seed: Seeds) -> None:
        """Reset all envs."""
        first = self.vec.reset(seed=seed)
        map_arrays(
            lambda row, array: np.copyto(row[-1], array), self._observations, first.observations
        )
        self._read_masks(-1, first.infos)

    @torch.no_grad()
    def fill(
        self,
        act: Callable[[dict[str, Tensor]], Tensor],
        watch: Callable[[Any, int], None] | None = None,
        used: Callable[[dict[str, Tensor]], Tensor | None] = lambda observations: None,
    ) -> None:
        """Collect a rollout of `steps` steps.

        Args:
            act: policy, from observations to actions.
            watch: called with the result and the index of each step.
            used: mask of the action components in use; None for all.
        """
        self._carry_over()
        self.cuts.clear()
        for step in range(self.steps):
            observations = self._shown(step)
            chosen = act(observations)
            self.chosen[step] = chosen
            env_actions = self.actions.to_env(chosen, used(observations))
            result = self.vec.step(env_actions, out=self._outs[step])
            self._keep_finals(step)
            self._read_masks(step + 1, result.infos)
            if watch is not None:
                watch(result, step)
        self.observed = self.observations()

    def begin_native(self) -> Any:
        """Observations of all times for a native rollout: the first row is that to act on."""
        self._carry_over()
        return map_arrays(lambda array: array.reshape(-1, *array.shape[2:]), self._observations)

    def finish_native(self, cuts: list[Cut]) -> None:
        """Take over the steps of a native rollout."""
        self.cuts = cuts
        self.observed = self.observations()

    def collected(self) -> dict[str, Any]:
        """Contents for `store` of a buffer with more envs."""
        return {
            "observations": map_arrays(lambda rows: rows[1:], self._observations),
            "rewards": self.rewards,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "chosen": self.chosen.numpy(),
            "masks": None if self._masks is None else self._masks[1:],
            "cuts": [
                (step, envs, {name: rows.numpy() for name, rows in finals.items()})
                for step, envs, finals in self.cuts
            ],
        }

    def store(self, parts: Sequence[tuple[EnvSlice, dict[str, Any]]]) -> None:
        """Store rollouts of workers, each of a slice of the envs, instead of `fill`."""
        self._carry_over()
        for env_slice, part in parts:
            envs = slice(env_slice.first, env_slice.end)
            if self._masks is not None:
                self._masks[1:, envs] = part["masks"]
            map_arrays(_put(np.s_[1:, envs]), self._observations, part["observations"])
            for name in ("rewards", "terminated", "truncated"):
                getattr(self, name)[:, envs] = part[name]
            self.chosen.numpy()[:, envs] = part["chosen"]
        self.cuts = _joined_cuts(parts)
        self._find_masks()
        self.observed = self.observations()

    def observations(self) -> dict[str, Tensor]:
        """Observations with action masks: times by envs by shape."""
        tables = tensors_of(self._observations)
        if self._masks is not None and self._is_masked.any():
            tables[ACTION_MASK] = torch.from_numpy(self._masks)
        return tables

    def critic_observations(self, rows: Tensor | slice) -> dict[str, Tensor]:
        """Observations of the critic by row, times and envs flattened."""
        return {name: table.flatten(0, 1)[rows] for name, table in self.observations().items()}

    def _row(self, step: int) -> Any:
        return map_arrays(lambda array: array[step], self._observations)

    def _shown(self, step: int) -> dict[str, Tensor]:
        """Observations before a step, with the action mask if it forbids something."""
        if self._masks is None or not self._is_masked[step]:
            return self._views[step]
        return {**self._views[step], ACTION_MASK: torch.from_numpy(self._masks[step])}

    def _carry_over(self) -> None:
        """Start with the last observation of the previous rollout."""
        map_arrays(lambda rows: np.copyto(rows[0], rows[-1]), self._observations)
        if self._masks is not None:
            self._masks[0], self._is_masked[0] = self._masks[-1], self._is_masked[-1]

    def _read_masks(self, time: int, infos: Any) -> None:
        """Store the action masks of infos."""
        if self._masks is None:
            return
        masks = info_masks(infos, self.vec.action_space)
        if masks or self._is_masked[time]:
            self._masks[time] = 1
            for env, mask in masks.items():
                self._masks[time, env] = mask
            self._is_masked[time] = not self._masks[time].all()

    def _find_masks(self) -> None:
        if self._masks is not None:
            self._is_masked[:] = ~self._masks.all(axis=(1, 2))

    def _out(self, step: int) -> StepBuffers:
        return StepBuffers(
            self._row(step + 1),
            self.rewards[step],
            self.terminated[step],
            self.truncated[step],
            self._finals,
        )

    def _keep_finals(self, step: int) -> None:
        is_cut = self.truncated[step] & ~self.terminated[step]
        if is_cut.any():
            envs = np.flatnonzero(is_cut)
            finals = map_arrays(lambda array: array[envs], self._finals)
            self.cuts.append((step, envs, tensors_of(finals)))

    def state(self) -> dict[str, Any]:
        """Last observations and action masks, from which the next rollout starts."""
        observations = map_arrays(lambda array: array[-1].copy(), self._observations)
        return (
            {"seen": observations}
            if self._masks is None
            else {"seen": observations, "masks": self._masks[-1]}
        )

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the observations and masks from which the next rollout starts."""
        observations = state["seen"]
        map_arrays(lambda row, array: np.copyto(row[-1], array), self._observations, observations)
        if self._masks is not None:
            self._masks[-1] = state["masks"]
            self._find_masks()


def _put(index: Any) -> Callable[[Any, Any], None]:
    def put(array: Any, rows: Any) -> None:
        array[index] = rows

    return put


def _joined_cuts(
    parts: Sequence[tuple[EnvSlice, dict[str, Any]]],
) -> list[Cut]:
    """Truncated episodes of all parts, by step and env."""
    by_step: dict[int, list[tuple[Any, Any]]] = {}
    for env_slice, part in parts:
        for step, envs, finals in part["cuts"]:
            by_step.setdefault(step, []).append((envs + env_slice.first, finals))
    joined = []
    for step, cuts in sorted(by_step.items()):
        envs = np.concatenate([own for own, _ in cuts])
        finals = {
            name: torch.from_numpy(np.concatenate([rows[name] for _, rows in cuts]))
            for name in cuts[0][1]
        }
        joined.append((step, envs, finals))
    return joined


RECENT = 100


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """Mean return and length of recent episodes."""

    episodes: int
    """Episodes completed since training began."""

    episode_return: float
    episode_length: float


class EpisodeStatistics:
    """Running returns and lengths of episodes, with means over the last 100."""

    def __init__(self, num_envs: int) -> None:
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self.count = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self.ended: list[EpisodeStats] = []
        """Episodes completed since the list was cleared, while `is_listing`."""
        self.is_listing = False

    def add(
        self,
        rewards: NDArray[np.float64],
        done: NDArray[np.bool_],
        terminated: NDArray[np.bool_] | None = None,
    ) -> None:
        """Add one step of all envs.

        Args:
            rewards: reward of each env.
            done: envs whose episode is over.
            terminated: envs whose episode was terminated, not truncated; None for all of `done`.
        """
        self._returns += rewards
        self._lengths += 1
        ended = np.flatnonzero(done)
        if ended.size:
            returns, lengths = self._returns[ended].tolist(), self._lengths[ended].tolist()
            self._recent.extend(zip(returns, lengths, strict=True))
            if self.is_listing:
                is_end = done if terminated is None else terminated
                flags = is_end[ended].tolist()
                # Envs act together, with updates in between: the duration of one is unknown.
                self.ended += [
                    EpisodeStats(value, length, nan, flag, not flag)
                    for value, length, flag in zip(returns, lengths, flags, strict=True)
                ]
            self.count += int(ended.size)
            self._returns[ended] = 0.0
            self._lengths[ended] = 0

    def drop_running(self) -> None:
        """Forget episodes that are not completed, after a reset of the envs."""
        self._returns[:] = 0.0
        self._lengths[:] = 0

    @property
    def summary(self) -> EpisodeSummary:
        """Means over the last 100 episodes; NaN before the first is completed."""
        if not self._recent:
            return EpisodeSummary(self.count, float("nan"), float("nan"))
        returns, lengths = zip(*self._recent, strict=True)
        return EpisodeSummary(self.count, float(np.mean(returns)), float(np.mean(lengths)))

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """State for checkpoints."""
        recent = np.array(list(self._recent), np.float64).reshape(-1, 2)
        return {
            "returns": self._returns.copy(),
            "lengths": self._lengths.astype(np.float64),
            "recent": recent,
            "count": np.array([self.count], np.float64),
        }

    def load_state_dict(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Restore the state of a checkpoint."""
        self._returns = state["returns"].copy()
        self._lengths = state["lengths"].astype(np.int64)
        pairs = ((float(value), int(length)) for value, length in state["recent"])
        self._recent = deque(pairs, maxlen=RECENT)
        self.count = int(state["count"][0])
