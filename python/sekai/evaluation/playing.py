"""Whole episodes, played on given seeds and written down step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import StateError
from sekai.evaluation.arena import Arena
from sekai.evaluation.episode import Episode
from sekai.evaluation.players import Ground, Moment, Player
from sekai.evaluation.tasks.task import Record, Task
from sekai.vector.autoreset import FINAL_INFO
from sekai.vector.infos import DictInfos, Infos
from sekai.vector.vec_env import VecEnv

__all__ = ["play"]

Floats = NDArray[np.float64]

ACTION_MASK = "action_mask"

LONGEST = 1_000_000
"""Steps after which an episode is taken to have no end."""


def play(
    player: Player, arena: Arena, task: Task, seeds: Sequence[int], *, delay: int = 0
) -> list[Episode]:
    """One episode for each seed.

    Args:
        player: who decides.
        arena: where.
        task: what is played, which knows what an episode there consists of.
        seeds: of the envs, which is all that an episode depends on beside what is decided.
        delay: steps that everything decided waits for.
    """
    episodes: list[Episode] = []
    with player.where(arena).open(len(seeds)) as vec:
        for first in range(0, len(seeds), vec.num_envs):
            wave = list(seeds[first : first + vec.num_envs])
            episodes.extend(_wave(player, vec, task, wave, delay))
    return episodes


def _wave(player: Player, vec: VecEnv, task: Task, seeds: list[int], delay: int) -> list[Episode]:
    """One episode in each env; envs too many play the last seed, and nobody looks."""
    padded = seeds + [seeds[-1]] * (vec.num_envs - len(seeds))
    result = vec.reset(seed=padded)
    told = task.begin(vec)
    player.begin(Ground(vec, task, tuple(padded)))
    tape = _Tape(vec.num_envs, result.infos)
    waiting: deque[Any] = deque()
    seen = result.observations
    while tape.is_running:
        moment = Moment(seen, tape.latest, tape.masks, tape.steps)
        waiting.append(player.decide(moment))
        decided = waiting.popleft() if len(waiting) > delay else player.wait(moment)
        actions = player.send(decided, moment)
        step = vec.step(actions)
        tape.add(actions, step.rewards, step.terminated | step.truncated, step.infos)
        seen = step.observations
    logs = task.end(vec)
    return [
        task.episode(record, told.get(place), logs.get(place))
        for place, record in enumerate(tape.records(seeds))
    ]


@dataclass(slots=True)
class _Told:
    """What infos say: numbers, masks, and what ended episodes said last."""

    numbers: dict[str, Floats]
    masks: Any
    finals: dict[int, dict[str, Any]]

    @classmethod
    def of(cls, given: Sequence[dict[str, Any]], count: int) -> _Told:
        infos = given if isinstance(given, Infos) else DictInfos(list(given))
        keys = list(infos.keys())
        numbers = {}
        for key in keys:
            column = infos.column(key)
            if len(column.indices) == count and _is_number(column.values[0]):
                numbers[key] = np.array(column.values, np.float64)
        masks = infos.values(np.arange(count), ACTION_MASK) if ACTION_MASK in keys else None
        finals = {}
        if FINAL_INFO in keys:
            column = infos.column(FINAL_INFO)
            finals = dict(zip(column.indices.tolist(), column.values, strict=True))
        return cls(numbers, masks, finals)


class _Tape:
    """What was decided and told in one episode of each env."""

    def __init__(self, count: int, infos: Sequence[dict[str, Any]]) -> None:
        told = _Told.of(infos, count)
        self.count, self.steps = count, 0
        self.latest: Mapping[str, Floats] = told.numbers
        self.masks = told.masks
        self._rows = [dict(told.numbers)]
        self._rewards: list[Floats] = []
        self._actions: list[Floats] = []
        self._lengths = np.zeros(count, np.int64)
        self._finals: dict[int, dict[str, Any]] = {}

    @property
    def is_running(self) -> bool:
        return not self._lengths.all()

    def add(self, actions: Any, rewards: Any, ended: Any, infos: Sequence[dict[str, Any]]) -> None:
        self.steps += 1
        if self.steps > LONGEST:
            raise StateError(f"episodes of at most {LONGEST} steps were wanted: add a TimeLimit")
        told = _Told.of(infos, self.count)
        self.latest, self.masks = told.numbers, told.masks
        row = {key: values.copy() for key, values in told.numbers.items()}
        for place, final in told.finals.items():
            for key, values in row.items():
                values[place] = final.get(key, np.nan)
        self._rows.append(row)
        self._rewards.append(np.array(rewards, np.float64))
        self._actions.append(_flat(actions, self.count))
        fresh = np.flatnonzero(np.asarray(ended) & (self._lengths == 0))
        self._lengths[fresh] = self.steps
        self._finals.update({place: told.finals.get(place, {}) for place in fresh.tolist()})

    def records(self, seeds: Sequence[int]) -> list[Record]:
        """The episodes of the first envs, which had these seeds."""
        rewards, actions = np.stack(self._rewards), np.stack(self._actions)
        keys = [key for key in self._rows[0] if all(key in row for row in self._rows)]
        told = {key: np.stack([row[key] for row in self._rows]) for key in keys}
        return [
            Record(
                seed=seed,
                rewards=rewards[:steps, place].copy(),
                actions=actions[:steps, place].copy(),
                infos={key: values[: steps + 1, place].copy() for key, values in told.items()},
                final=self._finals[place],
            )
            for place, (seed, steps) in enumerate(zip(seeds, self._lengths.tolist(), strict=False))
        ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def _flat(actions: Any, count: int) -> Floats:
    """Actions as rows of numbers; what is none is left out."""
    if isinstance(actions, Mapping):
        actions = tuple(actions.values())
    if isinstance(actions, tuple):
        parts = [_flat(part, count) for part in actions]
        return np.concatenate(parts, axis=1) if parts else np.zeros((count, 0))
    found = np.asarray(actions)
    if found.dtype.kind not in "biuf" or len(found) != count:
        return np.zeros((count, 0))
    return found.reshape(count, -1).astype(np.float64)
