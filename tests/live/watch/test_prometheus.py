from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sekai.cli.training_source import TrainingSource
from sekai.live.config import SessionFolder
from sekai.live.watch import SessionSource
from sekai.live.watch.app import watch_app
from sekai.live.watch.prometheus import metrics_text
from sekai.live.watch.stream import SourcePoller
from tests.live.watch.client import Client
from tests.live.watch.samples import HOSTILE, TOKEN, begin_run, put, sample

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in families
        for one in family.samples
    }


def at(found: Samples, name: str, **labels: str) -> float:
    return found[f"sekai_{name}", frozenset(labels.items())]


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    return SessionFolder(tmp_path / "paper")


def told(*sources: SessionSource | TrainingSource) -> Samples:
    return parsed(metrics_text([one.read() for one in sources]).decode())


def test_what_prometheus_reads_is_what_the_status_says(folder: SessionFolder) -> None:
    status = sample()
    put(folder, status)

    found = told(SessionSource(folder))

    for name in ("equity", "cash", "profit", "drawdown", "gross", "net"):
        assert at(found, f"session_{name}", session="paper") == getattr(status, name)
    for name in ("bars", "decisions", "orders_sent", "orders_refused", "fills"):
        assert at(found, f"session_{name}_total", session="paper") == getattr(status, name)
    for name in ("received", "duplicates", "late", "gaps", "missing", "garbage", "reconnects"):
        assert at(found, f"feed_{name}_total", session="paper") == getattr(status.feed, name)
    for asset, numbers in status.positions.items():
        for name in ("units", "value", "weight"):
            value = at(found, f"session_position_{name}", session="paper", asset=asset)
            assert value == numbers[name]
    for kind, paid in status.costs.items():
        assert at(found, "session_costs", session="paper", kind=kind) == paid
    states = [one.state for one in status.orders]
    for state in set(states):
        value = at(found, "session_latest_orders", session="paper", state=state)
        assert value == states.count(state)
    assert at(found, "session_state", session="paper", state="trading") == 1
    assert at(found, "session_state", session="paper", state="halted") == 0
    assert at(found, "feed_is_connected", session="paper") == 1
    assert at(found, "feed_is_stale", session="paper") == 0


def test_latencies_are_histograms_in_seconds(folder: SessionFolder) -> None:
    status = sample()
    put(folder, status)

    found = told(SessionSource(folder))

    for stage, summary in status.latency.items():
        labels = {"session": "paper", "stage": stage}
        name = "session_latency_seconds"
        assert at(found, f"{name}_count", **labels) == summary.count
        assert at(found, f"{name}_sum", **labels) == pytest.approx(summary.total / 1000)
        for end, count in summary.buckets:
            assert at(found, f"{name}_bucket", **labels, le=str(end / 1000)) == count
        assert at(found, f"{name}_bucket", **labels, le="+Inf") == summary.count


def test_the_age_of_the_last_event_grows(folder: SessionFolder) -> None:
    status = sample()
    status.feed.last_receive_time = time.time_ns() - 3_000_000_000
    put(folder, status)

    assert 3 <= at(told(SessionSource(folder)), "feed_last_event_age_seconds", session="paper") < 60


def test_a_session_without_a_sign_of_life_is_down(folder: SessionFolder, tmp_path: Path) -> None:
    put(folder, sample())
    new = SessionFolder(tmp_path / "new")
    late = SessionSource(folder, lambda: time.time() + 60)
    folder.kill.touch()

    found = told(SessionSource(folder))
    gone = told(late, SessionSource(new))

    assert at(found, "session_up", session="paper") == 1
    assert at(found, "session_kill_switch", session="paper") == 1
    assert at(gone, "session_up", session="paper") == 0
    assert at(gone, "session_up", session="new") == 0
    assert at(gone, "session_kill_switch", session="new") == 0


def test_a_kill_is_requested_before_it_is_obeyed(folder: SessionFolder) -> None:
    put(folder, sample())
    folder.kill.touch()
    requested = told(SessionSource(folder))
    put(folder, sample(state="killed", kill_requested="t", kill_obeyed="u", alerts_total=70))
    obeyed = told(SessionSource(folder))

    assert at(requested, "session_kill_requested", session="paper") == 1
    assert at(requested, "session_kill_obeyed", session="paper") == 0
    assert at(obeyed, "session_kill_obeyed", session="paper") == 1
    assert at(obeyed, "session_alerts_total", session="paper") == 70


@pytest.mark.parametrize(
    ("state", "trading"),
    [("trading", "active"), ("reducing", "reducing"), ("halted", "halted"), ("killed", "halted")],
)
def test_the_trading_state_is_one_of_three(folder: SessionFolder, state: str, trading: str) -> None:
    put(folder, sample(state=state))

    found = told(SessionSource(folder))

    for name in ("active", "reducing", "halted"):
        value = at(found, "session_trading_state", session="paper", state=name)
        assert value == (name == trading)
    assert at(found, "session_state", session="paper", state=state) == 1
    assert at(found, "session_up", session="paper") == 1


def test_odd_names_stay_names(folder: SessionFolder) -> None:
    names = [HOSTILE, 'a"b\\c\nd', "half \ud800", 'x"} 1\nsekai_session_equity{session="y']
    held = {name: {"units": 1.0, "value": 2.0, "weight": 0.5} for name in names}
    put(folder, sample(positions=held, costs=dict.fromkeys(names, 1.0)))

    found = told(SessionSource(folder))

    for name in names:
        shown = name.encode("utf-8", "replace").decode()
        assert at(found, "session_position_weight", session="paper", asset=shown) == 0.5
        assert at(found, "session_costs", session="paper", kind=shown) == 1.0
    assert len([key for key in found if key[0] == "sekai_session_equity"]) == 1


def test_trainings_are_told_too(tmp_path: Path) -> None:
    run = begin_run(tmp_path, rows=5)

    found = told(TrainingSource(run))

    assert at(found, "training_steps", run="demo") == 5 * 1024
    assert at(found, "training_planned_steps", run="demo") == 100_000
    assert at(found, "training_state", run="demo", state="interrupted") == 1
    last = run.curve.rows()[-1]
    for name in ("episode_return", "loss_critic"):
        assert at(found, "training_metric", run="demo", metric=name) == last[name]


def test_the_app_gives_the_same_with_its_type(folder: SessionFolder) -> None:
    put(folder, sample())
    client = Client(watch_app([SessionSource(folder)], TOKEN))

    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert at(parsed(answer.text), "session_up", session="paper") == 1


def test_a_poller_reads_once_for_all_who_ask(folder: SessionFolder) -> None:
    put(folder, sample())
    reads = []

    class Counting(SessionSource):
        def read(self) -> dict[str, object]:
            reads.append(1)
            return super().read()

    async def asked() -> None:
        poller = SourcePoller([Counting(folder)], read_seconds=60)
        await asyncio.gather(*(poller.states() for _ in range(20)))
        put(folder, sample(1))
        await poller.states()
        assert len(reads) == 1
        await poller.states(at_once=True)
        assert len(reads) == 2

    asyncio.run(asked())
