"""Windows of a panel in memory, copied out when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import gather_windows
from sekai.data.market_data import frozen

__all__ = ["PanelWindows", "as_rows", "window_buffer"]

Values = NDArray[np.float32]


class PanelWindows:
    """For each row of a panel the rows that end with it: as `Windows`, without a file.

    The window of row t is `panel[t - lookback + 1 : t + 1]`. Rows are those of the panel; the
    first that has a window is `first_row`.
    """

    def __init__(
        self,
        panel: Values,
        lookback: int,
        *,
        times: ArrayLike,
        assets: Sequence[str],
        features: Sequence[str],
        threads: int = 1,
    ) -> None:
        """Take a panel that stays as it is.

        Args:
            panel: rows by assets by features, float32; not copied if nobody can write into it.
            lookback: rows in a window.
            times: when each row was known.
            assets: the names of the assets.
            features: the names of the features.
            threads: how many threads a gather may use. One copies about as fast as memory is on
                small machines; more pay where memory has more channels.
        """
        self.times = frozen(np.asarray(times).astype("datetime64[ns]"))
        self.assets, self.features = tuple(assets), tuple(features)
        wanted = (len(self.times), len(self.assets), len(self.features))
        if panel.dtype != np.float32 or panel.shape != wanted:
            raise ValueError(
                f"panel must be of float32 and shape {wanted}, was of {panel.dtype} and "
                f"shape {panel.shape}"
            )
        if lookback < 1 or threads < 1:
            raise ValueError(
                f"lookback and threads must be at least 1, were {lookback} and {threads}"
            )
        self.panel = frozen(np.ascontiguousarray(panel))
        self.lookback = lookback
        self.dtype = self.panel.dtype
        self._threads = threads

    def __len__(self) -> int:
        """How many rows the panel has."""
        return len(self.times)

    @property
    def first_row(self) -> int:
        """The first row that has a window."""
        return self.lookback - 1

    @cached_property
    def digest(self) -> str:
        """A hash of the content."""
        state = hashlib.sha256(repr((self.lookback, self.assets, self.features)).encode())
        state.update(self.times.astype(np.int64).data)
        state.update(self.panel.data)
        return state.hexdigest()

    def gather(self, rows: ArrayLike, out: Values | None = None) -> Values:
        """The windows that end with `rows`: batch by lookback by assets by features.

        Args:
            rows: rows of the panel, from `first_row` on.
            out: where to; a new array if not given.
        """
        places = as_rows(rows)
        if out is None:
            shape = (len(places), self.lookback, len(self.assets), len(self.features))
            out = np.empty(shape, np.float32)
        gather_windows(self.panel, places, self.lookback, out, self._threads)
        return out


def as_rows(rows: ArrayLike) -> NDArray[np.int64]:
    """Rows as a list of whole numbers, or an error that says what was found."""
    places = np.asarray(rows)
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise ValueError(
            f"rows must be a list of whole numbers, was of {places.dtype} and shape {places.shape}"
        )
    return np.ascontiguousarray(places, np.int64)


def window_buffer(
    out: NDArray[Any] | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """The array that windows are written into: the given one if it fits, or a new one."""
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be C-contiguous, of {dtype} and shape {shape}, was of {out.dtype} and "
            f"shape {out.shape}"
        )
    if not out.flags.writeable:
        raise ValueError("out must be an array that can be written into")
    return out
