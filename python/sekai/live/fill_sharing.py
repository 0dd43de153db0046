"""Share out what was traded in an asset among the orders that asked for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["share_cost", "share_units"]

_ROUNDING = 1e-15
"""By how much a sum of orders may be off, as a share of it."""


def share_units(traded: float, asked: Sequence[float]) -> tuple[list[float], float]:
    """What each order gets, first come first served, and what nobody asked for.

    All of it together is what was traded: exactly, when it is summed exactly (`math.fsum`). Where
    some bought and some sold, the smaller side is filled by the other, and their sum can be off by
    what rounding makes of the largest share.

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
    last = 0
    for place, units in enumerate(asked):
        if units * total < 0.0:
            continue
        left = math.fsum([traded, *(-share for share in shares)])
        if left * total <= 0.0:
            break
        shares[place] = units if abs(left) >= abs(units) else left
        last = place
    # A share that was rounded can leave the sum half a step off.
    shares[last] += math.fsum([traded, *(-share for share in shares)])
    return shares, 0.0


def share_cost(cost: float, units: Sequence[float]) -> list[float]:
    """What each pays, by how much it traded; exactly all of it when it is summed exactly."""
    traded = math.fsum(abs(each) for each in units)
    shares = [cost * (abs(each) / traded) for each in units]
    shares[-1] += math.fsum([cost, *(-share for share in shares)])
    return shares
