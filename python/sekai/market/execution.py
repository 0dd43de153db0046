"""When and how far the orders of a portfolio are filled."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Execution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How what was decided on a row becomes fills on later ones."""

    fill: Literal["next_open", "next_close"] = "next_open"
    """At which price of the next row orders are filled: nothing fills at a price that was known
    when it was decided."""

    sizing: Literal["fill", "decision"] = "fill"
    """At which prices weights become units to trade. `fill`: at those of the fill, so that they are
    met. `decision`: at the last ones known when it was decided, as an order to a broker has to be;
    what the price does until the fill, the weight does too."""

    delay: int = 0
    """Rows that an order waits beyond the next one."""

    participation: float | None = None
    """The largest share of a row's volume that can be traded; None is no limit."""

    unfilled: Literal["drop", "carry"] = "drop"
    """What becomes of what is not filled, because of volume or a halt: `drop` gives it up,
    `carry` lets it stand until it is filled or another order in the asset takes its place."""

    smallest_trade: float = 1e-6
    """Changes below this share of equity are not traded, unless they close a position. They are
    weighed at the prices that `sizing` names; what is below by 1e-12 is as large."""

    def settings(self) -> dict[str, Any]:
        """What the Rust core is given."""
        return asdict(self)
