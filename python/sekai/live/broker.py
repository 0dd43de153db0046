"""Broker interface: implement these methods to connect a venue."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from sekai.error import BrokerError
from sekai.live.account import BrokerAccount
from sekai.live.instruments import Instrument
from sekai.live.orders import BrokerOrder, ExecutionReport, OrderState

if TYPE_CHECKING:
    from sekai.data import Bar

__all__ = ["Broker", "call_with_timeout"]

Answer = TypeVar("Answer")


class Broker(ABC):
    """Broker that executes the orders of one account.

    Every method may raise `BrokerError`, and is cancelled when it takes too long. The call may then
    have had its effect or not, and is repeated: methods are idempotent, since the same id is the
    same order.
    """

    account_id: str | None = None
    """Id of the account at the venue, by which limits are kept over sessions; None if the session
    folder is the account, as in a simulation."""

    @abstractmethod
    def control(self) -> Broker:
        """Second connection to the same account, independent of this one, for the watchdog.

        It is used from another thread and event loop: `connect`, `open_orders`, `cancel`,
        `submit`, `known`, `account`, `instruments` and `close`, never `reports`.
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
    async def open_orders(self) -> list[BrokerOrder]:
        """Orders of this account that are open at the broker."""

    @abstractmethod
    async def reports(self) -> list[ExecutionReport]:
        """Execution reports since the last call, without waiting."""

    async def instruments(self) -> Mapping[str, Instrument]:
        """Lots, ticks and minimum sizes by asset; assets without an entry are not rounded."""
        return {}

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

    def save_snapshot(self) -> None:
        """Save the state of a simulated broker, so that it restarts in bounded time.

        Called between rows, about as often as snapshots of the session are taken.
        """
        return


async def call_with_timeout(request: Callable[[], Awaitable[Answer]], seconds: float) -> Answer:
    """Answer of a broker call.

    The call runs in the current task: one that answers at once costs no more than a timer.

    Raises:
        BrokerError: no answer in time; the call was cancelled.
    """
    task = asyncio.current_task()
    assert task is not None, "broker calls are made in a task"
    is_expired = False

    def expire() -> None:
        nonlocal is_expired
        is_expired = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, expire)
    try:
        return await request()
    except asyncio.CancelledError:
        # Someone else may have cancelled the task as well, which only Python 3.11+ can tell.
        if not is_expired or (hasattr(task, "uncancel") and task.uncancel() > 0):
            raise
        raise BrokerError(f"no answer in {seconds:g} s") from None
    finally:
        timer.cancel()
