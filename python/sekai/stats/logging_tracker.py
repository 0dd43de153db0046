"""Writes a structured log record for every episode."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sekai.stats.counting import CountingTracker
from sekai.stats.episode import EpisodeStats

if TYPE_CHECKING:
    import logging

__all__ = ["LoggingTracker"]


class LoggingTracker(CountingTracker):
    """Logs resets at DEBUG and finished episodes at `level`.

    Beside its sentence, a record has attributes that handlers can use: `event` (`"reset"` or
    `"episode_end"`), `env_id`, `seed`, `episode` (its number), and for a finished episode every
    field of `EpisodeStats`.
    """

    def __init__(self, logger: logging.Logger | str = "sekai.stats", level: int = 20) -> None:
        """Log to `logger`, by default at level 20, which is INFO."""
        import logging

        super().__init__()
        self.logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self.level = level

    def on_reset(self, env_id: str, seed: int | None) -> None:
        """Log that an episode begins."""
        import logging

        super().on_reset(env_id, seed)
        message = "episode %d of %s begins, seed %s"
        extra = self._extra("reset", self.total_episodes)
        self.logger.log(logging.DEBUG, message, self.total_episodes, env_id, seed, extra=extra)

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Log what came of an episode."""
        number = self.total_episodes
        super().on_episode_end(stats)
        self.logger.log(
            self.level,
            "episode %d of %s: return %g over %d steps in %.3g s",
            number,
            self.env_id,
            stats.episode_return,
            stats.episode_length,
            stats.elapsed_time,
            extra={**self._extra("episode_end", number), **dataclasses.asdict(stats)},
        )

    def _extra(self, event: str, number: int) -> dict[str, object]:
        return {"event": event, "env_id": self.env_id, "seed": self.seed, "episode": number}
