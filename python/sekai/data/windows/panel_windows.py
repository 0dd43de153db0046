"""Rolling windows of a panel in memory, and of a file continued by a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import gather_windows
from sekai.data.market_data import MarketData, frozen
from sekai.data.streaming import MIN_CAPACITY, grown
from sekai.data.windows.window_file import Windows, as_rows, panel_names, window_buffer
from sekai.error import DataError, StateError
from sekai.storage.display import name_list

if TYPE_CHECKING:
    from sekai.data.features.pipeline import FeaturePanel, Pipeline

Rows = NDArray[np.int64]
Values = NDArray[np.float32]


class PanelWindows:
    """Rolling windows of a panel in memory, with the interface of `Windows`.

    The window of row t is `panel[t - lookback + 1 : t + 1]`. The first row with a window is
    `first_row`.

    Args:
        panel: rows by assets by features: market data, the result of a `Pipeline`, or a float32
            array, which is copied only if it is writable.
        lookback: rows in a window.
        times: timestamp of each row; required for an array.
        assets: asset names; required for an array.
        features: feature names; required for an array.
        threads: threads per gather. One thread saturates the memory of small machines; more help
            where memory has more channels.
    """

    def __init__(
        self,
        panel: Values | MarketData | FeaturePanel,
        lookback: int,
        *,
        times: ArrayLike | None = None,
        assets: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        threads: int = 1,
    ) -> None:
        stamps, self.assets, self.features = panel_names(panel, times, assets, features)
        self.times = frozen(stamps.astype("datetime64[ns]"))
        shape = (len(self.times), len(self.assets), len(self.features))
        values: NDArray[Any] = (
            panel if isinstance(panel, np.ndarray) else panel.values.astype(np.float32, copy=False)
        )
        if values.dtype != np.float32 or values.shape != shape:
            raise ValueError(
                f"panel must be float32 of shape {shape}, got {values.dtype} of shape "
                f"{values.shape}"
            )
        if lookback < 1 or threads < 1:
            raise ValueError(
                f"lookback and threads must be at least 1, got {lookback} and {threads}"
            )
        self.panel = frozen(np.ascontiguousarray(values))
        self.lookback = lookback
        self.dtype = self.panel.dtype
        self._threads = threads

    def __repr__(self) -> str:
        return (
            f"PanelWindows({len(self):,} rows, lookback {self.lookback}, "
            f"{len(self.assets)} assets, features {name_list(self.features)})"
        )

    def __len__(self) -> int:
        return len(self.times)

    @property
    def first_row(self) -> int:
        """First row with a window."""
        return self.lookback - 1

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        state = hashlib.sha256(repr((self.lookback, self.assets, self.features)).encode())
        state.update(self.times.astype(np.int64).data)
        state.update(self.panel.data)
        return state.hexdigest()

    def gather(self, rows: ArrayLike, out: Values | None = None) -> Values:
        """Gather the windows that end at `rows`: batch by lookback by assets by features.

        Args:
            rows: row indices, at least `first_row`.
            out: output array; a new one by default.
        """
        indices = as_rows(rows)
        if out is None:
            shape = (len(indices), self.lookback, len(self.assets), len(self.features))
            out = np.empty(shape, np.float32)
        gather_windows(self.panel, indices, self.lookback, out, self._threads)
        return out


class RollingWindows:
    """Windows of a file followed by windows of later rows, numbered consecutively.

    The pipeline of the file (`Windows.open(path, pipeline=...)`) computes the features of rows
    after the last window. Windows of the file are read when they are gathered; features of later
    rows are in memory. Windows of the file after the end of the history are never shown.

    One thread may push while another gathers.

    Args:
        windows: windows in a file, with the pipeline that computed them.
        history: known rows. The pipeline computes windows of those after the last window.

    Raises:
        DataError: if the pipeline gives other names, another dtype or other values than the file,
            or the history is too short to compare.
    """

    first_row = 0

    def __init__(self, windows: Windows, history: MarketData) -> None:
        windows.require_order()
        self.file = windows
        self.assets, self.features = windows.assets, windows.features
        self.lookback, self.dtype = windows.lookback, windows.dtype
        self._in_file = int(np.searchsorted(windows.times, history.times[-1], side="right"))
        last = _last_row(windows, history, self._in_file)
        shown, first = _transformed(windows, history, last)
        _check_overlap(windows, shown, self._in_file, _first_comparable(windows, history, last))
        rows, times = shown.values[last + 1 - first :], history.times[last + 1 :]
        seed = windows.gather([self._in_file - 1])[0]
        capacity = max(MIN_CAPACITY, 2 * (len(seed) + len(rows)))
        self._times = grown(times, 0, capacity)
        # Dropped rows, count and rows in one tuple: a concurrent gather sees a consistent state.
        self._state = (0, len(seed) + len(rows), grown(np.concatenate([seed, rows]), 0, capacity))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,} windows, after {self.file!r}>"

    def __len__(self) -> int:
        dropped, count, _ = self._state
        return self._in_file + dropped + count - self.lookback

    @property
    def times(self) -> NDArray[np.datetime64]:
        """Timestamp of each window; NaT for dropped ones."""
        dropped, count, _ = self._state
        missing = np.full(dropped, "NaT", "datetime64[ns]")
        later = self._times[: count - self.lookback]
        return np.concatenate([self.file.times[: self._in_file], missing, later])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows after the file."""
        return self._state[2].nbytes + self._times.nbytes

    @property
    def digest(self) -> str:
        """SHA-256 of the content known so far."""
        dropped, count, rows = self._state
        state = hashlib.sha256(repr((self.file.digest, self._in_file, dropped)).encode())
        state.update(self._times[: count - self.lookback].view(np.int64).data)
        state.update(rows[:count].data)
        return state.hexdigest()

    def gather(self, rows: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Gather windows: batch by lookback by assets by features.

        Args:
            rows: window indices.
            out: output array; a new one by default.
        """
        dropped, count, later = self._state
        indices = as_rows(rows)
        shape = (self.lookback, len(self.assets), len(self.features))
        out = window_buffer(out, (len(indices), *shape), self.dtype)
        # First feature row of each window after the file.
        begins = indices - self._in_file + 1 - dropped
        is_later = indices >= self._in_file
        self._check_known(indices, is_later, begins, count)
        if not is_later.any():
            return self.file.gather(indices, out=out)
        for number in np.flatnonzero(is_later):
            begin = begins[number]
            out[number] = later[begin : begin + self.lookback]
        if not is_later.all():
            out[~is_later] = self.file.gather(indices[~is_later])
        return out

    def push(self, time: np.datetime64, row: NDArray[np.floating]) -> None:
        """Append the features of the next row as the pipeline computes them: assets by features."""
        dropped, count, rows = self._state
        if count == len(rows):
            rows = grown(rows, 0, 2 * count)
            self._times = grown(self._times, 0, 2 * count)
        rows[count] = row
        self._times[count - self.lookback] = time
        self._state = (dropped, count + 1, rows)

    def forget(self, keep: int) -> None:
        """Drop later rows that the last `keep` windows do not need."""
        dropped, count, rows = self._state
        drop = count - (keep + self.lookback - 1)
        if drop <= 0:
            return
        capacity = max(MIN_CAPACITY, 2 * (count - drop))
        self._times = grown(self._times[drop : count - self.lookback], 0, capacity)
        self._state = (dropped + drop, count - drop, grown(rows[drop:count], 0, capacity))

    def state_dict(self, keep: int) -> dict[str, Any]:
        """State of the later rows that the last `keep` windows need."""
        dropped, count, rows = self._state
        drop = max(0, count - (keep + self.lookback - 1))
        times = self._times[drop : max(drop, count - self.lookback)]
        return {
            "in_file": self._in_file,
            "dropped": dropped + drop,
            "times": times.view(np.int64).copy(),
            "rows": rows[drop:count].copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, in place of all later rows."""
        times, rows = np.array(state["times"], np.int64), np.asarray(state["rows"])
        count, shape = len(rows), self._state[2].shape[1:]
        fits = rows.dtype == self.dtype and len(times) == max(0, count - self.lookback)
        if state["in_file"] != self._in_file or rows.shape[1:] != shape or not fits:
            raise StateError("windows of other rows, or after another file")
        capacity = max(MIN_CAPACITY, 2 * count)
        self._times = grown(times.view("datetime64[ns]"), 0, capacity)
        self._state = (int(state["dropped"]), count, grown(rows, 0, capacity))

    def _check_known(
        self, indices: Rows, is_later: NDArray[np.bool_], begins: Rows, count: int
    ) -> None:
        outside = (indices < 0) | (begins > count - self.lookback)
        if outside.any():
            raise ValueError(f"rows must be from 0 to {len(self) - 1}, got {indices[outside][0]}")
        dropped = is_later & (begins < 0)
        if dropped.any():
            raise ValueError(
                f"window {indices[dropped][0]} was dropped; increase keep_rows to gather it later"
            )


def _last_row(windows: Windows, history: MarketData, in_file: int) -> int:
    """Row of the history that the last window of the file belongs to."""
    if in_file == 0:
        raise DataError(
            f"no window of the file is known at the end of the history, {history.times[-1]}: the "
            f"first is at {windows.times[0]}; pass the rows that the file was computed from"
        )
    time = windows.times[in_file - 1]
    row = int(np.searchsorted(history.times, time))
    if history.times[row] != time:
        raise DataError(
            f"the last window of the file is at {time}, which is not a row of the history: the "
            f"next is at {history.times[row]}; pass the rows that the file was computed from"
        )
    return row


def _first_comparable(windows: Windows, history: MarketData, last: int) -> int:
    """First computed row whose features must equal those of the file."""
    lookback = _pipeline_of(windows).lookback
    if lookback is not None and last + 1 >= lookback:
        return lookback - 1
    # Otherwise features are equal only if the history begins where that of the file did.
    if windows.times[0] < history.times[min(windows.lookback, len(history)) - 1]:
        rows = "all rows since the first of the file" if lookback is None else f"{lookback} rows"
        raise DataError(
            f"history too short for the pipeline of the windows: it needs {rows}, got {last + 1} "
            f"up to the last window of the file; pass more history"
        )
    return 0


def _transformed(windows: Windows, history: MarketData, last: int) -> tuple[FeaturePanel, int]:
    """Features of the end of the history, and the row that they begin with."""
    pipeline = _pipeline_of(windows)
    if windows.dtype != pipeline.dtype:
        raise DataError(
            f"dtype mismatch: {windows.dtype} in the file, {pipeline.dtype} by its pipeline; open "
            f"it with Pipeline(..., dtype='{windows.dtype}')"
        )
    first = 0
    if pipeline.lookback is not None:
        first = max(0, last + 2 - 2 * windows.lookback - pipeline.lookback)
    shown = pipeline.transform(history.rows(first, len(history)))
    if shown.names != windows.features:
        raise DataError(
            f"feature mismatch: {windows.features} in the file, {shown.names} by its pipeline; "
            "open it with the pipeline that computed it, or pass features=..."
        )
    return shown, first


def _check_overlap(windows: Windows, shown: FeaturePanel, in_file: int, begin: int) -> None:
    """Raise unless the last windows of the file equal those of the pipeline bit for bit."""
    for index in range(max(0, in_file - windows.lookback), in_file):
        row = int(np.searchsorted(shown.times, windows.times[index]))
        if shown.times[row] != windows.times[index]:
            continue
        begins = row - windows.lookback + 1
        skipped = max(0, begin - begins)
        stored = windows.gather([index])[0, skipped:]
        expected = np.ascontiguousarray(shown.values[begins + skipped : row + 1], windows.dtype)
        bits = f"u{windows.dtype.itemsize}"
        differs = np.argwhere(stored.view(bits) != expected.view(bits))
        if differs.size:
            offset, asset, feature = (int(number) for number in differs[0])
            raise DataError(
                f"windows of the file differ from those of its pipeline: first difference at "
                f"{shown.times[begins + skipped + offset]}, asset {windows.assets[asset]!r}, "
                f"feature {windows.features[feature]!r}: {stored[offset, asset, feature]} in the "
                f"file, {expected[offset, asset, feature]} by the pipeline; pass the history that "
                "the file was computed from, and the pipeline as it was fitted then"
            )


def _pipeline_of(windows: Windows) -> Pipeline:
    if windows.pipeline is None:
        raise ValueError(
            "windows of a file end with the file; to continue with later rows, pass the pipeline "
            "that computed them by Windows.open(..., pipeline=...)"
        )
    return windows.pipeline
