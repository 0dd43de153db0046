"""Configuration of a live session, and the layout of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sekai.config.checked import CheckedConfig
from sekai.config.convert import require
from sekai.live.references import TradingDays
from sekai.live.risk import RiskLimits

__all__ = ["LiveConfig", "SessionFolder"]


_CHOICES = {
    "on_stop": ("hold", "flatten"),
    "on_kill": ("hold", "flatten"),
    "on_loss": ("refuse", "flatten"),
}
_TIMEOUTS = (
    *("call_timeout", "control_timeout", "order_timeout", "fill_timeout", "feed_timeout"),
    *("policy_timeout", "stall_seconds", "flatten_seconds", "account_poll_seconds"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig(CheckedConfig):
    """Settings of a `LiveRunner`."""

    limits: RiskLimits = field(default_factory=RiskLimits)
    """Risk limits."""

    on_loss: Literal["refuse", "flatten"] = "refuse"
    """Confirmed equity below a loss limit: refuse orders other than reductions, or close all
    positions."""

    trading_calendar: str | None = None
    """Calendar of `exchange_calendars` that trading days are of, such as `XNYS`; None for days of
    `time_zone`."""

    time_zone: str = "UTC"
    """Time zone of trading days, by its IANA name."""

    rollover_hour: int = 0
    """Hour of `time_zone` at which the next trading day begins."""

    account_lag_seconds: float = 5.0
    """Time within which the broker's account may lag behind fills, or be unusable."""

    max_cash_discrepancy: float = 0.001
    """Unexplained cash, such as interest, that is absorbed per day, as a share of equity."""

    accounts: str | None = None
    """Folder of accounts, for brokers with an `account_id`; `~/.sekai/accounts` if None."""

    on_stop: Literal["hold", "flatten"] = "hold"
    """Positions when the session is stopped: hold them, or close them first."""

    on_kill: Literal["hold", "flatten"] = "hold"
    """Positions when the kill switch is pulled; open orders are cancelled either way."""

    flatten_bars: int = 10
    """Largest number of rows to wait for positions to close when stopping."""

    snapshot_every: int = 1_000
    """Rows between snapshots of the env: a restart replays at most this many."""

    sync: Literal["orders", "every", "never"] = "orders"
    """When the journal is synced to disk: before orders are submitted, with every record, or
    never. A killed process loses nothing in any case."""

    attempts: int = 5
    """Failed calls to the broker before trading halts."""

    retry_seconds: float = 0.2
    """Longest back-off after the first failed call; it doubles with each further one."""

    call_timeout: float = 2.0
    """Seconds after which a call to the broker counts as failed."""

    control_timeout: float = 1.0
    """The same for the watchdog's calls on its own connection."""

    account_poll_seconds: float = 5.0
    """Seconds after which the account is asked for again if no row does so: a feed that is silent
    must not hide a loss of cash. A replay asks with its rows alone."""

    order_timeout: float = 5.0
    """Seconds after which an order that is not acknowledged, or not cancelled, is queried."""

    fill_timeout: float | None = None
    """Seconds after which an order that is not filled is queried; three bars, and at least 60
    seconds, if None."""

    feed_timeout: float = 10.0
    """Seconds to wait for the rows that were missed during a restart."""

    policy_timeout: float = 5.0
    """Seconds for a decision of the policy; one that takes longer is discarded, and positions are
    held."""

    stall_seconds: float = 10.0
    """Seconds without a heartbeat after which a session counts as blocked, and is halted."""

    flatten_seconds: float = 60.0
    """Longest time to wait for positions to close when stopping."""

    seed: int = 0
    """Seed of the env."""

    def __post_init__(self) -> None:
        for name in ("flatten_bars", "snapshot_every", "attempts"):
            value = getattr(self, name)
            require(isinstance(value, int) and value >= 1, name, "an integer of at least 1", value)
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            require(value in choices, name, " or ".join(map(repr, choices)), value)
        for name in _TIMEOUTS:
            value = getattr(self, name)
            is_unset = value is None and name == "fill_timeout"
            is_valid = is_unset or (_is_number(value) and 0.0 < value < float("inf"))
            require(is_valid, name, "a number of seconds above 0", value)
        for name in ("retry_seconds", "account_lag_seconds", "max_cash_discrepancy"):
            value = getattr(self, name)
            require(_is_number(value) and 0.0 <= value < float("inf"), name, "at least 0", value)
        TradingDays(time_zone=self.time_zone, rollover_hour=self.rollover_hour)

    def trading_days(self) -> TradingDays:
        """Trading days of the calendar or time zone; loading a calendar takes seconds."""
        return TradingDays(self.trading_calendar, self.time_zone, self.rollover_hour)

    def to_dict(self) -> dict[str, Any]:
        """Settings as plain values."""
        return {**asdict(self), "limits": self.limits.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LiveConfig:
        """Config from `to_dict`."""
        return cls(**{**values, "limits": RiskLimits.from_dict(values["limits"])})


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """Paths of the files in a session folder."""

    path: Path

    @property
    def facts(self) -> Path:
        """Description of the session: env, limits, versions."""
        return self.path / "session.json"

    @property
    def journal(self) -> Path:
        """Journal of the session."""
        return self.path / "journal.jsonl"

    @property
    def snapshot(self) -> Path:
        """Snapshot of the env."""
        return self.path / "snapshot.json"

    @property
    def status(self) -> Path:
        """Status for monitors, replaced about once a second."""
        return self.path / "status.json"

    @property
    def log(self) -> Path:
        """Log, a line of JSON per event."""
        return self.path / "log.jsonl"

    @property
    def trades(self) -> Path:
        """Trade log, a line of JSON per fill."""
        return self.path / "trades.jsonl"

    @property
    def watchdog(self) -> Path:
        """Journal of the watchdog: kills, cancellations and closing orders."""
        return self.path / "watchdog.jsonl"

    @property
    def commands(self) -> Path:
        """Folder of commands by operators, see `sekai session`."""
        return self.path / "commands"

    @property
    def paper(self) -> Path:
        """Ledger of the paper broker."""
        return self.path / "paper.jsonl"

    @property
    def history(self) -> Path:
        """Rows before the first one, where they are not those of a run."""
        return self.path / "history.json"

    @property
    def kill(self) -> Path:
        """Kill file: nothing is traded while it exists."""
        return self.path / "KILL"
