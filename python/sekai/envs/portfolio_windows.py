"""Windows beside a batch of portfolios: what its indices mean, or what it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioAgents
from sekai.core.result import ResetResult, StepResult
from sekai.data import FeaturePanel, MarketData, PanelWindows, RollingWindows, Windows
from sekai.envs.batch_layer import BatchLayer, InnerBatch, Observation
from sekai.error import DataError

__all__ = [
    "FileWindowsBatch",
    "IndexedBatch",
    "WindowSource",
    "check_windows",
    "goes_on",
    "panel_windows",
    "window_places",
]

FileWindows = Windows | RollingWindows
WindowSource = PanelWindows | FileWindows
Rows = NDArray[np.int64]


class IndexedBatch(BatchLayer):
    """A batch that shows indices, with the windows that they are indices of."""

    def __init__(self, batch: InnerBatch, windows: WindowSource) -> None:
        """Keep the windows beside the batch."""
        super().__init__(batch)
        self.windows = windows


class FileWindowsBatch(IndexedBatch):
    """A batch whose windows are in a file, from which it shows them, or their numbers in it.

    All windows of a step are gathered at once, straight into the array they are wanted in.
    """

    windows: FileWindows

    def __init__(
        self,
        batch: InnerBatch,
        windows: FileWindows,
        places: Rows,
        shown: Literal["window", "index"],
    ) -> None:
        """Let a batch that shows rows of the data show windows instead.

        Args:
            batch: the batch, which shows the index of a row.
            windows: the windows in a file, and those of rows after it.
            places: which window belongs to each row of the data; rows that come later have the
                windows that come with them.
            shown: whether the windows themselves are shown, or their numbers.
        """
        super().__init__(batch, windows)
        self._places = places
        self._later = len(windows) - len(places)
        self._part = "windows" if shown == "window" else "index"
        self._everyone = np.arange(batch.num_envs)
        self._rows = np.zeros((batch.num_envs, 1), np.int64)
        self._final_rows = np.zeros_like(self._rows)
        shape = (windows.lookback, len(windows.assets), len(windows.features))
        self._shape = (batch.num_envs, *(shape if shown == "window" else (1,)))
        self._dtype = windows.dtype if shown == "window" else np.dtype(np.int64)

    def reset(
        self,
        ids: Rows,
        seeds: NDArray[np.uint64] | None,
        observations: Observation,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Begin an episode in the envs `ids`."""
        inner = self._inner("observations", observations, self._rows)
        self.batch.reset(ids, seeds, inner, options)
        self._show(ids, self._rows, observations)

    def step(
        self,
        actions: NDArray[Any],
        observations: Observation,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: Observation | None,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        """Let every env act once, except where `skip` is true."""
        inner, finals = self._inner("observations", observations, self._rows), None
        if final_observations is not None:
            finals = self._inner("final_observations", final_observations, self._final_rows)
        self.batch.step(actions, inner, rewards, terminated, truncated, finals, skip)
        acted = self._everyone if skip is None else np.flatnonzero(~skip)
        self._show(acted, self._rows, observations)
        if final_observations is not None:
            ended = acted[terminated[acted] | truncated[acted]]
            self._show(ended, self._final_rows, final_observations)

    def reset_one(self, seed: int | None = None) -> ResetResult[Observation]:
        """Begin an episode of a batch of one."""
        result = self.batch.reset_one(seed)
        return ResetResult(self._shown(result.observation), result.info)

    def step_one(self, action: Any) -> StepResult[Observation]:
        """Step a batch of one."""
        result = self.batch.step_one(action)
        shown = self._shown(result.observation)
        return StepResult(shown, result.reward, result.terminated, result.truncated, result.info)

    def reset_agents(self, agents: PortfolioAgents, seed: int | None = None) -> Any:
        """Begin an episode of a batch of one, for agents that have names."""
        observations, infos = self.batch.reset_agents(agents, seed)
        return self._shown_to_all(observations), infos

    def step_agents(self, agents: PortfolioAgents, actions: Mapping[str, Any]) -> Any:
        """Step a batch of one with the actions of agents by name."""
        observations, *rest = self.batch.step_agents(agents, actions)
        return self._shown_to_all(observations), *rest

    def _shown_to_all(self, observations: Mapping[str, Observation]) -> dict[str, Observation]:
        """The observations of all agents, who share one window that nobody can write into."""
        first = next(iter(observations.values()))
        seen = self._shown(first)[self._part]
        if self._part == "windows":
            seen.flags.writeable = False
        return {
            name: {
                self._part: seen if self._part == "windows" else seen.copy(),
                **{part: value for part, value in own.items() if part != "index"},
            }
            for name, own in observations.items()
        }

    def _shown(self, observation: Observation) -> Observation:
        """The observation of a batch of one, with a window in the place of its row."""
        rest = dict(observation)
        place = self._places_of(rest.pop("index"))
        seen = place if self._part == "index" else self.windows.gather(place)[0]
        return {self._part: seen, **rest}

    def _places_of(self, rows: Rows) -> Rows:
        """The windows of rows."""
        known = len(self._places)
        if rows.size and rows.max() >= known:
            return np.where(rows < known, self._places[np.minimum(rows, known - 1)],
                            rows + self._later)  # fmt: skip
        return self._places[rows]

    def _inner(self, name: str, observations: Observation, rows: Rows) -> Observation:
        """What the batch underneath writes into; arrays that do not fit are refused before."""
        array = observations.get(self._part)
        fits = isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable
        if array is None or not fits or (array.shape, array.dtype) != (self._shape, self._dtype):
            found = "none" if array is None else f"one of {array.dtype} and shape {array.shape}"
            raise ValueError(
                f"{name}[{self._part!r}] needs a writable C-contiguous array of {self._dtype} and "
                f"shape {self._shape}, found {found}"
            )
        rest = {key: value for key, value in observations.items() if key != self._part}
        return {**rest, "index": rows}

    def _show(self, ids: Rows, rows: Rows, observations: Observation) -> None:
        """Write what belongs to the rows that the envs `ids` are in."""
        target, places = observations[self._part], self._places_of(rows[ids, 0])
        if self._part == "index":
            target[ids, 0] = places
        elif np.array_equal(ids, self._everyone):
            self.windows.gather(places, out=target)
        elif ids.size:
            target[ids] = self.windows.gather(places)


def check_windows(data: MarketData, windows: Windows, lookback: int) -> None:
    """Raise unless windows are of the assets of the data and of as many rows as asked for."""
    if windows.assets != data.assets:
        raise DataError(
            f"windows of the assets {', '.join(data.assets)} were wanted, in this order, found "
            f"{', '.join(windows.assets)}: name those of a file by Windows.open(..., assets=...)"
        )
    if windows.lookback != lookback:
        raise ValueError(
            f"lookback must be that of the windows, {windows.lookback} rows, was {lookback}"
        )


def goes_on(data: MarketData, windows: Windows, stream: bool) -> bool:
    """Whether windows of rows after those of the file are to be computed."""
    windows.require_order()
    return stream or (windows.pipeline is not None and bool(data.times[-1] > windows.times[-1]))


def window_places(
    data: MarketData, windows: FileWindows, decides: NDArray[np.bool_]
) -> tuple[Rows, int]:
    """Which window belongs to each row of the data, and the first row for a decision.

    That is the first row with a window, as it is the first with enough history elsewhere; from
    there on every row with a decision must have one. A row between decisions, which is seen only
    if an episode ends with it, has the last window before it.

    Raises:
        DataError: when a window is missing.
    """
    times = windows.times
    places = np.searchsorted(times, data.times, side="right") - 1
    there = times[np.maximum(places, 0)] == data.times
    if not there.any():
        raise DataError(
            f"windows with the times of rows were wanted, from {data.times[0]} to "
            f"{data.times[-1]}, found none: they are from {times[0]} to {times[-1]}"
        )
    first = max(int(np.argmax(there)), data.warm_up)
    missing = np.flatnonzero(decides[first:] & ~there[first:])
    if missing.size:
        raise DataError(
            f"a window for every row with a decision was wanted, found none at "
            f"{data.times[first + missing[0]]} ({missing.size} of {len(data) - first} rows have "
            "none): write it, or cut the data"
        )
    return np.maximum(places, 0), first


def panel_windows(features: FeaturePanel, lookback: int) -> PanelWindows:
    """The windows of features in memory, as the Rust core shows them."""
    values = np.ascontiguousarray(features.values, np.float32).view()
    # Of a panel that nobody writes into, no copy is needed.
    values.flags.writeable = False
    return PanelWindows(
        values, lookback, times=features.times, assets=features.assets, features=features.names
    )
