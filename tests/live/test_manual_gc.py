"""Automatic garbage collection: off while sessions run, and afterwards as it was before."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.live import LiveConfig, LiveRunner, QueueFeed
from tests.live.sessions import FREE, World, world

EVEN = np.full(4, 0.25)


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    gc.unfreeze()
    (gc.enable if was_enabled else gc.disable)()


class Policy:
    """Policy that records the collector's state, and runs a function at its third decision."""

    def __init__(self, then: Any = None) -> None:
        self.seen: list[bool] = []
        self._then = then

    def __call__(self, observation: Any) -> Any:
        self.seen.append(gc.isenabled())
        if len(self.seen) == 3 and self._then is not None:
            self._then()
        return EVEN


def runner_of(place: World, policy: Any, folder: Path, feed: Any = None) -> LiveRunner:
    feed = place.feed(place.known + 6) if feed is None else feed
    return LiveRunner(policy, place.env(), feed, place.broker(), folder, LiveConfig(limits=FREE))


def raise_error(error: BaseException) -> Any:
    def then() -> None:
        raise error

    return then


def test_a_session_runs_without_the_collector_and_ends_with_it(tmp_path: Path) -> None:
    policy = Policy()

    asyncio.run(runner_of(world(), policy, tmp_path / "one").run())

    assert len(policy.seen) == 6
    assert not any(policy.seen)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(
    "error", [ValueError("no idea"), KeyboardInterrupt()], ids=lambda error: type(error).__name__
)
def test_a_session_that_is_broken_off_leaves_the_collector_on(
    tmp_path: Path, error: BaseException
) -> None:
    policy = Policy(raise_error(error))

    with pytest.raises(type(error)):
        asyncio.run(runner_of(world(), policy, tmp_path / "one").run())

    assert policy.seen == [False] * 3
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_from_the_keyboard_leaves_the_collector_on(tmp_path: Path) -> None:
    policy = Policy(lambda: os.kill(os.getpid(), signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(runner_of(world(), policy, tmp_path / "one").run())

    assert gc.isenabled()


def test_a_session_that_is_cancelled_as_it_waits_leaves_the_collector_on(tmp_path: Path) -> None:
    place = world()

    async def work() -> None:
        feed = QueueFeed(place.data.rows(0, place.known))
        running = asyncio.ensure_future(runner_of(place, Policy(), tmp_path / "one", feed).run())
        while gc.isenabled():
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert gc.isenabled()

    asyncio.run(asyncio.wait_for(work(), 20))


@pytest.mark.parametrize("first", [0, 1])
def test_of_several_sessions_the_last_that_ends_turns_the_collector_on(
    tmp_path: Path, first: int
) -> None:
    place = world()

    async def work() -> None:
        feeds = [QueueFeed(place.data.rows(0, place.known)) for _ in range(2)]
        runners = [
            runner_of(place, Policy(), tmp_path / str(number), feed)
            for number, feed in enumerate(feeds)
        ]
        running = [asyncio.ensure_future(runner.run()) for runner in runners]
        while not all(hasattr(runner, "session") for runner in runners):
            await asyncio.sleep(0.001)
        for number in (first, 1 - first):
            assert not gc.isenabled()
            runners[number].stop()
            await feeds[number].close()
            await running[number]
        assert gc.isenabled()
        assert gc.get_freeze_count() == 0

    asyncio.run(asyncio.wait_for(work(), 20))


def test_a_collector_that_was_off_stays_off(tmp_path: Path) -> None:
    gc.disable()

    asyncio.run(runner_of(world(), Policy(), tmp_path / "one").run())

    assert not gc.isenabled()


def test_what_the_program_froze_stays_frozen(tmp_path: Path) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()

    asyncio.run(runner_of(world(), Policy(), tmp_path / "one").run())

    assert gc.get_freeze_count() > 0.9 * frozen
