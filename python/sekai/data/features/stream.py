"""Features row by row, as a market gives them: the same bytes as those of a whole panel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import join_features
from sekai.data.arriving_rows import ArrivingRows
from sekai.data.market_data import MarketData

if TYPE_CHECKING:
    from sekai.data.features.feature import RowStream
    from sekai.data.features.pipeline import Layout, Pipeline

__all__ = ["FeatureStream"]


class FeatureStream:
    """The rows of `Pipeline.transform`, one by one, as they become known."""

    def __init__(self, pipeline: Pipeline, history: MarketData) -> None:
        """Begin after `history`; `Pipeline.stream` does this.

        Args:
            pipeline: what is shown, fitted.
            history: the rows before the first that is pushed; all of them if the pipeline has
                no lookback, or else at least so many.
        """
        self.pipeline = pipeline
        self._rows = ArrivingRows(history)
        features = pipeline.features
        self._streams = self._begun(history)
        windowed = [f for place, f in enumerate(features) if place not in self._streams]
        lookbacks = [feature.lookback for feature in windowed if feature.lookback is not None]
        self._window = max([1, *lookbacks])
        self._needs_all = len(lookbacks) < len(windowed)
        self._layout: Layout | None = None
        self.latest = history.rows(max(0, len(history) - 1), len(history))
        """The last row that was taken in."""

        self.present: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)
        """What of it is there, as `FeaturePanel` has it; nothing before the first."""

    def __len__(self) -> int:
        """Rows that are known, and kept."""
        return len(self._rows)

    @property
    def rows_needed(self) -> int | None:
        """How many of the last rows features look at; None if any may be needed again."""
        return None if self._needs_all or self._streams else self._window

    def forget(self, rows: int) -> None:
        """Keep no more of so many of the first rows; at least `rows_needed` have to be left."""
        self._rows.forget(rows)

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
        """Take in the next row, and show its features: assets by channels.

        Args:
            time: when the row was known, later than the last.
            values: assets by fields; NaN where there is none.
            listed: which assets exist; if not given, those with a value in the last rows, as
                `MarketData` says.
            quoted: which have prices; those whose prices are all there if not given.
            tradable: in which orders can be filled; those quoted if not given.
            market: the values of the series of the whole market, all of them.
        """
        masks = {"listed": listed, "quoted": quoted, "tradable": tradable}
        self.latest = self._rows.push(time, values, market=market, **masks)
        try:
            return self._shown(self.latest)
        except Exception:
            self.take_back()
            raise

    def panel(self, rows: int | None = None) -> MarketData:
        """The last rows that are known, or all of them, without a copy."""
        return self._rows.panel(rows)

    def take_back(self) -> None:
        """Be as before the latest row, which somebody has refused after all."""
        self._rows.take_back()
        self.latest = self.panel(1)
        self._streams = self._begun(self.panel())

    def _begun(self, history: MarketData) -> dict[int, RowStream]:
        features = enumerate(self.pipeline.features)
        streams = {place: feature.stream() for place, feature in features if feature.stream}
        for stream in streams.values():
            stream.push(history)
        return streams

    def _shown(self, latest: MarketData) -> NDArray[np.floating]:
        window = latest if self._window == 1 else self.panel(self._window)
        everything = self.panel() if self._needs_all else window
        blocks = []
        for place, feature in enumerate(self.pipeline.features):
            if place in self._streams:
                blocks.append(self._streams[place].push(latest))
            else:
                blocks.append(feature(everything if feature.lookback is None else window)[-1:])
        widths = tuple([block.shape[2] for block in blocks])
        if self._layout is None or self._layout.widths != widths:
            self._layout = self.pipeline.layout(widths)
        joined = join_features(blocks, latest.listed)
        shown, self.present = self.pipeline.shown(joined, self._layout)
        row: NDArray[np.floating] = shown[0]
        return row
