"""Feature stream: features row by row, with the same bytes as those of the panel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import join_features
from sekai.data.corporate_actions import PriceAdjustment, action_columns
from sekai.data.market_data import MarketData
from sekai.data.streaming import StreamingPanel
from sekai.error import StateError

if TYPE_CHECKING:
    from sekai.data.features.pipeline import Layout, Pipeline


class FeatureStream:
    """Rows of `Pipeline.transform` computed one by one; created by `Pipeline.stream`.

    Args:
        pipeline: fitted pipeline.
        history: rows before the first pushed one; at least the lookback of the pipeline, or all
            rows if it has none.
    """

    def __init__(self, pipeline: Pipeline, history: MarketData) -> None:
        self.pipeline = pipeline
        self._rows = StreamingPanel(history)
        # Features see adjusted prices; without dividends and splits these are the rows.
        self._shown, self._adjustment = self._rows, None
        if action_columns(history) and "close" in history.fields:
            self._adjustment = PriceAdjustment()
            values = self._adjustment.push(history)
            self._shown = StreamingPanel(history.replace(values=values))
        features = pipeline.features
        # States of the streams, and the number of rows pushed since.
        self._checkpoint: dict[str, Any] | None = None
        self._rows_since = 0
        self._streams = self._start_streams(self._shown.panel())
        windowed = [f for index, f in enumerate(features) if index not in self._streams]
        lookbacks = [feature.lookback for feature in windowed if feature.lookback is not None]
        self._window = max([1, *lookbacks])
        self._needs_all = len(lookbacks) < len(windowed)
        self._layout: Layout | None = None
        self.latest = history.rows(max(0, len(history) - 1), len(history))
        """Last row pushed."""

        self.present: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)
        """Its mask as in `FeaturePanel`; empty before the first row."""

    def __repr__(self) -> str:
        return f"FeatureStream({self.pipeline!r})"

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows_needed(self) -> int | None:
        """Number of last rows that features depend on; None if any row may be needed again."""
        has_states = all(hasattr(stream, "state_dict") for stream in self._streams.values())
        return self._window if has_states and not self._needs_all else None

    @property
    def is_recursive(self) -> bool:
        """True if features depend on all earlier rows, through the states of streams."""
        return bool(self._streams) or self._needs_all

    def forget(self, rows: int) -> None:
        """Drop the first `rows` rows; at least `rows_needed` must remain."""
        if rows:
            self._set_checkpoint(self._stream_states())
        self._rows.forget(rows)
        if self._shown is not self._rows:
            self._shown.forget(rows)

    def push(
        self,
        time: Any,
        values: ArrayLike,
        *,
        listed: ArrayLike | None = None,
        quoted: ArrayLike | None = None,
        tradable: ArrayLike | None = None,
        market: Mapping[str, float] | None = None,
    ) -> NDArray[np.floating]:
        """Append the next row and compute its features: assets by channels.

        Args:
            time: timestamp of the row, after the last.
            values: assets by fields; NaN where missing.
            listed: mask of listed assets; by default those with a value in the last rows, as in
                `MarketData`.
            quoted: mask of quoted assets; by default those with all prices.
            tradable: mask of tradable assets; by default those quoted.
            market: value of every market-wide series.
        """
        masks = {"listed": listed, "quoted": quoted, "tradable": tradable}
        self.latest = self._rows.push(time, values, market=market, **masks)
        shown = self._adjust(self.latest, market)
        self._rows_since += 1
        try:
            return self._features(shown)
        except Exception:
            self.take_back()
            raise

    def panel(self, rows: int | None = None) -> MarketData:
        """Return the last `rows` rows, or all, without a copy."""
        return self._rows.panel(rows)

    def take_back(self) -> None:
        """Undo the last `push`."""
        self._rows.take_back()
        self._rows_since -= 1
        if self._adjustment is not None:
            self._shown.take_back()
            self._adjustment.take_back()
        self.latest = self.panel(1)
        rows = None if self._checkpoint is None else self._rows_since
        self._streams = self._start_streams(self._shown.panel(rows))

    def state_dict(self, rows: int | None = None) -> dict[str, Any]:
        """State from which later rows have the same features, bit for bit.

        Args:
            rows: number of last rows in it; at least `rows_needed`, and all if that is None.
        """
        needed = self.rows_needed
        kept = None if rows is None or needed is None else max(rows, needed)
        adjustment = self._adjustment
        return {
            "rows": self._rows.state_dict(kept),
            "shown": None if adjustment is None else self._shown.state_dict(kept),
            "adjustment": None if adjustment is None else adjustment.state_dict(),
            "streams": None if needed is None else self._stream_states(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, in place of all rows."""
        if (state["adjustment"] is None) != (self._adjustment is None):
            raise StateError("rows with dividends or splits do not fit rows without them")
        self._rows.load_state_dict(state["rows"])
        if self._adjustment is not None:
            self._shown.load_state_dict(state["shown"])
            self._adjustment.load_state_dict(state["adjustment"])
        self.latest = self.panel(1)
        self._set_checkpoint(state["streams"])
        shown = self._shown.panel(None if self._checkpoint is None else 0)
        self._streams = self._start_streams(shown)

    def _stream_states(self) -> dict[str, Any]:
        # By name: keys of JSON objects are strings.
        return {str(index): stream.state_dict() for index, stream in self._streams.items()}

    def _set_checkpoint(self, states: Mapping[str, Any] | None) -> None:
        self._checkpoint, self._rows_since = None if states is None else dict(states), 0

    def _adjust(self, latest: MarketData, market: Mapping[str, float] | None) -> MarketData:
        if self._adjustment is None:
            return latest
        masks = {name: getattr(latest, name)[0] for name in ("listed", "quoted", "tradable")}
        try:
            values = self._adjustment.push(latest)[0]
            return self._shown.push(latest.times[0], values, market=market, **masks)
        except Exception:
            self._rows.take_back()
            self._adjustment.take_back()
            raise

    def _start_streams(self, history: MarketData) -> dict[int, Any]:
        features = enumerate(self.pipeline.features)
        streams: dict[int, Any] = {
            index: feature.stream() for index, feature in features if feature.stream
        }
        for index, stream in streams.items():
            if self._checkpoint is not None:
                stream.load_state_dict(self._checkpoint[str(index)])
            if len(history):
                stream.push(history)
        return streams

    def _features(self, latest: MarketData) -> NDArray[np.floating]:
        window = latest if self._window == 1 else self._shown.panel(self._window)
        history = self._shown.panel() if self._needs_all else window
        blocks = []
        for index, feature in enumerate(self.pipeline.features):
            if index in self._streams:
                blocks.append(self._streams[index].push(latest))
            else:
                blocks.append(feature(history if feature.lookback is None else window)[-1:])
        widths = tuple([block.shape[2] for block in blocks])
        if self._layout is None or self._layout.widths != widths:
            self._layout = self.pipeline.layout(widths)
        joined = join_features(blocks, latest.listed)
        shown, self.present = self.pipeline.shown(joined, self._layout)
        row: NDArray[np.floating] = shown[0]
        return row
