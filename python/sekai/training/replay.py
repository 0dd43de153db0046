"""Replay buffer: ring of the latest transitions of all envs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.core.autoreset import FINAL_INFO
from sekai.error import SpaceError
from sekai.policy.actions import flat_mask
from sekai.policy.observations import ACTION_MASK, arrays_of
from sekai.spaces import Space
from sekai.training.actions import ActionMap, info_masks, takes_info_masks
from sekai.training.observations import tensors_of
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
        self._masks: ReplayMasks | None = None
        if takes_info_masks(vec.observation_space, vec.action_space):
            self._masks = ReplayMasks(vec.action_space, (self.rows, count, sum(actions.choices)))
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
        first = self.vec.reset(seed=seed)
        map_arrays(np.copyto, self._row(self.now), first.observations)
        if self._masks is not None:
            self._masks.read(self.now, first.infos)

    def current_observations(self) -> dict[str, Tensor]:
        """Current observations, with the action masks of infos."""
        leaves = tensors_of(self._row(self.now))
        return leaves if self._masks is None else self._masks.added(leaves, "own", self.now)

    def step(self, chosen: Tensor, used: Tensor | None = None) -> Any:
        """Step all envs and store the transitions.

        Args:
            chosen: policy outputs.
            used: mask of the action components in use; None for all.
        """
        actions, row = self.actions.to_env(chosen, used), self.now
        result = self._keep(chosen, lambda out: self.vec.step(actions, out=out))
        if self._masks is not None:
            over = np.flatnonzero(self.terminated[row] | self.truncated[row])
            self._masks.read_step(row, self.now, result.infos, over)
        return result

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
            "masks": None if self._masks is None else self._masks.step_rows(rows, after),
        }

    def store(self, parts: Sequence[tuple[EnvSlice, dict[str, Any]]], step: int) -> None:
        """Store one step of workers, each of a slice of the envs."""
        chosen = np.concatenate([part["chosen"][step] for _, part in parts])

        def write(out: StepBuffers) -> None:
            for env_slice, part in parts:
                _write_part(out, env_slice, part, step)

        row = self.now
        self._keep(torch.from_numpy(chosen), write)
        if self._masks is not None:
            masks = [part["masks"] for _, part in parts]
            self._masks.put(row, "following", np.concatenate([m["following"][step] for m in masks]))
            self._masks.put(self.now, "own", np.concatenate([m["own"][step] for m in masks]))

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
        observations, following = self._picked(indices), self._followers(indices, after)
        if self._masks is not None:
            observations = self._masks.added(observations, "own", indices)
            following = self._masks.added(following, "following", indices)
        return {
            "observation": observations,
            "action": self.chosen.flatten(0, 1)[indices],
            "reward": torch.from_numpy(self.rewards.reshape(-1))[indices],
            "terminated": torch.from_numpy(self.terminated.reshape(-1))[indices],
            "truncated": torch.from_numpy(self.truncated.reshape(-1))[indices],
            "trained_on": torch.from_numpy(self.trained_on).flatten(0, 1)[indices],
            "next": following,
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
        state = {"seen": map_arrays(np.copy, self._row(self.now))}
        rows = np.append(self.latest(self.steps if remember else 0), self.now)
        if self._masks is not None:
            state["masks"] = self._masks.step_rows(rows, rows)
        if not remember:
            return state
        return {
            **state,
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
        if self._masks is not None:
            kept = self.steps if "observations" in state else 0
            self._masks.load(np.append(self.latest(kept), self.now), state["masks"])
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
        masks = {} if self._masks is None else {"mask": self._masks.own[self.now].copy()}
        return {
            **masks,
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
        if self._masks is not None:
            self._masks.put(self.now, "own", moment["mask"])


class ReplayMasks:
    """Action masks of infos, for the observations of a replay buffer.

    Args:
        space: action space.
        shape: rows, envs and actions.
    """

    def __init__(self, space: Space[Any], shape: tuple[int, int, int]) -> None:
        self.space = space
        self.own = np.ones(shape, np.int8)
        """Masks of the observations."""
        self.following = np.ones(shape, np.int8)
        """Masks of the next observations, of the final ones where an episode ended."""
        self.is_used = False
        """True if a mask has forbidden an action."""

    def read(self, row: int, infos: Any) -> None:
        """Store the masks of new observations; an env without one allows everything."""
        masks = info_masks(infos, self.space)
        if masks or self.is_used:
            rows = np.ones_like(self.own[row])
            for env, mask in masks.items():
                rows[env] = mask
            self.put(row, "own", rows)

    def read_step(self, row: int, after: int, infos: Any, over: NDArray[np.int64]) -> None:
        """Store the masks after a step; `over` are the envs whose episode ended."""
        self.read(after, infos)
        following = self.own[after].copy()
        for env, last in zip(over.tolist(), infos.values(over, FINAL_INFO), strict=True):
            following[env] = 1
            # Nobody acts there: an invalid mask is no error.
            with suppress(SpaceError):
                following[env] = flat_mask(self.space, (last or {}).get(ACTION_MASK))
        self.put(row, "following", following)

    def put(self, rows: Any, name: str, masks: NDArray[Any]) -> None:
        """Write the masks `own` or `following` of some rows."""
        getattr(self, name)[rows] = masks
        self.is_used = self.is_used or not np.all(masks)

    def added(self, leaves: dict[str, Tensor], name: str, index: Any) -> dict[str, Tensor]:
        """Leaves with the masks of a row, or of transitions, if any forbids an action."""
        if not self.is_used:
            return leaves
        table = torch.from_numpy(getattr(self, name))
        rows = table[index] if isinstance(index, int) else table.flatten(0, 1)[index]
        return {**leaves, ACTION_MASK: rows}

    def step_rows(self, rows: NDArray[np.int64], after: NDArray[np.int64]) -> dict[str, Any]:
        """Masks of the next observations of some rows, and of the observations of others."""
        return {"following": self.following[rows], "own": self.own[after]}

    def load(self, rows: NDArray[np.int64], state: Mapping[str, Any]) -> None:
        """Restore the masks of some rows."""
        self.own[:], self.following[:], self.is_used = 1, 1, False
        for name in ("own", "following"):
            self.put(rows, name, state[name])


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
