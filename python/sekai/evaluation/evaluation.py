"""Evaluation results: episodes, metrics with confidence intervals, comparisons and flags."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BaselineComparison",
    "CapCheck",
    "DeflatedSharpe",
    "Episode",
    "EpisodeFills",
    "Evaluation",
    "Flag",
    "Interval",
    "PolicyOutcome",
    "Provenance",
    "Sensitivity",
    "format_bounds",
    "format_value",
    "metric_columns",
    "rich_table",
    "table_rows",
]

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EpisodeFills:
    """Fills of an episode, in order of time."""

    step: NDArray[np.int64]
    asset: NDArray[np.str_]
    units: Floats
    """Signed size; negative for a sale."""

    price: Floats

    def __len__(self) -> int:
        """Number of fills."""
        return len(self.step)

    def __repr__(self) -> str:
        return f"EpisodeFills({len(self)} fills)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapCheck:
    """Largest exposure of the agent at decisions, where the cap holds, and after prices moved."""

    measure: str
    """"largest_weight", "sector_exposure" (with sector caps) or "gross_exposure"."""

    cap: float
    """Cap of the mandate; the largest one if it differs by asset or sector."""

    at_decision: float
    """Largest value of the weights that were ordered, after the projection onto the mandate."""

    after_drift: float
    """Largest value of the weights at the end of a step."""

    rows_above_at_decision: int
    rows_above_after_drift: int
    rows: int
    """Number of steps of all episodes."""

    agent: str = ""
    """Agent of several whose caps these are; "" for a single one."""

    @staticmethod
    def joined(episodes: Sequence[Episode]) -> list[CapCheck]:
        """Largest exposures over all episodes, and the sums of rows."""
        return [
            replace(
                checks[0],
                at_decision=max(check.at_decision for check in checks),
                after_drift=max(check.after_drift for check in checks),
                rows_above_at_decision=sum(check.rows_above_at_decision for check in checks),
                rows_above_after_drift=sum(check.rows_above_after_drift for check in checks),
                rows=sum(check.rows for check in checks),
            )
            for checks in zip(*(episode.caps for episode in episodes), strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Episode:
    """Account, actions and fills of one episode; what the env does not report is empty or None."""

    seed: int

    rewards: Floats
    """Reward of each step."""

    equity: Floats
    """Equity before the first step and after each; empty without an account."""

    times: Times | None = None
    """Timestamps of `equity`; None where steps have no dates."""

    assets: tuple[str, ...] = ()
    """Names of the assets, without cash."""

    actions: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Flattened actions, steps by numbers."""

    weights: Floats | None = None
    """Weights of the assets and of cash, which is last, after each step."""

    prices: Floats | None = None
    """Marks of each asset at the times of `equity`."""

    turnover: Floats | None = None
    """Traded value of each step over equity."""

    costs: dict[str, Floats] = field(default_factory=dict)
    """Costs of each step in money, by kind."""

    fills: EpisodeFills | None = None

    outcome: dict[str, float] = field(default_factory=dict)
    """Metrics of the task itself, such as the shortfall."""

    members: dict[str, Floats] = field(default_factory=dict)
    """Equity of each agent of a multi-agent env, which add up to `equity`."""

    benchmark: Floats | None = None
    """Returns of the benchmark of alpha and beta by step; None without one."""

    compromise: NDArray[np.int64] | None = None
    """Constraints of a mandate relaxed at the decision of each step, by any agent: bits of
    `sekai.market.Compromise`."""

    caps: list[CapCheck] = field(default_factory=list)
    """Exposures against the caps of a mandate; empty without one."""

    @property
    def returns(self) -> Floats:
        """Simple returns of equity by step; 0 where equity is not positive."""
        before = self.equity[:-1]
        returns: Floats = np.zeros(len(before))
        np.divide(np.diff(self.equity), before, out=returns, where=before > 0)
        return returns

    @property
    def total_cost(self) -> float:
        """Sum of all costs."""
        return float(sum(paid.sum() for paid in self.costs.values()))

    def to_frame(self, backend: str = "pandas") -> Any:
        """Frame with the start and one row for each step: equity, return, reward, costs, weights.

        Numbers of a step are missing in the row of the start.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        from sekai.data.writing import as_frame

        rows = len(self.rewards) + 1
        columns: dict[str, Any] = {"step": np.arange(rows)}
        if self.times is not None:
            columns["time"] = self.times
        if len(self.equity) == rows:
            columns |= {"equity": self.equity, "return": _after_start(self.returns)}
        columns["reward"] = _after_start(self.rewards)
        if self.turnover is not None:
            columns["turnover"] = _after_start(self.turnover)
        columns |= {f"cost/{kind}": _after_start(paid) for kind, paid in self.costs.items()}
        if self.weights is not None:
            names = [*self.assets, "cash"]
            columns |= {
                f"weight/{name}": _after_start(self.weights[:, index])
                for index, name in enumerate(names)
            }
        if self.benchmark is not None:
            columns["benchmark"] = _after_start(self.benchmark)
        return as_frame(
            {name: column[:rows] for name, column in columns.items()}, backend, "Episode.to_frame"
        )

    def __repr__(self) -> str:
        dates = "" if self.times is None else f", {self.times[0]!s:.10} to {self.times[-1]!s:.10}"
        return f"Episode(seed {self.seed}, {len(self.rewards)} steps{dates})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Estimate with a confidence interval."""

    value: float
    low: float
    high: float
    level: float = 0.95
    """Confidence level."""

    method: str = ""
    """Method of the bounds: "seeds" (Student's t over seeds) or "bootstrap"."""

    reason: str = ""
    """Reason why the bounds are NaN, such as "equal values"."""

    def __float__(self) -> float:
        """Return the estimate."""
        return self.value

    def __str__(self) -> str:
        """Estimate and bounds: `0.52 [-0.31, 1.36]`."""
        return f"{format_value(self.value)} {format_bounds(self)}"

    def __repr__(self) -> str:
        return f"Interval({self}, level={self.level:g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """Metrics and episodes of one policy."""

    name: str
    metrics: dict[str, Interval]
    """Metrics over all episodes."""

    by_seed: dict[str, list[float]]
    """Metrics of each episode, in the order of the seeds."""

    episodes: list[Episode]

    def __repr__(self) -> str:
        return (
            f"PolicyOutcome({self.name}: {len(self.metrics)} metrics, "
            f"{len(self.episodes)} episodes)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """Paired difference between the agent and a baseline in the headline metric."""

    baseline: str
    metric: str
    difference: Interval
    """Paired difference, positive where the agent is better; not adjusted for several baselines."""

    p_value: float
    """Two-sided p-value, Holm-adjusted for all baselines."""

    wins: float
    """Share of episodes in which the agent was better."""

    @property
    def standing(self) -> str:
        """Result of the test: "ahead", "behind" or "inconclusive"."""
        difference = self.difference
        if not self.p_value < 1.0 - difference.level:
            return "inconclusive"
        if difference.low > 0:
            return "ahead"
        return "behind" if difference.high < 0 else "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Headline metric under scaled trading costs and execution delays."""

    metric: str
    cost_multiples: list[float]
    by_cost: dict[str, list[float]]
    """By policy: the metric at each cost multiple."""

    delays: list[int]
    by_delay: dict[str, list[float]]
    """By policy: the metric at each delay in steps."""

    break_even: dict[str, float]
    """By baseline: break-even cost multiple, at which the agent's lead is 0; infinite if the agent
    leads at every multiple, 0 if it never leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Warning flag: automatic remark on a suspicious result."""

    name: str
    level: str
    """"warning", or "error" if the results are invalid."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeflatedSharpe:
    """Sharpe ratio corrected for the number of trials (Bailey and Lopez de Prado)."""

    trials: int
    """Number of agents evaluated on this data, including this one."""

    observations: int
    """Number of returns."""

    sharpe: float
    """Sharpe ratio per period, not annualized."""

    expected_best: float
    """Expected maximum Sharpe ratio of so many trials without skill."""

    probabilistic: float
    """Probabilistic Sharpe ratio: probability that the true ratio is above 0."""

    deflated: float
    """Deflated Sharpe ratio: probability that the true ratio is above `expected_best`."""

    minimum_track_record: float
    """Number of returns needed to reject a ratio of 0 at 95 % confidence."""

    is_valid: bool = True
    """False if the results are invalid; then both probabilities are NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Command, versions, data and settings that reproduce an evaluation."""

    command: str
    created: str
    """Creation time, UTC, ISO 8601."""

    versions: dict[str, str]
    data_digest: str = ""
    """Digest of the data; "" for envs simulated from seeds."""

    judged_digest: str = ""
    """Digest of the judged rows, without warm-up rows and fields that only features use: the data
    set in a `TrialLedger`. The env id for envs simulated from seeds."""

    model: str = ""
    """Digest of the agent's file, or its name."""

    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Evaluation of an agent against baselines on the same episodes."""

    name: str
    env: str
    """Env id."""

    task: str
    """"portfolio", "trading", "market_making", "execution", "order_execution",
    "basket_execution" or "episodes"."""

    headline: str
    """Metric that ranks policies."""

    higher_is_better: bool
    periods_per_year: float
    """Annualization factor; NaN where steps have no dates."""

    seeds: list[int]
    policies: dict[str, PolicyOutcome]
    """The agent first, then its baselines."""

    comparisons: list[BaselineComparison]
    sensitivity: Sensitivity | None
    flags: list[Flag]
    deflated_sharpe: DeflatedSharpe | None
    provenance: Provenance
    learning: dict[str, list[float]] = field(default_factory=dict)
    """Learning curves of the training run, with "steps"; empty if unknown."""

    benchmark: str = ""
    """Benchmark of alpha and beta, whose returns the episodes hold; "" without one."""

    caps: list[CapCheck] = field(default_factory=list)
    """Exposures of the agent against the caps of a portfolio; empty for other tasks."""

    @property
    def is_valid(self) -> bool:
        """False if a flag of the level "error" invalidates the results."""
        return all(flag.level != "error" for flag in self.flags)

    @property
    def agent(self) -> PolicyOutcome:
        """Outcome of the evaluated policy."""
        return next(iter(self.policies.values()))

    @property
    def baselines(self) -> dict[str, PolicyOutcome]:
        """Outcomes of the baselines, by name."""
        return dict(list(self.policies.items())[1:])

    def __str__(self) -> str:
        """Return `summary()`."""
        return self.summary()

    def __repr__(self) -> str:
        value = self.agent.metrics[self.headline]
        return (
            f"Evaluation({self.name} on {self.env}: {self.headline} {value}, "
            f"{len(self.baselines)} baselines, {len(self.seeds)} seeds, {len(self.flags)} flags)"
        )

    def _repr_html_(self) -> str:
        from sekai.evaluation.report.summary import notebook_html

        return notebook_html(self)

    def summary(self) -> str:
        """Plain-text table of policies and metrics, followed by the flags."""
        header, *rows = table_rows(self)
        columns = range(len(header))
        widths = [max(len(row[column]) for row in (header, *rows)) for column in columns]
        lines = [_title(self), ""]
        for row in (header, ["-" * width for width in widths], *rows):
            first = row[0].ljust(widths[0])
            others = [row[column].rjust(widths[column]) for column in columns[1:]]
            lines.append("  ".join([first, *others]).rstrip())
        if self.flags:
            lines += ["", *(f"{flag.level}: {flag.name}: {flag.message}" for flag in self.flags)]
        return "\n".join(lines)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Frame with a row for each policy and metric: value and confidence bounds.

        Rows of the headline metric also hold the agent's lead over the baseline and its adjusted
        p-value.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        from sekai.data.writing import as_frame

        return as_frame(metric_columns(self), backend, "Evaluation.to_frame")

    def plot_equity(self, ax: Axes | None = None) -> Axes:
        """Draw the equity of all policies on matplotlib axes, which are returned.

        Lines are medians over seeds, with a band of the agent.

        Args:
            ax: axes to draw on; those of a new figure if None.
        """
        from sekai.evaluation.report.pictures import draw_equity

        return draw_equity(self, ax)

    def plot_drawdown(self, ax: Axes | None = None) -> Axes:
        """Draw the drawdown of all policies on matplotlib axes, which are returned.

        Args:
            ax: axes to draw on; those of a new figure if None.
        """
        from sekai.evaluation.report.pictures import draw_drawdown

        return draw_drawdown(self, ax)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML report."""
        from sekai.evaluation.report import write_report

        return write_report(self, path)

    def to_pdf(self, path: str | os.PathLike[str]) -> Path:
        """Write the first screen of the report as a PDF of one page."""
        from sekai.evaluation.report import write_summary

        return write_summary(self, path, ".pdf")

    def to_png(self, path: str | os.PathLike[str]) -> Path:
        """Write the first screen of the report as a PNG picture."""
        from sekai.evaluation.report import write_summary

        return write_summary(self, path, ".png")

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write a JSON file for `load_evaluation`."""
        from sekai.evaluation.evaluation_file import save_evaluation

        save_evaluation(self, path)
        return Path(path)


def _after_start(values: Floats) -> Floats:
    return np.append(np.nan, values)


def metric_columns(evaluation: Evaluation) -> dict[str, list[Any]]:
    """Columns of `Evaluation.to_frame`."""
    leads = {comparison.baseline: comparison for comparison in evaluation.comparisons}
    rows = []
    for name, outcome in evaluation.policies.items():
        for metric, interval in outcome.metrics.items():
            lead = leads.get(name) if metric == evaluation.headline else None
            rows.append(
                {
                    "policy": name,
                    "metric": metric,
                    "value": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                    "agent_ahead_by": math.nan if lead is None else lead.difference.value,
                    "p_value": math.nan if lead is None else lead.p_value,
                }
            )
    return {column: [row[column] for row in rows] for column in rows[0]}


TABLE_METRICS = ("total_return", "sharpe", "max_drawdown", "turnover", "cost", "episode_return")
"""Metrics in tables beside the headline."""


def rich_table(evaluation: Evaluation) -> Any:
    """Table of policies and metrics for terminals, as a `rich.table.Table`."""
    from rich.table import Table

    header, *rows = table_rows(evaluation)
    table = Table(title=_title(evaluation))
    for column, name in enumerate(header):
        table.add_column(name, justify="left" if column == 0 else "right")
    for index, row in enumerate(rows):
        table.add_row(*row, style="bold" if index == 0 else None)
    return table


def _title(evaluation: Evaluation) -> str:
    count = len(evaluation.seeds)
    episodes = "1 episode" if count == 1 else f"{count} episodes"
    order = "higher" if evaluation.higher_is_better else "lower"
    return (
        f"{evaluation.name} on {evaluation.env}: {episodes}, ranked by {evaluation.headline} "
        f"({order} is better)"
    )


def table_rows(evaluation: Evaluation) -> list[list[str]]:
    """Header and rows of the table of policies."""
    headline = evaluation.headline
    shown = [
        name for name in TABLE_METRICS if name != headline and name in evaluation.agent.metrics
    ]
    level = evaluation.agent.metrics[headline].level
    comparisons = {comparison.baseline: comparison for comparison in evaluation.comparisons}
    rows = [["policy", headline, f"{level:.0%} interval", "agent ahead by", "p (Holm)", *shown]]
    for name, policy in evaluation.policies.items():
        interval, difference, p_value = policy.metrics[headline], "", ""
        if name in comparisons:
            paired = comparisons[name].difference
            difference = f"{format_value(paired.value)} {format_bounds(paired)}"
            p_value = format_value(comparisons[name].p_value)
        values = [policy.metrics.get(metric) for metric in shown]
        cells = ["" if value is None else format_value(value.value) for value in values]
        rows.append(
            [
                name,
                format_value(interval.value),
                format_bounds(interval),
                difference,
                p_value,
                *cells,
            ]
        )
    return rows


def format_bounds(interval: Interval) -> str:
    """Confidence bounds in brackets, as in tables."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return f"[{interval.reason or 'unknown'}]"
    return f"[{format_value(interval.low)}, {format_value(interval.high)}]"


def format_value(value: float) -> str:
    """Number with four digits, as in tables."""
    return "undefined" if math.isnan(value) else f"{value:.4g}"
