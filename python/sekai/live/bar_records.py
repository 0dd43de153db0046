"""Rows as plain fields, for journals and wires, and back to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sekai.data import Bar

__all__ = ["bar_fields", "bar_from", "bar_time"]

NANOSECONDS = np.dtype("datetime64[ns]")


def bar_time(bar: Bar) -> int:
    """What a row is stamped with, in nanoseconds since 1970 in UTC."""
    return int(np.asarray(bar.time, NANOSECONDS).astype(np.int64))


def bar_fields(bar: Bar) -> dict[str, Any]:
    """A row by name; what was not said about its assets is left out."""
    masks = {name: np.asarray(mask) for name, mask in bar.masks().items() if mask is not None}
    return {
        "time": bar_time(bar),
        "values": np.asarray(bar.values, dtype=np.float64),
        "market": {name: float(value) for name, value in bar.market.items()},
        **masks,
    }


def bar_from(fields: Mapping[str, Any]) -> Bar:
    """What `bar_fields` gave; other fields beside it do not matter."""
    return Bar(
        time=np.datetime64(int(fields["time"]), "ns"),
        values=fields["values"],
        listed=fields.get("listed"),
        quoted=fields.get("quoted"),
        tradable=fields.get("tradable"),
        market=fields["market"],
    )
