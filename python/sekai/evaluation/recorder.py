"""Episode recorder: run episodes on given seeds and record them step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.autoreset import FINAL_INFO
from sekai.error import StateError
from sekai.evaluation.env_source import ACTION_MASK, EnvSource
from sekai.evaluation.evaluation import Episode
from sekai.evaluation.policy import EpisodeContext, Policy, StepContext
from sekai.evaluation.progress import EvaluationProgress
from sekai.evaluation.tasks import Task
from sekai.vector.infos import DictInfos, Infos
from sekai.vector.vec_env import VecEnv

__all__ = ["EpisodeRecorder", "RecordedEpisode", "run_episodes"]

Floats = NDArray[np.float64]

MAX_EPISODE_STEPS = 1_000_000
"""Steps after which an episode is assumed never to end."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RecordedEpisode:
    """Episode as recorded, before a task interprets its infos."""

    seed: int
    rewards: Floats
    actions: Floats
    infos: dict[str, Floats]
    """Numeric infos by key, before the first step and after each."""

    final: dict[str, Any]
    """Complete info of the last step."""


def run_episodes(
    policy: Policy,
    source: EnvSource,
    task: Task,
    seeds: Sequence[int],
    *,
    delay: int = 0,
    progress: EvaluationProgress | None = None,
) -> list[Episode]:
    """Run one episode for each seed.

    Args:
        policy: the policy that acts.
        source: the envs.
        task: converts recorded episodes.
        seeds: seeds of the envs.
        delay: steps by which every decision is delayed.
        progress: counts steps and this run.
    """
    episodes: list[Episode] = []
    with policy.source_for(source).open(len(seeds)) as vec:
        for first in range(0, len(seeds), vec.num_envs):
            batch = list(seeds[first : first + vec.num_envs])
            episodes.extend(_run_batch(policy, vec, task, batch, delay, progress))
    if progress is not None:
        progress.end_run()
    return episodes


def _run_batch(
    policy: Policy,
    vec: VecEnv,
    task: Task,
    seeds: list[int],
    delay: int,
    progress: EvaluationProgress | None,
) -> list[Episode]:
    """Run one episode in each env; surplus envs repeat the last seed and are dropped."""
    padded = seeds + [seeds[-1]] * (vec.num_envs - len(seeds))
    result = vec.reset(seed=padded)
    notes = task.begin(vec)
    policy.begin(EpisodeContext(vec, task, tuple(padded)))
    recorder = EpisodeRecorder(vec.num_envs, result.infos)
    pending: deque[Any] = deque()
    observations, starts = result.observations, np.ones(vec.num_envs, np.bool_)
    while recorder.is_running:
        step = StepContext(observations, recorder.latest, recorder.masks, recorder.steps, starts)
        pending.append(policy.decide(step))
        decision = pending.popleft() if len(pending) > delay else policy.idle(step)
        actions = policy.actions(decision, step)
        outcome = vec.step(actions)
        starts = ended = outcome.terminated | outcome.truncated
        recorder.add(actions, outcome.rewards, ended, outcome.infos)
        observations = outcome.observations
        if progress is not None:
            progress.step()
    logs = task.end(vec)
    return [
        task.episode(recorded, notes.get(index), logs.get(index))
        for index, recorded in enumerate(recorder.episodes(seeds))
    ]


@dataclass(slots=True)
class _InfoColumns:
    """Numeric columns, action masks and final infos of one step."""

    numbers: dict[str, Floats]
    masks: Any
    finals: dict[int, dict[str, Any]]

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]], count: int) -> _InfoColumns:
        infos = rows if isinstance(rows, Infos) else DictInfos(list(rows))
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


class EpisodeRecorder:
    """Records actions, rewards and infos of the first episode in each env."""

    def __init__(self, count: int, infos: Sequence[dict[str, Any]]) -> None:
        columns = _InfoColumns.of(infos, count)
        self.count, self.steps = count, 0
        self.latest: Mapping[str, Floats] = columns.numbers
        self.masks = columns.masks
        self._rows = [dict(columns.numbers)]
        self._rewards: list[Floats] = []
        self._actions: list[Floats] = []
        self._lengths = np.zeros(count, np.int64)
        self._finals: dict[int, dict[str, Any]] = {}

    @property
    def is_running(self) -> bool:
        """True until the first episode of every env has ended."""
        return not self._lengths.all()

    def add(self, actions: Any, rewards: Any, ended: Any, infos: Sequence[dict[str, Any]]) -> None:
        """Record one step."""
        self.steps += 1
        if self.steps > MAX_EPISODE_STEPS:
            raise StateError(
                f"episode exceeds {MAX_EPISODE_STEPS} steps; add a TimeLimit wrapper to the env"
            )
        columns = _InfoColumns.of(infos, self.count)
        self.latest, self.masks = columns.numbers, columns.masks
        row = {key: values.copy() for key, values in columns.numbers.items()}
        for index, final in columns.finals.items():
            for key, values in row.items():
                values[index] = final.get(key, np.nan)
        self._rows.append(row)
        self._rewards.append(np.array(rewards, np.float64))
        self._actions.append(_flat(actions, self.count))
        ending = np.flatnonzero(np.asarray(ended) & (self._lengths == 0))
        self._lengths[ending] = self.steps
        self._finals.update({index: columns.finals.get(index, {}) for index in ending.tolist()})

    def episodes(self, seeds: Sequence[int]) -> list[RecordedEpisode]:
        """Episodes of the first envs, which had these seeds."""
        rewards, actions = np.stack(self._rewards), np.stack(self._actions)
        keys = [key for key in self._rows[0] if all(key in row for row in self._rows)]
        infos = {key: np.stack([row[key] for row in self._rows]) for key in keys}
        lengths = self._lengths.tolist()
        return [
            RecordedEpisode(
                seed=seed,
                rewards=rewards[:steps, index].copy(),
                actions=actions[:steps, index].copy(),
                infos={key: values[: steps + 1, index].copy() for key, values in infos.items()},
                final=self._finals[index],
            )
            for index, (seed, steps) in enumerate(zip(seeds, lengths, strict=False))
        ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def _flat(actions: Any, count: int) -> Floats:
    """Actions as one row of numbers for each env; non-numeric parts are left out."""
    if isinstance(actions, Mapping):
        actions = tuple(actions.values())
    if isinstance(actions, tuple):
        parts = [_flat(part, count) for part in actions]
        return np.concatenate(parts, axis=1) if parts else np.zeros((count, 0))
    array = np.asarray(actions)
    if array.dtype.kind not in "biuf" or len(array) != count:
        return np.zeros((count, 0))
    return array.reshape(count, -1).astype(np.float64)
