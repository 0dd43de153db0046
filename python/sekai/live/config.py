"""Configuration of a live session, and the layout of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sekai.config.checked import CheckedConfig
from sekai.live.risk import RiskLimits

__all__ = ["LiveConfig", "SessionFolder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig(CheckedConfig):
    """Settings of a `LiveRunner`."""

    limits: RiskLimits = field(default_factory=RiskLimits)
    """Risk limits."""

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

    seed: int = 0
    """Seed of the env."""

    def __post_init__(self) -> None:
        for name in ("flatten_bars", "snapshot_every", "attempts"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        for name in ("on_stop", "on_kill"):
            if getattr(self, name) not in ("hold", "flatten"):
                raise ValueError(f"{name} must be 'hold' or 'flatten', got {getattr(self, name)!r}")
        if not 0 <= self.retry_seconds < float("inf"):
            raise ValueError(f"retry_seconds must be at least 0, got {self.retry_seconds!r}")

    def to_dict(self) -> dict[str, Any]:
        """Settings as plain values."""
        return {**asdict(self), "limits": self.limits.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LiveConfig:
        """Config from `to_dict`."""
        return cls(**{**values, "limits": RiskLimits.from_dict(values["limits"])})


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
