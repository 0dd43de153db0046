"""What happened in some steps of all envs: storage that envs write into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sekai.training.actions import ActionMap
from sekai.training.observations import tensors_of
from sekai.training.randomness import Portion
from sekai.vector.batching import Batcher, map_arrays
from sekai.vector.buffers import StepBuffers
from sekai.vector.seeding import Seeds
from sekai.vector.vec_env import VecEnv

__all__ = ["Rollout"]


class Rollout:
    """`steps` steps of every env of a vector; native envs write straight into it.

    Observations have one row of times more than the rest: the last is where the next rollout
    begins. Where an episode was cut off, its last observation is kept, since what would have
    followed it is worth something; where it ended, nothing follows.
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
        self.cuts: list[tuple[int, np.ndarray[Any, Any], dict[str, Tensor]]] = []
        """Steps, the envs that were cut off then, and what they saw last."""
        self.rewards = np.zeros((steps, count))
        self.terminated = np.zeros((steps, count), np.bool_)
        self.truncated = np.zeros((steps, count), np.bool_)
        kind = torch.int64 if actions.is_choice else torch.float32
        self.chosen = torch.zeros((steps, count, actions.width), dtype=kind)
        # Made once: between two steps there is no time to make views.
        self._seen = [tensors_of(self._row(step)) for step in range(steps)]
        self._outs = [self._out(step) for step in range(steps)]

    def begin(self, seed: Seeds) -> None:
        """Start all envs."""
        first = self.vec.reset(seed=seed).observations
        map_arrays(lambda row, array: np.copyto(row[-1], array), self._observations, first)

    @torch.no_grad()
    def fill(
        self,
        act: Callable[[dict[str, Tensor]], Tensor],
        watch: Callable[[Any, int], None] | None = None,
        used: Callable[[dict[str, Tensor]], Tensor | None] = lambda seen: None,
    ) -> None:
        """Let all envs act `steps` times.

        Args:
            act: what to choose, from what is seen.
            watch: told the result of each step, and which it was.
            used: which numbers of what was chosen count; None for all.
        """
        map_arrays(lambda rows: np.copyto(rows[0], rows[-1]), self._observations)
        self.cuts.clear()
        for step in range(self.steps):
            seen = self._seen[step]
            chosen = act(seen)
            self.chosen[step] = chosen
            doing = self.actions.to_env(chosen, used(seen))
            result = self.vec.step(doing, out=self._outs[step])
            self._keep_finals(step)
            if watch is not None:
                watch(result, step)

    def played(self) -> dict[str, Any]:
        """What happened, for `take` of a rollout of more envs."""
        return {
            "observations": map_arrays(lambda rows: rows[1:], self._observations),
            "rewards": self.rewards,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "chosen": self.chosen.numpy(),
            "cuts": [
                (step, places, {name: rows.numpy() for name, rows in finals.items()})
                for step, places, finals in self.cuts
            ],
        }

    def take(self, parts: Sequence[tuple[Portion, dict[str, Any]]]) -> None:
        """Take in what happened elsewhere instead of `fill`: each part to some of the envs."""
        map_arrays(lambda rows: np.copyto(rows[0], rows[-1]), self._observations)
        for portion, part in parts:
            place = slice(portion.first, portion.end)
            map_arrays(_put(np.s_[1:, place]), self._observations, part["observations"])
            for name in ("rewards", "terminated", "truncated"):
                getattr(self, name)[:, place] = part[name]
            self.chosen.numpy()[:, place] = part["chosen"]
        self.cuts = _joined_cuts(parts)

    def observations(self) -> dict[str, Tensor]:
        """Everything seen: times by envs by whatever it is, one time more than there were steps."""
        return tensors_of(self._observations)

    def judged(self, places: Tensor | slice) -> dict[str, Tensor]:
        """What a critic reads of some moments, counted env by env and time by time."""
        return {name: rows.flatten(0, 1)[places] for name, rows in self.observations().items()}

    @torch.no_grad()
    def next_values(self, values: Tensor, judge: Callable[[dict[str, Tensor]], Tensor]) -> Tensor:
        """What the future of each step was worth, from what each observation was.

        Args:
            values: of all observations: times by envs, one time more than there were steps.
            judge: what the last observations of episodes that were cut off are worth.
        """
        after = values[1:].clone()
        if self.cuts:
            names = self.cuts[0][2]
            finals = {name: torch.cat([rows[name] for _, _, rows in self.cuts]) for name in names}
            lengths = [len(places) for _, places, _ in self.cuts]
            worth = torch.split(judge(finals).reshape(-1), lengths)
            for (step, places, _), value in zip(self.cuts, worth, strict=True):
                after[step, torch.from_numpy(places)] = value
        return after

    def _row(self, step: int) -> Any:
        return map_arrays(lambda array: array[step], self._observations)

    def _out(self, step: int) -> StepBuffers:
        """Where the result of a step goes."""
        return StepBuffers(
            self._row(step + 1), self.rewards[step], self.terminated[step], self.truncated[step],
            self._finals,
        )  # fmt: skip

    def _keep_finals(self, step: int) -> None:
        is_cut = self.truncated[step] & ~self.terminated[step]
        if is_cut.any():
            places = np.flatnonzero(is_cut)
            finals = map_arrays(lambda array: array[places], self._finals)
            self.cuts.append((step, places, tensors_of(finals)))

    def state(self) -> Any:
        """The observations that the next rollout begins with."""
        return map_arrays(lambda array: array[-1].copy(), self._observations)

    def load_state(self, state: Any) -> None:
        """Begin the next rollout with observations that were saved."""
        map_arrays(lambda row, array: np.copyto(row[-1], array), self._observations, state)


def _put(place: Any) -> Callable[[Any, Any], None]:
    def put(array: Any, rows: Any) -> None:
        array[place] = rows

    return put


def _joined_cuts(
    parts: Sequence[tuple[Portion, dict[str, Any]]],
) -> list[tuple[int, np.ndarray[Any, Any], dict[str, Tensor]]]:
    """What was cut off in any of the parts, step by step, envs in their order."""
    by_step: dict[int, list[tuple[Any, Any]]] = {}
    for portion, part in parts:
        for step, places, finals in part["cuts"]:
            by_step.setdefault(step, []).append((places + portion.first, finals))
    found = []
    for step, cuts in sorted(by_step.items()):
        places = np.concatenate([where for where, _ in cuts])
        finals = {
            name: torch.from_numpy(np.concatenate([rows[name] for _, rows in cuts]))
            for name in cuts[0][1]
        }
        found.append((step, places, finals))
    return found
