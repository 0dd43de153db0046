"""Features as learners take them: one block of numbers, and what of it is there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["FeaturePanel"]


@dataclass(frozen=True, eq=False)
class FeaturePanel:
    """The features of a panel: rows by assets by channels, without a NaN."""

    values: NDArray[np.floating]
    """Rows by assets by channels in one block. What is missing is 0, and a channel says so."""

    names: tuple[str, ...]
    """What the channels are; those that begin with `present` are 1 where the values are there."""

    present: NDArray[np.bool_]
    """Where values are there: rows by assets, or rows by assets by features."""

    times: NDArray[np.datetime64]
    """When each row was known."""

    assets: tuple[str, ...]
    """The assets in the order of the second axis."""

    warm_up: int = 0
    """Leading rows that are history alone."""

    def __repr__(self) -> str:
        rows, assets, channels = self.values.shape
        return f"FeaturePanel({rows} rows, {assets} assets, {channels} channels)"

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.times)

    @cached_property
    def digest(self) -> str:
        """A hash of the content: the same features give the same digest."""
        described = (self.names, self.assets, self.warm_up, self.values.shape, self.values.dtype)
        state = hashlib.sha256(repr(described).encode())
        stamps = self.times.astype("datetime64[ns]").astype(np.int64)
        for array in (self.values, self.present, stamps):
            state.update(np.ascontiguousarray(array).data)
        return state.hexdigest()

    def channel(self, name: str) -> NDArray[np.floating]:
        """One channel of all assets: rows by assets, without a copy."""
        if name not in self.names:
            raise KeyError(f"a channel among {', '.join(self.names)} was wanted, found {name!r}")
        column: NDArray[np.floating] = self.values[:, :, self.names.index(name)]
        return column
