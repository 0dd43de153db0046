"""Prometheus metrics of sessions and training runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
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

from sekai.live.feed import FeedHealth
from sekai.live.status import SessionState
from sekai.live.watch.sources import RUNNING_STATES

__all__ = ["CONTENT_TYPE", "metrics_text"]

CONTENT_TYPE = CONTENT_TYPE_LATEST

GAUGES = {
    "equity": "Equity of the account.",
    "cash": "Cash of the account.",
    "profit": "Profit since the start of the session.",
    "drawdown": "Drawdown from the highest equity, as a share.",
    "gross": "Gross exposure as a share of equity.",
    "net": "Net exposure as a share of equity.",
}
COUNTERS = {
    "bars": "Bars received.",
    "decisions": "Decisions taken.",
    "orders_sent": "Orders sent.",
    "orders_refused": "Orders rejected by risk limits.",
    "fills": "Fills received.",
    "alerts": "Alerts raised since the last start.",
}
TRADING_STATES = {"trading": "active", "reducing": "reducing"}
"""Trading state by state of the session; in all others nothing is traded."""

FEED_COUNTERS = tuple(
    field.name
    for field in fields(FeedHealth)
    if field.type == "int" and not field.name.startswith("last_")
)
POSITION = {"units": "units", "value": "value", "weight": "share of equity"}
TRAINING_STATES = ("running", "interrupted", "failed", "finished")

Value = Mapping[str, Any]


def metrics_text(values: Sequence[Value]) -> bytes:
    """Metrics of all sources in the Prometheus text format.

    Args:
        values: results of `MonitorSource.read`.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(values))
    return bytes(generate_latest(registry))


class _Collector(Collector):
    def __init__(self, values: Sequence[Value]) -> None:
        sessions = [value for value in values if value["kind"] == "session"]
        self._sessions = sessions
        self._statuses = [
            (_label(value["title"]), value["status"]) for value in sessions if value["status"]
        ]
        self._trainings = [value for value in values if value["kind"] == "training"]

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
        up = _gauge("session_up", "1 if the session process is running.", "session")
        killed = _gauge("session_kill_switch", "1 if the kill switch is on.", "session")
        about = "1 if the kill switch was pulled, obeyed or not."
        requested = _gauge("session_kill_requested", about, "session")
        about = "1 if the session confirmed the kill: no order is sent."
        obeyed = _gauge("session_kill_obeyed", about, "session")
        for value in self._sessions:
            name = _label(value["title"])
            is_up = value["status"] and value["silent_since"] is None
            up.add_metric([name], float(bool(is_up)))
            killed.add_metric([name], float(value["kill"] is not None))
            status = value["status"] or {}
            is_requested = value["kill"] is not None or status.get("kill_requested")
            requested.add_metric([name], float(bool(is_requested)))
            obeyed.add_metric([name], float(bool(is_requested and status.get("kill_obeyed"))))
        state = _gauge("session_state", "1 for the current state.", "session", "state")
        for name, status in self._statuses:
            for known in dict.fromkeys((*get_args(SessionState), *RUNNING_STATES)):
                state.add_metric([name, known], float(status["state"] == known))
        about = "1 for the current trading state: active, reducing or halted."
        trading = _gauge("session_trading_state", about, "session", "state")
        for name, status in self._statuses:
            current = TRADING_STATES.get(status["state"], "halted")
            for known in ("active", "reducing", "halted"):
                trading.add_metric([name, known], float(current == known))
        yield from (up, killed, requested, obeyed, state, trading)

    def _account(self) -> Iterator[Metric]:
        for field, meaning in GAUGES.items():
            family = _gauge(f"session_{field}", meaning, "session")
            for name, status in self._statuses:
                family.add_metric([name], status[field])
            yield family
        for field, meaning in POSITION.items():
            about = f"Position: {meaning}."
            family = _gauge(f"session_position_{field}", about, "session", "asset")
            for name, status in self._statuses:
                for asset, numbers in status["positions"].items():
                    family.add_metric([name, _label(asset)], numbers.get(field, float("nan")))
            yield family
        costs = _gauge("session_costs", "Costs by kind.", "session", "kind")
        for name, status in self._statuses:
            for kind, amount in status["costs"].items():
                costs.add_metric([name, _label(kind)], amount)
        yield costs

    def _orders(self) -> Iterator[Metric]:
        for field, meaning in COUNTERS.items():
            family = _counter(f"session_{field}", meaning)
            for name, status in self._statuses:
                family.add_metric([name], status["alerts_total" if field == "alerts" else field])
            yield family
        about = "Latest orders by state."
        latest = _gauge("session_latest_orders", about, "session", "state")
        for name, status in self._statuses:
            states = Counter(order["state"] for order in status["orders"])
            for state, count in states.items():
                latest.add_metric([name, _label(state)], count)
        yield latest

    def _feed(self) -> Iterator[Metric]:
        for field in FEED_COUNTERS:
            family = _counter(f"feed_{field}", f"Feed health count: {field}.")
            for name, status in self._statuses:
                family.add_metric([name], status["feed"][field])
            yield family
        for field in ("is_connected", "is_stale"):
            about = f"1 while the feed {field.replace('_', ' ')}."
            flag = _gauge(f"feed_{field}", about, "session")
            for name, status in self._statuses:
                flag.add_metric([name], float(status["feed"][field]))
            yield flag
        age = _gauge("feed_last_event_age_seconds", "Age of the last feed event.", "session")
        for name, status in self._statuses:
            last = status["feed"]["last_receive_time"]
            if last:
                age.add_metric([name], max(time.time() - last / 1e9, 0.0))
        yield age

    def _latency(self) -> Metric:
        family = HistogramMetricFamily(
            "sekai_session_latency_seconds", "Latency by stage.", labels=["session", "stage"]
        )
        for name, status in self._statuses:
            for stage, summary in status["latency"].items():
                ends = [(str(end / 1e3), count) for end, count in summary["buckets"]]
                buckets = [*ends, ("+Inf", summary["count"])]
                family.add_metric([name, _label(stage)], buckets, summary["total"] / 1e3)
        return family


def _training(trainings: Sequence[Value]) -> Iterator[Metric]:
    state = _gauge("training_state", "1 for the current state.", "run", "state")
    steps = _gauge("training_steps", "Training steps done.", "run")
    planned = _gauge("training_planned_steps", "Training steps planned.", "run")
    speed = _gauge("training_steps_per_second", "Training steps per second.", "run")
    latest = _gauge("training_metric", "Last value of each training metric.", "run", "metric")
    for value in trainings:
        name = _label(value["title"])
        for known in TRAINING_STATES:
            state.add_metric([name, known], float(value["state"] == known))
        steps.add_metric([name], value["steps"])
        planned.add_metric([name], value["planned_steps"])
        if value["steps_per_second"] is not None:
            speed.add_metric([name], value["steps_per_second"])
        for metric, number in value["latest"].items():
            latest.add_metric([name, _label(metric)], number)
    yield from (state, steps, planned, speed, latest)


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sekai_{name}", meaning, labels=labels)


def _counter(name: str, meaning: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"sekai_{name}", meaning, labels=["session"])


def _label(text: object) -> str:
    # Names from files may contain lone surrogates, which cannot be encoded.
    return str(text).encode("utf-8", "replace").decode("utf-8")
