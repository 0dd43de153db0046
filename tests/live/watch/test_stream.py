"""Event stream: changes reach fast, slow and stuck clients."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sekai.live.config import SessionFolder
from sekai.live.watch import SessionSource
from sekai.live.watch.stream import EventStream, SourcePoller
from tests.live.watch.samples import put, sample

SCOPE = {"type": "http", "method": "GET", "path": "/api/stream", "headers": []}


class Reader:
    """A client that is in this process."""

    def __init__(self, stream: EventStream, *, is_slow: bool = False) -> None:
        self.messages: list[Any] = []
        self.may_read = asyncio.Event()
        self.is_gone = asyncio.Event()
        if not is_slow:
            self.may_read.set()
        self.task = asyncio.create_task(stream(SCOPE, self.receive, self.send))

    async def receive(self) -> Any:
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.may_read.wait()
        self.messages.append(message)

    @property
    def text(self) -> str:
        return b"".join(one.get("body", b"") for one in self.messages).decode()

    def told(self) -> list[tuple[int, Any]]:
        """The number of the source, and what it said, of each change."""
        events = [one for one in self.text.split("\n\n") if one.startswith("event: source")]
        lines = [dict(line.split(": ", 1) for line in one.split("\n")) for one in events]
        return [(int(one["id"]), json.loads(one["data"])) for one in lines]

    async def until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < end, "it never came to be so"
            await asyncio.sleep(0.005)

    async def until_told(self, equity: float | None = None) -> None:
        """Until something was told, or that equity."""
        await self.until(
            lambda: any(equity in (None, said["status"]["equity"]) for _, said in self.told())
        )

    async def go(self) -> None:
        self.is_gone.set()
        await asyncio.wait_for(self.task, 20)


@pytest.fixture
def folders(tmp_path: Path) -> list[SessionFolder]:
    folders = [SessionFolder(tmp_path / name) for name in ("one", "two")]
    for folder in folders:
        put(folder, sample())
    return folders


def stream_of(folders: list[SessionFolder], **options: Any) -> EventStream:
    poller = SourcePoller([SessionSource(one) for one in folders], read_seconds=0.0)
    return EventStream(poller, poll_seconds=0.01, **options)


def test_a_client_is_told_all_at_first_and_then_what_changes(folders: list[SessionFolder]) -> None:
    async def run() -> None:
        reader = Reader(stream_of(folders))
        await reader.until(lambda: len(reader.told()) == 2)
        assert [place for place, _ in reader.told()] == [0, 1]
        await asyncio.sleep(0.1)
        assert len(reader.told()) == 2, "nothing has changed"

        put(folders[1], sample(1, equity=7.0))
        await reader.until(lambda: len(reader.told()) == 3)
        place, said = reader.told()[-1]
        assert (place, said["status"]["equity"]) == (1, 7.0)

        folders[0].kill.write_text("enough")
        await reader.until(lambda: len(reader.told()) == 4)
        assert reader.told()[-1][1]["kill"] == "enough"
        await reader.go()

    asyncio.run(run())


def test_while_nothing_changes_a_beat_is_heard(folders: list[SessionFolder]) -> None:
    async def run() -> None:
        reader = Reader(stream_of(folders, beat_seconds=0.05))
        await reader.until(lambda: reader.text.count(": beat\n") >= 4)
        assert len(reader.told()) == 2
        await reader.go()

    asyncio.run(run())


def test_a_client_that_has_gone_is_forgotten(folders: list[SessionFolder]) -> None:
    async def run() -> None:
        stream = stream_of(folders)
        reader = Reader(stream)
        await reader.until(lambda: len(reader.told()) == 2)
        assert stream.clients == 1
        await reader.go()
        assert stream.clients == 0
        assert all(one.get("more_body", True) for one in reader.messages)

    asyncio.run(run())


def test_only_so_many_are_told_at_once(folders: list[SessionFolder]) -> None:
    async def run() -> None:
        stream = stream_of(folders, most_clients=3)
        readers = [Reader(stream) for _ in range(3)]
        await asyncio.gather(*(one.until_told() for one in readers))
        refused = Reader(stream)
        await asyncio.wait_for(refused.task, 20)
        assert refused.messages[0]["status"] == 503
        await readers[0].go()
        another = Reader(stream)
        await another.until(lambda: len(another.told()) == 2)
        await asyncio.gather(*(one.go() for one in [*readers[1:], another]))
        assert stream.clients == 0

    asyncio.run(run())


def test_a_slow_client_holds_nobody_up_and_is_told_only_the_last(
    folders: list[SessionFolder],
) -> None:
    async def run() -> None:
        stream = stream_of(folders)
        slow, quick = Reader(stream, is_slow=True), Reader(stream)
        for step in range(5):
            put(folders[0], sample(step, equity=float(step)))
            await quick.until_told(step)
        assert slow.messages == []
        slow.may_read.set()
        await slow.until_told(4)
        assert len(slow.told()) <= 3, "what it missed was not queued"
        await asyncio.gather(slow.go(), quick.go())

    asyncio.run(run())


def test_a_client_that_never_reads_is_let_go(folders: list[SessionFolder]) -> None:
    async def run() -> None:
        stream = stream_of(folders, send_seconds=0.05)
        stuck = Reader(stream)
        await stuck.until(lambda: len(stuck.told()) == 2)
        stuck.may_read.clear()
        put(folders[0], sample(1))
        await asyncio.wait_for(stuck.task, 20)
        assert stream.clients == 0

    asyncio.run(run())


def test_all_clients_are_let_go_at_the_end(folders: list[SessionFolder]) -> None:
    async def run() -> None:
        stream = stream_of(folders)
        readers = [Reader(stream) for _ in range(4)]
        await asyncio.gather(*(one.until_told() for one in readers))
        stream.end()
        await asyncio.wait_for(asyncio.gather(*(one.task for one in readers)), 20)
        assert all(one.messages[-1]["more_body"] is False for one in readers)

    asyncio.run(run())
