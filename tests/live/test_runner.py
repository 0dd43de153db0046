"""A policy runs on a feed, through an env, with a broker."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import BarFeed
from sekai.envs import Portfolio
from sekai.error import JournalError
from sekai.live import (
    BarEvent,
    Feed,
    FeedEvent,
    LiveConfig,
    LiveRunner,
    PaperFaults,
    Parity,
    ReplayFeed,
    RiskLimits,
    SessionFolder,
    SessionStatus,
    check_parity,
    episode,
    read_journal,
    read_status,
    trades_of,
)
from sekai.live.journal import Journal
from sekai.market import Constraints, Costs, Execution
from tests.live.sessions import FREE, disrupted, follow, session, world


def kinds(folder: Path) -> list[str]:
    return [record.kind for record in read_journal(SessionFolder(folder).journal)]


def test_a_session_decides_on_every_row_and_replays_to_the_same_bytes(tmp_path: Path) -> None:
    place = world()

    status = session(place, tmp_path / "one")

    assert status.state == "stopped"
    assert (status.bars, status.decisions) == (60, 60)
    assert status.fills > 100
    weights = [one["weight"] for one in status.positions.values()]
    assert status.gross == pytest.approx(sum(map(abs, weights)))
    assert status.net == pytest.approx(sum(weights))
    told, simulated = (
        check_parity(tmp_path / "one", place.env(), simulate=simulate) for simulate in (False, True)
    )
    assert told.is_whole
    assert simulated.is_whole
    assert told.rows == 60


def test_the_ledger_of_a_paper_broker_is_never_behind_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, rows, write = world(), {"paper.jsonl": 0, "journal.jsonl": 0}, Journal._write

    def writing(journal: Journal, lines: bytes, following: Any) -> None:
        write(journal, lines, following)
        rows[journal.path.name] += lines.count(b'"kind":"bar"')
        assert rows["journal.jsonl"] <= rows["paper.jsonl"]

    monkeypatch.setattr(Journal, "_write", writing)
    session(place, tmp_path, broker=place.broker(SessionFolder(tmp_path).paper))

    assert rows == {"paper.jsonl": 60, "journal.jsonl": 60}


def test_no_decision_waits_for_a_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, done, digest = world(), [], episode._digest

    def digesting(*observed: Any) -> str:
        done.append("digest")
        return digest(*observed)

    def deciding(observation: Any) -> np.ndarray:
        done.append("decision")
        return follow(observation)

    monkeypatch.setattr(episode, "_digest", digesting)
    session(place, tmp_path / "one", policy=deciding)

    assert done == ["digest", *["decision", "digest"] * 60]


def test_a_session_equals_the_historical_env_driven_by_the_same_policy(tmp_path: Path) -> None:
    place = world()
    status = session(place, tmp_path / "one")

    env = place.env()
    config = dataclasses.replace(env.config, stream=False, starts=place.known - 1)
    history = Portfolio(place.data, features=["log_return"], config=config)
    seen = history.reset(seed=0).observation
    # A session never trades on history alone: it begins to decide with the first row.
    result = history.step(seen["weights"].astype(np.float64))
    while not result.done:
        result = history.step(follow(result.observation))

    assert status.equity == result.info["equity"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"execution": Execution(sizing="decision", participation=1e-7, unfilled="carry")},
        {"execution": Execution(sizing="decision", delay=1)},
        {"costs": Costs(fixed=1.0, impact=0.5), "constraints": Constraints(max_weight=0.4)},
    ],
    ids=["plain", "carried", "delayed", "costly"],
)
def test_halts_delistings_and_other_rules_are_the_same_live(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    place = disrupted(**settings)

    status = session(place, tmp_path)

    assert status.fills > 20
    assert check_parity(tmp_path, place.env()).is_whole
    assert check_parity(tmp_path, place.env(), simulate=True).is_whole


def test_every_order_stands_in_the_journal_before_it_is_sent(tmp_path: Path) -> None:
    place = world(rows=60)
    broker = place.broker()
    taken: list[tuple[str, list[str]]] = []
    submit = broker.submit

    async def noted(order: Any) -> None:
        records = list(read_journal(SessionFolder(tmp_path).journal))
        decided = [one["id"] for r in records if r.kind == "decision" for one in r.fields["orders"]]
        taken.append((order.id, decided))
        await submit(order)

    broker.submit = noted  # type: ignore[method-assign]
    session(place, tmp_path, broker=broker)

    assert taken
    assert all(order_id in decided for order_id, decided in taken)


def test_limits_are_not_exceeded_and_refusals_are_told(tmp_path: Path) -> None:
    place = world()
    limits = RiskLimits(max_order_notional=2_000.0, max_daily_loss=None, max_drawdown=None)

    status = session(place, tmp_path, limits=limits)

    assert status.orders_refused > 0
    records = list(read_journal(SessionFolder(tmp_path).journal))
    sent = [one for r in records if r.kind == "decision" for one in r.fields["orders"]]
    assert all(abs(one["units"] * one["reference_price"]) <= 2_000.0 for one in sent)
    assert check_parity(tmp_path, place.env()).is_whole


def test_flattening_leaves_nothing_held(tmp_path: Path) -> None:
    place = world()

    status = session(place, tmp_path, bars=30, on_stop="flatten")

    assert status.state == "stopped"
    assert status.positions == {}
    assert status.bars == 31


def test_holding_leaves_what_is_held(tmp_path: Path) -> None:
    assert session(world(), tmp_path, bars=30).positions


def test_a_stopped_session_goes_on_where_it_was(tmp_path: Path) -> None:
    place, folder = world(), tmp_path / "parts"
    first = session(place, folder, bars=25, broker=place.broker(tmp_path / "paper.jsonl"))

    again = session(place, folder, broker=place.broker(tmp_path / "paper.jsonl"))

    assert (first.bars, again.bars) == (25, 60)
    assert check_parity(folder, place.env()) == Parity(rows=60, equal=60)
    # What stood when it was stopped was cancelled, and was decided on anew when it went on.
    trades = trades_of(SessionFolder(folder).journal)
    assert not [trade for trade in trades if trade.order_id.startswith("parts.1-25-")]
    assert [trade for trade in trades if trade.order_id.startswith("parts.1-26-")]


def test_losses_are_counted_from_before_a_restart(tmp_path: Path) -> None:
    place, folder = world(), tmp_path / "parts"
    limits = dataclasses.replace(FREE, max_drawdown=0.001)
    session(place, folder, bars=40, broker=place.broker(tmp_path / "paper.jsonl"), limits=limits)
    records = list(read_journal(SessionFolder(folder).journal))
    equities = [record.fields["equity"] for record in records if record.kind == "observed"]
    # A peak has to hold for three rows.
    peak = max(min(equities[row : row + 3]) for row in range(len(equities) - 2))

    async def run() -> tuple[float, SessionStatus]:
        runner = LiveRunner(
            follow, place.env(), place.feed(), place.broker(tmp_path / "paper.jsonl"), folder,
            LiveConfig(limits=limits),
        )  # fmt: skip
        status = await runner.run(3)
        return runner.session.risk.references.peak_equity, status

    found, status = asyncio.run(run())

    assert status.equity < 0.999 * peak
    assert found == peak
    assert status.orders_refused > 0


def test_the_kill_switch_stops_trading_while_rows_go_on(tmp_path: Path) -> None:
    place = world()
    SessionFolder(tmp_path).kill.write_text("enough", encoding="utf-8")

    status = session(place, tmp_path)

    assert status.state == "killed"
    assert "enough" in status.reason
    assert status.bars == 60
    assert status.orders_sent == 0
    assert "kill" in kinds(tmp_path)


def test_a_kill_file_without_a_reason_is_named_in_the_status(tmp_path: Path) -> None:
    place = world()
    SessionFolder(tmp_path).kill.touch()

    status = session(place, tmp_path)

    assert status.state == "killed"
    assert status.reason == "kill switch: kill file without a reason"


def test_pulled_in_the_middle_the_switch_cancels_and_is_obeyed_until_released(
    tmp_path: Path,
) -> None:
    place = world(rows=240)

    async def run() -> tuple[int, int, int]:
        slow = _Slow(place.feed())
        runner = LiveRunner(
            follow, place.env(), slow, place.broker(), tmp_path, LiveConfig(limits=FREE)
        )
        task = asyncio.ensure_future(runner.run())
        await _until(lambda: hasattr(runner, "monitor") and runner.status().orders_sent > 10)
        runner.switch.pull("by hand")
        await _until(lambda: runner.status().state == "killed")
        before = runner.status().orders_sent
        bars = runner.status().bars
        await _until(lambda: runner.status().bars > bars + 10)
        during = runner.status().orders_sent
        runner.switch.release()
        await _until(lambda: runner.status().orders_sent > during)
        runner.stop()
        await task
        return before, during, runner.status().orders_sent

    before, during, after = asyncio.run(run())

    assert before == during < after
    assert [kind for kind in kinds(tmp_path) if kind in ("kill", "released")] == [
        "kill", "released",
    ]  # fmt: skip


def test_killed_with_flattening_everything_is_sold(tmp_path: Path) -> None:
    place = world(rows=240)

    async def run() -> Any:
        runner = LiveRunner(
            follow, place.env(), _Slow(place.feed()), place.broker(), tmp_path,
            LiveConfig(limits=FREE, on_kill="flatten"),
        )  # fmt: skip
        task = asyncio.ensure_future(runner.run())
        await _until(lambda: hasattr(runner, "monitor") and bool(runner.status().positions))
        runner.switch.pull("by hand")
        await _until(lambda: runner.status().state == "killed" and not runner.status().positions)
        runner.stop()
        return await task

    assert asyncio.run(run()).positions == {}


@pytest.mark.parametrize(
    "faults",
    [
        PaperFaults(seed=1, lose_acknowledgement=0.3),
        PaperFaults(seed=2, disconnect=0.2),
        PaperFaults(seed=3, fill_before_acknowledgement=0.5),
        PaperFaults(seed=4, duplicate_report=0.5, reorder_reports=0.5),
    ],
    ids=["lost acknowledgements", "disconnects", "fills first", "repeated and reordered"],
)
def test_what_a_broker_loses_or_repeats_changes_nothing(
    tmp_path: Path, faults: PaperFaults
) -> None:
    place = world()
    whole = session(place, tmp_path / "whole")

    status = session(place, tmp_path / "faulty", broker=place.broker(faults=faults))

    assert status.equity == whole.equity
    assert status.fills == whole.fills
    assert check_parity(tmp_path / "faulty", place.env(), simulate=True).is_whole


@pytest.mark.parametrize(
    "faults", [PaperFaults(seed=5, reject=0.3), PaperFaults(seed=6, partial_fill=0.5)],
    ids=["rejects", "partial fills"],
)  # fmt: skip
def test_the_env_shows_what_the_broker_did_and_not_what_was_wished(
    tmp_path: Path, faults: PaperFaults
) -> None:
    place = world()
    broker = place.broker(faults=faults)

    status = session(place, tmp_path, broker=broker)

    account = asyncio.run(broker.account())
    assert status.cash == account.cash
    held = {asset: one["units"] for asset, one in status.positions.items()}
    assert held == {asset: units for asset, units in account.units.items() if units}
    assert check_parity(tmp_path, place.env()).is_whole
    assert not check_parity(tmp_path, place.env(), simulate=True).is_whole


def test_without_a_journal_nothing_is_traded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world()
    broker = place.broker()
    import os

    write, left = os.write, [40]

    def short(file: int, content: bytes) -> int:
        left[0] -= os.readlink(f"/proc/self/fd/{file}").endswith("journal.jsonl")
        if left[0] < 0 and os.readlink(f"/proc/self/fd/{file}").endswith("journal.jsonl"):
            raise OSError(28, "No space left on device")
        return write(file, content)

    monkeypatch.setattr("os.write", short)
    with pytest.raises(JournalError, match="No space left"):
        session(place, tmp_path, broker=broker)
    monkeypatch.undo()

    status = read_status(SessionFolder(tmp_path).status)
    assert status.state == "failed"
    decided = {
        one["id"]
        for record in read_journal(SessionFolder(tmp_path).journal)
        if record.kind == "decision"
        for one in record.fields["orders"]
    }
    assert set(broker._orders._accepted) <= decided


def test_a_policy_that_raises_ends_the_session_and_leaves_no_order(tmp_path: Path) -> None:
    place = world()
    broker = place.broker()
    calls = 0

    def breaks(observation: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise RuntimeError("lost its mind")
        return follow(observation)

    with pytest.raises(RuntimeError, match="lost its mind"):
        session(place, tmp_path, broker=broker, policy=breaks)

    assert asyncio.run(broker.account()).open_units == {}
    assert read_status(SessionFolder(tmp_path).status).state == "failed"


def test_an_env_that_sizes_at_the_fill_is_refused(tmp_path: Path) -> None:
    place = world(execution=Execution())

    with pytest.raises(ValueError, match="sizing='decision'"):
        session(place, tmp_path)


class _Slow(Feed):
    """Rows a few milliseconds apart."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed

    async def __anext__(self) -> FeedEvent:
        await asyncio.sleep(0.005)
        return await self._feed.__anext__()


async def _until(is_so: Any, seconds: float = 20.0) -> None:
    for _ in range(int(seconds / 0.002)):
        if is_so():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came about")


def test_a_feed_without_events_and_close_is_refused_before_anything_is_opened(
    tmp_path: Path,
) -> None:
    place = world()

    class Rows:
        history = place.data.rows(0, place.known)

        async def next_bar(self) -> Any:
            raise AssertionError("not read")

    assert isinstance(Rows(), BarFeed)
    feed: Any = Rows()

    with pytest.raises(TypeError, match=r"sekai\.live\.Feed.*close\(\): subclass Feed.*QueueFeed"):
        LiveRunner(follow, place.env(), feed, place.broker(), tmp_path / "session")

    assert not (tmp_path / "session").exists()


class LateFeed(ReplayFeed):
    """Feed whose first rows were missed and are fetched afterwards."""

    late = 5

    async def __anext__(self) -> FeedEvent:
        return self._marked(await super().__anext__())

    def take_ready(self) -> FeedEvent | None:
        event = super().take_ready()
        return None if event is None else self._marked(event)

    def _marked(self, event: FeedEvent) -> FeedEvent:
        if isinstance(event, BarEvent) and self.late:
            self.late -= 1
            return dataclasses.replace(event, is_late=True)
        return event


def test_rows_that_were_missed_do_not_count_as_traded_rows(tmp_path: Path) -> None:
    place = world()
    feed = LateFeed(place.data, place.known)

    status = session(place, tmp_path / "one", feed=feed, bars=20)

    assert (status.bars, status.decisions) == (25, 20)
