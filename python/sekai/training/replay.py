"""What happened in the latest steps of all envs: a ring that envs write into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.training.actions import ActionMap
from sekai.training.final_rows import FinalRows
from sekai.training.observations import arrays_of, tensors_of
from sekai.training.randomness import Portion
from sekai.vector.batching import Batcher, map_arrays
from sekai.vector.buffers import StepBuffers
from sekai.vector.seeding import Seeds
from sekai.vector.vec_env import VecEnv

__all__ = ["Replay"]

NOT_CUT = -1


class Replay:
    """The latest steps of every env of a vector; native envs write straight into it.

    An observation is stored once: what followed a step is the observation of the row after it. The
    one exception are episodes that were cut off, whose last observation lies beside the ring,
    since what would have followed it is worth something. Where an episode ended, nothing follows.
    """

    def __init__(self, vec: VecEnv, actions: ActionMap, steps: int, agents: int = 1) -> None:
        """Make room.

        Args:
            vec: the envs.
            actions: how what is chosen becomes their actions.
            steps: how many steps of each env to remember.
            agents: how many act in each env.
        """
        self.vec, self.actions = vec, actions
        # One row more: the newest holds what is seen now, and nothing has followed it yet.
        self.rows, count = steps + 1, vec.num_envs
        batcher = Batcher(vec.observation_space)
        self._observations = map_arrays(
            lambda array: array.reshape(self.rows, count, *array.shape[1:]),
            batcher.allocate(self.rows * count),
        )
        self._last = batcher.allocate(count)
        self._finals = FinalRows(batcher)
        self._final = np.full((self.rows, count), NOT_CUT, np.int64)
        self.rewards = np.zeros((self.rows, count))
        self.terminated = np.zeros((self.rows, count), np.bool_)
        self.truncated = np.zeros((self.rows, count), np.bool_)
        kind = torch.int64 if actions.is_choice else torch.float32
        self.chosen = torch.zeros((self.rows, count, actions.width), dtype=kind)
        self.learnt = np.ones((self.rows, count, agents), np.bool_)
        """Which steps are learnt from, by agent."""
        self.is_filtered = False
        """Whether that is not all of them."""
        self.now = 0
        """The row of what is seen now."""
        self.steps = 0
        """How many steps of each env are remembered."""

    def __len__(self) -> int:
        return self.steps * self.vec.num_envs

    def begin(self, seed: Seeds) -> None:
        """Start all envs; episodes that were under way are cut off."""
        if self.steps:
            self._cut_all()
        first = self.vec.reset(seed=seed).observations
        map_arrays(np.copyto, self._row(self.now), first)

    def seen(self) -> dict[str, Tensor]:
        """What is seen now."""
        return tensors_of(self._row(self.now))

    def step(self, chosen: Tensor, used: Tensor | None = None) -> Any:
        """Let all envs act once, and remember it.

        Args:
            chosen: what is done.
            used: which numbers of it count; None for all.
        """
        actions = self.actions.to_env(chosen, used)
        return self._keep(chosen, lambda out: self.vec.step(actions, out=out))

    def _keep(self, chosen: Tensor, act: Callable[[StepBuffers], Any]) -> Any:
        """Remember a step, which `act` takes."""
        now, after = self.now, (self.now + 1) % self.rows
        self.chosen[now], self.learnt[now] = chosen, True
        out = StepBuffers(
            self._row(after), self.rewards[now], self.terminated[now], self.truncated[now],
            self._last,
        )  # fmt: skip
        result = act(out)
        # What was in the row after this one, the oldest if the ring is full, is now forgotten.
        self._finals.forget(int((self._final[after] != NOT_CUT).sum()))
        self._final[after] = NOT_CUT
        is_cut = self.truncated[now] & ~self.terminated[now]
        if is_cut.any():
            places = np.flatnonzero(is_cut)
            self._final[now, places] = self._finals.add(
                map_arrays(lambda array: array[places], self._last), places.size
            )
        self.now = after
        self.steps = min(self.steps + 1, self.rows - 1)
        return result

    def played(self, steps: int) -> dict[str, Any]:
        """What happened in the latest steps, for `take` of a replay of more envs."""
        rows = self.latest(steps)
        cuts = []
        for step, row in enumerate(rows.tolist()):
            places = np.flatnonzero(self._final[row] != NOT_CUT)
            if places.size:
                cuts.append((step, places, self._finals.read(self._final[row, places])))
        after = (rows + 1) % self.rows
        return {
            "observations": map_arrays(lambda array: array[after], self._observations),
            "rewards": self.rewards[rows],
            "terminated": self.terminated[rows],
            "truncated": self.truncated[rows],
            "chosen": self.chosen.numpy()[rows],
            "cuts": cuts,
        }

    def take(self, parts: Sequence[tuple[Portion, dict[str, Any]]], step: int) -> None:
        """Remember one of the steps that were taken elsewhere: each part of some of the envs."""
        chosen = np.concatenate([part["chosen"][step] for _, part in parts])

        def write(out: StepBuffers) -> None:
            for portion, part in parts:
                _write_part(out, portion, part, step)

        self._keep(torch.from_numpy(chosen), write)

    def filter(self, rows: NDArray[np.int64], learnt: NDArray[np.bool_]) -> None:
        """Say which steps of some rows are learnt from: rows by envs by agents."""
        self.learnt[rows], self.is_filtered = learnt, True

    def change_followers(self, name: str, rows: NDArray[np.int64], table: NDArray[Any]) -> None:
        """Remember other values of one part of what followed some rows: rows by envs."""
        self._observations[name][(rows + 1) % self.rows] = table
        for row, values in zip(rows.tolist(), table, strict=True):
            places = np.flatnonzero(self._final[row] != NOT_CUT)
            self._finals.change(name, self._final[row, places], values[places])

    def tables(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What was seen in some rows: rows by envs."""
        return arrays_of(map_arrays(lambda array: array[rows], self._observations))

    def latest(self, steps: int) -> NDArray[np.int64]:
        """The rows of the latest steps, oldest first."""
        return (self.now + np.arange(-steps, 0)) % self.rows

    def observations(self, rows: NDArray[np.int64]) -> dict[str, Tensor]:
        """What was seen in some rows, all envs in a row."""
        picked = map_arrays(lambda array: array[rows], self._observations)
        return {name: found.flatten(0, 1) for name, found in tensors_of(picked).items()}

    @property
    def is_open(self) -> bool:
        """Whether there are steps to learn from."""
        if not self.is_filtered:
            return self.steps > 0
        return bool(self.learnt[self.latest(self.steps)].any())

    def sample(self, count: int) -> dict[str, Any]:
        """Steps to learn from, each as likely as any other, drawn from torch's stream."""
        if not self.steps:
            raise ValueError("steps can be drawn once there are any, found none: step first")
        if self.is_filtered:
            return self._filtered_sample(count)
        drawn = torch.randint(len(self), (count,))
        envs = self.vec.num_envs
        ages, places = drawn // envs, drawn % envs
        return self.steps_at((self.now - 1 - ages) % self.rows * envs + places)

    def _filtered_sample(self, count: int) -> dict[str, Any]:
        rows, envs = self.latest(self.steps), self.vec.num_envs
        open_places = np.flatnonzero(self.learnt[rows].any(axis=-1))
        if not open_places.size:
            raise ValueError("no step is learnt from, by `learn_where`: ask `is_open` first")
        drawn = open_places[torch.randint(open_places.size, (count,)).numpy()]
        return self.steps_at(torch.from_numpy(rows[drawn // envs] * envs + drawn % envs))

    def steps_at(self, here: Tensor) -> dict[str, Any]:
        """The steps at some places, counted row by row."""
        envs = self.vec.num_envs
        after = (here + envs) % (self.rows * envs)
        return {
            "observation": self._picked(here),
            "action": self.chosen.flatten(0, 1)[here],
            "reward": torch.from_numpy(self.rewards.reshape(-1))[here],
            "terminated": torch.from_numpy(self.terminated.reshape(-1))[here],
            "truncated": torch.from_numpy(self.truncated.reshape(-1))[here],
            "learnt": torch.from_numpy(self.learnt).flatten(0, 1)[here],
            "next": self._followers(here, after),
        }

    def _followers(self, here: Tensor, after: Tensor) -> dict[str, Tensor]:
        followers = self._picked(after)
        finals = torch.from_numpy(self._final.reshape(-1))[here]
        is_cut = finals != NOT_CUT
        if bool(is_cut.any()):
            last = self._finals.read(finals[is_cut].numpy())
            for name, rows in tensors_of(last).items():
                followers[name][is_cut] = rows
        return followers

    def _picked(self, places: Tensor) -> dict[str, Tensor]:
        found = tensors_of(self._observations)
        return {name: rows.flatten(0, 1).index_select(0, places) for name, rows in found.items()}

    def _row(self, row: int) -> Any:
        return map_arrays(lambda array: array[row], self._observations)

    def _cut_all(self) -> None:
        before = (self.now - 1) % self.rows
        places = np.flatnonzero(~(self.terminated[before] | self.truncated[before]))
        here = map_arrays(lambda array: array[places], self._row(self.now))
        self._final[before, places] = self._finals.add(here, places.size)
        self.truncated[before, places] = True

    def state(self, remember: bool = True) -> dict[str, Any]:
        """Everything needed to go on; without memory, only what is seen now."""
        seen = map_arrays(np.copy, self._row(self.now))
        if not remember:
            return {"seen": seen}
        rows = np.append(self.latest(self.steps), self.now)
        return {
            "seen": seen,
            "now": self.now,
            "steps": self.steps,
            "observations": map_arrays(lambda array: array[rows], self._observations),
            "chosen": self.chosen[torch.from_numpy(rows)],
            "rewards": self.rewards[rows],
            "terminated": self.terminated[rows],
            "truncated": self.truncated[rows],
            "learnt": self.learnt[rows],
            "is_filtered": self.is_filtered,
            "final": self._final[rows],
            "finals": self._finals.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.now, self.steps = int(state.get("now", 0)), int(state.get("steps", 0))
        self._final[:] = NOT_CUT
        self.learnt[:] = True
        if "observations" not in state:
            self._finals.clear()
            map_arrays(np.copyto, self._row(self.now), state["seen"])
            return
        rows = np.append(self.latest(self.steps), self.now)

        def put(array: NDArray[Any], kept: NDArray[Any]) -> None:
            array[rows] = kept

        map_arrays(put, self._observations, state["observations"])
        self.chosen[torch.from_numpy(rows)] = state["chosen"]
        for name in ("rewards", "terminated", "truncated"):
            put(getattr(self, name), state[name])
        put(self._final, state["final"])
        put(self.learnt, state["learnt"])
        self.is_filtered = bool(state["is_filtered"])
        self._finals.load_state(state["finals"])

    def moment(self) -> dict[str, Any]:
        """What is seen now, and what the last step ended: rows by env."""
        last = self.latest(1)[0]
        return {
            "seen": map_arrays(np.copy, self._row(self.now)),
            "terminated": self.terminated[last].copy(),
            "truncated": self.truncated[last].copy(),
        }

    def load_moment(self, moment: Mapping[str, Any]) -> None:
        """See this now instead."""
        last = self.latest(1)[0]
        map_arrays(np.copyto, self._row(self.now), moment["seen"])
        for name in ("terminated", "truncated"):
            getattr(self, name)[last] = moment[name]


def _write_part(out: StepBuffers, portion: Portion, part: dict[str, Any], step: int) -> None:
    place = slice(portion.first, portion.end)

    def put(array: NDArray[Any], rows: NDArray[Any]) -> None:
        array[place] = rows[step]

    map_arrays(put, out.observations, part["observations"])
    for name in ("rewards", "terminated", "truncated"):
        getattr(out, name)[place] = part[name][step]
    for when, places, finals in part["cuts"]:
        if when == step:
            _put_rows(places + portion.first, out.final_observations, finals)


def _put_rows(places: NDArray[np.int64], batch: Any, rows: Any) -> None:
    def put(array: NDArray[Any], found: NDArray[Any]) -> None:
        array[places] = found

    map_arrays(put, batch, rows)
