"""Feature pipeline: features of a panel, scaled, with a mask of missing values.

pipeline = Pipeline(["log_return", "volatility(20)", "rank(momentum(60))"], scaling="zscore")
train, test = data.split(0.8, embargo=5, warm_up=pipeline.lookback - 1)
features = pipeline.fit(train).transform(test)
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from quant_gym_rs._core import join_features, show_features
from sekai.data.corporate_actions import adjusted
from sekai.data.features.feature import FeatureFunction, FittedFeature, PanelFeature, as_feature
from sekai.data.market_data import MarketData
from sekai.error import NotFittedError, StateError
from sekai.storage.display import html_table, name_list
from sekai.storage.names import unknown_name
from sekai.storage.strict_json import parse_json

if TYPE_CHECKING:
    from sekai.data.features.stream import FeatureStream

Floats = NDArray[np.float64]
Mask = Literal["asset", "feature"]
VERSION = 1
QUANTILES = 1000
"""Quantiles that `RankScaling` stores for each channel."""


class Layout(NamedTuple):
    """Layout of the channels of features."""

    widths: tuple[int, ...]
    """Channels of each feature."""

    names: tuple[str, ...]
    """Channel names, without those of masks."""

    firsts: list[int] | None
    """First channel of each feature, if each has a mask of its own."""


class Pipeline:
    """Features of a panel on one scale, in one array, with a mask.

    Args:
        features: specs such as `momentum(20)`, functions of a panel, or objects with `fit` and
            `transform`.
        scaling: `zscore`, `robust`, `rank` or an object with `fit` and `transform`; None leaves
            features as they are.
        clip: lower and upper bound after scaling, or one bound on the absolute value.
        mask: `asset` adds one channel that is 1 where every feature of an asset is present,
            `feature` one for each feature.
        dtype: float32 or float64.
    """

    def __init__(
        self,
        features: Sequence[str | PanelFeature | FeatureFunction | FittedFeature],
        *,
        scaling: str | Scaling | None = None,
        clip: float | tuple[float, float] | None = None,
        mask: Mask = "asset",
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.features = tuple(as_feature(feature) for feature in features)
        if not self.features:
            raise ValueError("features must have at least one element")
        if mask not in ("asset", "feature"):
            raise ValueError(f"mask must be 'asset' or 'feature', got {mask!r}")
        self.mask = mask
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype}")
        self.clip = _limits(clip)
        self._scaling_name = scaling if isinstance(scaling, str) else None
        self.scaling = _scaling(scaling)
        self._fitted_on: str | None = None
        self._fitted_channels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = name_list([feature.name for feature in self.features])
        scaling = "" if self.scaling is None else f", scaling={self.settings['scaling']}"
        return f"Pipeline({names}{scaling}, {'fitted' if self.fitted else 'not fitted'})"

    def _repr_html_(self) -> str:
        header = ("feature", "lookback", "fitted")
        rows = [
            (feature.name, "all" if feature.lookback is None else feature.lookback, feature.learns)
            for feature in self.features
        ]
        return html_table(repr(self), header, rows)

    @property
    def lookback(self) -> int | None:
        """Rows, the latest included, that determine the latest row; None for all history."""
        rows = [feature.lookback for feature in self.features]
        known = [row for row in rows if row is not None]
        return max(known) if len(known) == len(rows) else None

    @property
    def settings(self) -> dict[str, Any]:
        """Scaling, clipping, mask and dtype in JSON types."""
        custom = None if self.scaling is None else type(self.scaling).__name__
        return {
            "scaling": self._scaling_name or custom,
            "clip": None if self.clip is None else list(self.clip),
            "mask": self.mask,
            "dtype": self.dtype.name,
        }

    @property
    def learns(self) -> bool:
        """True if there is anything to fit."""
        return self.scaling is not None or any(feature.learns for feature in self.features)

    @property
    def fitted(self) -> bool:
        """True if `transform` can be called."""
        return not self.learns or self._fitted_on is not None

    @property
    def fitted_on(self) -> str | None:
        """Digest of the training data; None before `fit`."""
        return self._fitted_on

    def fit(self, train: MarketData) -> Pipeline:
        """Fit to training data, without its warm-up rows.

        Copies are fitted and replace the features at the end: a failed `fit` changes nothing, and
        pipelines may share features.
        """
        rows = adjusted(train)
        features = tuple(copy.deepcopy(f).fit(rows) if f.learns else f for f in self.features)
        blocks = [feature(rows) for feature in features]
        values, layout = self._joined(blocks, train)
        names = layout.names
        scaling = copy.deepcopy(self.scaling)
        if scaling is not None:
            samples = values[train.warm_up :].reshape(-1, len(names))
            missing = np.asarray(np.isnan(samples).all(axis=0))
            if missing.any():
                empty = [names[channel] for channel in np.flatnonzero(missing)]
                raise ValueError(f"channels without a value in the training data: {empty}")
            scaling.fit(samples)
        self.features, self.scaling = features, scaling
        self._fitted_on, self._fitted_channels = train.digest, names
        return self

    def transform(self, data: MarketData) -> FeaturePanel:
        """Compute the features of a panel with the fitted state.

        Features see prices that are adjusted for dividends and splits, point in time.
        """
        self.require_fitted()
        rows = adjusted(data)
        values, layout = self._joined([feature(rows) for feature in self.features], data)
        block, present = self.shown(values, layout)
        names = (*layout.names, *self._mask_names())
        return FeaturePanel(block, names, present, data.times, data.assets, data.warm_up)

    def fit_transform(self, train: MarketData) -> FeaturePanel:
        """Fit to training data and compute its features."""
        return self.fit(train).transform(train)

    def stream(self, history: MarketData) -> FeatureStream:
        """Stream of rows after `history`, with the same bytes as `transform` of all rows."""
        from sekai.data.features.stream import FeatureStream

        self.require_fitted()
        return FeatureStream(self, history)

    def require_fitted(self) -> None:
        """Raise `NotFittedError` if the pipeline must be fitted first."""
        if not self.fitted:
            raise NotFittedError("pipeline is not fitted; call fit(train) first")

    def layout(self, widths: tuple[int, ...]) -> Layout:
        """Layout of features with these numbers of channels."""
        names: list[str] = []
        firsts: list[int] = []
        for feature, width in zip(self.features, widths, strict=True):
            firsts.append(len(names))
            names.extend(feature.channels(width))
        if len(set(names)) < len(names):
            raise ValueError(f"feature names must be unique, got {names}")
        return Layout(widths, tuple(names), firsts if self.mask == "feature" else None)

    def shown(
        self, values: Floats, layout: Layout
    ) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
        """Scale and clip joined features; return one array with mask channels, and the mask."""
        if self.scaling is not None:
            if layout.names != self._fitted_channels:
                raise ValueError(
                    f"channels differ from the fitted {self._fitted_channels}, got {layout.names}"
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
        """Description and fitted state, serializable as strict JSON."""
        return {**self._description(), "fitted": self._learned() if self._fitted_on else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a fitted state, or raise `StateError` and change nothing."""
        expected = self._description()
        actual = {key: state.get(key) for key in expected} if isinstance(state, Mapping) else state
        if actual != expected:
            raise StateError(f"state of another pipeline: expected {expected}, got {actual}")
        try:
            self._load(state["fitted"])
        except StateError:
            raise
        except Exception as error:
            raise StateError(
                f"malformed pipeline state: {error!r}; pass the result of state_dict()"
            ) from error

    def to_json(self) -> str:
        """Serialize the pipeline with its fitted state, if all its features have names."""
        return json.dumps(self.to_jsonable(), allow_nan=False)

    def to_jsonable(self) -> dict[str, Any]:
        """Describe the pipeline with its fitted state in JSON types.

        Raises:
            ValueError: if a feature or the scaling has no name.
        """
        unnamed = [feature.name for feature in self.features if feature.spec is None]
        if self.scaling is not None and self._scaling_name is None:
            unnamed.append(type(self.scaling).__name__)
        if unnamed:
            raise ValueError(
                f"features and scalings without a name cannot be serialized: {unnamed}; register "
                f"them by register_feature, or keep state_dict() and build the pipeline in code"
            )
        return self.state_dict()

    @classmethod
    def from_json(cls, text: str) -> Pipeline:
        """Create the pipeline that `to_json` wrote."""
        return cls.from_jsonable(parse_json(text))

    @classmethod
    def from_jsonable(cls, state: Mapping[str, Any]) -> Pipeline:
        """Create the pipeline that `to_jsonable` described."""
        pipeline = cls(
            state["features"],
            scaling=state["scaling"],
            mask=state["mask"],
            dtype=state["dtype"],
            clip=None if state["clip"] is None else tuple(state["clip"]),
        )
        pipeline.load_state_dict(state)
        return pipeline

    def _description(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "features": [feature.spec or feature.name for feature in self.features],
            **self.settings,
        }

    def _learned(self) -> dict[str, Any]:
        if self.scaling is not None and not hasattr(self.scaling, "state_dict"):
            kind = type(self.scaling).__name__
            raise StateError(f"{kind} cannot be saved: it lacks state_dict and load_state_dict")
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
    """Default pipeline of five features, or four without volume.

    Args:
        data: panel to compute; relative volume is left out if it has no volume.
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
        raise ValueError(f"clip must be above 0, or a lower and an upper bound, got {clip}")
    return float(low), float(high)


def _scaling(scaling: str | Scaling | None) -> Scaling | None:
    if not isinstance(scaling, str):
        if scaling is not None and not isinstance(scaling, Scaling):
            raise TypeError(f"scaling must have fit and transform, got {scaling!r}")
        return scaling
    if scaling not in SCALINGS:
        raise ValueError(f"scaling must be one of {sorted(SCALINGS)}, got {scaling!r}")
    return SCALINGS[scaling]()


@dataclass(frozen=True, eq=False)
class FeaturePanel:
    """Features of a panel: rows by assets by channels, without NaN."""

    values: NDArray[np.floating]
    """Rows by assets by channels. Missing values are 0, as the mask channels show."""

    names: tuple[str, ...]
    """Channel names; those that begin with `present` are masks, 1 where values are present."""

    present: NDArray[np.bool_]
    """Mask of present values: rows by assets, or rows by assets by features."""

    times: NDArray[np.datetime64]
    """Timestamp of each row."""

    assets: tuple[str, ...]
    """Assets in the order of the second axis."""

    warm_up: int = 0
    """Leading rows that are history only."""

    def __repr__(self) -> str:
        rows, assets, channels = self.values.shape
        return f"FeaturePanel({rows} rows, {assets} assets, {channels} channels)"

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        description = (self.names, self.assets, self.warm_up, self.values.shape, self.values.dtype)
        state = hashlib.sha256(repr(description).encode())
        times = self.times.astype("datetime64[ns]").astype(np.int64)
        for array in (self.values, self.present, times):
            state.update(np.ascontiguousarray(array).data)
        return state.hexdigest()

    def to_frame(self, backend: str = "pandas") -> Any:
        """Convert to a frame with a row per time and asset, and a column per channel.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        from sekai.data.writing import as_frame

        columns: dict[str, Any] = {
            "time": np.repeat(self.times, len(self.assets)),
            "asset": list(self.assets) * len(self.times),
        }
        channels = {name: self.channel(name).ravel() for name in self.names}
        return as_frame(columns | channels, backend, "FeaturePanel.to_frame")

    def channel(self, name: str) -> NDArray[np.floating]:
        """Values of one channel: rows by assets, without a copy."""
        if name not in self.names:
            raise KeyError(unknown_name("channel", name, self.names))
        column: NDArray[np.floating] = self.values[:, :, self.names.index(name)]
        return column


@runtime_checkable
class Scaling(Protocol):
    """Interface of scalings for `Pipeline(scaling=...)`, satisfied by scikit-learn scalers."""

    def fit(self, values: Floats) -> Any:
        """Fit to samples by channels, NaN where missing."""

    def transform(self, values: Floats) -> Floats:
        """Scale samples by channels; NaN stays NaN."""


class _LinearScaling:
    def __init__(self) -> None:
        self._center: Floats = np.empty(0)
        self._width: Floats = np.empty(0)

    def _center_and_width(self, column: Floats) -> tuple[float, float]:
        raise NotImplementedError("implement _center_and_width in a linear scaling")

    def fit(self, values: Floats) -> None:
        """Estimate center and width of each channel from its valid values."""
        estimates = [self._center_and_width(column) for column in _columns(values)]
        self._center = np.array([center for center, _ in estimates])
        # A channel that is constant in training is only centered.
        self._width = np.array([width if width > 0 else 1.0 for _, width in estimates])

    def transform(self, values: Floats) -> Floats:
        """Subtract the center and divide by the width."""
        return (values - self._center) / self._width

    def state_dict(self) -> dict[str, list[float]]:
        """Fitted state, serializable as JSON."""
        return {"center": self._center.tolist(), "width": self._width.tolist()}

    def load_state_dict(self, state: Mapping[str, Sequence[float]]) -> None:
        """Restore a fitted state."""
        center, width = _row(state, "center"), _row(state, "width")
        if center.shape != width.shape or not (width > 0).all():
            raise StateError(f"scaling needs a center and a width above 0 per channel, got {state}")
        self._center, self._width = center, width


class ZScoreScaling(_LinearScaling):
    """Z-score: mean and standard deviation."""

    def _center_and_width(self, column: Floats) -> tuple[float, float]:
        return float(column.mean()), float(column.std())


class RobustScaling(_LinearScaling):
    """Robust scaling: median and interquartile range."""

    def _center_and_width(self, column: Floats) -> tuple[float, float]:
        low, middle, high = np.quantile(column, [0.25, 0.5, 0.75])
        return float(middle), float(high - low)


class RankScaling:
    """Rank of a value in the training data: -1 below all, 1 above all."""

    def __init__(self) -> None:
        self._knots: list[Floats] = []

    def fit(self, values: Floats) -> None:
        """Store up to `QUANTILES` quantiles of each channel."""
        self._knots = [_quantiles(column) for column in _columns(values)]

    def transform(self, values: Floats) -> Floats:
        """Share of the stored quantiles below each value, ties counted as half."""
        ranks = np.full(values.shape, np.nan)
        for channel, knots in enumerate(self._knots):
            column = values[..., channel]
            below = knots.searchsorted(column, "left") + knots.searchsorted(column, "right")
            ranks[..., channel] = np.where(np.isnan(column), np.nan, below / len(knots) - 1)
        return ranks

    def state_dict(self) -> dict[str, list[list[float]]]:
        """Fitted state, serializable as JSON."""
        return {"knots": [knots.tolist() for knots in self._knots]}

    def load_state_dict(self, state: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Restore a fitted state."""
        content = state.get("knots") if isinstance(state, Mapping) else None
        knots = [np.asarray(row, np.float64) for row in content or ()]
        if not knots or any(
            row.ndim != 1 or not row.size or (np.diff(row) < 0).any() for row in knots
        ):
            raise StateError(f"scaling needs ascending knots per channel, got {content!r:.80}")
        self._knots = knots


SCALINGS: dict[str, type[_LinearScaling] | type[RankScaling]] = {
    "zscore": ZScoreScaling,
    "robust": RobustScaling,
    "rank": RankScaling,
}
"""Scalings by name."""


def _columns(values: Floats) -> list[Floats]:
    columns = [values[:, channel] for channel in range(values.shape[1])]
    return [column[np.isfinite(column)] for column in columns]


def _quantiles(column: Floats) -> Floats:
    if len(column) <= QUANTILES:
        return np.sort(column)
    return np.quantile(column, np.linspace(0, 1, QUANTILES), method="inverted_cdf")


def _row(state: Any, name: str) -> Floats:
    content = state.get(name) if isinstance(state, Mapping) else None
    row = np.asarray(content if content is not None else [], np.float64)
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise StateError(f"scaling needs numbers per channel under {name!r}, got {content!r}")
    return row
