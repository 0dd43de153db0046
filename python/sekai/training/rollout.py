"""What happened in some steps of all envs: storage that envs write into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sekai.training.action_masks import info_masks, takes_info_masks
from sekai.training.actions import ActionMap
from sekai.training.observations import ACTION_MASK, tensors_of
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
        self._masks: np.ndarray[Any, Any] | None = None
        """Masks that envs report in their infos: times by envs by picks, beside observations."""
        if takes_info_masks(vec.observation_space, vec.action_space):
            self._masks = np.ones((steps + 1, count, sum(actions.choices)), np.int8)
        self._is_masked = np.zeros(steps + 1, np.bool_)
        """At which times one of the envs forbids something."""
        # Made once: between two steps there is no time to make views.
        self._seen = [tensors_of(self._row(step)) for step in range(steps)]
        self._outs = [self._out(step) for step in range(steps)]

    def begin(self, seed: Seeds) -> None:
        """Start all envs."""
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
        used: Callable[[dict[str, Tensor]], Tensor | None] = lambda seen: None,
    ) -> None:
        """Let all envs act `steps` times.

        Args:
            act: what to choose, from what is seen.
            watch: told the result of each step, and which it was.
            used: which numbers of what was chosen count; None for all.
        """
        self._begin_again()
        self.cuts.clear()
        for step in range(self.steps):
            seen = self._shown(step)
            chosen = act(seen)
            self.chosen[step] = chosen
            doing = self.actions.to_env(chosen, used(seen))
            result = self.vec.step(doing, out=self._outs[step])
            self._keep_finals(step)
            self._read_masks(step + 1, result.infos)
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
            "masks": None if self._masks is None else self._masks[1:],
            "cuts": [
                (step, places, {name: rows.numpy() for name, rows in finals.items()})
                for step, places, finals in self.cuts
            ],
        }

    def take(self, parts: Sequence[tuple[Portion, dict[str, Any]]]) -> None:
        """Take in what happened elsewhere instead of `fill`: each part to some of the envs."""
        self._begin_again()
        for portion, part in parts:
            place = slice(portion.first, portion.end)
            if self._masks is not None:
                self._masks[1:, place] = part["masks"]
            map_arrays(_put(np.s_[1:, place]), self._observations, part["observations"])
            for name in ("rewards", "terminated", "truncated"):
                getattr(self, name)[:, place] = part[name]
            self.chosen.numpy()[:, place] = part["chosen"]
        self.cuts = _joined_cuts(parts)
        self._note_masks()

    def observations(self) -> dict[str, Tensor]:
        """Everything seen: times by envs by whatever it is, one time more than there were steps."""
        found = tensors_of(self._observations)
        if self._masks is not None and self._is_masked.any():
            found[ACTION_MASK] = torch.from_numpy(self._masks)
        return found

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

    def _shown(self, step: int) -> dict[str, Tensor]:
        """What is seen before a step, with the masks in force, if something is forbidden."""
        if self._masks is None or not self._is_masked[step]:
            return self._seen[step]
        return {**self._seen[step], ACTION_MASK: torch.from_numpy(self._masks[step])}

    def _begin_again(self) -> None:
        """Begin where the last rollout ended."""
        map_arrays(lambda rows: np.copyto(rows[0], rows[-1]), self._observations)
        if self._masks is not None:
            self._masks[0], self._is_masked[0] = self._masks[-1], self._is_masked[-1]

    def _read_masks(self, time: int, infos: Any) -> None:
        """Take in the masks of what is seen at a time."""
        if self._masks is None:
            return
        masks = info_masks(infos, self.vec.action_space)
        if masks or self._is_masked[time]:
            self._masks[time] = 1
            for env, mask in masks.items():
                self._masks[time, env] = mask
            self._is_masked[time] = not self._masks[time].all()

    def _note_masks(self) -> None:
        if self._masks is not None:
            self._is_masked[:] = ~self._masks.all(axis=(1, 2))

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

    def state(self) -> dict[str, Any]:
        """The observations that the next rollout begins with, and the masks in force."""
        seen = map_arrays(lambda array: array[-1].copy(), self._observations)
        return {"seen": seen} if self._masks is None else {"seen": seen, "masks": self._masks[-1]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Begin the next rollout with observations and masks that were saved."""
        seen = state["seen"]
        map_arrays(lambda row, array: np.copyto(row[-1], array), self._observations, seen)
        if self._masks is not None:
            self._masks[-1] = state["masks"]
            self._note_masks()


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
