"""Numbers as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from sekai.evaluation.evaluation import Interval

__all__ = [
    "AXIS_FORMATS",
    "FORMATS",
    "UNDEFINED",
    "bounds",
    "moment",
    "number",
    "shown",
    "signed",
    "size_of",
]

UNDEFINED = "\N{EN DASH}"
"""What stands for a number that is not defined."""

MINUS = "\N{MINUS SIGN}"

LARGEST = 1e300
"""Beyond it, what is in basis points is no number any more."""


def number(value: float, size: float | None = None) -> str:
    """A number with as many digits as tell something, for numbers of that `size`."""
    size = abs(value) if size is None else size
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:,.1f}"
    if size >= 0.1 or size == 0:
        return f"{value:.2f}"
    return f"{value:.{2 - math.floor(math.log10(size))}f}" if size > 1e-6 else f"{value:.2e}"


def percent(value: float, size: float | None = None) -> str:
    """The same in percent."""
    size = abs(value) if size is None else size
    if 1e-9 < size < 0.001:
        return f"{value * 100:.{-1 - math.floor(math.log10(size))}f}%"
    return f"{value * 100:,.1f}%" if size < 10 else f"{value * 100:,.0f}%"


def _share(value: float) -> str:
    return f"{value * 100:.3g}%"


def _chance(value: float) -> str:
    """A percentage that is 0 or 100 only where there is no doubt at all."""
    if 0.999 < value < 1:
        return "over 99.9%"
    return "under 0.1%" if 0 < value < 0.001 else f"{value * 100:.1f}%"


def _p_value(value: float) -> str:
    return "under 0.001" if 0 < value < 0.001 else f"{value:.3f}"


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
    "percent": percent,
    "basis_points": _basis_points,
    "share": _share,
    "p_value": _p_value,
    "chance": _chance,
    "points": _points,
    "money": _money,
    "count": _count,
}

SCALED = {"number": number, "percent": percent}
"""Those whose digits depend on the numbers that they stand beside."""

AXIS_FORMATS = {"percent": "~%", "money": ",.3~s", "count": ",.0~f"}
"""How an axis writes the same kinds; what is not here as it likes."""


def shown(value: float, kind: str = "number", size: float | None = None) -> str:
    """A number of a kind of `FORMATS`, with a true minus; undefined and endless ones as signs.

    Args:
        value: what is shown.
        kind: what kind of number it is.
        size: that of the numbers that it stands beside, so that all have as many digits.
    """
    if math.isnan(value):
        return UNDEFINED
    if abs(value) > LARGEST:
        return "∞" if value > 0 else f"{MINUS}∞"
    text = SCALED[kind](value, size) if kind in SCALED else FORMATS[kind](value)
    # What rounds to nothing has no sign.
    is_nothing = not any(digit in text for digit in "123456789")
    return text.lstrip("-") if is_nothing else text.replace("-", MINUS, 1)


def signed(value: float, kind: str = "number", size: float | None = None) -> str:
    """The same with a plus where it is above 0."""
    text = shown(value, kind, size)
    return f"+{text}" if value > 0 and any(digit in text for digit in "123456789∞") else text


def size_of(interval: Interval) -> float:
    """That of its largest number, which says how many digits all of them need."""
    every = (interval.value, interval.low, interval.high)
    return max((abs(one) for one in every if math.isfinite(one)), default=0.0)


def bounds(interval: Interval, kind: str = "number") -> str:
    """How far the number may be from the truth, in brackets; nothing where that is not known."""
    if math.isnan(interval.low) and math.isnan(interval.high):
        return ""
    size = size_of(interval)
    return f"[{shown(interval.low, kind, size)}, {shown(interval.high, kind, size)}]"


def moment(created: str) -> str:
    """An ISO date as people write it; what is none as it is."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[:.\d]*(Z|\+00:00)?", created)
    return f"{found[1]} {found[2]}{' UTC' if found[3] else ''}" if found else created
