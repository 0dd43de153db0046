"""What metrics are called, which kind of number they are, and what they mean."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Label", "label_of", "policy_label"]


class Label(NamedTuple):
    """A metric in words."""

    text: str
    kind: str
    """How its numbers are written: a key of `numbers.FORMATS`."""

    meaning: str = ""

    @property
    def heading(self) -> str:
        """The same with a unit that no axis writes."""
        return f"{self.text}, bp" if self.kind == "points" else self.text


LABELS = {
    "total_return": Label("Total return", "percent", "Growth of the account from first to last."),
    "annual_return": Label("Annual return", "percent", "Growth a year, compounded."),
    "volatility": Label("Volatility", "percent", "Standard deviation of returns, for a year."),
    "sharpe": Label("Sharpe ratio", "number", "Mean return over its standard deviation, a year."),
    "sortino": Label("Sortino ratio", "number", "Mean return over that of losses, a year."),
    "calmar": Label("Calmar ratio", "number", "Annual return over the largest drawdown."),
    "omega": Label("Omega ratio", "number", "Sum of gains over sum of losses."),
    "max_drawdown": Label("Largest drawdown", "percent", "Deepest fall below an earlier peak."),
    "longest_drawdown": Label("Longest drawdown", "count", "Steps spent below an earlier peak."),
    "value_at_risk": Label("Value at risk", "percent", "One step in twenty is below this."),
    "conditional_value_at_risk": Label(
        "Expected shortfall", "percent", "Mean return of the worst steps, one in twenty."
    ),
    "hit_rate": Label("Hit rate", "percent", "Share of steps with a gain."),
    "turnover": Label("Turnover", "percent", "Value traded in a step, as a share of equity."),
    "exposure": Label("Exposure", "percent", "Mean value held, as a share of equity."),
    "net_exposure": Label("Net exposure", "percent", "The same with what is short taken off."),
    "cost": Label("Cost", "percent", "What was paid, as a share of equity at the beginning."),
    "tail_ratio": Label("Tail ratio", "number", "How far the best steps reach by the worst ones."),
    "skewness": Label("Skewness", "number", "Below 0 where losses are the longer tail."),
    "kurtosis": Label("Kurtosis", "number", "3 for a bell, more where tails are fat."),
    "alpha": Label("Alpha", "percent", "Return a year that the benchmark does not explain."),
    "beta": Label("Beta", "number", "How far returns move with the benchmark."),
    "tracking_error": Label("Tracking error", "percent", "Volatility beside the benchmark."),
    "information_ratio": Label(
        "Information ratio", "number", "Return over the benchmark for its tracking error."
    ),
    "episode_return": Label("Episode return", "number", "Sum of the rewards of an episode."),
    "shortfall": Label("Shortfall", "points", "What the order cost beside its first price."),
    "risk_adjusted_shortfall": Label(
        "Risk-adjusted shortfall", "points", "The shortfall and the risk taken, together."
    ),
    "price_advantage": Label(
        "Price advantage", "points", "How much better than the mean price of the day."
    ),
    "fulfilled": Label("Fulfilled", "percent", "How much of the order was traded."),
    "final_equity": Label("Final equity", "money", "What the account held at the end."),
}  # fmt: skip

SHORT_FORMS = {
    "pnl": "PnL",
    "vwap": "VWAP",
    "twap": "TWAP",
    "almgren": "Almgren",
    "chriss": "Chriss",
}
"""Words that are not written as they come."""


def label_of(metric: str) -> Label:
    """What is known of a metric, or of that of one of several agents.

    One of a task's own is a number under its own name.
    """
    own, _, member = metric.partition(" of ")
    if member and own in LABELS:
        return Label(f"{LABELS[own].text} of {policy_label(member)}", LABELS[own].kind)
    return LABELS.get(metric) or Label(_words(metric), "number")


def policy_label(name: str) -> str:
    """A policy's name in words: `buy_and_hold` as Buy and hold."""
    return _words(name) if name.islower() and name.isidentifier() else name


def _words(name: str) -> str:
    words = [SHORT_FORMS.get(word, word) for word in name.replace("_", " ").split(" ")]
    text = " ".join(words)
    return text[:1].upper() + text[1:]
