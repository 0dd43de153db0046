"""The same numbers for Prometheus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from sekai.live.status import State

__all__ = ["CONTENT_TYPE", "metrics_text"]

CONTENT_TYPE = CONTENT_TYPE_LATEST

GAUGES = {
    "equity": "What the account is worth.",
    "cash": "What of it is cash.",
    "profit": "What was earned since the session began.",
    "drawdown": "How far equity is below its highest, as a share.",
    "gross": "All positions without their signs, as a share of equity.",
    "net": "All positions, as a share of equity.",
}
COUNTERS = {
    "bars": "Rows that came in.",
    "decisions": "Decisions that were taken.",
    "orders_sent": "Orders that were sent.",
    "orders_refused": "Orders that the limits refused.",
    "fills": "Fills that came back.",
}
FEED = ("received", "duplicates", "late", "gaps", "missing", "garbage", "dropped", "conflated",
        "clock_jumps", "outliers", "crossed", "reconnects")  # fmt: skip
POSITION = {"units": "units", "value": "value", "weight": "share of equity"}
TRAINING_STATES = ("running", "interrupted", "failed", "finished")

Value = Mapping[str, Any]


def metrics_text(values: Sequence[Value]) -> bytes:
    """What sources said, as Prometheus reads it.

    Args:
        values: what `Source.read` gave, of each.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(values))
    return bytes(generate_latest(registry))


class _Collector(Collector):
    def __init__(self, values: Sequence[Value]) -> None:
        sessions = [one for one in values if one["kind"] == "session"]
        self._all = sessions
        self._told = [(_label(one["title"]), one["status"]) for one in sessions if one["status"]]
        self._trainings = [one for one in values if one["kind"] == "training"]

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._states()
        yield from self._account()
        yield from self._orders()
        yield from self._feed()
        yield self._latency()
        yield from _training(self._trainings)

    def _states(self) -> Iterator[Metric]:
        up = _gauge("session_up", "Whether the session gives signs of life.", "session")
        killed = _gauge("session_kill_switch", "Whether its trading was stopped.", "session")
        for one in self._all:
            name, is_up = _label(one["title"]), one["status"] and one["silent_since"] is None
            up.add_metric([name], float(bool(is_up)))
            killed.add_metric([name], float(one["kill"] is not None))
        state = _gauge("session_state", "1 for the state that it is in.", "session", "state")
        for name, status in self._told:
            for known in get_args(State):
                state.add_metric([name, known], float(status["state"] == known))
        yield from (up, killed, state)

    def _account(self) -> Iterator[Metric]:
        for field, meaning in GAUGES.items():
            family = _gauge(f"session_{field}", meaning, "session")
            for name, status in self._told:
                family.add_metric([name], status[field])
            yield family
        for field, meaning in POSITION.items():
            about = f"Of each position: {meaning}."
            family = _gauge(f"session_position_{field}", about, "session", "asset")
            for name, status in self._told:
                for asset, numbers in status["positions"].items():
                    family.add_metric([name, _label(asset)], numbers.get(field, float("nan")))
            yield family
        costs = _gauge("session_costs", "What was paid, by kind.", "session", "kind")
        for name, status in self._told:
            for kind, paid in status["costs"].items():
                costs.add_metric([name, _label(kind)], paid)
        yield costs

    def _orders(self) -> Iterator[Metric]:
        for field, meaning in COUNTERS.items():
            family = _counter(f"session_{field}", meaning)
            for name, status in self._told:
                family.add_metric([name], status[field])
            yield family
        about = "Of the latest orders: how many are in each state."
        latest = _gauge("session_latest_orders", about, "session", "state")
        for name, status in self._told:
            states = Counter(order["state"] for order in status["orders"])
            for state, count in states.items():
                latest.add_metric([name, _label(state)], count)
        yield latest

    def _feed(self) -> Iterator[Metric]:
        for field in FEED:
            family = _counter(f"feed_{field}", f"What the feed counted as {field}.")
            for name, status in self._told:
                family.add_metric([name], status["feed"][field])
            yield family
        for field in ("is_connected", "is_stale"):
            about = f"1 while the feed {field.replace('_', ' ')}."
            flag = _gauge(f"feed_{field}", about, "session")
            for name, status in self._told:
                flag.add_metric([name], float(status["feed"][field]))
            yield flag
        age = _gauge("feed_last_event_age_seconds", "How long ago the last event came.", "session")
        for name, status in self._told:
            last = status["feed"]["last_receive_time"]
            if last:
                age.add_metric([name], max(time.time() - last / 1e9, 0.0))
        yield age

    def _latency(self) -> Metric:
        family = HistogramMetricFamily(
            "sekai_session_latency_seconds", "How long it took.", labels=["session", "stage"]
        )
        for name, status in self._told:
            for stage, summary in status["latency"].items():
                ends = [(str(end / 1e3), count) for end, count in summary["buckets"]]
                buckets = [*ends, ("+Inf", summary["count"])]
                family.add_metric([name, _label(stage)], buckets, summary["total"] / 1e3)
        return family


def _training(trainings: Sequence[Value]) -> Iterator[Metric]:
    state = _gauge("training_state", "1 for the state that it is in.", "run", "state")
    steps = _gauge("training_steps", "Steps that were learnt from.", "run")
    planned = _gauge("training_planned_steps", "Steps that are to be learnt from.", "run")
    speed = _gauge("training_steps_per_second", "How fast it learns.", "run")
    latest = _gauge("training_metric", "The last that was told, by name.", "run", "metric")
    for one in trainings:
        name = _label(one["title"])
        for known in TRAINING_STATES:
            state.add_metric([name, known], float(one["state"] == known))
        steps.add_metric([name], one["steps"])
        planned.add_metric([name], one["planned_steps"])
        if one["steps_per_second"] is not None:
            speed.add_metric([name], one["steps_per_second"])
        for metric, value in one["latest"].items():
            latest.add_metric([name, _label(metric)], value)
    yield from (state, steps, planned, speed, latest)


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sekai_{name}", meaning, labels=labels)


def _counter(name: str, meaning: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"sekai_{name}", meaning, labels=["session"])


def _label(text: object) -> str:
    # Names come from files, where half a character is possible; no encoding takes that.
    return str(text).encode("utf-8", "replace").decode("utf-8")
