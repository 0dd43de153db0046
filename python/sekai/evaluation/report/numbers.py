"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable

from sekai.evaluation.evaluation import Interval

__all__ = ["AXIS_FORMATS", "FORMATS", "bounds", "number", "shown", "signed"]

UNDEFINED = "–"
"""What stands for a number that is not defined."""


def number(value: float) -> str:
    """A number with as many digits as tell something."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:,.1f}"
    return f"{value:.2f}" if size >= 0.1 or size == 0 else f"{value:.3g}"


def _percent(value: float) -> str:
    if 0 < abs(value) < 0.001:
        return f"{value * 100:.2g}%"
    return f"{value * 100:,.1f}%" if abs(value) < 10 else f"{value * 100:,.0f}%"


def _basis_points(value: float) -> str:
    return f"{value * 1e4:,.1f} bp"


def _points(value: float) -> str:
    """What is told in basis points already."""
    return f"{value:,.1f} bp"


def _money(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


FORMATS: dict[str, Callable[[float], str]] = {
    "number": number,
    "percent": _percent,
    "basis_points": _basis_points,
    "points": _points,
    "money": _money,
    "count": _count,
}

AXIS_FORMATS = {"percent": ".1~%", "money": ",.3~s", "count": ",.0~f", "number": ",.3~f"}
"""How an axis writes the same kinds; what is not here as it likes."""


def shown(value: float, kind: str = "number") -> str:
    """A number of a kind of `FORMATS`, with a true minus; undefined and endless ones as signs."""
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = FORMATS[kind](value)
    # What rounds to nothing has no sign.
    return text.replace("-", "−", 1) if any(digit in text for digit in "123456789") else text.lstrip("-")


def signed(value: float, kind: str = "number") -> str:
    """The same with a plus where it is above 0."""
    text = shown(value, kind)
    return f"+{text}" if value > 0 and any(digit in text for digit in "123456789∞") else text


def bounds(interval: Interval, kind: str = "number") -> str:
    """How far the number may be from the truth, in brackets; nothing where that is not known."""
    if math.isnan(interval.low) and math.isnan(interval.high):
        return ""
    return f"[{shown(interval.low, kind)}, {shown(interval.high, kind)}]"
