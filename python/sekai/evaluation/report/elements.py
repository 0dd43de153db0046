"""Report elements: escaped HTML, number formats, metric labels, tables and sections."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sekai.evaluation.evaluation import Episode, Evaluation, Interval, PolicyOutcome
from sekai.evaluation.report.chart import MAX_POINTS, Chart, Floats, Style, milliseconds, style_of

__all__ = [
    "FORMATS",
    "UNDEFINED",
    "Cell",
    "Label",
    "Markup",
    "ReportContext",
    "Section",
    "bounds",
    "card",
    "element",
    "format_number",
    "format_signed",
    "format_time",
    "joined",
    "label_of",
    "magnitude",
    "policy_label",
    "policy_name",
    "table",
    "x_values",
]

VOID = frozenset({"br", "hr", "input", "meta"})
"""HTML elements without a closing tag."""

UNDEFINED = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"

LARGEST = 1e300
"""Numbers beyond this are written as infinite."""

MAX_POINTS_PER_CHART = 36_000
"""Points of all lines of a chart: about 400 kilobytes."""

MAX_SEEDS = 8
"""Seeds with views of their own; medians and dots include all seeds."""


class Markup(str):
    """HTML text; any other text is escaped when it is put into an element."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Make an HTML element.

    Args:
        name: tag name.
        children: text, which is escaped, and `Markup`, which is not; None is left out.
        attributes: `class_` stands for class, `data_value` for data-value; None and False are left
            out, True is written without a value.
    """
    opening = f"<{name}{''.join(map(_attribute, attributes, attributes.values()))}>"
    return Markup(opening if name in VOID else f"{opening}{joined(*children)}</{name}>")


def joined(*children: object) -> Markup:
    """Concatenate escaped texts and elements."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else html.escape(str(child))
            for child in children
            if child is not None
        )
    )


def _attribute(name: str, value: object) -> str:
    written = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {written}" if value is True else f' {written}="{html.escape(str(value))}"'


def _number(value: float, size: float | None = None) -> str:
    size = abs(value) if size is None else size
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:,.1f}"
    if size >= 0.1 or size == 0:
        return f"{value:.2f}"
    return f"{value:.{2 - math.floor(math.log10(size))}f}" if size > 1e-6 else f"{value:.2e}"


def _percent(value: float, size: float | None = None) -> str:
    size = abs(value) if size is None else size
    if 1e-9 < size < 0.001:
        return f"{value * 100:.{-1 - math.floor(math.log10(size))}f}%"
    return f"{value * 100:,.1f}%" if size < 10 else f"{value * 100:,.0f}%"


def _probability(value: float) -> str:
    # 0 and 100 % only where they are exact.
    if 0.999 < value < 1:
        return "over 99.9%"
    return "under 0.1%" if 0 < value < 0.001 else f"{value * 100:.1f}%"


FORMATS: dict[str, Callable[[float], str]] = {
    "number": _number,
    "percent": _percent,
    "basis_points": lambda value: f"{value * 1e4:,.1f} bp",
    "share": lambda value: f"{value * 100:.3g}%",
    "p_value": lambda value: "under 0.001" if 0 < value < 0.001 else f"{value:.3f}",
    "probability": _probability,
    "points": lambda value: f"{value:,.1f} bp",
    "money": lambda value: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}",
    "count": lambda value: f"{value:,.0f}",
}
"""Number formats by kind; "points" are basis points already."""

SCALED = {"number": _number, "percent": _percent}
"""Formats whose digits depend on the magnitude of neighbouring numbers."""


def format_number(value: float, kind: str = "number", size: float | None = None) -> str:
    """Format a number of a kind of `FORMATS`.

    Args:
        value: the number; NaN is a dash.
        kind: a key of `FORMATS`.
        size: magnitude of neighbouring numbers, so that all have as many digits.
    """
    if math.isnan(value):
        return UNDEFINED
    if abs(value) > LARGEST:
        return "∞" if value > 0 else f"{MINUS}∞"
    text = SCALED[kind](value, size) if kind in SCALED else FORMATS[kind](value)
    is_zero = not any(digit in text for digit in "123456789")
    return text.lstrip("-") if is_zero else text.replace("-", MINUS, 1)


def format_signed(value: float, kind: str = "number", size: float | None = None) -> str:
    """Format a number with an explicit plus sign."""
    text = format_number(value, kind, size)
    return f"+{text}" if value > 0 and any(digit in text for digit in "123456789∞") else text


def magnitude(interval: Interval) -> float:
    """Largest absolute value of an interval, which sets the digits of all three numbers."""
    values = (interval.value, interval.low, interval.high)
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0)


def bounds(interval: Interval, kind: str = "number") -> str:
    """Confidence bounds in brackets; "" if unknown."""
    if math.isnan(interval.low) and math.isnan(interval.high):
        return ""
    size = magnitude(interval)
    low, high = format_number(interval.low, kind, size), format_number(interval.high, kind, size)
    return f"[{low}, {high}]"


def format_time(created: str) -> str:
    """Format an ISO 8601 time to the minute; other texts stay as they are."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[:.\d]*(Z|\+00:00)?", created)
    return f"{match[1]} {match[2]}{' UTC' if match[3] else ''}" if match else created


class Label(NamedTuple):
    """Display name, number kind and definition of a metric."""

    text: str
    kind: str
    meaning: str = ""

    @property
    def heading(self) -> str:
        """Display name with a unit that axes do not show."""
        return f"{self.text}, bp" if self.kind == "points" else self.text


LABELS = {
    "total_return": Label("Total return", "percent", "Compounded return of episode or history."),
    "annual_return": Label("Annual return", "percent", "Annualized compounded return."),
    "volatility": Label("Volatility", "percent", "Annualized standard deviation of returns."),
    "sharpe": Label("Sharpe ratio", "number", "Annualized mean return over volatility."),
    "sortino": Label("Sortino ratio", "number", "Annualized mean return over downside deviation."),
    "calmar": Label("Calmar ratio", "number", "Annual return over maximum drawdown."),
    "omega": Label("Omega ratio", "number", "Sum of gains over sum of losses."),
    "max_drawdown": Label("Maximum drawdown", "percent", "Largest loss from a peak."),
    "longest_drawdown": Label("Longest drawdown", "count", "Steps from a peak to its recovery."),
    "value_at_risk": Label("Value at risk", "percent", "5% quantile of returns."),
    "conditional_value_at_risk": Label(
        "Expected shortfall", "percent", "Mean of the worst 5% of returns (CVaR)."
    ),
    "hit_rate": Label("Hit rate", "percent", "Share of positive returns."),
    "turnover": Label("Turnover", "percent", "Traded value per step over equity."),
    "exposure": Label("Exposure", "percent", "Mean gross exposure over equity."),
    "net_exposure": Label("Net exposure", "percent", "Mean net exposure over equity."),
    "cost": Label("Cost", "percent", "All costs over initial equity."),
    "tail_ratio": Label("Tail ratio", "number", "95% quantile over 5% quantile of returns."),
    "skewness": Label("Skewness", "number", "Negative for a longer left tail."),
    "kurtosis": Label("Kurtosis", "number", "3 for a normal distribution, more for fat tails."),
    "alpha": Label("Alpha", "percent", "Annual return not explained by the benchmark."),
    "beta": Label("Beta", "number", "Sensitivity to the benchmark's returns."),
    "tracking_error": Label("Tracking error", "percent", "Volatility of excess returns."),
    "information_ratio": Label(
        "Information ratio", "number", "Mean excess return over tracking error."
    ),
    "episode_return": Label("Episode return", "number", "Sum of rewards."),
    "shortfall": Label("Shortfall", "points", "Execution cost against the arrival price."),
    "risk_adjusted_shortfall": Label(
        "Risk-adjusted shortfall", "points", "Shortfall plus risk penalty."
    ),
    "price_advantage": Label("Price advantage", "points", "Advantage over the mean price."),
    "fulfilled": Label("Fulfilled", "percent", "Filled share of the order."),
    "participation": Label(
        "Participation", "percent", "Fills over the market volume of the order's ticks."
    ),
    "final_equity": Label("Final equity", "money", "Equity at the end."),
}

SPELLINGS = {
    "pnl": "PnL",
    "vwap": "VWAP",
    "twap": "TWAP",
    "sharpe": "Sharpe",
    "almgren": "Almgren",
    "chriss": "Chriss",
}


def label_of(metric: str) -> Label:
    """Label of a metric, also of one agent of a team; unknown metrics keep their name."""
    own, _, member = metric.partition(" of ")
    if member and own in LABELS:
        return Label(f"{LABELS[own].text} of {policy_label(member)}", LABELS[own].kind)
    return LABELS.get(metric) or Label(_words(metric), "number")


def policy_label(name: str) -> str:
    """Display name of a policy: `buy_and_hold` as Buy and hold."""
    return _words(name) if name.islower() and name.isidentifier() else name


def _words(name: str) -> str:
    text = " ".join(SPELLINGS.get(word, word) for word in name.replace("_", " ").split(" "))
    return text[:1].upper() + text[1:]


class Cell(NamedTuple):
    """Table cell: its content and the number that it sorts by."""

    text: object
    value: float | None = None
    look: str = ""


def table(
    heads: Sequence[object],
    rows: Sequence[Sequence[Cell]],
    caption: str,
    row_looks: Sequence[str] = (),
    *,
    sortable: bool = True,
) -> Markup:
    """Sortable, scrollable table whose first column names its rows; columns of text align left."""
    texts = [all(row[column].value is None for row in rows) for column in range(len(heads))]
    head = element(
        "tr",
        *(_head(text, column, sortable, texts[column]) for column, text in enumerate(heads)),
    )
    looks = row_looks or [""] * len(rows)
    body = [
        element(
            "tr",
            _cell("th", row[0], scope="row"),
            *(_cell("td", cell, is_text) for cell, is_text in zip(row[1:], texts[1:], strict=True)),
            class_=look or None,
        )
        for row, look in zip(rows, looks, strict=True)
    ]
    content = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head),
        element("tbody", *body),
        class_="figures",
    )
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)


def card(title: str, body: Markup, note: str) -> Markup:
    """Titled block of a section with a note."""
    return element(
        "section", element("h3", title), body, element("p", note, class_="note"), class_="card"
    )


def policy_name(label: str, style: Style | None) -> Markup:
    """Name of a policy with its line style on charts."""
    swatch = None
    if style is not None:
        stroke = element("line", x1=1, x2=27, y1=5, y2=5)
        look = f"swatch c{style.colour[1:]}"
        swatch = element("svg", stroke, class_=look, viewBox="0 0 28 10", aria_hidden="true")
    return element("span", swatch, element("span", label), class_="named")


def _head(text: object, column: int, sortable: bool, is_text: bool) -> Markup:
    sorter = element("button", text, type="button", data_sort=column)
    look = "text" if is_text else None
    return element("th", sorter if sortable else text, scope="col", class_=look)


def _cell(tag: str, cell: Cell, is_text: bool = False, **attributes: object) -> Markup:
    key = None
    if cell.value is not None and not math.isnan(cell.value):
        key = repr(float(cell.value)).replace("inf", "Infinity")
    look = f"{cell.look} text".strip() if is_text else cell.look
    return element(tag, cell.text, **attributes, data_value=key, class_=look or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Section of the report with a tab of its own."""

    name: str
    """Anchor of the section."""

    title: str
    blocks: list[Markup | Chart] = field(default_factory=list)


class ReportContext:
    """Evaluation with the labels and styles that all sections share.

    Args:
        evaluation: the evaluation.
        paired: True if all policies ran on the same seeds.
        labels: display names of policies; derived from their names if None.
    """

    def __init__(
        self, evaluation: Evaluation, *, paired: bool = True, labels: dict[str, str] | None = None
    ) -> None:
        self.evaluation = evaluation
        self.policies = evaluation.policies
        self.paired = paired
        # The agent's name is the user's own; baselines have names of identifiers.
        own = evaluation.agent.name
        self.labels = labels or {
            name: name if name == own else policy_label(name) for name in self.policies
        }
        self.styles = {name: style_of(index) for index, name in enumerate(self.policies)}

    @property
    def episodes(self) -> list[Episode]:
        """Episodes of the agent, in the order of the seeds."""
        return self.evaluation.agent.episodes

    @property
    def single_episodes(self) -> list[Episode]:
        """Episodes of the agent that get a view of their own."""
        return self.episodes[:MAX_SEEDS] if self.paired else []

    @property
    def recorded(self) -> dict[str, PolicyOutcome]:
        """Policies with as many episodes as the agent; with any, if seeds differ."""
        least = len(self.episodes) if self.paired else 1
        return {
            name: outcome
            for name, outcome in self.policies.items()
            if len(outcome.episodes) >= least
        }

    @property
    def all_episodes(self) -> list[Episode]:
        """Episodes of all recorded policies."""
        return [episode for outcome in self.recorded.values() for episode in outcome.episodes]

    def has_shared_dates(self) -> bool:
        """Return True if all episodes cover the same dates."""
        first = self.episodes[0].times
        return first is not None and all(
            episode.times is not None and np.array_equal(episode.times, first)
            for episode in self.all_episodes
        )

    def max_points(self, lines: int) -> int:
        """Largest number of points of each of so many lines."""
        return int(np.clip(MAX_POINTS_PER_CHART // max(lines, 1), 200, MAX_POINTS))


def x_values(episode: Episode, dates: bool) -> Floats:
    """Positions of equity on the time axis: dates, or steps."""
    if dates and episode.times is not None:
        return milliseconds(episode.times)
    return np.arange(max(len(episode.equity), len(episode.rewards) + 1), dtype=np.float64)
