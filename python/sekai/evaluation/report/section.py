"""What a report is made of: sections, of elements and charts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Evaluation, PolicyOutcome
from sekai.evaluation.report.chart import Chart, Style, moments, style_of
from sekai.evaluation.report.labels import policy_label
from sekai.evaluation.report.markup import Markup
from sekai.evaluation.report.series import Floats
from sekai.evaluation.report.thinning import MOST_POINTS

__all__ = ["Section", "Subject"]

ALL_POINTS = 120_000
"""Of all lines of a chart together: about two megabytes."""

MOST_SEEDS = 32
"""That are also shown one by one; all of them are in medians, bands and dots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the report with a place in its navigation."""

    name: str
    """What it is linked by, a word."""

    title: str
    blocks: list[Markup | Chart] = field(default_factory=list)


class Subject:
    """An evaluation as sections look at it: the same names and styles in all of them."""

    def __init__(
        self,
        evaluation: Evaluation,
        *,
        paired: bool = True,
        labels: dict[str, str] | None = None,
    ) -> None:
        """Look at `evaluation`.

        Args:
            evaluation: what was judged.
            paired: whether all policies have played the same seeds.
            labels: what policies are called, if not by their names in words.
        """
        self.evaluation = evaluation
        self.policies = evaluation.policies
        self.paired = paired
        self.labels = labels or {name: policy_label(name) for name in self.policies}
        self.styles: dict[str, Style] = {
            name: style_of(place) for place, name in enumerate(self.policies)
        }

    @property
    def episodes(self) -> list[Episode]:
        """Of the agent, in the order of the seeds."""
        return self.evaluation.agent.episodes

    @property
    def single(self) -> list[Episode]:
        """Those of the agent that are shown one by one."""
        return self.episodes[:MOST_SEEDS] if self.paired else []

    @property
    def played(self) -> dict[str, PolicyOutcome]:
        """Policies whose episodes are known: as many as the agent's, where all are of one seed."""
        least = len(self.episodes) if self.paired else 1
        return {name: one for name, one in self.policies.items() if len(one.episodes) >= least}

    @property
    def all_episodes(self) -> list[Episode]:
        """Of all policies whose episodes are known."""
        return [episode for policy in self.played.values() for episode in policy.episodes]

    def has_shared_dates(self) -> bool:
        """Whether all episodes are of the same times, so that a median by date means something."""
        first = self.episodes[0].times
        return first is not None and all(
            episode.times is not None and np.array_equal(episode.times, first)
            for episode in self.all_episodes
        )

    def most_points(self, lines: int) -> int:
        """How many points each of so many lines may have."""
        return int(np.clip(ALL_POINTS // max(lines, 1), 500, MOST_POINTS))


def x_of(episode: Episode, dates: bool) -> Floats:
    """Where equity is on the axis from left to right."""
    if dates and episode.times is not None:
        return moments(episode.times)
    return np.arange(max(len(episode.equity), len(episode.rewards) + 1), dtype=np.float64)
