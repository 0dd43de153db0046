"""Session status: the monitor that collects it, its JSON file, and its reader."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.core.base import Closeable
from sekai.error import JournalError
from sekai.live.account import BrokerAccount
from sekai.live.clock import Clock
from sekai.live.feed import FeedHealth
from sekai.live.latency import LatencyHistogram, LatencySummary
from sekai.live.orders import OrderTracker, TrackedOrder
from sekai.live.secret import values_without_secrets
from sekai.live.session_log import redacted
from sekai.live.state_machine import SessionState, SessionStateMachine
from sekai.market.costs import COST_FIELDS, COST_KINDS
from sekai.storage.files import atomic_write
from sekai.storage.strict_json import parse_json

if TYPE_CHECKING:
    from sekai.live.episode import LiveEpisode

__all__ = [
    "LatencySummary",
    "OrderLine",
    "SessionMonitor",
    "SessionState",
    "SessionStatus",
    "StatusWriter",
    "read_status",
]

LATENCIES = ("feed_to_decision", "row_to_account", "decision_to_order", "order_to_fill")
MAX_EQUITY_POINTS = 1_000
MAX_LINES = 50
MAX_FILE_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLine:
    """Order as a row of the status table."""

    time: str
    id: str
    asset: str
    units: float
    filled: float
    price: float
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """Status of a session: state, account, orders, latencies, feed health and alerts."""

    session: str
    state: SessionState
    reason: str = ""
    """Reason of a state other than trading."""

    updated: str = ""
    """Time of the status in UTC, ISO 8601 with milliseconds."""

    bars: int = 0
    decisions: int = 0
    orders_sent: int = 0
    orders_refused: int = 0
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Refused orders by the risk limit that they would have broken."""

    fills: int = 0
    """Counts of rows, decisions, orders and fills are since the session began, over restarts."""

    equity: float = 0.0
    cash: float = 0.0
    profit: float = 0.0
    """Profit since the session began."""

    drawdown: float = 0.0
    gross: float = 0.0
    """Gross exposure over equity."""

    net: float = 0.0
    """Net exposure over equity."""

    costs: Mapping[str, float] = field(default_factory=dict)
    positions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Units, price, value and weight of each held asset."""

    price_decimals: Mapping[str, int] = field(default_factory=dict)
    """Decimals of the prices of each asset."""

    orders: tuple[OrderLine, ...] = ()
    """Latest orders, newest first; at most 50."""

    equity_times: tuple[str, ...] = ()
    equity_values: tuple[float, ...] = ()
    """Equity curve, thinned to at most 1,000 points."""

    latency: Mapping[str, LatencySummary] = field(default_factory=dict)
    """Latencies since the last start by name: feed_to_decision; its part row_to_account, the query
    of the broker; decision_to_order; order_to_fill."""

    feed: FeedHealth = field(default_factory=FeedHealth)
    """Health of the feed since the last start."""

    alerts: tuple[str, ...] = ()
    """Alerts for operators, newest first; at most 50."""

    causes: Mapping[str, str] = field(default_factory=dict)
    """Causes that restrict trading, with their reasons; see `live.state_machine`."""

    residuals: Mapping[str, str] = field(default_factory=dict)
    """Orders that were not sent in full because of lots and minimum sizes, by asset."""

    kill_requested: str = ""
    """Time at which the watchdog saw the kill switch pulled; empty while it is not."""

    kill_obeyed: str = ""
    """Time since which no order of the session is open and none is sent."""

    kill_detail: str = ""
    """Remaining work of a kill, such as orders that are still open."""

    alerts_total: int = 0
    """Number of alerts since the last start."""

    def __repr__(self) -> str:
        return (
            f"SessionStatus({self.session!r}, {self.state}, {self.bars:,} rows, equity "
            f"{self.equity:,.2f}, {self.fills:,} fills, {self.orders_refused:,} refused, "
            f"{self.alerts_total:,} alerts)"
        )

    @property
    def kill_text(self) -> str:
        """Sentence about the kill switch: requested, and obeyed or not yet; empty if it is off."""
        if not self.kill_requested:
            return ""
        obeyed = f"obeyed at {self.kill_obeyed}" if self.kill_obeyed else "NOT obeyed yet"
        detail = f": {self.kill_detail}" if self.kill_detail else ""
        return f"kill requested at {self.kill_requested}, {obeyed}{detail}"

    def to_json(self) -> str:
        """Status as JSON text."""
        # `asdict` would copy every point of the equity curve: ten times as long, and the trading
        # thread waits meanwhile.
        values = _fields(self)
        values["orders"] = [_fields(order) for order in self.orders]
        values["latency"] = {name: _fields(summary) for name, summary in self.latency.items()}
        values["feed"] = self.feed.to_dict()
        for name in ("costs", "refusals", "price_decimals", "causes", "residuals"):
            values[name] = dict(values[name])
        values["positions"] = {asset: dict(row) for asset, row in self.positions.items()}
        values = values_without_secrets(values)
        try:
            return json.dumps(values, allow_nan=False)
        except ValueError:
            # Rarely: a broker may report anything.
            return json.dumps(_finite(values), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> SessionStatus:
        """Status from `to_json`; `ValueError` for any other text."""
        values: dict[str, Any] = parse_json(text)
        try:
            latency = {name: _latency(row) for name, row in values.pop("latency").items()}
            orders = tuple(OrderLine(**row) for row in values.pop("orders"))
            feed = FeedHealth.from_dict(values.pop("feed"))
            lists: dict[str, Any] = {name: tuple(values.pop(name)) for name in _LISTS}
            return cls(latency=latency, orders=orders, feed=feed, **lists, **values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a session status: {text[:80]!r}") from error


_LISTS = ("equity_times", "equity_values", "alerts")


class SessionMonitor:
    """Collects counts, equity curve, latencies and alerts of a session, in bounded memory.

    Args:
        session: name of the session.
        assets: traded assets.
        tracker: orders of the session.
        state: state machine of the session.
        price_decimals: decimals of the prices of each asset.
        clock: clock of the timestamps.
    """

    def __init__(
        self,
        session: str,
        assets: tuple[str, ...],
        tracker: OrderTracker,
        state: SessionStateMachine,
        price_decimals: Mapping[str, int] | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self.residuals: dict[str, str] = {}
        """Orders that were not sent in full because of lots and minimum sizes, by asset."""

        self._alert_count = 0
        self.session, self.assets = session, assets
        self.price_decimals = dict(price_decimals or {})
        self._tracker, self._state = tracker, state
        self._bars = self._decisions = 0
        self._refusals: Counter[str] = Counter()
        self.latency = {name: LatencyHistogram() for name in LATENCIES}
        self._alerts: deque[str] = deque(maxlen=MAX_LINES)
        self._equity: list[tuple[str, float]] = []
        self._every, self._rows = 1, 0
        self._info: Mapping[str, Any] = {}
        self._positions: dict[str, dict[str, float]] = {}
        self._costs: dict[str, float] = {}
        self._row_costs: Mapping[str, Any] = {}
        self._first_equity: float | None = None

    def alert(self, text: str) -> None:
        """Raise an alert for operators."""
        # Texts of brokers, venues and exceptions may contain secrets.
        self._alert_count += 1
        self._alerts.appendleft(f"{self._now()} {redacted(text)}")

    def note_row(
        self, time: str, info: Mapping[str, Any], account: BrokerAccount, episode: LiveEpisode
    ) -> None:
        """Record the result of a row.

        Args:
            time: timestamp of the row.
            info: info of the env.
            account: account of the broker.
            episode: source of the latest prices.
        """
        self.note_equity(time, float(info["equity"]))
        self.note_account(info, account, episode)
        self._count_row(info)

    def note_decision(self, refusals: Iterable[str]) -> None:
        """Count a decision of the policy, and its refused orders by limit."""
        self._decisions += 1
        self._refusals.update(refusals)

    def refusal_text(self) -> str:
        """Number of refused orders and the limits that refused them; empty if there are none."""
        if not self._refusals:
            return ""
        limits = ", ".join(f"{limit} {count:,}" for limit, count in self._refusals.most_common())
        return f"{self._refusals.total():,} orders were refused by risk limits: {limits}"

    def replay(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Count a journal record of before a restart; the tracker counts orders and fills."""
        if kind == "account":
            # Accounts name costs by their rates, infos by their kinds.
            names = zip(COST_KINDS, COST_FIELDS, strict=True)
            self._row_costs = {kind: fields["costs"].get(name, 0.0) for kind, name in names}
        elif kind == "observed":
            self._count_row(self._row_costs)
        elif kind == "decision" and fields["action"] is not None:
            self.note_decision(refusal.get("limit", "order") for refusal in fields["refusals"])

    def _count_row(self, costs: Mapping[str, Any]) -> None:
        self._bars += 1
        for kind in COST_KINDS:
            self._costs[kind] = self._costs.get(kind, 0.0) + float(costs.get(kind, 0.0))

    def note_account(
        self, info: Mapping[str, Any], account: BrokerAccount, episode: LiveEpisode
    ) -> None:
        """Record the account; see `note_row`."""
        self._info = info
        prices = dict(zip(self.assets, episode.prices.tolist(), strict=False))
        self._positions = account.positions(prices, float(info["equity"]))

    def note_equity(self, time: str, equity: float) -> None:
        """Add a point to the equity curve, of this run or of before a restart."""
        if self._first_equity is None:
            self._first_equity = equity
        self._rows += 1
        if self._rows % self._every:
            return
        self._equity.append((time, equity))
        if len(self._equity) > MAX_EQUITY_POINTS:
            self._equity = self._equity[::2]
            self._every *= 2

    def status(
        self, feed: FeedHealth, *, kill: tuple[str, str, str] = ("", "", "")
    ) -> SessionStatus:
        """Current status.

        Args:
            feed: health of the feed.
            kill: when a kill was requested and obeyed, and what remains of it.
        """
        info = self._info
        equity = float(info.get("equity", 0.0))
        first = equity if self._first_equity is None else self._first_equity
        return SessionStatus(
            session=self.session,
            state=self._state.state,
            reason=redacted(self._state.reason),
            updated=self._now(),
            bars=self._bars,
            decisions=self._decisions,
            orders_sent=self._tracker.sent,
            orders_refused=self._refusals.total(),
            refusals=dict(self._refusals),
            fills=self._tracker.fills,
            equity=equity,
            profit=equity - first,
            gross=_share(info.get("gross", 0.0), equity),
            net=_share(info.get("net", 0.0), equity),
            cash=float(info.get("cash", 0.0)),
            drawdown=float(info.get("drawdown", 0.0)),
            costs=dict(self._costs),
            positions=self._positions,
            price_decimals=self.price_decimals,
            orders=tuple(_line(tracked) for tracked in self._tracker.latest(MAX_LINES)),
            equity_times=tuple(time for time, _ in self._equity),
            equity_values=tuple(value for _, value in self._equity),
            latency={name: histogram.summary() for name, histogram in self.latency.items()},
            feed=feed,
            alerts=tuple(self._alerts),
            alerts_total=self._alert_count,
            causes={name: redacted(reason) for name, reason in self._state.causes.items()},
            residuals=dict(self.residuals),
            kill_requested=kill[0],
            kill_obeyed=kill[1],
            kill_detail=redacted(kill[2]),
        )

    def state_dict(self) -> dict[str, Any]:
        """Counts and equity curve since the session began; alerts and latencies start anew."""
        return {
            "counts": [self._bars, self._decisions, self._every, self._rows],
            "refusals": dict(self._refusals),
            "equity": [list(point) for point in self._equity],
            "costs": dict(self._costs),
            "row_costs": {name: float(cost) for name, cost in self._row_costs.items()},
            "first_equity": self._first_equity,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._bars, self._decisions, self._every, self._rows = state["counts"]
        self._refusals = Counter(state["refusals"])
        self._equity = [(time, equity) for time, equity in state["equity"]]
        self._costs, self._row_costs = dict(state["costs"]), dict(state["row_costs"])
        self._first_equity = state["first_equity"]

    def _now(self) -> str:
        now = datetime.fromtimestamp(self._clock.wall_ns() / 1e9, timezone.utc)
        return now.isoformat(timespec="milliseconds")


class StatusWriter(Closeable):
    """Writes the newest status to a file from its own thread, at a limited rate.

    Args:
        path: the file.
        every: least seconds between two writes.
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 1.0) -> None:
        if not every >= 0.0:
            raise ValueError(f"every must be at least 0 seconds, got {every}")
        self.path = Path(path)
        self.every = every
        self.written = 0
        """Number of writes."""

        self.failures = 0
        """Number of failed writes; the next status is tried all the same."""

        self.last_error: Exception | None = None
        # Appending to and popping from a deque are atomic.
        self._newest: deque[SessionStatus] = deque(maxlen=1)
        self._has_news = threading.Event()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sekai-status", daemon=True)
        self._thread.start()

    def offer(self, status: SessionStatus) -> None:
        """Schedule a status for writing, unless a newer one replaces it; returns at once."""
        if self._is_closing.is_set():
            raise JournalError(f"status cannot be written to {self.path}: the writer is closed")
        self._newest.append(status)
        self._has_news.set()

    def close(self) -> None:
        """Return when the newest status is written. Closing twice is no error."""
        self._is_closing.set()
        self._has_news.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._has_news.wait()
            self._has_news.clear()
            self._write_newest()
            self._is_closing.wait(self.every)
        self._write_newest()

    def _write_newest(self) -> None:
        if not self._newest:
            return
        try:
            status = self._newest.pop()
            atomic_write(self.path, status.to_json().encode("utf-8"), fsync=False)
            self.written += 1
        except Exception as error:
            # Trading continues, and so must this thread; monitors see that the status is old.
            self.failures += 1
            self.last_error = error


def read_status(path: str | os.PathLike[str]) -> SessionStatus:
    """Read a status file.

    Raises:
        JournalError: the file is missing or is no status.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
        return SessionStatus.from_json(content.decode("utf-8"))
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise JournalError(f"{path} is not the status of a session: {error}") from error


def _finite(value: Any) -> Any:
    """Replace numbers that JSON cannot hold by the largest ones that it can, or 0 for NaN."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return 0.0 if value != value else math.copysign(sys.float_info.max, value)
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value


def _fields(record: Any) -> dict[str, Any]:
    return {part.name: getattr(record, part.name) for part in fields(record)}


def _latency(values: Mapping[str, Any]) -> LatencySummary:
    buckets = tuple((float(end), int(count)) for end, count in values["buckets"])
    return LatencySummary(**{**values, "buckets": buckets})


def _share(value: float, equity: float) -> float:
    return float(value) / equity if equity > 0 else 0.0


def _line(tracked: TrackedOrder) -> OrderLine:
    order = tracked.order
    decided = datetime.fromtimestamp(tracked.decided / 1e9, timezone.utc)
    return OrderLine(
        time=decided.isoformat(timespec="milliseconds"),
        id=order.id,
        asset=order.asset,
        units=order.units,
        filled=tracked.filled,
        price=tracked.price,
        state=tracked.status,
        reason=redacted(tracked.reason),
    )
