"""Ask again, later each time, and never at the same moment as everybody else."""

from __future__ import annotations

import asyncio
import random

import pytest

from sekai.error import BrokerError
from sekai.live.retrying import retrying


class Flaky:
    """Fails as often as it is told."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls: list[str] = []

    async def __call__(self) -> str:
        self.calls.append("call")
        if self.failures:
            self.failures -= 1
            raise BrokerError("no answer")
        return "answer"

    async def connect(self) -> None:
        self.calls.append("connect")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("sekai.live.retrying.asyncio.sleep", sleep)
    return found


def test_it_asks_until_there_is_an_answer(waits: list[float]) -> None:
    flaky = Flaky(3)

    assert asyncio.run(retrying(flaky, 4)) == "answer"

    assert flaky.calls == ["call"] * 4
    assert len(waits) == 3


def test_it_connects_before_every_new_attempt(waits: list[float]) -> None:
    flaky = Flaky(2)

    asyncio.run(retrying(flaky, 3, connect=flaky.connect))

    assert flaky.calls == ["call", "connect", "call", "connect", "call"]


def test_the_last_error_is_raised_when_nobody_answers(waits: list[float]) -> None:
    flaky = Flaky(9)

    with pytest.raises(BrokerError, match="no answer"):
        asyncio.run(retrying(flaky, 3))

    assert flaky.calls == ["call"] * 3


def test_a_connection_that_fails_counts_as_an_attempt(waits: list[float]) -> None:
    flaky, broken = Flaky(1), Flaky(1)

    async def connect() -> None:
        await broken()

    assert asyncio.run(retrying(flaky, 3, connect=connect)) == "answer"
    assert flaky.calls == ["call", "call"]


def test_waits_double_up_to_the_largest_with_jitter_of_the_seed(waits: list[float]) -> None:
    def wait_with(seed: int) -> list[float]:
        waits.clear()
        asyncio.run(
            retrying(Flaky(5), 6, first_wait=1.0, largest_wait=6.0, rng=random.Random(seed))
        )
        return list(waits)

    found = wait_with(1)

    for wait, whole in zip(found, (1.0, 2.0, 4.0, 6.0, 6.0), strict=True):
        assert whole / 2 <= wait <= whole
    assert found == wait_with(1)
    assert found != wait_with(2)


def test_other_errors_are_not_asked_again() -> None:
    async def call() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(retrying(call))


def test_no_attempt_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one attempt is needed, was 0"):
        asyncio.run(retrying(Flaky(0), 0))
