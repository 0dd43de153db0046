"""Counts episodes and steps, for trackers that send everything else away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.error import StateError
from sekai.stats.episode import EpisodeStats

__all__ = ["CountingTracker"]


class CountingTracker:
    """Counts what has ended; the counts are saved and restored with the env."""

    def __init__(self) -> None:
        self.total_episodes = 0
        self.total_steps = 0
        self.env_id: str | None = None
        self.seed: int | None = None

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """Note which env the next episode belongs to."""
        self.env_id, self.seed = env_id, seed

    def on_step(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """Steps are counted when their episode ends."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Count the episode and its steps."""
        self.total_episodes += 1
        self.total_steps += stats.episode_length

    def summary(self) -> dict[str, Any]:
        """How much has ended."""
        return {"episodes": self.total_episodes, "steps": self.total_steps}

    def state_dict(self) -> dict[str, Any]:
        """The counts and the episode in hand, in plain types."""
        return {
            "total_episodes": self.total_episodes,
            "total_steps": self.total_steps,
            "env_id": self.env_id,
            "seed": self.seed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Count on from where `state` was taken."""
        wanted = self.state_dict().keys()
        if state.keys() != wanted:
            raise StateError(
                f"a state of {type(self).__name__} has the keys {sorted(wanted)}, "
                f"found {sorted(map(str, state))}"
            )
        for name, value in state.items():
            setattr(self, name, value)
