"""Ask again when a broker did not answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sekai.error import BrokerError

__all__ = ["retrying"]

Answer = TypeVar("Answer")


async def retrying(
    call: Callable[[], Awaitable[Answer]],
    attempts: int = 5,
    *,
    connect: Callable[[], Awaitable[None]] | None = None,
    first_wait: float = 0.05,
    largest_wait: float = 2.0,
    rng: random.Random | None = None,
) -> Answer:
    """Call until there is an answer; the last `BrokerError` is raised if there is none.

    Waits double from one attempt to the next. Half of each is drawn at random, so that many who
    lost the same broker do not come back at the same moment.

    Args:
        call: what to ask; it must do no harm to ask it twice.
        attempts: how often, at most.
        connect: how to connect again before the next attempt, if that is needed; its own
            `BrokerError` counts as that attempt.
        first_wait: seconds before the second attempt.
        largest_wait: seconds between attempts, at most.
        rng: where jitter comes from; give one with a seed to wait the same every time.
    """
    if attempts < 1:
        raise ValueError(f"at least one attempt is needed, was {attempts}")
    rng = rng or random.Random()
    attempt = 0
    while True:
        try:
            if attempt and connect is not None:
                await connect()
            return await call()
        except BrokerError:
            attempt += 1
            if attempt == attempts:
                raise
        wait = min(largest_wait, first_wait * 2.0 ** (attempt - 1))
        await asyncio.sleep(wait * (0.5 + 0.5 * rng.random()))
