"""Keeps the problems of a reading apart: those that stop it, and those that were mended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.problems import Findings, Problem, Problems
from sekai.error import DataError

__all__ = ["Ledger"]


@dataclass(slots=True)
class Ledger:
    """All that was found, in the order of the checks."""

    parts: list[Problem | Findings] = field(default_factory=list)
    raised: bool = False
    """Whether the reading was stopped for what is written here."""

    def add(self, part: Problem | Findings) -> None:
        """Write down one problem, or many of a kind."""
        self.parts.append(part)

    def add_rows(
        self,
        kind: str,
        policy: str,
        times: NDArray[np.int64],
        assets: NDArray[Any],
        found: str | NDArray[Any],
        *,
        field: str | None = None,
        files: Any = None,
    ) -> None:
        """Write down rows, one problem each."""
        if len(times):
            stamps = times.astype("datetime64[ns]")
            ones = np.ones(len(times), np.int64)
            self.add(Findings(kind, policy, field, assets, stamps, stamps, ones, found, files))

    @property
    def everything(self) -> Problems:
        """What was found."""
        return Problems(self.parts)

    @property
    def repairs(self) -> Problems:
        """What was found and dealt with by a policy that the user named."""
        return Problems(part for part in self.parts if part.policy != "error")

    def raise_errors(self) -> None:
        """Raise what no policy deals with."""
        errors = Problems(part for part in self.parts if part.policy == "error")
        if len(errors):
            self.raised = True
            raise DataError(str(errors), errors)
