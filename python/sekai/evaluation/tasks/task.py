"""What is played: what an episode consists of, and what it is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Flag
from sekai.spaces import Box, Discrete, MultiDiscrete
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena
    from sekai.evaluation.players import Moment

__all__ = ["Record", "Task"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Record:
    """An episode as it was played: what an env tells, before anybody knows what it means."""

    seed: int
    rewards: Floats
    actions: Floats
    infos: dict[str, Floats]
    """Numbers by name, before the first step and after each."""

    final: dict[str, Any]
    """The last info, whatever is in it."""


class Task:
    """Any env: episodes are judged by the sum of their rewards."""

    name = "episodes"
    headline = "episode_return"
    higher_is_better = True

    baselines: tuple[str, ...] = ("random", "idle", "last_action")
    """Who an agent is judged beside if nobody else is named."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena

    def recorded(self) -> Arena:
        """The arena, with everything written down that can be."""
        return self.arena

    def prepared(self, arena: Arena) -> Arena:
        """The same arena, quicker to be made again and again."""
        return arena

    def with_costs(self, multiple: float) -> Arena | None:
        """Where trading costs so many times as much; None if nothing does, or nobody knows."""
        return None

    @property
    def data_digest(self) -> str:
        """What identifies the data; "" where it is simulated from seeds."""
        return ""

    @property
    def times(self) -> NDArray[np.datetime64] | None:
        """All dates that there are; None where steps have none."""
        return None

    def flags(self) -> list[Flag]:
        """What should be known of the env, whoever plays in it."""
        return []

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """What is to be remembered of each env before the first step."""
        return {}

    def end(self, vec: VecEnv) -> Mapping[int, Any]:
        """What each env has written down in its first episode since `begin`."""
        return {}

    def episode(self, record: Record, told: Any, log: Any) -> Episode:
        """What was played, in the words of all tasks."""
        return Episode(
            seed=record.seed, rewards=record.rewards, equity=np.zeros(0), actions=record.actions
        )

    def idle(self, vec: VecEnv, moment: Moment) -> Any:
        """Actions of somebody who does nothing."""
        space, count = vec.action_space, vec.num_envs
        if isinstance(space, Discrete):
            return np.full(count, space.start, space.dtype)
        if isinstance(space, MultiDiscrete):
            return np.zeros((count, *space.shape), space.dtype)
        if isinstance(space, Box):
            nothing = np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
            return np.repeat(nothing[None], count, axis=0)
        from sekai.vector.batching import Batcher

        space.seed(0)
        return Batcher(space).stack([space.sample()] * count)

    def benchmark(self, episode: Episode) -> Floats | None:
        """What the market returned meanwhile, step by step; None where there is none."""
        return None

    def values(self, name: str, found: Sequence[float], episodes: Sequence[Episode]) -> list[float]:
        """A metric episode by episode, so that the mean is what counts."""
        return list(found)
