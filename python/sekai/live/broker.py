"""Who takes orders: all that an adapter to a real one has to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sekai.data import Bar
from sekai.live.orders import Order, OrderReport, OrderState

__all__ = ["Broker", "BrokerAccount"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccount:
    """What a broker says an account has."""

    cash: float
    units: Mapping[str, float]
    """Of each asset; one that is not named is not held."""

    open_units: Mapping[str, float] = field(default_factory=dict)
    """Of each asset: what is still to be traded of orders that stand, signed."""

    costs: Mapping[str, float] = field(default_factory=dict)
    """Everything paid so far by kind, as the fields of `sekai.market.Costs` are called."""

    row_costs: Mapping[str, float] = field(default_factory=dict)
    """What of that was paid in the last row, where the broker can tell."""

    carried_units: Mapping[str, float] | None = None
    """Of `open_units`, what was due in the last row already, where the broker can tell."""

    row_traded: float = 0.0
    """The value of all that was traded in the last row, where the broker can tell."""

    time: int = 0
    """By the broker's clock, in nanoseconds."""


class Broker(ABC):
    """Takes orders for one account.

    Every method may raise `BrokerError`: then nobody knows whether it had an effect, and the same
    call may be made again, since the same id is the same order.
    """

    @abstractmethod
    async def connect(self) -> None:
        """Begin, or begin again after the connection was lost."""

    @abstractmethod
    async def submit(self, order: Order) -> None:
        """Hand over an order; one whose id was taken before is not taken again.

        Returns when the broker has it, or raises. What becomes of it comes as reports.
        """

    @abstractmethod
    async def cancel(self, order_id: str) -> None:
        """Ask that no more of it is filled; an order that is done or unknown is left alone."""

    @abstractmethod
    async def account(self) -> BrokerAccount:
        """What the account has now."""

    @abstractmethod
    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        """What it knows of these orders; those it never had are left out."""

    @abstractmethod
    async def reports(self) -> list[OrderReport]:
        """What was said since this was last asked; without waiting."""

    async def see(self, bar: Bar) -> None:
        """Let time pass: a paper broker fills its orders in this row, a real one knows already."""
        return

    def hold(self) -> None:
        """Expect `write_held` before whoever asks acts on an answer, or writes it down.

        A broker in this process that keeps a file may write a row then, and not before it answers:
        a decision waits for the answer.
        """
        return

    def write_held(self) -> None:
        """Write down what was answered since `hold`, and whatever comes without delay again."""
        return

    async def close(self) -> None:
        """Let go of the connection. Closing twice is no error."""
        return
