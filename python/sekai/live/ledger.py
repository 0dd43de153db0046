"""Ledger: positions and cash expected from fills, as a second opinion on a broker's account."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from sekai.error import StateError
from sekai.live.account import AccountDifference, BrokerAccount, valid_price
from sekai.live.orders import (
    BrokerOrder,
    ExecutionReport,
    order_from_fields,
    report_from_fields,
)

__all__ = ["Ledger", "LedgerCheck", "LedgerStatus", "adoption_fields"]

LedgerStatus = Literal["agreed", "lagging", "different", "unusable"]

TOLERANCE = 1e-9
"""Rounding difference of positions and cash, relative to max(1, expected)."""

KEPT_ORDERS = 10_000
"""Number of orders whose asset and reports are remembered."""

KEPT_ENTRIES = 10_000
"""Number of entries that an account may lag behind."""

_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck:
    """Comparison of an account that a broker reported with the ledger."""

    status: LedgerStatus
    """`agreed`; `lagging`: equal to the ledger before its last entries, all of them recent;
    `different`; `unusable`: not an account at all, such as an empty or malformed answer."""

    differences: tuple[AccountDifference, ...] = ()
    """Differences between the ledger and the answer; empty if they agree."""

    lag: int = 0
    """Number of entries that the account lags behind."""

    absorbed: float = 0.0
    """Unexplained cash that this check added to the ledger."""

    foreign: Mapping[str, float] = field(default_factory=dict)
    """Positions in assets that the session does not trade."""

    foreign_changes: tuple[AccountDifference, ...] = ()
    """Changes of foreign positions since the last usable answer."""

    seconds: float = 0.0
    """Seconds since the ledger and the broker agreed last."""

    is_tolerated: bool = True
    """True if trading may go on: the account agrees, lags behind recent fills, or is unusable for
    no longer than the allowed lag."""

    reason: str = ""
    """Problem in words; empty if they agree."""

    def fields(self) -> dict[str, Any]:
        """Fields of a journal record of this check, which `Ledger.replay` takes."""
        return {
            "action": "check",
            "status": self.status,
            "absorbed": self.absorbed,
            "reason": self.reason,
        }


class _Entry(NamedTuple):
    """Change of the ledger by a fill or a corporate action."""

    asset: str
    units: float
    cash: float
    time: int


class Ledger:
    """Ledger of the positions and cash that fills add up to since an account was adopted.

    Every account that the broker reports is compared with it. One that differs stays different
    until the broker agrees again, or a person adopts its account. Holding costs are no fills:
    they are explained as far as the broker reports them (`BrokerAccount.costs`).

    Args:
        assets: assets of the session; others are foreign. None if all are its own.
        account_lag_seconds: time within which an account may lag behind fills.
        max_cash_discrepancy: unexplained cash, such as interest, that is absorbed per day, as a
            share of equity; the absolute amounts are added up.
    """

    def __init__(
        self,
        assets: Collection[str] | None = None,
        *,
        account_lag_seconds: float = 5.0,
        max_cash_discrepancy: float = 0.001,
    ) -> None:
        self._assets = None if assets is None else frozenset(assets)
        self._lag = account_lag_seconds
        self._share = max_cash_discrepancy
        self.units: dict[str, float] = {}
        """Expected positions in the assets of the session."""

        self.cash = 0.0
        """Expected cash before holding costs since the account was adopted."""

        self.is_adopted = False
        """True once an account was adopted."""

        self.is_different = False
        """True from an account that differed until one agrees, or is adopted."""

        self.absorbed = 0.0
        """Unexplained cash absorbed since the day began, signs ignored."""

        self.absorptions = 0
        """Number of times that unexplained cash was absorbed since the session began."""

        self._holding_costs = 0.0
        self._equity = math.nan
        self._agreed_at: int | None = None
        self._last: BrokerAccount | None = None
        self._foreign: dict[str, float] = {}
        self._entries: deque[_Entry] = deque(maxlen=KEPT_ENTRIES)
        self._since_last: deque[_Entry] = deque(maxlen=KEPT_ENTRIES)
        self._uses_ledger = False
        self._orders: OrderedDict[str, tuple[str, set[str]]] = OrderedDict()

    def adopt(self, account: BrokerAccount, now: int) -> None:
        """Take positions and cash from the broker: at the start, and by the command of a person.

        Raises:
            ValueError: the account is malformed; nothing has changed.
        """
        problem = _malformed(account)
        if problem:
            raise ValueError(f"account cannot be adopted: {problem}")
        self.units = {asset: units for asset, units in account.units.items() if self._owns(asset)}
        self.cash, self._holding_costs = account.cash, account.holding_costs
        self.is_adopted, self.is_different = True, False
        self.absorbed = 0.0
        self._foreign = self._foreign_of(account)
        self._entries.clear()
        self._take_last(account, now)

    def begin_day(self) -> None:
        """Allow the unexplained cash of another day."""
        self.absorbed = 0.0

    def expect(self, order: BrokerOrder) -> None:
        """Remember the asset of an order, so that its fills can be counted."""
        self._remember(order.id, order.asset, set())

    def apply(self, report: ExecutionReport, now: int) -> bool:
        """Count a fill once; return True if it was new.

        A fill without an order is counted by its own asset, if it names one. One that cannot be
        counted leaves a difference to the account.
        """
        cash = -report.units * report.price - report.cost
        asset, seen = self._orders.get(report.order_id, (report.asset, set[str]()))
        is_fill = report.kind == "filled" and asset and math.isfinite(report.units + cash)
        if not is_fill or report.id in seen:
            return False
        seen.add(report.id)
        self._remember(report.order_id, asset, seen)
        self._enter(_Entry(asset, report.units, cash, now))
        return True

    def corporate_action(
        self, asset: str, now: int, *, dividend: float = 0.0, split: float = 1.0
    ) -> None:
        """Apply a dividend per unit and a split: positions are split first."""
        held = self.units.get(asset, 0.0)
        if held:
            self._enter(_Entry(asset, held * split - held, held * split * dividend, now))

    def compare(
        self, account: BrokerAccount, now: int, prices: Mapping[str, float] | None = None
    ) -> LedgerCheck:
        """Compare an account that the broker reported with the ledger.

        Args:
            account: the answer of the broker.
            now: time in nanoseconds by a clock that does not step, such as `Clock.boot_ns`.
            prices: latest validated prices; without them nothing but rounding is absorbed until
                equity is known.
        """
        if not self.is_adopted:
            raise ValueError("no account to compare with; adopt one first")
        self._note_equity(prices or {})
        problem = _malformed(account) or self._missing(account, prices or {})
        if problem:
            return self._unusable(problem, now)
        differences = self._differences(account)
        cash = sum(part.reported - part.expected for part in differences if part.name == "cash")
        is_cash_only = all(part.name == "cash" for part in differences)
        foreign = self._foreign_of(account)
        shared: dict[str, Any] = {"foreign": foreign, "foreign_changes": self._changes(foreign)}
        self._foreign = foreign
        if is_cash_only and abs(cash) <= self._room():
            self._absorb(cash)
            self.is_different = False
            self._forget_entries(now)
            self._take_last(account, now)
            return LedgerCheck(status="agreed", absorbed=cash, **shared)
        shared |= {"differences": tuple(differences), "seconds": self._seconds(now)}
        lag = self._lag_of(differences)
        if lag and not self.is_different and self._is_recent(self._entries[-lag], now):
            self._take_lagging(account, lag)
            reason = f"the account lags behind the last {lag} fills"
            return LedgerCheck(status="lagging", lag=lag, reason=reason, **shared)
        self.is_different = True
        self._last, self._uses_ledger = account, False
        self._since_last.clear()
        reason = "; ".join(map(str, differences))
        return LedgerCheck(status="different", lag=lag, is_tolerated=False, reason=reason, **shared)

    def account(self) -> BrokerAccount:
        """Account to trade on: the broker's, or the ledger's while that lags or is unusable.

        A different account is the broker's own: it is where the positions are.
        """
        if self._last is None:
            raise ValueError("no account yet; adopt one first")
        if not self._uses_ledger and (self.is_different or not self._since_last):
            return self._last
        return self.expected()

    @property
    def reported(self) -> BrokerAccount:
        """Last usable account that the broker reported."""
        if self._last is None:
            raise ValueError("no account yet; adopt one first")
        return self._last

    def expected(self) -> BrokerAccount:
        """Account of the ledger, with the foreign positions and costs that the broker reported."""
        if self._last is None:
            raise ValueError("no account yet; adopt one first")
        waiting = _less_filled(self._last.open_units, self._since_last)
        carried = self._last.carried_units
        return replace(
            self._last,
            cash=self.cash - (self._last.holding_costs - self._holding_costs),
            units={**self._foreign, **self.units},
            open_units=waiting,
            carried_units=None if carried is None else _less_filled(carried, self._since_last),
            row_costs={},
            row_traded=0.0,
        )

    def replay(self, kind: str, fields: Mapping[str, Any], time: int) -> None:
        """Apply a journal record; kinds that do not change the ledger are ignored.

        Args:
            kind: `order`, `decision` and `report` as of sessions, or `ledger` for `adoption_fields`
                and `LedgerCheck.fields`.
            fields: fields of the record.
            time: time of the record, by the clock that later calls use.
        """
        if kind == "order":
            self.expect(order_from_fields(fields))
        elif kind == "decision":
            for order in fields["orders"]:
                self.expect(order_from_fields(order))
        elif kind == "report":
            self.apply(report_from_fields(fields), time)
        elif kind == "ledger" and fields["action"] == "adopt":
            self.adopt(_account_from(fields), time)
        elif kind == "ledger" and fields["action"] == "check":
            self._replay_check(fields, time)

    def state_dict(self) -> dict[str, Any]:
        """State as plain values, from which `load_state_dict` continues."""
        return {
            "units": dict(self.units),
            "cash": self.cash,
            "is_adopted": self.is_adopted,
            "is_different": self.is_different,
            "absorbed": self.absorbed,
            "absorptions": self.absorptions,
            "holding_costs": self._holding_costs,
            "equity": None if math.isnan(self._equity) else self._equity,
            "agreed_at": self._agreed_at,
            "last": None if self._last is None else adoption_fields(self._last),
            "foreign": dict(self._foreign),
            "entries": [list(entry) for entry in self._entries],
            "since_last": [list(entry) for entry in self._since_last],
            "uses_ledger": self._uses_ledger,
            "orders": [[name, asset, sorted(ids)] for name, (asset, ids) in self._orders.items()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        try:
            loaded = _loaded(state)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"not the state of a ledger: {error!r}") from error
        for name, value in loaded.items():
            setattr(self, name, value)

    def _owns(self, asset: str) -> bool:
        return self._assets is None or asset in self._assets

    def _foreign_of(self, account: BrokerAccount) -> dict[str, float]:
        return {
            asset: units
            for asset, units in account.units.items()
            if not self._owns(asset) and asset not in self.units and units
        }

    def _remember(self, order_id: str, asset: str, seen: set[str]) -> None:
        self._orders.setdefault(order_id, (asset, seen))
        while len(self._orders) > KEPT_ORDERS:
            self._orders.popitem(last=False)

    def _enter(self, entry: _Entry) -> None:
        self.units[entry.asset] = self.units.get(entry.asset, 0.0) + entry.units
        self.cash += entry.cash
        self._entries.append(entry)
        self._since_last.append(entry)

    def _note_equity(self, prices: Mapping[str, float]) -> None:
        """Update the equity that cash discrepancies are a share of, if all prices are known."""
        equity = self.cash + math.fsum(
            units * valid_price(prices.get(asset, math.nan))
            for asset, units in self.units.items()
            if units
        )
        if math.isfinite(equity):
            self._equity = equity

    def _room(self) -> float:
        """Unexplained cash that may still be absorbed."""
        room = 0.0 if math.isnan(self._equity) else self._share * max(0.0, self._equity)
        return max(0.0, room - self.absorbed)

    def _absorb(self, cash: float) -> None:
        if cash:
            self.cash += cash
            self.absorbed += abs(cash)
            self.absorptions += 1

    def _differences(self, account: BrokerAccount) -> list[AccountDifference]:
        """Differences beyond rounding, without those in foreign assets."""
        names = sorted({*self.units, *(name for name in account.units if self._owns(name))})
        pairs = [(name, self.units.get(name, 0.0), account.units.get(name, 0.0)) for name in names]
        cash = self.cash - (account.holding_costs - self._holding_costs)
        pairs.append(("cash", cash, account.cash))
        return [AccountDifference(*pair) for pair in pairs if not _is_close(*pair[1:])]

    def _lag_of(self, differences: Collection[AccountDifference]) -> int:
        """Number of last entries without which the ledger is equal to the account; 0 if none."""
        # Reported less expected, from which entries are taken back one by one.
        left = {part.name: part.reported - part.expected for part in differences}
        scale = {part.name: max(1.0, abs(part.expected)) for part in differences}
        cash = left.pop("cash", 0.0)
        cash_scale = scale.get("cash", max(1.0, abs(self.cash)))
        room = self._room()
        for lag, entry in enumerate(reversed(self._entries), 1):
            cash += entry.cash
            cash_scale = max(cash_scale, abs(entry.cash))
            rest = left.get(entry.asset, 0.0) + entry.units
            size = scale.setdefault(entry.asset, max(1.0, abs(self.units.get(entry.asset, 0.0))))
            if abs(rest) <= TOLERANCE * max(size, abs(entry.units)):
                left.pop(entry.asset, None)
            else:
                left[entry.asset] = rest
            if not left and abs(cash) <= max(room, TOLERANCE * cash_scale):
                return lag
        return 0

    def _is_recent(self, entry: _Entry, now: int) -> bool:
        # A negative age is an unknown one: the clock is that of another boot.
        return 0 <= now - entry.time <= self._lag * _SECOND

    def _forget_entries(self, now: int) -> None:
        """Forget entries that no account may lag behind any more.

        Recent ones are kept although the account agrees: another replica of the venue may lag.
        """
        while self._entries and not self._is_recent(self._entries[0], now):
            self._entries.popleft()

    def _take_last(self, account: BrokerAccount, now: int) -> None:
        self._last, self._agreed_at, self._uses_ledger = account, now, False
        self._since_last.clear()

    def _take_lagging(self, account: BrokerAccount, lag: int) -> None:
        self._last, self._uses_ledger = account, True
        self._since_last = deque(list(self._entries)[-lag:], KEPT_ENTRIES)

    def _changes(self, foreign: Mapping[str, float]) -> tuple[AccountDifference, ...]:
        names = sorted({*foreign, *self._foreign})
        pairs = [(name, self._foreign.get(name, 0.0), foreign.get(name, 0.0)) for name in names]
        return tuple(AccountDifference(*pair) for pair in pairs if not _is_close(*pair[1:]))

    def _missing(self, account: BrokerAccount, prices: Mapping[str, float]) -> str:
        """Problem of an answer in which everything that is expected is missing; else empty.

        Positions that were closed by others leave their value in cash; those of an empty answer
        leave nothing.
        """
        held = {asset: units for asset, units in self.units.items() if not _is_close(units, 0.0)}
        if any(account.units.values()) or not (held or self.cash):
            return ""
        differences = self._differences(account)
        if not differences or self._lag_of(differences):
            return ""
        expected = self.cash - (account.holding_costs - self._holding_costs)
        if account.cash == 0.0:
            return "the answer is empty"
        value = math.fsum(
            units * valid_price(prices.get(asset, math.nan)) for asset, units in held.items()
        )
        gained = account.cash - expected
        if not held or abs(gained - value) <= abs(value) / 2.0:
            return ""
        if math.isnan(value) and not _is_close(expected, account.cash):
            return ""
        return f"all expected positions are missing: {sorted(held)}"

    def _unusable(self, problem: str, now: int) -> LedgerCheck:
        self._uses_ledger = True
        seconds = self._seconds(now)
        return LedgerCheck(
            status="unusable",
            seconds=seconds,
            foreign=self._foreign,
            is_tolerated=not self.is_different and 0.0 <= seconds <= self._lag,
            reason=f"the account is unusable: {problem}",
        )

    def _seconds(self, now: int) -> float:
        return math.inf if self._agreed_at is None else (now - self._agreed_at) / _SECOND

    def _replay_check(self, fields: Mapping[str, Any], time: int) -> None:
        if fields["status"] not in get_args(LedgerStatus):
            raise ValueError(f"unknown status of a ledger {fields['status']!r}")
        self._absorb(float(fields["absorbed"]))
        if fields["status"] == "agreed":
            self.is_different = False
            self._forget_entries(time)
            self._since_last.clear()
            self._agreed_at = time
        elif fields["status"] == "different":
            self.is_different = True


def adoption_fields(account: BrokerAccount) -> dict[str, Any]:
    """Fields of the journal record by which an account is adopted."""
    return {
        "action": "adopt",
        "cash": account.cash,
        "units": dict(account.units),
        "open_units": dict(account.open_units),
        "carried_units": None if account.carried_units is None else dict(account.carried_units),
        "costs": dict(account.costs),
    }


def _account_from(fields: Mapping[str, Any]) -> BrokerAccount:
    carried = fields["carried_units"]
    return BrokerAccount(
        cash=float(fields["cash"]),
        units=dict(fields["units"]),
        open_units=dict(fields["open_units"]),
        carried_units=None if carried is None else dict(carried),
        costs=dict(fields["costs"]),
    )


def _loaded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a ledger from its saved state."""

    def entries(rows: Any) -> deque[_Entry]:
        parts = (_Entry(str(row[0]), float(row[1]), float(row[2]), int(row[3])) for row in rows)
        return deque(parts, KEPT_ENTRIES)

    equity, last = state["equity"], state["last"]
    return {
        "units": {str(asset): float(units) for asset, units in state["units"].items()},
        "cash": float(state["cash"]),
        "is_adopted": bool(state["is_adopted"]),
        "is_different": bool(state["is_different"]),
        "absorbed": float(state["absorbed"]),
        "absorptions": int(state["absorptions"]),
        "_holding_costs": float(state["holding_costs"]),
        "_equity": math.nan if equity is None else float(equity),
        "_agreed_at": None if state["agreed_at"] is None else int(state["agreed_at"]),
        "_last": None if last is None else _account_from(last),
        "_foreign": {str(asset): float(units) for asset, units in state["foreign"].items()},
        "_entries": entries(state["entries"]),
        "_since_last": entries(state["since_last"]),
        "_uses_ledger": bool(state["uses_ledger"]),
        "_orders": OrderedDict((row[0], (row[1], set(row[2]))) for row in state["orders"]),
    }


def _malformed(account: BrokerAccount) -> str:
    """Problem of an account that is none; else empty."""
    numbers = {"cash": account.cash, "holding costs": account.holding_costs, **account.units}
    broken = sorted(name for name, number in numbers.items() if not _is_finite(number))
    return f"not finite numbers: {broken}" if broken else ""


def _is_finite(number: object) -> bool:
    return isinstance(number, (int, float)) and math.isfinite(number)


def _is_close(expected: float, reported: float) -> bool:
    return abs(expected - reported) <= TOLERANCE * max(1.0, abs(expected))


def _less_filled(waiting: Mapping[str, float], entries: Collection[_Entry]) -> dict[str, float]:
    """Open units less those that are filled, never past 0."""
    left = dict(waiting)
    for entry in entries:
        units = left.get(entry.asset, 0.0)
        if units * entry.units > 0.0:
            rest = units - entry.units
            left[entry.asset] = rest if rest * units > 0.0 else 0.0
    return left
