"""Replay buffer: ring of the latest transitions of all envs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.training.actions import ActionMap
from sekai.training.observations import arrays_of, tensors_of
from sekai.training.rng import EnvSlice
from sekai.vector.batching import Batcher, StepBuffers, map_arrays
from sekai.vector.vec_env import Seeds, VecEnv

__all__ = ["ReplayBuffer"]

NOT_CUT = -1


class ReplayBuffer:
    """Ring of the latest steps of every env; native envs write into it without copies.

    An observation is stored once: the next observation of a step is that of the following row. The
    exception are truncated episodes, whose final observation is stored beside the ring, to
    bootstrap its value.

    Args:
        vec: vector env.
        actions: action space mapping.
        steps: steps of each env that are stored.
        agents: number of agents in each env.
    """

    def __init__(self, vec: VecEnv, actions: ActionMap, steps: int, agents: int = 1) -> None:
        self.vec, self.actions = vec, actions
        # One more row: the newest holds the current observation.
        self.rows, count = steps + 1, vec.num_envs
        batcher = Batcher(vec.observation_space)
        self._observations = map_arrays(
            lambda array: array.reshape(self.rows, count, *array.shape[1:]),
            batcher.allocate(self.rows * count),
        )
        self._last = batcher.allocate(count)
        self._finals = FinalObservations(batcher)
        self._final = np.full((self.rows, count), NOT_CUT, np.int64)
        self.rewards = np.zeros((self.rows, count))
        self.terminated = np.zeros((self.rows, count), np.bool_)
        self.truncated = np.zeros((self.rows, count), np.bool_)
        kind = torch.int64 if actions.is_choice else torch.float32
        self.chosen = torch.zeros((self.rows, count, actions.width), dtype=kind)
        self.trained_on = np.ones((self.rows, count, agents), np.bool_)
        """Mask of steps to learn from, by agent."""
        self.is_filtered = False
        """True if the mask leaves out steps."""
        self.now = 0
        """Row of the current observation."""
        self.steps = 0
        """Steps of each env in the buffer."""

    def __len__(self) -> int:
        return self.steps * self.vec.num_envs

    def begin(self, seed: Seeds) -> None:
        """Reset all envs; running episodes are truncated."""
        if self.steps:
            self._cut_all()
        first = self.vec.reset(seed=seed).observations
        map_arrays(np.copyto, self._row(self.now), first)

    def current_observations(self) -> dict[str, Tensor]:
        """Current observations."""
        return tensors_of(self._row(self.now))

    def step(self, chosen: Tensor, used: Tensor | None = None) -> Any:
        """Step all envs and store the transitions.

        Args:
            chosen: policy outputs.
            used: mask of the action components in use; None for all.
        """
        actions = self.actions.to_env(chosen, used)
        return self._keep(chosen, lambda out: self.vec.step(actions, out=out))

    def _keep(self, chosen: Tensor, act: Callable[[StepBuffers], Any]) -> Any:
        """Store a step, whose results `act` writes."""
        now, after = self.now, (self.now + 1) % self.rows
        self.chosen[now], self.trained_on[now] = chosen, True
        out = StepBuffers(
            self._row(after),
            self.rewards[now],
            self.terminated[now],
            self.truncated[now],
            self._last,
        )
        result = act(out)
        # The following row, the oldest of a full ring, is overwritten.
        self._finals.forget(int((self._final[after] != NOT_CUT).sum()))
        self._final[after] = NOT_CUT
        is_cut = self.truncated[now] & ~self.terminated[now]
        if is_cut.any():
            indices = np.flatnonzero(is_cut)
            self._final[now, indices] = self._finals.add(
                map_arrays(lambda array: array[indices], self._last), indices.size
            )
        self.now = after
        self.steps = min(self.steps + 1, self.rows - 1)
        return result

    def collected(self, steps: int) -> dict[str, Any]:
        """Latest steps, for `store` of a buffer with more envs."""
        rows = self.latest(steps)
        cuts = []
        for step, row in enumerate(rows.tolist()):
            indices = np.flatnonzero(self._final[row] != NOT_CUT)
            if indices.size:
                cuts.append((step, indices, self._finals.read(self._final[row, indices])))
        after = (rows + 1) % self.rows
        return {
            "observations": map_arrays(lambda array: array[after], self._observations),
            "rewards": self.rewards[rows],
            "terminated": self.terminated[rows],
            "truncated": self.truncated[rows],
            "chosen": self.chosen.numpy()[rows],
            "cuts": cuts,
        }

    def store(self, parts: Sequence[tuple[EnvSlice, dict[str, Any]]], step: int) -> None:
        """Store one step of workers, each of a slice of the envs."""
        chosen = np.concatenate([part["chosen"][step] for _, part in parts])

        def write(out: StepBuffers) -> None:
            for env_slice, part in parts:
                _write_part(out, env_slice, part, step)

        self._keep(torch.from_numpy(chosen), write)

    def filter(self, rows: NDArray[np.int64], trained_on: NDArray[np.bool_]) -> None:
        """Set the mask of steps to learn from: rows by envs by agents."""
        self.trained_on[rows], self.is_filtered = trained_on, True

    def change_followers(self, name: str, rows: NDArray[np.int64], table: NDArray[Any]) -> None:
        """Replace a leaf of the next observations of some rows: rows by envs."""
        self._observations[name][(rows + 1) % self.rows] = table
        for row, values in zip(rows.tolist(), table, strict=True):
            indices = np.flatnonzero(self._final[row] != NOT_CUT)
            self._finals.change(name, self._final[row, indices], values[indices])

    def tables(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Observations of some rows: rows by envs."""
        return arrays_of(map_arrays(lambda array: array[rows], self._observations))

    def latest(self, steps: int) -> NDArray[np.int64]:
        """Rows of the latest steps, oldest first."""
        return (self.now + np.arange(-steps, 0)) % self.rows

    def observations(self, rows: NDArray[np.int64]) -> dict[str, Tensor]:
        """Observations of some rows, flattened over envs."""
        picked = map_arrays(lambda array: array[rows], self._observations)
        return {name: table.flatten(0, 1) for name, table in tensors_of(picked).items()}

    @property
    def is_open(self) -> bool:
        """True if there are steps to learn from."""
        if not self.is_filtered:
            return self.steps > 0
        return bool(self.trained_on[self.latest(self.steps)].any())

    def sample(self, count: int) -> dict[str, Any]:
        """Sample transitions uniformly."""
        if not self.steps:
            raise ValueError("the replay buffer is empty; step the envs first")
        if self.is_filtered:
            return self._filtered_sample(count)
        drawn = torch.randint(len(self), (count,))
        envs = self.vec.num_envs
        ages, env_indices = drawn // envs, drawn % envs
        return self.steps_at((self.now - 1 - ages) % self.rows * envs + env_indices)

    def _filtered_sample(self, count: int) -> dict[str, Any]:
        rows, envs = self.latest(self.steps), self.vec.num_envs
        candidates = np.flatnonzero(self.trained_on[rows].any(axis=-1))
        if not candidates.size:
            raise ValueError("learn_where selects no step of the buffer; check `is_open` first")
        drawn = candidates[torch.randint(candidates.size, (count,)).numpy()]
        return self.steps_at(torch.from_numpy(rows[drawn // envs] * envs + drawn % envs))

    def steps_at(self, indices: Tensor) -> dict[str, Any]:
        """Transitions by index, rows and envs flattened."""
        envs = self.vec.num_envs
        after = (indices + envs) % (self.rows * envs)
        return {
            "observation": self._picked(indices),
            "action": self.chosen.flatten(0, 1)[indices],
            "reward": torch.from_numpy(self.rewards.reshape(-1))[indices],
            "terminated": torch.from_numpy(self.terminated.reshape(-1))[indices],
            "truncated": torch.from_numpy(self.truncated.reshape(-1))[indices],
            "trained_on": torch.from_numpy(self.trained_on).flatten(0, 1)[indices],
            "next": self._followers(indices, after),
        }

    def _followers(self, indices: Tensor, after: Tensor) -> dict[str, Tensor]:
        followers = self._picked(after)
        finals = torch.from_numpy(self._final.reshape(-1))[indices]
        is_cut = finals != NOT_CUT
        if bool(is_cut.any()):
            last = self._finals.read(finals[is_cut].numpy())
            for name, rows in tensors_of(last).items():
                followers[name][is_cut] = rows
        return followers

    def _picked(self, indices: Tensor) -> dict[str, Tensor]:
        leaves = tensors_of(self._observations)
        return {name: rows.flatten(0, 1).index_select(0, indices) for name, rows in leaves.items()}

    def _row(self, row: int) -> Any:
        return map_arrays(lambda array: array[row], self._observations)

    def _cut_all(self) -> None:
        before = (self.now - 1) % self.rows
        indices = np.flatnonzero(~(self.terminated[before] | self.truncated[before]))
        finals = map_arrays(lambda array: array[indices], self._row(self.now))
        self._final[before, indices] = self._finals.add(finals, indices.size)
        self.truncated[before, indices] = True

    def state(self, remember: bool = True) -> dict[str, Any]:
        """State for checkpoints; without `remember` only the current observations."""
        observations = map_arrays(np.copy, self._row(self.now))
        if not remember:
            return {"seen": observations}
        rows = np.append(self.latest(self.steps), self.now)
        return {
            "seen": observations,
            "now": self.now,
            "steps": self.steps,
            "observations": map_arrays(lambda array: array[rows], self._observations),
            "chosen": self.chosen[torch.from_numpy(rows)],
            "rewards": self.rewards[rows],
            "terminated": self.terminated[rows],
            "truncated": self.truncated[rows],
            "trained_on": self.trained_on[rows],
            "is_filtered": self.is_filtered,
            "final": self._final[rows],
            "finals": self._finals.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.now, self.steps = int(state.get("now", 0)), int(state.get("steps", 0))
        self._final[:] = NOT_CUT
        self.trained_on[:] = True
        if "observations" not in state:
            self._finals.clear()
            map_arrays(np.copyto, self._row(self.now), state["seen"])
            return
        rows = np.append(self.latest(self.steps), self.now)

        def put(array: NDArray[Any], saved: NDArray[Any]) -> None:
            array[rows] = saved

        map_arrays(put, self._observations, state["observations"])
        self.chosen[torch.from_numpy(rows)] = state["chosen"]
        for name in ("rewards", "terminated", "truncated"):
            put(getattr(self, name), state[name])
        put(self._final, state["final"])
        put(self.trained_on, state["trained_on"])
        self.is_filtered = bool(state["is_filtered"])
        self._finals.load_state(state["finals"])

    def moment(self) -> dict[str, Any]:
        """Current observations and flags of the last step: rows by env."""
        last = self.latest(1)[0]
        return {
            "seen": map_arrays(np.copy, self._row(self.now)),
            "terminated": self.terminated[last].copy(),
            "truncated": self.truncated[last].copy(),
        }

    def load_moment(self, moment: Mapping[str, Any]) -> None:
        """Restore `moment`."""
        last = self.latest(1)[0]
        map_arrays(np.copyto, self._row(self.now), moment["seen"])
        for name in ("terminated", "truncated"):
            getattr(self, name)[last] = moment[name]


def _write_part(out: StepBuffers, env_slice: EnvSlice, part: dict[str, Any], step: int) -> None:
    target = slice(env_slice.first, env_slice.end)

    def put(array: NDArray[Any], rows: NDArray[Any]) -> None:
        array[target] = rows[step]

    map_arrays(put, out.observations, part["observations"])
    for name in ("rewards", "terminated", "truncated"):
        getattr(out, name)[target] = part[name][step]
    for when, indices, finals in part["cuts"]:
        if when == step:
            _put_rows(indices + env_slice.first, out.final_observations, finals)


def _put_rows(indices: NDArray[np.int64], batch: Any, rows: Any) -> None:
    def put(array: NDArray[Any], values: NDArray[Any]) -> None:
        array[indices] = values

    map_arrays(put, batch, rows)


CAPACITY = 64
"""Initial capacity."""


class FinalObservations:
    """Queue of final observations by increasing number; it grows as needed."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self.clear()

    def __len__(self) -> int:
        return self._end - self._first

    def clear(self) -> None:
        """Remove all rows."""
        self._first = self._end = 0
        self._capacity = CAPACITY
        self._rows = self._batcher.allocate(CAPACITY)

    def add(self, batch: Any, count: int) -> NDArray[np.int64]:
        """Add a batch and return its numbers."""
        self._grow(count)
        numbers = np.arange(self._end, self._end + count)
        self._put(numbers, batch)
        self._end += count
        return numbers

    def forget(self, count: int) -> None:
        """Remove the oldest rows."""
        self._first += count

    def read(self, numbers: NDArray[np.int64]) -> Any:
        """Rows by number."""
        indices = numbers % self._capacity
        return map_arrays(lambda array: array[indices], self._rows)

    def change(self, name: str, numbers: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Replace a leaf of some rows."""
        self._rows[name][numbers % self._capacity] = rows

    def _put(self, numbers: NDArray[np.int64], batch: Any) -> None:
        indices = numbers % self._capacity

        def put(array: NDArray[Any], rows: NDArray[Any]) -> None:
            array[indices] = rows

        map_arrays(put, self._rows, batch)

    def _grow(self, count: int) -> None:
        if len(self) + count <= self._capacity:
            return
        numbers = np.arange(self._first, self._end)
        rows = self.read(numbers)
        while self._capacity < len(self) + count:
            self._capacity *= 2
        self._rows = self._batcher.allocate(self._capacity)
        self._put(numbers, rows)

    def state(self) -> dict[str, Any]:
        """State for checkpoints."""
        numbers = np.arange(self._first, self._end)
        return {"first": self._first, "count": len(self), "rows": self.read(numbers)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.clear()
        self._first = self._end = int(state["first"])
        self.add(state["rows"], int(state["count"]))
