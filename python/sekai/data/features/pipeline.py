"""From a panel to what a learner sees: features, on one scale, with a mask.

pipeline = Pipeline(["log_return", "volatility(20)", "rank(momentum(60))"], scaling="zscore")
train, test = data.split(0.8, embargo=5, warm_up=pipeline.lookback - 1)
shown = pipeline.fit(train).transform(test)
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from quant_gym_rs._core import join_features, show_features
from sekai.data.features.feature import FeatureFunction, FittedFeature, PanelFeature, as_feature
from sekai.data.features.feature_panel import FeaturePanel
from sekai.data.features.scaling import SCALINGS, Scaling
from sekai.data.market_data import MarketData
from sekai.error import NotFittedError, StateError
from sekai.storage.strict_json import parsed

if TYPE_CHECKING:
    from sekai.data.features.stream import FeatureStream

__all__ = ["Layout", "Pipeline", "default_pipeline"]

Floats = NDArray[np.float64]
Mask = Literal["asset", "feature"]
VERSION = 1


class Layout(NamedTuple):
    """How the channels of features lie beside each other."""

    widths: tuple[int, ...]
    """Channels of each feature."""

    names: tuple[str, ...]
    """What the channels are called, without those of masks."""

    firsts: list[int] | None
    """The first channel of each feature, if each has a mask of its own."""


class Pipeline:
    """Features of a panel, on one scale, in one block of numbers, with a mask."""

    def __init__(
        self,
        features: Sequence[str | PanelFeature | FeatureFunction | FittedFeature],
        *,
        scaling: str | Scaling | None = None,
        clip: float | tuple[float, float] | None = None,
        mask: Mask = "asset",
        dtype: DTypeLike = np.float32,
    ) -> None:
        """Say what is computed; nothing is learned yet.

        Args:
            features: specs such as `momentum(20)`, functions of a panel, or objects with `fit`
                and `transform`.
            scaling: `zscore`, `robust`, `rank` or an object with `fit` and `transform`; None
                leaves features as they are.
            clip: the least and the greatest value that are shown, or the greatest distance
                from 0; after scaling.
            mask: `asset` adds one channel that is 1 where every feature of an asset is there,
                `feature` one for each feature.
            dtype: of the numbers that are shown, float32 or float64.
        """
        self.features = tuple(as_feature(feature) for feature in features)
        if not self.features:
            raise ValueError("one feature or more was wanted, found none")
        if mask not in ("asset", "feature"):
            raise ValueError(f"mask must be 'asset' or 'feature', was {mask!r}")
        self.mask = mask
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, was {self.dtype}")
        self.clip = _limits(clip)
        self._scaling_name = scaling if isinstance(scaling, str) else None
        self.scaling = _scaling(scaling)
        self._fitted_on: str | None = None
        self._fitted_channels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Pipeline({[feature.name for feature in self.features]})"

    @property
    def lookback(self) -> int | None:
        """Rows, the latest included, that give the latest row; None for all history."""
        rows = [feature.lookback for feature in self.features]
        known = [row for row in rows if row is not None]
        return max(known) if len(known) == len(rows) else None

    @property
    def learns(self) -> bool:
        """Whether there is anything to fit."""
        return self.scaling is not None or any(feature.learns for feature in self.features)

    @property
    def fitted(self) -> bool:
        """Whether `transform` can be called."""
        return not self.learns or self._fitted_on is not None

    @property
    def fitted_on(self) -> str | None:
        """The digest of the training part; None before `fit`."""
        return self._fitted_on

    def fit(self, train: MarketData) -> Pipeline:
        """Learn from the training part; its warm-up rows are history and not learned from.

        Copies learn, and take the place of what was there when all have: a `fit` that is refused
        changes nothing, and pipelines can be given the same objects.
        """
        features = tuple(copy.deepcopy(f).fit(train) if f.learns else f for f in self.features)
        blocks = [feature(train) for feature in features]
        values, layout = self._joined(blocks, train)
        names = layout.names
        scaling = copy.deepcopy(self.scaling)
        if scaling is not None:
            samples = values[train.warm_up :].reshape(-1, len(names))
            missing = np.asarray(np.isnan(samples).all(axis=0))
            if missing.any():
                empty = [names[place] for place in np.flatnonzero(missing)]
                raise ValueError(f"values to learn from were wanted, found none of {empty}")
            scaling.fit(samples)
        self.features, self.scaling = features, scaling
        self._fitted_on, self._fitted_channels = train.digest, names
        return self

    def transform(self, data: MarketData) -> FeaturePanel:
        """The features of a panel, by what was learned."""
        self.require_fitted()
        values, layout = self._joined([feature(data) for feature in self.features], data)
        block, present = self.shown(values, layout)
        names = (*layout.names, *self._mask_names())
        return FeaturePanel(block, names, present, data.times, data.assets, data.warm_up)

    def fit_transform(self, train: MarketData) -> FeaturePanel:
        """Learn from the training part, and show it."""
        return self.fit(train).transform(train)

    def stream(self, history: MarketData) -> FeatureStream:
        """Rows one by one after `history`, the same bytes as `transform` of everything."""
        from sekai.data.features.stream import FeatureStream

        self.require_fitted()
        return FeatureStream(self, history)

    def require_fitted(self) -> None:
        """Raise `NotFittedError` if there is something to learn first."""
        if not self.fitted:
            raise NotFittedError("this pipeline learns from data: call fit(train) first")

    def layout(self, widths: tuple[int, ...]) -> Layout:
        """How the channels of features of so many channels each lie."""
        names: list[str] = []
        firsts: list[int] = []
        for feature, width in zip(self.features, widths, strict=True):
            firsts.append(len(names))
            names.extend(feature.channels(width))
        if len(set(names)) < len(names):
            raise ValueError(f"features that differ were wanted, found {names}")
        return Layout(widths, tuple(names), firsts if self.mask == "feature" else None)

    def shown(
        self, values: Floats, layout: Layout
    ) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
        """Joined features on their scale, as a block of numbers with a mask; and the mask."""
        if self.scaling is not None:
            if layout.names != self._fitted_channels:
                raise ValueError(
                    f"channels {self._fitted_channels} were fitted, found {layout.names}"
                )
            scaled = self.scaling.transform(values.reshape(-1, len(layout.names)))
            values = np.asarray(scaled, np.float64).reshape(values.shape)
        return show_features(values, self.clip, layout.firsts, self.dtype == np.float64)

    def _joined(self, blocks: Sequence[Floats], data: MarketData) -> tuple[Floats, Layout]:
        layout = self.layout(tuple(block.shape[2] for block in blocks))
        return join_features(blocks, data.listed), layout

    def _mask_names(self) -> tuple[str, ...]:
        if self.mask == "asset":
            return ("present",)
        return tuple(f"present:{feature.name}" for feature in self.features)

    def state_dict(self) -> dict[str, Any]:
        """What is computed and what was learned, as strict JSON can hold it."""
        return {**self._described(), "fitted": self._learned() if self._fitted_on else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what was learned, or raise `StateError` and stay as before."""
        wanted = self._described()
        found = {key: state.get(key) for key in wanted} if isinstance(state, Mapping) else state
        if found != wanted:
            raise StateError(f"the state of {wanted} was wanted, found that of {found}")
        try:
            self._load(state["fitted"])
        except StateError:
            raise
        except Exception as error:
            raise StateError(f"what state_dict() gave was wanted, found {error!r} in it") from error

    def to_json(self) -> str:
        """The pipeline and what it learned as JSON, if all its features have names."""
        return json.dumps(self.to_jsonable(), allow_nan=False)

    def to_jsonable(self) -> dict[str, Any]:
        """The pipeline and what it learned in types that JSON knows.

        Raises:
            ValueError: a feature or the scaling has no name.
        """
        nameless = [feature.name for feature in self.features if feature.spec is None]
        if self.scaling is not None and self._scaling_name is None:
            nameless.append(type(self.scaling).__name__)
        if nameless:
            raise ValueError(
                f"features and scalings by name were wanted, found {nameless}: give each a name "
                f"with register_feature, or keep state_dict() and build the pipeline in code"
            )
        return self.state_dict()

    @classmethod
    def from_json(cls, text: str) -> Pipeline:
        """The pipeline that `to_json` wrote."""
        return cls.from_jsonable(parsed(text))

    @classmethod
    def from_jsonable(cls, state: Mapping[str, Any]) -> Pipeline:
        """The pipeline that `to_jsonable` described."""
        pipeline = cls(
            state["features"], scaling=state["scaling"], mask=state["mask"], dtype=state["dtype"],
            clip=None if state["clip"] is None else tuple(state["clip"]),
        )  # fmt: skip
        pipeline.load_state_dict(state)
        return pipeline

    def _described(self) -> dict[str, Any]:
        custom = None if self.scaling is None else type(self.scaling).__name__
        return {
            "version": VERSION,
            "features": [feature.spec or feature.name for feature in self.features],
            "scaling": self._scaling_name or custom,
            "clip": None if self.clip is None else list(self.clip),
            "mask": self.mask,
            "dtype": self.dtype.name,
        }

    def _learned(self) -> dict[str, Any]:
        if self.scaling is not None and not hasattr(self.scaling, "state_dict"):
            kind = type(self.scaling).__name__
            raise StateError(f"{kind} cannot be saved: it needs state_dict() and load_state_dict()")
        scaling: Any = self.scaling
        return {
            "data": self._fitted_on,
            "channels": list(self._fitted_channels),
            "scaling": None if scaling is None else scaling.state_dict(),
            "features": [feature.state_dict() for feature in self.features],
        }

    def _load(self, learned: Mapping[str, Any] | None) -> None:
        if learned is None:
            self._fitted_on, self._fitted_channels = None, ()
            return
        features = copy.deepcopy(self.features)
        for feature, state in zip(features, learned["features"], strict=True):
            feature.load_state_dict(state)
        scaling: Any = copy.deepcopy(self.scaling)
        if scaling is not None:
            scaling.load_state_dict(learned["scaling"])
        fitted_on, channels = str(learned["data"]), tuple(learned["channels"])
        self.features, self.scaling = features, scaling
        self._fitted_on, self._fitted_channels = fitted_on, channels


def default_pipeline(data: MarketData | None = None) -> Pipeline:
    """Five features for those who name none: four without volume.

    Args:
        data: what will be shown; relative volume is left out if it has no volume.
    """
    features = ["log_return", "volatility(20)", "momentum(60)", "rank(momentum(20))"]
    if data is None or "volume" in data.fields:
        features.append("relative_volume(20)")
    return Pipeline(features, scaling="robust", clip=5.0)


def _limits(clip: float | tuple[float, float] | None) -> tuple[float, float] | None:
    if clip is None:
        return None
    low, high = (-clip, clip) if isinstance(clip, (int, float)) else clip
    if not low < high:
        raise ValueError(f"clip must be a number above 0 or a lower and a higher one, was {clip}")
    return float(low), float(high)


def _scaling(given: str | Scaling | None) -> Scaling | None:
    if not isinstance(given, str):
        if given is not None and not isinstance(given, Scaling):
            raise TypeError(f"a scaling has fit and transform, found {given!r}")
        return given
    if given not in SCALINGS:
        raise ValueError(f"scaling must be one of {sorted(SCALINGS)}, was {given!r}")
    return SCALINGS[given]()
