"""What those who watch a session are told, kept up to date as it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.live.broker import BrokerAccount
from sekai.live.feed_health import FeedHealth
from sekai.live.latency import LatencyHistogram
from sekai.live.order_keeper import KeptOrder, OrderKeeper
from sekai.live.redaction import redacted
from sekai.live.status import OrderLine, SessionStatus, State

__all__ = ["SessionMonitor"]

LATENCIES = ("feed_to_decision", "row_to_account", "decision_to_order", "order_to_fill")
POINTS = 1_000
LINES = 50


class SessionMonitor:
    """Counts, the way of equity, latencies and alerts of a session, in bounded memory."""

    def __init__(self, session: str, assets: tuple[str, ...], keeper: OrderKeeper) -> None:
        """Begin with nothing.

        Args:
            session: what it is called.
            assets: what is traded.
            keeper: who knows the orders.
        """
        self.session, self.assets, self._keeper = session, assets, keeper
        self.state: State = "starting"
        self.reason = ""
        self.counts = dict.fromkeys(("bars", "decisions", "orders_sent", "orders_refused"), 0)
        self.fills = 0
        self.latency = {name: LatencyHistogram() for name in LATENCIES}
        self._alerts: deque[str] = deque(maxlen=LINES)
        self._equity: list[tuple[str, float]] = []
        self._every, self._rows = 1, 0
        self._account: Mapping[str, Any] = {}
        self._positions: dict[str, dict[str, float]] = {}
        self._costs: dict[str, float] = {}
        self._first_equity: float | None = None

    def become(self, state: State, reason: str = "") -> None:
        """Say what it does from now on, and why."""
        self.state, self.reason = state, redacted(reason)

    def alert(self, words: str) -> None:
        """Tell something that a person should know."""
        # Brokers, venues and exceptions are quoted, with whatever they say.
        self._alerts.appendleft(f"{_now()} {redacted(words)}")

    def note_row(
        self,
        time: str,
        info: dict[str, Any],
        account: BrokerAccount | None,
        prices: NDArray[np.float64],
    ) -> None:
        """Take in what a row led to.

        Args:
            time: of the row.
            info: what the env told.
            account: what the broker told.
            prices: the last known.
        """
        self.counts["bars"] += 1
        self.note_equity(time, float(info["equity"]))
        self.note_account(info, account, prices)
        for kind in ("commission", "fixed", "spread", "impact", "borrow", "financing", "delisting"):
            self._costs[kind] = self._costs.get(kind, 0.0) + float(info.get(kind, 0.0))

    def note_account(
        self, info: Mapping[str, Any], account: BrokerAccount | None, prices: NDArray[np.float64]
    ) -> None:
        """Take in what the account is; see `note_row`."""
        self._account = info
        if account is not None:
            self._positions = _positions(self.assets, account, prices, float(info["equity"]))

    def status(self, feed: FeedHealth) -> SessionStatus:
        """All of it, as it is now."""
        told = self._account
        equity = float(told.get("equity", 0.0))
        first = equity if self._first_equity is None else self._first_equity
        return SessionStatus(
            session=self.session,
            state=self.state,
            reason=self.reason,
            updated=_now(),
            **self.counts,
            fills=self.fills,
            equity=equity,
            profit=equity - first,
            gross=_share(told.get("gross", 0.0), equity),
            net=_share(told.get("net", 0.0), equity),
            cash=float(told.get("cash", 0.0)),
            drawdown=float(told.get("drawdown", 0.0)),
            costs=dict(self._costs),
            positions=self._positions,
            orders=tuple(_line(one) for one in self._keeper.latest(LINES)),
            equity_times=tuple(time for time, _ in self._equity),
            equity_values=tuple(value for _, value in self._equity),
            latency={name: one.summary() for name, one in self.latency.items()},
            feed=feed,
            alerts=tuple(self._alerts),
        )

    def note_equity(self, time: str, equity: float) -> None:
        """Take in what the account was worth after a row, now or before a restart."""
        if self._first_equity is None:
            self._first_equity = equity
        self._rows += 1
        if self._rows % self._every:
            return
        self._equity.append((time, equity))
        if len(self._equity) > POINTS:
            # Every second point is enough of what is long ago.
            self._equity = self._equity[::2]
            self._every *= 2


def _positions(
    assets: tuple[str, ...],
    account: BrokerAccount,
    prices: NDArray[np.float64],
    equity: float,
) -> dict[str, dict[str, float]]:
    found = {}
    for asset, price in zip(assets, prices, strict=False):
        units = account.units.get(asset, 0.0)
        if units and np.isfinite(price):
            value = units * float(price)
            found[asset] = {
                "units": units, "price": float(price), "value": value,
                "weight": _share(value, equity),
            }  # fmt: skip
    return found


def _share(value: float, equity: float) -> float:
    """Of equity; none where there is no equity."""
    return float(value) / equity if equity > 0 else 0.0


def _line(kept: KeptOrder) -> OrderLine:
    order = kept.order
    return OrderLine(
        time=_clock(kept.decided),
        id=order.id,
        asset=order.asset,
        units=order.units,
        filled=kept.filled,
        price=kept.price,
        state=kept.state,
        reason=redacted(kept.reason),
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _clock(nanoseconds: int) -> str:
    moment = datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc)
    return moment.isoformat(timespec="milliseconds")
