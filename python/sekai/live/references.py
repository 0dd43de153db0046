"""References of risk limits: validated prices, trading days, confirmed peak and day equity."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from statistics import median
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from sekai.config.convert import require
from sekai.error import StateError
from sekai.live.risk import RiskLimits
from sekai.storage.optional import optional_import

__all__ = ["EquityReferences", "LossBreach", "PriceValidator", "TradingDays", "ValidatedPrices"]

LEAST_PRICE, LARGEST_PRICE = 1e-15, 1e15
"""Prices outside never validate, however often they are repeated."""

_EPOCH_ORDINAL = datetime(1970, 1, 1).toordinal()
_DAY_NANOSECONDS = 86_400_000_000_000


@dataclass(frozen=True, slots=True)
class ValidatedPrices:
    """Prices of a row after validation."""

    prices: Mapping[str, float]
    """Last validated price of each asset; assets that never had one are missing."""

    suspects: Mapping[str, str] = field(default_factory=dict)
    """Reason by asset whose price in this row is not validated."""


class PriceValidator:
    """Validation of prices against the rows before, per asset.

    A price is validated if it is within the collar of the median of the last validated prices. A
    shift of the level is accepted once it was confirmed by several rows in a row that are within
    the collar of each other; the first prices of an asset are confirmed in the same way.

    Args:
        collar: largest relative difference; None validates every plausible price.
        rows: number of validated prices that the median is of.
        confirm_rows: number of consistent rows that confirm a new level.
    """

    def __init__(self, collar: float | None = 0.2, *, rows: int = 5, confirm_rows: int = 3) -> None:
        require(collar is None or collar > 0.0, "collar", "above 0 or None", collar)
        require(rows >= 1, "rows", "at least 1", rows)
        require(confirm_rows >= 1, "confirm_rows", "at least 1", confirm_rows)
        self._collar, self._rows, self._confirm_rows = collar, rows, confirm_rows
        self._valid: dict[str, deque[float]] = {}
        self._pending: dict[str, list[float]] = {}

    def note(self, prices: Mapping[str, float]) -> ValidatedPrices:
        """Validate the prices of the next row; assets without a price (NaN) keep their last."""
        suspects: dict[str, str] = {}
        for asset, price in prices.items():
            if not math.isnan(price):
                problem = self._note_price(asset, price)
                if problem:
                    suspects[asset] = problem
        return ValidatedPrices(self.prices(), suspects)

    def warm_up(self, rows: Iterable[Mapping[str, float]]) -> None:
        """Take in the rows of a history, so that the first row of a session is validated."""
        for prices in rows:
            self.note(prices)

    def prices(self) -> dict[str, float]:
        """Last validated price of each asset."""
        return {asset: window[-1] for asset, window in self._valid.items()}

    def reset(self, asset: str) -> None:
        """Forget an asset's prices, such as after a split; the next level has to be confirmed."""
        self._valid.pop(asset, None)
        self._pending.pop(asset, None)

    def state_dict(self) -> dict[str, Any]:
        """State as plain values, from which `load_state_dict` continues."""
        return {
            "valid": {asset: list(window) for asset, window in self._valid.items()},
            "pending": {asset: list(prices) for asset, prices in self._pending.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        try:
            valid = {
                str(asset): deque(map(_plausible, prices), self._rows)
                for asset, prices in state["valid"].items()
            }
            pending = {
                str(asset): list(map(_plausible, prices))
                for asset, prices in state["pending"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"not the state of a price validator: {error!r}") from error
        self._valid = {asset: window for asset, window in valid.items() if window}
        self._pending = pending

    def _note_price(self, asset: str, price: float) -> str:
        """Take in a price; return why it is not validated, or an empty string."""
        if not _is_plausible(price):
            # Breaks the run of rows that would confirm a level.
            self._pending.pop(asset, None)
            return f"price {price} is not plausible"
        window = self._valid.get(asset)
        if self._collar is None or (window and self._is_near(price, median(window))):
            self._pending.pop(asset, None)
            self._valid.setdefault(asset, deque(maxlen=self._rows)).append(price)
            return ""
        pending = self._pending.setdefault(asset, [])
        pending.append(price)
        level = median(pending)
        if not all(self._is_near(part, level) for part in pending):
            self._pending[asset] = pending = [price]
        if len(pending) >= self._confirm_rows:
            self._valid[asset] = deque(pending, self._rows)
            del self._pending[asset]
            return ""
        if not window:
            return f"price {price} is one of the first and not confirmed yet"
        return f"price {price} is more than {self._collar:.1%} from the median {median(window)}"

    def _is_near(self, price: float, base: float) -> bool:
        return self._collar is None or abs(price / base - 1.0) <= self._collar


class TradingDays:
    """Trading day of a time: sessions of an exchange, or days of a time zone.

    Rows are stamped by the end of their bar, so that the time at which a day ends belongs to it.

    Args:
        calendar: name of a calendar of `exchange_calendars`, such as `XNYS`: a trading day lasts
            from the close of the session before to its own close.
        time_zone: IANA name, used without a calendar.
        rollover_hour: hour of the time zone at which the next day begins, such as 17 in
            `America/New_York` for currencies.
    """

    def __init__(
        self, calendar: str | None = None, time_zone: str = "UTC", rollover_hour: int = 0
    ) -> None:
        require(
            isinstance(rollover_hour, int) and 0 <= rollover_hour < 24,
            "rollover_hour", "a whole number from 0 to 23", rollover_hour,
        )  # fmt: skip
        self._shift = timedelta(hours=(24 - rollover_hour) % 24)
        self._zone = _zone(time_zone)
        self._closes: Sequence[int] = ()
        self._days: Sequence[int] = ()
        if calendar is not None:
            self._load(calendar)

    def day(self, time: int) -> int:
        """Number of the trading day of a time in nanoseconds since 1970; later days are larger."""
        index = bisect_left(self._closes, time)
        # Outside the sessions that the calendar knows, the days of its time zone count.
        if 0 < index < len(self._closes):
            return self._days[index]
        seconds, nanoseconds = divmod(time - 1, 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, timezone.utc) + timedelta(
            microseconds=nanoseconds // 1_000
        )
        local = moment.astimezone(self._zone).replace(tzinfo=None) + self._shift
        return local.toordinal() - _EPOCH_ORDINAL

    def _load(self, name: str) -> None:
        module = optional_import("exchange_calendars", "live", "a trading calendar")
        try:
            with warnings.catch_warnings():
                # Of pandas, on calls inside the package.
                warnings.simplefilter("ignore", DeprecationWarning)
                calendar = module.get_calendar(name)
        except module.errors.InvalidCalendarName as error:
            raise ValueError(
                f"unknown trading calendar {name!r}; expected a name of "
                f"exchange_calendars.get_calendar_names(), such as 'XNYS'"
            ) from error
        # Not its attributes in nanoseconds: they warn with newer versions of pandas.
        self._closes = _nanoseconds(calendar.closes.dt.tz_convert(None))
        self._days = [time // _DAY_NANOSECONDS for time in _nanoseconds(calendar.closes.index)]
        self._zone, self._shift = calendar.tz, timedelta(0)


@dataclass(frozen=True, slots=True)
class LossBreach:
    """Loss limit that confirmed equity is below."""

    limit: str
    """`max_daily_loss` or `max_drawdown`."""

    equity: float
    base: float
    """Equity that the loss is measured from."""

    reason: str


class EquityReferences:
    """Equity that loss limits refer to: that at the end of the day before, and the peak.

    Single wrong rows change neither. Confirmed equity is the median of the last rows. A peak has
    to hold for all of them. The equity of a new day is the confirmed equity at the end of the day
    before.

    Args:
        limits: `max_daily_loss` and `max_drawdown`.
        days: trading days; those of UTC if not given.
        confirm_rows: number of rows that confirm an equity.
        on_loss: `refuse` refuses orders beyond a loss limit, `flatten` also closes all positions.
    """

    def __init__(
        self,
        limits: RiskLimits | None = None,
        days: TradingDays | None = None,
        *,
        confirm_rows: int = 3,
        on_loss: Literal["refuse", "flatten"] = "refuse",
    ) -> None:
        require(confirm_rows >= 1, "confirm_rows", "at least 1", confirm_rows)
        require(on_loss in ("refuse", "flatten"), "on_loss", "'refuse' or 'flatten'", on_loss)
        self._limits, self._days = limits or RiskLimits(), days or TradingDays()
        self.on_loss = on_loss
        self.day: int | None = None
        """Number of the trading day of the last row."""

        self.day_equity = math.nan
        """Confirmed equity at the end of the day before; NaN before the first row."""

        self.peak_equity = math.nan
        """Highest equity that held for all rows that confirm one; NaN before the first row."""

        self.ignored = 0
        """Number of rows whose equity was no finite number."""

        self._window: deque[float] = deque(maxlen=confirm_rows)
        self._is_first_day = True
        self._is_peak_confirmed = False
        self._flattens: LossBreach | None = None

    @property
    def confirmed(self) -> float:
        """Median of the equity of the last rows; NaN before the first."""
        return float(median(self._window)) if self._window else math.nan

    def note(self, time: int, equity: float) -> bool:
        """Take in the equity of a row at validated prices; return True if a new day begins.

        Args:
            time: timestamp of the row in nanoseconds since 1970.
            equity: equity of the row; one that is not finite is ignored.
        """
        if not math.isfinite(equity):
            self.ignored += 1
            return False
        day = self._days.day(time)
        is_new = self.day is not None and day > self.day
        if is_new:
            self.day_equity, self._is_first_day = self.confirmed, False
            self._end_breach("max_daily_loss")
        self.day = day if self.day is None else max(day, self.day)
        self._window.append(equity)
        # Until there are enough rows to confirm an equity, the references follow what is known.
        if self._is_first_day:
            self.day_equity = self.confirmed
        lowest, is_full = min(self._window), len(self._window) == self._window.maxlen
        self.peak_equity = max(self.peak_equity, lowest) if self._is_peak_confirmed else lowest
        if is_full:
            self._is_first_day, self._is_peak_confirmed = False, True
        if self.on_loss == "flatten" and self._flattens is None:
            self._flattens = self.breach()
        return is_new

    def breach(self, equity: float | None = None) -> LossBreach | None:
        """Loss limit that an equity is below; None if there is none.

        Args:
            equity: equity to check; the confirmed one if not given.
        """
        equity = self.confirmed if equity is None else equity
        pairs = (
            ("max_daily_loss", self.day_equity, "at the start of the day"),
            ("max_drawdown", self.peak_equity, "at the peak"),
        )
        for name, base, when in pairs:
            limit = getattr(self._limits, name)
            # Negated, so that an unknown equity (NaN) is a breach; without a base there is none.
            if limit is None or math.isnan(base) or equity >= base * (1.0 - limit):
                continue
            reason = f"equity {equity:g}, {base:g} {when}, limit {limit:.1%} loss"
            return LossBreach(name, equity, base, reason)
        return None

    def must_flatten(self) -> LossBreach | None:
        """Breach by confirmed equity that closes all positions; None with `on_loss="refuse"`.

        It holds until a reset of its limit, or for a daily loss until the next day: equity that
        recovers while positions are being closed does not begin trading again.
        """
        return self._flattens if self.on_loss == "flatten" else None

    def reset_peak(self, reason: str) -> dict[str, Any]:
        """Begin the peak anew at confirmed equity, by the command of a person.

        Returns:
            Fields of its journal record, which `replay` takes.
        """
        return self._reset("reset_peak", reason)

    def reset_day(self, reason: str) -> dict[str, Any]:
        """Begin the day anew at confirmed equity, by the command of a person.

        Returns:
            Fields of its journal record, which `replay` takes.
        """
        return self._reset("reset_day", reason)

    def replay(self, fields: Mapping[str, Any]) -> None:
        """Apply the journal record of a reset again."""
        if fields["action"] not in ("reset_peak", "reset_day"):
            raise ValueError(f"unknown reset {fields['action']!r}")
        self._set(fields["action"], float(fields["equity"]))

    def state_dict(self) -> dict[str, Any]:
        """State as plain values, from which `load_state_dict` continues."""
        return {
            "day": self.day,
            "day_equity": _or_none(self.day_equity),
            "peak_equity": _or_none(self.peak_equity),
            "window": list(self._window),
            "is_first_day": self._is_first_day,
            "is_peak_confirmed": self._is_peak_confirmed,
            "ignored": self.ignored,
            "flattens": None if self._flattens is None else asdict(self._flattens),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        try:
            window = deque(map(_finite, state["window"]), self._window.maxlen)
            numbers = [
                math.nan if state[name] is None else _finite(state[name])
                for name in ("day_equity", "peak_equity")
            ]
            day = None if state["day"] is None else int(state["day"])
            flags = [bool(state[name]) for name in ("is_first_day", "is_peak_confirmed")]
            ignored = int(state["ignored"])
            # States of earlier versions have no breach.
            breach = state.get("flattens")
            flattens = None if breach is None else LossBreach(**breach)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"not the state of equity references: {error!r}") from error
        self._window, self.day, self.ignored = window, day, ignored
        self.day_equity, self.peak_equity = numbers
        self._is_first_day, self._is_peak_confirmed = flags
        self._flattens = flattens

    def _reset(self, action: str, reason: str) -> dict[str, Any]:
        if not reason.strip():
            raise ValueError(f"{action} needs a reason; expected text, got {reason!r}")
        equity = self.confirmed
        if math.isnan(equity):
            raise ValueError(f"{action} needs an equity; wait for the first row")
        before = self.peak_equity if action == "reset_peak" else self.day_equity
        self._set(action, equity)
        return {"action": action, "reason": reason, "before": before, "equity": equity}

    def _set(self, action: str, equity: float) -> None:
        if action == "reset_peak":
            self.peak_equity, self._is_peak_confirmed = equity, True
            self._end_breach("max_drawdown")
        else:
            self.day_equity, self._is_first_day = equity, False
            self._end_breach("max_daily_loss")

    def _end_breach(self, limit: str) -> None:
        """End the breach of a limit whose base begins anew; the other limit may be exceeded too."""
        if self._flattens is not None and self._flattens.limit == limit:
            self._flattens = self.breach()


def _nanoseconds(times: Any) -> list[int]:
    """Times of a pandas series or index without a time zone, since 1970."""
    numbers: list[int] = times.to_numpy().astype("datetime64[ns]").astype(np.int64).tolist()
    return numbers


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"unknown time zone {name!r}; expected an IANA name such as 'Europe/Berlin'"
        ) from error


def _is_plausible(price: float) -> bool:
    return LEAST_PRICE <= price <= LARGEST_PRICE


def _plausible(price: Any) -> float:
    if not _is_plausible(float(price)):
        raise ValueError(f"price {price!r} is not plausible")
    return float(price)


def _finite(number: Any) -> float:
    if not math.isfinite(float(number)):
        raise ValueError(f"expected a finite number, got {number!r}")
    return float(number)


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number
