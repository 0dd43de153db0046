"""Accounts of a portfolio: cash or margin."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sekai.config.checked import CheckedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CashAccount(CheckedConfig):
    """Account without debt and short positions."""

    @property
    def leverage(self) -> float:
        """Largest gross exposure over equity."""
        return 1.0

    def settings(self) -> Any:
        """Settings for the Rust core."""
        return "cash"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginAccount(CheckedConfig):
    """Account with leverage and short positions, subject to margin calls."""

    leverage: float = 2.0
    """Largest gross exposure over equity when orders fill."""

    maintenance: float = 0.25
    """Maintenance margin: least equity over gross exposure. Below it there is a margin call: the
    next fills reduce exposure to `leverage` times equity, and nothing is added before."""

    def settings(self) -> Any:
        """Settings for the Rust core."""
        return {"margin": asdict(self)}
