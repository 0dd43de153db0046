"""Windows of a file that go on with the rows of a stream."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.market_data import MarketData
from sekai.data.windows.panel_windows import as_rows, window_buffer
from sekai.data.windows.window_file import Windows
from sekai.error import DataError

if TYPE_CHECKING:
    from sekai.data.features.feature_panel import FeaturePanel
    from sekai.data.features.pipeline import Pipeline

__all__ = ["RollingWindows"]

Rows = NDArray[np.int64]
FEWEST = 64
"""Rows that there is room for at least."""


class RollingWindows:
    """Windows of a file, then windows of the rows after it, numbered as in one long file.

    The pipeline of the file (`Windows.open(path, pipeline=...)`) computes the features of rows
    after the last window. Windows of the file are read when they are gathered; of later rows the
    features are in memory. What the file has after the end of the history is never shown.

    One thread may push while another gathers.
    """

    first_row = 0

    def __init__(self, windows: Windows, history: MarketData) -> None:
        """Verify that the pipeline computes the last windows of the file, and go on from there.

        Args:
            windows: the file, with the pipeline that made it.
            history: rows that are known. Those after the last window get one by the pipeline.

        Raises:
            DataError: the pipeline gives other names, another dtype or other values than the file
                has; or the history is too short to tell.
        """
        windows.require_order()
        self.file = windows
        self.assets, self.features = windows.assets, windows.features
        self.lookback, self.dtype = windows.lookback, windows.dtype
        self._in_file = int(np.searchsorted(windows.times, history.times[-1], side="right"))
        last = _last_row(windows, history, self._in_file)
        shown, first = _shown(windows, history, last)
        _check_overlap(windows, shown, self._in_file, _begin_of(windows, history, last))
        rows, times = shown.values[last + 1 - first :], history.times[last + 1 :]
        seed = windows.gather([self._in_file - 1])[0]
        room = max(FEWEST, 2 * (len(seed) + len(rows)))
        self._times = _roomy(times, room)
        # Replaced as a whole, so that who gathers sees all of a change or nothing of it.
        self._kept = (0, len(seed) + len(rows), _roomy(np.concatenate([seed, rows]), room))

    def __len__(self) -> int:
        """How many windows are known, in the file and after it."""
        forgotten, count, _ = self._kept
        return self._in_file + forgotten + count - self.lookback

    @property
    def times(self) -> NDArray[np.datetime64]:
        """When each window was known; NaT for those that are forgotten."""
        forgotten, count, _ = self._kept
        gone = np.full(forgotten, "NaT", "datetime64[ns]")
        kept = self._times[: count - self.lookback]
        return np.concatenate([self.file.times[: self._in_file], gone, kept])

    @property
    def nbytes(self) -> int:
        """Memory of the rows after the file."""
        return self._kept[2].nbytes + self._times.nbytes

    @property
    def digest(self) -> str:
        """A hash of the content that is known by now."""
        forgotten, count, rows = self._kept
        state = hashlib.sha256(repr((self.file.digest, self._in_file, forgotten)).encode())
        state.update(self._times[: count - self.lookback].view(np.int64).data)
        state.update(rows[:count].data)
        return state.hexdigest()

    def gather(self, rows: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The windows at `rows`: batch by lookback by assets by features.

        Args:
            rows: which windows, from 0 on.
            out: where to; a new array if not given.
        """
        forgotten, count, kept = self._kept
        places = as_rows(rows)
        shape = (self.lookback, len(self.assets), len(self.features))
        out = window_buffer(out, (len(places), *shape), self.dtype)
        # Of later rows, the row of features that the window begins with.
        begins = places - self._in_file + 1 - forgotten
        is_later = places >= self._in_file
        self._check_known(places, is_later, begins, count)
        if not is_later.any():
            return self.file.gather(places, out=out)
        for number in np.flatnonzero(is_later):
            begin = begins[number]
            out[number] = kept[begin : begin + self.lookback]
        if not is_later.all():
            out[~is_later] = self.file.gather(places[~is_later])
        return out

    def push(self, time: np.datetime64, row: NDArray[np.floating]) -> None:
        """Take in the features of the next row, assets by features, as the pipeline shows them."""
        forgotten, count, kept = self._kept
        if count == len(kept):
            kept = _roomy(kept, 2 * count)
            self._times = _roomy(self._times, 2 * count)
        kept[count] = row
        self._times[count - self.lookback] = time
        self._kept = (forgotten, count + 1, kept)

    def forget(self, keep: int) -> None:
        """Keep no more of later rows than the last `keep` windows need."""
        forgotten, count, kept = self._kept
        gone = count - (keep + self.lookback - 1)
        if gone <= 0:
            return
        room = max(FEWEST, 2 * (count - gone))
        self._times = _roomy(self._times[gone : count - self.lookback], room)
        self._kept = (forgotten + gone, count - gone, _roomy(kept[gone:count], room))

    def _check_known(
        self, places: Rows, is_later: NDArray[np.bool_], begins: Rows, count: int
    ) -> None:
        outside = (places < 0) | (begins > count - self.lookback)
        if outside.any():
            raise ValueError(
                f"rows from 0 to {len(self) - 1} were wanted, found {places[outside][0]}"
            )
        gone = is_later & (begins < 0)
        if gone.any():
            raise ValueError(
                f"window {places[gone][0]} is forgotten: keep_rows must be more for windows that "
                "are gathered later"
            )


def _last_row(windows: Windows, history: MarketData, in_file: int) -> int:
    """The row of the history that the last window of the file belongs to."""
    if in_file == 0:
        raise DataError(
            f"no window of the file is known at the end of the history, {history.times[-1]}: the "
            f"first is at {windows.times[0]}; pass the rows that the file was made of"
        )
    time = windows.times[in_file - 1]
    row = int(np.searchsorted(history.times, time))
    if history.times[row] != time:
        raise DataError(
            f"the last window of the file is at {time}, which is no row of the history: the next "
            f"is at {history.times[row]}; pass the rows that the file was made of"
        )
    return row


def _begin_of(windows: Windows, history: MarketData, last: int) -> int:
    """The first row that is shown whose features must be those in the file."""
    needed = _pipeline_of(windows).lookback
    if needed is not None and last + 1 >= needed:
        return needed - 1
    # Features are what they were only if the history begins where that of the file did.
    if windows.times[0] < history.times[min(windows.lookback, len(history)) - 1]:
        rows = "all rows since the first of the file" if needed is None else f"{needed} rows"
        raise DataError(
            f"history too short for the pipeline of the windows: it looks back on {rows}, found "
            f"{last + 1} up to the last window of the file; pass more history"
        )
    return 0


def _shown(windows: Windows, history: MarketData, last: int) -> tuple[FeaturePanel, int]:
    """What the pipeline makes of the end of the history, and the row that it begins with."""
    pipeline = _pipeline_of(windows)
    if windows.dtype != pipeline.dtype:
        raise DataError(
            f"dtype differs: {windows.dtype} in the file, {pipeline.dtype} by its pipeline; open "
            f"it with Pipeline(..., dtype='{windows.dtype}')"
        )
    first = 0
    if pipeline.lookback is not None:
        first = max(0, last + 2 - 2 * windows.lookback - pipeline.lookback)
    shown = pipeline.transform(history.rows(first, len(history)))
    if shown.names != windows.features:
        raise DataError(
            f"features differ: {windows.features} in the file, {shown.names} by its pipeline; "
            "open it with the pipeline that made it, or name what it has by features=..."
        )
    return shown, first


def _check_overlap(windows: Windows, shown: FeaturePanel, in_file: int, begin: int) -> None:
    """Raise unless the last windows of the file have the bytes that the pipeline computes."""
    for place in range(max(0, in_file - windows.lookback), in_file):
        row = int(np.searchsorted(shown.times, windows.times[place]))
        if shown.times[row] != windows.times[place]:
            continue
        begins = row - windows.lookback + 1
        skipped = max(0, begin - begins)
        found = windows.gather([place])[0, skipped:]
        expected = np.ascontiguousarray(shown.values[begins + skipped : row + 1], windows.dtype)
        bits = f"u{windows.dtype.itemsize}"
        differs = np.argwhere(found.view(bits) != expected.view(bits))
        if differs.size:
            offset, asset, feature = (int(number) for number in differs[0])
            raise DataError(
                f"windows of the file are not those of its pipeline: first difference at "
                f"{shown.times[begins + skipped + offset]}, asset {windows.assets[asset]!r}, "
                f"feature {windows.features[feature]!r}: {found[offset, asset, feature]} in the "
                f"file, {expected[offset, asset, feature]} by the pipeline; pass the history that "
                "the file was made of, and the pipeline as it was fitted then"
            )


def _pipeline_of(windows: Windows) -> Pipeline:
    if windows.pipeline is None:
        raise ValueError(
            "windows of a file end with the file: to go on with rows after it, give the pipeline "
            "that made them by Windows.open(..., pipeline=...)"
        )
    return windows.pipeline


def _roomy(rows: NDArray[Any], room: int) -> NDArray[Any]:
    """The same rows in the first places of an array with room for more."""
    roomy = np.empty((room, *rows.shape[1:]), rows.dtype)
    roomy[: len(rows)] = rows
    return roomy
