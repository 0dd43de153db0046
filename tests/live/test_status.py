from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data.summary import price_decimals
from sekai.error import JournalError
from sekai.live import status
from sekai.live.feed import FeedHealth
from sekai.live.latency import LatencyHistogram
from sekai.live.status import OrderLine, SessionStatus, StatusWriter, read_status
from tests.live.sessions import World, session, world


def status_of(bars: int) -> SessionStatus:
    histogram = LatencyHistogram()
    histogram.add(1_500_000)
    order = OrderLine(time="t", id="o", asset="A", units=1.0, filled=0.0, price=2.0, state="open")
    return SessionStatus(
        session="s", state="trading", bars=bars, orders=(order,), equity_values=(1.0, 2.0),
        equity_times=("a", "b"), latency={"feed_to_decision": histogram.summary()},
    )  # fmt: skip


def test_what_was_offered_last_is_read(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with StatusWriter(path, every=60.0) as writer:
        writer.offer(status_of(0))
        while writer.written == 0:
            time.sleep(0.001)
        for bars in range(100):
            writer.offer(status_of(bars))

    assert read_status(path) == status_of(99)
    assert writer.written == 2
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_file_is_replaced_no_more_often_than_asked(tmp_path: Path) -> None:
    begin = time.monotonic()
    with StatusWriter(tmp_path / "status.json", every=0.1) as writer:
        while writer.written < 4:
            writer.offer(status_of(1))
            time.sleep(0.002)
        # One at the start, and one after each tenth of a second.
        assert time.monotonic() - begin >= 0.29


def test_the_newest_is_written_though_nothing_comes_after_it(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with StatusWriter(path, every=0.01) as writer:
        for bars in range(50):
            writer.offer(status_of(bars))
        end = time.monotonic() + 20.0
        while time.monotonic() < end:
            if path.exists() and read_status(path).bars == 49:
                break
            time.sleep(0.01)
        assert read_status(path).bars == 49


def test_readers_never_find_half_a_status(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with StatusWriter(path, every=0.0) as writer:
        writer.offer(status_of(0))
        while not path.exists():
            time.sleep(0.001)
        for bars in range(200):
            writer.offer(status_of(bars))
            assert read_status(path).session == "s"


def test_a_status_says_all_that_it_holds() -> None:
    status = replace(
        status_of(3),
        costs={"commission": 1.5},
        positions={"A": {"units": 1.0}},
        alerts=("one",),
        feed=FeedHealth(received=5),
    )

    assert json.loads(status.to_json()) == json.loads(json.dumps(asdict(status)))
    assert SessionStatus.from_json(status.to_json()) == status


def test_a_long_status_keeps_nobody_waiting() -> None:
    status = replace(
        status_of(3),
        equity_values=tuple(1.1 * number for number in range(1000)),
        equity_times=("2024-05-06T07:08:09.123Z",) * 1000,
        orders=status_of(3).orders * 50,
    )
    best = 1.0
    for _ in range(20):
        start = time.thread_time()
        status.to_json()
        best = min(best, time.thread_time() - start)

    # Three times what it takes, for slower machines.
    assert best < 0.006


def test_offering_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = threading.Event()

    def slow(*_: Any, **__: Any) -> None:
        may_go_on.wait(20.0)

    monkeypatch.setattr(status, "atomic_write", slow)
    with StatusWriter(tmp_path / "status.json", every=0.0) as writer:
        for bars in range(100):
            writer.offer(status_of(bars))
        assert writer.written == 0
        may_go_on.set()


def test_a_status_that_cannot_be_written_is_counted_and_the_next_is_tried(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with StatusWriter(folder / "status.json", every=0.0) as writer:
        writer.offer(status_of(1))
        while writer.failures == 0:
            time.sleep(0.001)
        assert isinstance(writer.last_error, FileNotFoundError)
        folder.mkdir()
        writer.offer(status_of(2))

    assert read_status(folder / "status.json").bars == 2


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    writer = StatusWriter(tmp_path / "status.json")
    writer.close()
    writer.close()

    with pytest.raises(JournalError, match="closed"):
        writer.offer(status_of(1))
    with pytest.raises(ValueError, match="at least 0"):
        StatusWriter(tmp_path / "status.json", every=float("nan"))


@settings(deadline=None, max_examples=60)
@given(
    content=st.one_of(
        st.binary(),
        st.sampled_from(
            [b"[]", b"1", b"{}", b"[" * 100_000, b'{"latency": 1}',
             b'{"latency":{"a":{"buckets":[[1,Infinity]]}},"orders":[],"feed":{}}',
             status_of(1).to_json().encode()[:-1]]
        ),
    )
)  # fmt: skip
def test_no_content_is_another_kind_of_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("status") / "status.json"
    path.write_bytes(content)

    with pytest.raises(JournalError, match="not the status"):
        read_status(path)


def test_a_status_that_is_not_there_is_the_same_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="not the status"):
        read_status(tmp_path / "status.json")


@pytest.mark.parametrize(
    ("prices", "decimals"),
    [
        ([1.08432, 1.0851, np.nan], 5),
        ([151.234, 151.1], 3),
        ([0.00001234, 0.0000125], 8),
        ([61234.5, 61000.0], 2),
        ([61234.12345678], 8),
        ([100.0], 2),
        ([], 2),
        # Rounded to nothing: five digits.
        ([np.pi / 3, np.e / 2.5], 4),
        ([100 * np.pi], 2),
        ([np.pi / 100], 6),
    ],
)
def test_prices_are_shown_with_the_decimals_of_the_data(prices: list[float], decimals: int) -> None:
    assert price_decimals(np.array(prices)) == decimals


def test_the_status_of_a_session_has_the_decimals_of_its_history(tmp_path: Path) -> None:
    place = world()
    closes = place.data.values.copy()
    for asset, decimals in enumerate((5, 3, 4)):
        closes[:, asset, :4] = np.round(closes[:, asset, :4] / 10, decimals)
    rounded = World(place.data.replace(values=closes), place.known, place.settings)

    found = session(rounded, tmp_path / "session", bars=3)

    assert found.price_decimals == {"A000": 5, "A001": 3, "A002": 4}
    assert SessionStatus.from_json(found.to_json()) == found


def test_the_representation_of_a_status_is_one_line() -> None:
    text = repr(status_of(1234))

    assert len(text) < 200
    assert "trading, 1,234 rows" in text
