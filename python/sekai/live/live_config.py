"""How a live session behaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sekai.live.risk_limits import RiskLimits

__all__ = ["LiveConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig:
    """What a `LiveRunner` does when, and what it may not do."""

    limits: RiskLimits = field(default_factory=RiskLimits)
    """What no policy can exceed."""

    on_stop: Literal["hold", "flatten"] = "hold"
    """What becomes of positions when the session is stopped: they are kept, or sold first."""

    on_kill: Literal["hold", "flatten"] = "hold"
    """The same for the kill switch. Orders that stand are cancelled either way."""

    flatten_bars: int = 10
    """Rows that selling everything may take before the session ends all the same."""

    snapshot_every: int = 1_000
    """Rows after which the env is saved again: a restart replays no more than these."""

    sync: Literal["orders", "every", "never"] = "orders"
    """When the journal is made to survive a power cut: before orders leave, with every record, or
    never. A killed process loses nothing in any case."""

    attempts: int = 5
    """How often a broker that does not answer is asked before trading halts."""

    retry_seconds: float = 0.2
    """How long to wait after the first attempt; twice as long after each."""

    seed: int = 0
    """Of the env."""

    def __post_init__(self) -> None:
        for name in ("flatten_bars", "snapshot_every", "attempts"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be a whole number of at least 1, was {getattr(self, name)!r}"
                )
        for name in ("on_stop", "on_kill"):
            if getattr(self, name) not in ("hold", "flatten"):
                raise ValueError(f"{name} must be 'hold' or 'flatten', was {getattr(self, name)!r}")
        if not self.retry_seconds >= 0:
            raise ValueError(f"retry_seconds must not be negative, was {self.retry_seconds!r}")

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "limits": self.limits.to_dict()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> LiveConfig:
        """What `to_dict` gave."""
        return cls(**{**found, "limits": RiskLimits.from_dict(found["limits"])})
