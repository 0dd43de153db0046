"""Something that runs and can be looked at."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = ["Kind", "Source"]

Kind = Literal["session", "training"]


@runtime_checkable
class Source(Protocol):
    """What those who watch read; it is asked a few times a second, so it must be cheap."""

    @property
    def kind(self) -> Kind:
        """Which of the two it is."""

    @property
    def title(self) -> str:
        """What it is called."""

    def version(self) -> Hashable:
        """Anything that differs when `read` would tell something else."""

    def read(self) -> dict[str, Any]:
        """How it is doing, ready for JSON.

        It never raises for a file that is missing, half written or odd: it gives the last one that
        was good, and says so under "note".
        """
