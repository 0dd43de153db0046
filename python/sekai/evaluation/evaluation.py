"""What is known of an agent after it was judged."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from sekai.evaluation.episode import Episode

__all__ = [
    "Comparison",
    "Evaluation",
    "Flag",
    "Honesty",
    "Interval",
    "PolicyOutcome",
    "Provenance",
    "Sensitivity",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A number, and how far it may be from the truth."""

    value: float
    low: float
    high: float
    level: float = 0.95
    """The share of such intervals that hold the truth."""

    method: str = ""
    """How the bounds were found: "seeds" or "bootstrap"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """What one policy came to, on the same episodes as all others."""

    name: str
    metrics: dict[str, Interval]
    """Over all episodes together."""

    by_seed: dict[str, list[float]]
    """The same metrics, episode by episode, in the order of the seeds."""

    episodes: list[Episode]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far the agent is ahead of a baseline, episode by episode, by the headline metric."""

    baseline: str
    metric: str
    difference: Interval
    p_value: float
    """The chance of a difference so large where there is none, from both sides, adjusted by Holm's
    method for all baselines; intervals are of each alone."""

    wins: float
    """The share of episodes in which the agent was ahead."""

    @property
    def standing(self) -> str:
        """Whether the agent is told apart: "ahead", "behind", or "open" where it is not."""
        found = self.difference
        if not self.p_value < 1.0 - found.level:
            return "open"
        return "ahead" if found.low > 0 else "behind" if found.high < 0 else "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What the headline metric is where trading costs more, or takes longer."""

    metric: str
    cost_multiples: list[float]
    by_cost: dict[str, list[float]]
    """By policy: the metric at each multiple of the costs."""

    delays: list[int]
    by_delay: dict[str, list[float]]
    """By policy: the metric where orders wait for so many steps."""

    break_even: dict[str, float]
    """By baseline: the multiple of costs at which the agent is no longer ahead; infinite where it
    still is when trading costs several times as much, 0 where it never is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Something that a reader should know before believing the numbers."""

    name: str
    level: str
    """"warning" for what may be meant so, "error" for what makes the numbers worthless."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Honesty:
    """How much of a Sharpe ratio is left when luck and the number of trials are counted."""

    trials: int
    """How many agents were judged on this data, this one included."""

    observations: int
    """Returns that the ratio is from."""

    sharpe: float
    """Of one period, not annualised."""

    expected_best: float
    """What the best of so many agents without skill would show."""

    probabilistic: float
    """The chance that the true ratio is above 0."""

    deflated: float
    """The chance that it is above what luck would show after so many trials."""

    least_length: float
    """Returns needed to tell the ratio from 0 at 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What made these numbers."""

    command: str
    created: str
    """When, in UTC, as ISO 8601."""

    versions: dict[str, str]
    data_digest: str = ""
    """What identifies the data; "" where it is simulated from seeds."""

    model: str = ""
    """What identifies the agent: the digest of its file, or its name."""

    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An agent beside its baselines, and whether to believe it."""

    name: str
    env: str
    """The id of the env."""

    task: str
    """"portfolio", "trading", "market_making", "execution", "order_execution" or "episodes"."""

    headline: str
    """The metric that policies are ranked by."""

    higher_is_better: bool
    periods_per_year: float
    """NaN where steps are not of time."""

    seeds: list[int]
    policies: dict[str, PolicyOutcome]
    """The agent first, then its baselines."""

    comparisons: list[Comparison]
    sensitivity: Sensitivity | None
    flags: list[Flag]
    honesty: Honesty | None
    provenance: Provenance
    learning: dict[str, list[float]] = field(default_factory=dict)
    """What was told while the agent learnt, with "steps" among it; empty if it is not known."""

    @property
    def agent(self) -> PolicyOutcome:
        """The policy that was judged."""
        return next(iter(self.policies.values()))

    @property
    def baselines(self) -> dict[str, PolicyOutcome]:
        """The policies that it was judged beside."""
        return dict(list(self.policies.items())[1:])

    def __str__(self) -> str:
        """The policies as a table, and what to know before believing it."""
        return self.summary()

    def summary(self) -> str:
        """The same as plain text, for logs."""
        from sekai.evaluation.table import text_table

        return text_table(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a report that needs nothing beside itself."""
        from sekai.evaluation.report import write_report

        return write_report(self, path)

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write everything, for `load_evaluation`."""
        from sekai.evaluation.evaluation_file import save_evaluation

        save_evaluation(self, path)
        return Path(path)
