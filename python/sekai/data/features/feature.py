"""A feature of a panel: a function whose row t is made of rows up to t."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import MarketData
from sekai.error import NotFittedError, StateError

__all__ = ["FeatureFunction", "FittedFeature", "PanelFeature", "RowStream", "as_feature"]

Floats = NDArray[np.float64]
FeatureFunction = Callable[[MarketData], Any]
"""Rows, rows by assets, or rows by assets by channels of what is computed; NaN where missing."""


@runtime_checkable
class FittedFeature(Protocol):
    """A feature that learns something from the training part before it is computed."""

    def fit(self, data: MarketData) -> Any:
        """Learn from the training part."""

    def transform(self, data: MarketData) -> Any:
        """What a `FeatureFunction` gives, by what was learned."""


class RowStream(Protocol):
    """A feature that remembers what it needs of the past."""

    def push(self, data: MarketData) -> Floats:
        """The rows that follow those pushed before: rows by assets by channels."""


class PanelFeature:
    """A feature with a name, and what is known of it beforehand.

    `lookback` is the number of rows, the latest included, that give the latest row to the last
    bit. It is None where all history is needed, or where nobody has said. `learns` tells whether
    it has to be fitted before it is computed.
    """

    def __init__(
        self,
        compute: FeatureFunction | FittedFeature,
        *,
        name: str | None = None,
        lookback: int | None = None,
        channels: tuple[str, ...] | None = None,
        spec: str | None = None,
        stream: Callable[[], RowStream] | None = None,
    ) -> None:
        """Wrap a function of a panel, or an object with `fit` and `transform`.

        Args:
            compute: what gives the values.
            name: what its channels are called; the function's own name if not given.
            lookback: the rows that one row needs, or None for all.
            channels: the names of what it gives, if it gives more than one number.
            spec: what `make_feature` makes it from, if it can be.
            stream: makes a `RowStream` that gives the same rows one by one.
        """
        if lookback is not None and lookback < 1:
            raise ValueError(f"lookback must be at least 1 row, the latest, was {lookback}")
        self._compute = compute
        self.name = name or str(getattr(compute, "__name__", type(compute).__name__))
        self.lookback = lookback
        self.spec = spec
        self.stream = stream
        self._channels = channels
        self.learns = isinstance(compute, FittedFeature)
        self._fitted = not self.learns
        self._call = _call(compute)

    def __repr__(self) -> str:
        return f"<feature {self.name}, lookback {self.lookback}>"

    @property
    def fitted(self) -> bool:
        """Whether it can be computed now."""
        return self._fitted

    @property
    def compute(self) -> FeatureFunction | FittedFeature:
        """What gives the values."""
        return self._compute

    def fit(self, data: MarketData) -> PanelFeature:
        """Learn from the training part, if there is anything to learn."""
        if isinstance(self._compute, FittedFeature):
            self._compute.fit(data)
            self._fitted = True
        return self

    def __call__(self, data: MarketData) -> Floats:
        """The values: rows by assets by channels, NaN where there is none."""
        if not self._fitted:
            raise NotFittedError(f"{self.name} learns from data: call fit(train) first")
        values = np.asarray(self._call(data), np.float64)
        shape = (len(data), len(data.assets))
        if values.shape == shape[:1]:
            values = np.broadcast_to(values[:, None], shape)
        if values.shape == shape:
            values = values[:, :, None]
        if values.shape[:2] != shape or values.ndim != 3 or not values.shape[2]:
            raise ValueError(
                f"{self.name} must give rows, rows by assets or rows by assets by channels of a "
                f"panel of {shape[0]} rows and {shape[1]} assets, gave shape {values.shape}"
            )
        return values

    def channels(self, count: int) -> tuple[str, ...]:
        """The names of its `count` channels."""
        if self._channels is None:
            return (self.name,) if count == 1 else tuple(f"{self.name}[{i}]" for i in range(count))
        if len(self._channels) != count:
            raise ValueError(f"{self.name} names {len(self._channels)} channels and gave {count}")
        return tuple(f"{self.name}.{channel}" for channel in self._channels)

    def perturb_after(self, time: Any, rng: np.random.Generator) -> PanelFeature:
        """The same feature where what it holds itself, such as events, differs after `time`."""
        if not hasattr(self._compute, "perturb_after"):
            return self
        other = copy.copy(self)
        other._compute = self._compute.perturb_after(time, rng)
        other._call = _call(other._compute)
        return other

    def state_dict(self) -> dict[str, Any]:
        """What was learned, as JSON can hold it."""
        if not self.learns:
            return {}
        if not hasattr(self._compute, "state_dict"):
            raise StateError(
                f"{self.name} cannot be saved: its {type(self._compute).__name__} needs "
                f"state_dict() and load_state_dict()"
            )
        state: dict[str, Any] = self._compute.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what was learned."""
        if not self.learns:
            return
        if not hasattr(self._compute, "load_state_dict"):
            raise StateError(f"{self.name} cannot be continued: it has no load_state_dict()")
        self._compute.load_state_dict(state)
        self._fitted = True


def _call(compute: FeatureFunction | FittedFeature) -> FeatureFunction:
    return compute.transform if isinstance(compute, FittedFeature) else compute


def as_feature(given: str | PanelFeature | FeatureFunction | FittedFeature) -> PanelFeature:
    """A feature from its spec, or from a function or object that computes one."""
    if isinstance(given, PanelFeature):
        return given
    if isinstance(given, str):
        from sekai.data.features.registry import make_feature

        return make_feature(given)
    if not callable(given) and not isinstance(given, FittedFeature):
        raise TypeError(
            f"a spec, a function of a panel or an object with fit and transform was wanted, "
            f"found {given!r}"
        )
    return PanelFeature(given, lookback=getattr(given, "lookback", None))
