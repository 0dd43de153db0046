"""Share out what was traded in an asset among the orders that asked for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["share_cost", "share_units"]

_ROUNDING = 1e-15
"""By how much a sum of orders may be off, as a share of it."""


def share_units(traded: float, asked: Sequence[float]) -> tuple[list[float], float]:
    """What each order gets, first come first served, and what nobody asked for.

    All of it together is what was traded, as nearly as numbers can say it: orders that are filled
    have exactly what they asked for, and the last share is off by half a unit in its last place at
    most. Where some bought and some sold, the smaller side is filled by the other.

    Args:
        traded: units, signed.
        asked: units of each order, signed, in the order they came.
    """
    total = math.fsum(asked)
    if traded == 0.0 or traded * total <= 0.0:
        return [0.0] * len(asked), traded
    if abs(traded) >= abs(total):
        excess = traded - total
        return list(asked), excess if abs(excess) > abs(total) * _ROUNDING else 0.0
    shares = [units if units * total < 0.0 else 0.0 for units in asked]
    for place, units in enumerate(asked):
        if units * total < 0.0:
            continue
        left = math.fsum([traded, *(-share for share in shares)])
        if left * total <= 0.0:
            break
        shares[place] = units if abs(left) >= abs(units) else left
    return shares, 0.0


def share_cost(cost: float, units: Sequence[float]) -> list[float]:
    """What each pays, by how much it traded; all of it together, as nearly as numbers can say."""
    traded = math.fsum(abs(each) for each in units)
    shares = [cost * (abs(each) / traded) for each in units]
    shares[-1] += math.fsum([cost, *(-share for share in shares)])
    return shares
