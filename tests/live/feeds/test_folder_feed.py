"""FolderFeed: bars of a folder are complete, in order and passed on once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import Bar, MarketData
from sekai.error import FeedError
from sekai.live.events import BarEvent, FeedEvent
from sekai.live.feeds import FolderFeed
from tests.live.feeds.makers import BEGIN, SECOND, collect, kinds, panel, run
from tests.live.feeds.test_recording import same_bar

DATA = panel(20)
HISTORY = DATA.rows(0, 10)


def line(row: int, asset: str, /, **changes: Any) -> str:
    place = DATA.asset(asset)
    told = dict(zip(DATA.fields, DATA.values[row, place].tolist(), strict=True))
    stamp = int(DATA.calendar.nanoseconds[row])
    return json.dumps({"time": stamp, "asset": asset, **told, **changes}) + "\n"


def both(row: int) -> str:
    return line(row, "AAA") + line(row, "BBB")


def feed_of(folder: Path, **options: Any) -> FolderFeed:
    return FolderFeed(folder, HISTORY, **{"poll_seconds": 0.002, "grace": 30.0, **options})


def rows_of(found: list[FeedEvent]) -> list[int]:
    """The numbers of the rows, whose values are checked."""
    numbers = []
    for event in found:
        if isinstance(event, BarEvent):
            row = int(DATA.calendar.nanoseconds.searchsorted(event.exchange_time))
            assert np.array_equal(np.asarray(event.bar.values), DATA.values[row])
            numbers.append(row)
    return numbers


async def nothing_comes(feed: FolderFeed) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(feed.__anext__(), 0.03)


def test_lines_that_are_appended_come_when_they_are_whole(tmp_path: Path) -> None:
    async def work() -> None:
        feed = feed_of(tmp_path)
        await nothing_comes(feed)
        file = tmp_path / "day-1.jsonl"
        text = both(10) + both(11)
        file.write_text(text[:30])
        await nothing_comes(feed)
        with file.open("a") as opened:
            opened.write(text[30:-10])
        assert rows_of(await collect(feed, 1)) == [10]
        await nothing_comes(feed)
        with file.open("a") as opened:
            opened.write(text[-10:])
        (tmp_path / "day-2.jsonl").write_text(both(12))
        assert rows_of(await collect(feed, 2)) == [11, 12]
        await feed.close()
        await feed.close()

    run(work())


def test_parquet_files_come_when_they_are_whole_and_what_follows_waits(tmp_path: Path) -> None:
    async def work() -> None:
        draft, late = tmp_path / "draft.parquet", tmp_path / "late.parquet"
        DATA.rows(10, 13).to_parquet(draft)
        DATA.rows(13, 14).to_parquet(late)
        whole = draft.read_bytes()
        folder = tmp_path / "rows"
        folder.mkdir()
        feed = feed_of(folder)
        file = folder / "1.parquet"
        file.write_bytes(whole[: len(whole) // 2])
        (folder / "2.parquet").write_bytes(late.read_bytes())
        (folder / ".3.parquet").write_bytes(b"draft")
        await nothing_comes(feed)
        while not feed._reader._first_seen:
            await nothing_comes(feed)
        await nothing_comes(feed)
        file.write_bytes(whole)
        found = await collect(feed, 4)
        assert rows_of(found) == [10, 11, 12, 13]
        bars = [event.bar for event in found if isinstance(event, BarEvent)]
        assert all(map(same_bar, bars, Bar.each(DATA, 10, 14)))
        await feed.close()

    run(work())


def test_a_parquet_file_that_never_is_whole_is_given_up_and_told(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "1.parquet").write_bytes(b"PAR1 and no more")
        (tmp_path / "2.jsonl").write_text(both(10))
        feed = feed_of(tmp_path, patience=0.02)
        found = await collect(feed, 2)
        assert kinds(found)[0] == "garbage"
        assert rows_of(found) == [10]
        assert feed.health.garbage == 1
        await feed.close()

    run(work())


def test_a_row_is_ended_by_a_later_time_or_by_grace(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "1.jsonl").write_text(line(10, "AAA") + line(11, "BBB"))
        feed = feed_of(tmp_path, grace=0.05)
        found = await collect(feed, 2)
        first, second = (np.asarray(one.bar.values) for one in found if isinstance(one, BarEvent))
        assert np.array_equal(first[0], DATA.values[10, 0])
        assert np.isnan(first[1]).all()
        assert np.isnan(second[0]).all()
        await feed.close()

    run(work())


def test_old_late_and_double_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    async def work() -> None:
        lines = [both(9), line(10, "AAA"), line(10, "AAA"), line(10, "BBB"), both(10), both(12)]
        (tmp_path / "1.jsonl").write_text("".join([*lines, line(11, "AAA"), both(13)]))
        feed = feed_of(tmp_path)
        found = await collect(feed, 5)
        assert rows_of(found) == [10, 12, 13]
        # What is in the history is old and not late.
        assert kinds(found)[3:] == ["late", "duplicate"]
        assert (feed.health.late, feed.health.duplicates) == (3, 1)
        await feed.close()

    run(work())


def test_lines_that_cannot_be_read_are_told_and_the_others_come(tmp_path: Path) -> None:
    bad = [
        "{", "[]", "3", json.dumps({"asset": "AAA"}), line(10, "AAA", asset="CCC").strip(),
        line(10, "AAA", close=0.0).strip(), line(10, "AAA", close="x").strip(),
        line(10, "AAA", time="yesterday").strip(), line(10, "AAA", time="9999-01-01").strip(),
        line(10, "AAA", time="now").strip(),
        line(10, "AAA", time="2030-01-01T00:00+02:00").strip(),
        line(10, "AAA", quoted=1).strip(), line(10, "AAA", asset=["AAA"]).strip(), "\x00",
    ]  # fmt: skip

    async def work() -> None:
        (tmp_path / "1.jsonl").write_text("\n".join(bad) + "\n\n" + both(10))
        feed = feed_of(tmp_path)
        found = await collect(feed, len(bad) + 1)
        assert kinds(found) == ["garbage"] * len(bad) + ["None"]
        assert feed.health.garbage == len(bad)
        await feed.close()

    run(work())


def test_a_line_without_a_price_is_reported_and_null_is_a_halt(tmp_path: Path) -> None:
    without = json.loads(line(10, "AAA"))
    del without["close"]

    async def work() -> None:
        (tmp_path / "1.jsonl").write_text(
            json.dumps(without) + "\n" + line(10, "AAA", close=None) + line(10, "BBB")
        )
        feed = feed_of(tmp_path)
        notice, bar = await collect(feed, 2)
        assert "missing price 'close'; expected the fields" in str(notice)
        assert isinstance(bar, BarEvent)
        close = np.asarray(bar.bar.values)[:, DATA.fields.index("close")]
        assert np.isnan(close).tolist() == [True, False]
        await feed.close()

    run(work())


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "1.jsonl").write_bytes(b"x" * (1 << 20) + b"y" * 100)
        (tmp_path / "2.jsonl").write_text(both(10))
        feed = feed_of(tmp_path)
        assert kinds(await collect(feed, 2)) == ["garbage", "None"]
        await feed.close()

    run(work())


def test_rows_that_came_can_be_asked_for_again_and_others_not(tmp_path: Path) -> None:
    async def work() -> None:
        DATA.rows(10, 12).to_parquet(tmp_path / "1.parquet")
        (tmp_path / "2.jsonl").write_text(both(12) + both(13))
        feed = feed_of(tmp_path)
        await collect(feed, 3)
        assert rows_of(await feed.since(0)) == [10, 11, 12]
        assert rows_of(await feed.since(int(DATA.calendar.nanoseconds[11]))) == [12]
        await feed.close()

    run(work())


def test_waits_that_are_cancelled_lose_no_row(tmp_path: Path) -> None:
    async def work() -> list[int]:
        feed = feed_of(tmp_path)
        found: list[FeedEvent] = []
        for row in range(10, 20):
            (tmp_path / f"{row}.jsonl").write_text(both(row))
            for delay in (0, 0.001):
                waiting = asyncio.ensure_future(feed.__anext__())
                await asyncio.sleep(delay)
                waiting.cancel()
                await asyncio.wait({waiting})
                if not waiting.cancelled():
                    found.append(waiting.result())
        found += await collect(feed, 10 - len(found))
        await feed.close()
        return rows_of(found)

    assert run(work()) == list(range(10, 20))


def test_series_masks_and_times_in_words_are_taken(tmp_path: Path) -> None:
    history = MarketData(
        HISTORY.times, HISTORY.assets, HISTORY.fields, HISTORY.values, market={"rate": np.zeros(10)}
    )
    moment = str(np.datetime64(BEGIN + 3600 * SECOND, "ns").astype("datetime64[s]"))

    async def work() -> Bar:
        lines = [
            line(10, "AAA", **{"time": moment + "Z", "market/rate": 0.5, "quoted": True}),
            line(10, "BBB", **{"time": moment, "quoted": False, "close": None}),
        ]
        (tmp_path / "1.jsonl").write_text("".join(lines))
        feed = FolderFeed(tmp_path, history, poll_seconds=0.002)
        bar = await feed.next_bar()
        await feed.close()
        return bar

    bar = run(work())
    assert np.datetime64(bar.time) == np.datetime64(moment)
    assert np.array_equal(np.asarray(bar.quoted), [True, False])
    assert bar.listed is None
    assert dict(bar.market) == {"rate": 0.5}
    assert np.isnan(np.asarray(bar.values)[1, 0])


def test_a_folder_that_is_taken_away_is_an_error(tmp_path: Path) -> None:
    async def work() -> None:
        folder = tmp_path / "rows"
        folder.mkdir()
        feed = feed_of(folder)
        await nothing_comes(feed)
        folder.rmdir()
        with pytest.raises(FeedError, match="cannot read folder"):
            await feed.__anext__()
        await feed.close()

    run(work())


def test_a_file_that_is_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    async def work() -> None:
        feed = feed_of(tmp_path)
        file = tmp_path / "now.jsonl"
        file.write_text(both(10) + both(11) + "\n" * 200)
        assert rows_of(await collect(feed, 2)) == [10, 11]
        await nothing_comes(feed)
        file.write_text(both(12))
        assert rows_of(await collect(feed, 1)) == [12]
        await feed.close()

    run(work())


def test_a_folder_that_is_not_there_and_waits_without_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        FolderFeed(tmp_path / "no-such", HISTORY)
    with pytest.raises(ValueError, match="poll_seconds"):
        FolderFeed(tmp_path, HISTORY, poll_seconds=0.0)


@pytest.mark.parametrize("way", ["replaced", "written over", "taken away"])
def test_another_file_of_the_same_name_is_read_from_its_beginning(way: str, tmp_path: Path) -> None:
    async def work() -> None:
        feed = feed_of(tmp_path)
        file, draft = tmp_path / "now.jsonl", tmp_path / "draft"
        file.write_text(both(10) + both(11))
        assert rows_of(await collect(feed, 2)) == [10, 11]
        if way == "taken away":
            file.unlink()
            await nothing_comes(feed)
        # Longer than what was read of the one before, which is how it goes unnoticed.
        text = both(12) + both(13) + both(14)
        if way == "replaced":
            draft.write_text(text)
            draft.replace(file)
        else:
            file.write_text(text)
        assert rows_of(await collect(feed, 3)) == [12, 13, 14]
        assert (feed.health.late, feed.health.garbage) == (0, 0)
        await feed.close()

    run(work())


def test_a_parquet_file_that_is_replaced_by_a_longer_one_gives_what_is_new(tmp_path: Path) -> None:
    async def work() -> None:
        feed = feed_of(tmp_path)
        for stop in (12, 14, 15):
            DATA.rows(10, stop).to_parquet(tmp_path / "_draft.parquet")
            (tmp_path / "_draft.parquet").replace(tmp_path / "day.parquet")
            begin = {12: 10, 14: 12, 15: 14}[stop]
            assert rows_of(await collect(feed, stop - begin)) == list(range(begin, stop))
            await nothing_comes(feed)
        assert feed.health.late == 0
        await feed.close()

    run(work())


def test_a_parquet_file_that_was_given_up_is_read_when_it_is_whole(tmp_path: Path) -> None:
    async def work() -> None:
        feed = feed_of(tmp_path, patience=0.0)
        DATA.rows(10, 12).to_parquet(tmp_path / "_draft.parquet")
        whole = (tmp_path / "_draft.parquet").read_bytes()
        for size in (50, 100):
            (tmp_path / "day.parquet").write_bytes(whole[:size])
            assert kinds(await collect(feed, 1) if size == 50 else []) == ["garbage"][: size == 50]
            await nothing_comes(feed)
        (tmp_path / "day.parquet").write_bytes(whole)
        assert rows_of(await collect(feed, 2)) == [10, 11]
        await feed.close()

    run(work())


def test_lines_after_one_that_is_too_long_come_and_what_is_left_of_it_does_not(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        long = b"x" * (1 << 20) * 2 + both(10).encode()
        (tmp_path / "1.jsonl").write_bytes(long + both(11).encode())
        feed = feed_of(tmp_path, grace=0.05)
        found = await collect(feed, 3)
        # The end of the long line looks like a line of AAA, and is none.
        assert kinds(found) == ["garbage", "None", "None"]
        assert np.isnan(np.asarray(found[1].bar.values)[0]).all()  # type: ignore[attr-defined]
        await feed.close()

    run(work())


def test_a_time_of_the_far_future_is_told_and_makes_nothing_late(tmp_path: Path) -> None:
    async def work() -> None:
        far = line(10, "AAA", time="2200-01-01") + line(10, "AAA", time=9 * 10**18)
        (tmp_path / "1.jsonl").write_text(both(10) + far + both(11) + both(12))
        feed = feed_of(tmp_path)
        found = await collect(feed, 5)
        assert rows_of(found) == [10, 11, 12]
        assert kinds(found)[1:3] == ["garbage"] * 2
        assert feed.health.late == 0
        await feed.close()

    run(work())
