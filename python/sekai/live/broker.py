"""Broker interface: implement these methods to connect a venue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from sekai.data import Bar
from sekai.live.account import BrokerAccount
from sekai.live.orders import BrokerOrder, ExecutionReport, OrderState

__all__ = ["Broker"]


class Broker(ABC):
    """Broker that executes the orders of one account.

    Every method may raise `BrokerError`. The call may then have had its effect or not, and is
    repeated: methods are idempotent, since the same id is the same order.
    """

    @abstractmethod
    async def connect(self) -> None:
        """Connect, or reconnect after the connection was lost."""

    @abstractmethod
    async def submit(self, order: BrokerOrder) -> None:
        """Submit an order; an id that was submitted before has no effect.

        Returns when the broker has the order. Fills and rejections arrive as reports.
        """

    @abstractmethod
    async def cancel(self, order_id: str) -> None:
        """Cancel an order; an order that has ended or is unknown is ignored."""

    @abstractmethod
    async def account(self) -> BrokerAccount:
        """Current cash, positions and costs."""

    @abstractmethod
    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        """State of those of these orders that the broker has received."""

    @abstractmethod
    async def reports(self) -> list[ExecutionReport]:
        """Execution reports since the last call, without waiting."""

    async def see(self, bar: Bar) -> None:
        """Advance a simulated broker by a row; a real broker needs nothing."""
        return

    def hold(self) -> None:
        """Buffer writes until `write_held`, which is called before any answer is acted on.

        For brokers in this process that write a file: a decision need not wait for the disk.
        """
        return

    def write_held(self) -> None:
        """Write what was buffered since `hold`, and stop buffering."""
        return

    async def close(self) -> None:
        """Close the connection. Closing twice is no error."""
        return
