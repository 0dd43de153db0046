"""Means over episodes of metrics that not every episode has."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Means"]


class Means:
    """The mean of each metric over the episodes that have it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: Mapping[str, float]) -> None:
        """Take in the metrics of one episode."""
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1

    def of(self, name: str) -> float:
        """The mean of one metric."""
        return self._sums[name] / self._counts[name]

    def all(self) -> dict[str, float]:
        """The mean of every metric."""
        return {name: self.of(name) for name in self._sums}
