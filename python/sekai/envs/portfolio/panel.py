"""Portfolio panel: market data, features, windows, benchmark, free slots and spaces of an env."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from quant_gym_rs._core import PortfolioPanel, benchmark_returns, portfolio_names
from sekai.data import (
    Bar,
    FeaturePanel,
    MarketData,
    PanelWindows,
    Pipeline,
    RollingWindows,
    Windows,
)
from sekai.data.corporate_actions import ACTION_FIELDS, action_columns
from sekai.error import DataError
from sekai.market import CashAccount, MarginAccount
from sekai.spaces import Box, Dict, MultiBinary, MultiDiscrete, Simplex, Space
from sekai.storage.names import unknown_name

Floats = NDArray[np.float64]
FeatureSource = Pipeline | FeaturePanel | Sequence[str] | None
FileWindows = Windows | RollingWindows
WindowSource = PanelWindows | FileWindows

ACCOUNT, INFO = portfolio_names()
"""Names of the account observation and of infos, from the Rust core."""

DEFAULT_FEATURES = ("log_return", "volatility(20)", "momentum(60)", "rank(momentum(20))")
MASKS = ("listed", "quoted", "tradable")


class Benchmark:
    """Benchmark returns of equal weights, an asset, or a market series that is a level.

    Returns of assets are total returns: they include dividends.
    Rows can be passed all at once or one by one: a return depends on its row and earlier ones.

    Args:
        name: `equal_weight`, an asset, or a market series of the data.
        data: market data that has it.
    """

    def __init__(self, name: str, data: MarketData) -> None:
        self.name = name
        if name != "equal_weight" and name not in data.market and name not in data.assets:
            known = ["equal_weight", *data.market, *data.assets]
            raise ValueError(unknown_name("benchmark", name, known))

    def returns(self, rows: MarketData, before: Floats | None = None) -> tuple[Floats, Floats]:
        """Return of each row since the one before, and the levels after the last row.

        Args:
            rows: consecutive rows.
            before: levels after all rows before them; None if there are none.
        """
        closes = rows.field("close")
        actions: dict[str, Any] = {**action_columns(rows)}
        if self.name == "equal_weight":
            return benchmark_returns(closes, rows.quoted, rows.listed, before, **actions)
        if self.name in rows.market:
            return benchmark_returns(rows.market[self.name][:, None], before=before)
        only = slice(rows.asset(self.name), rows.asset(self.name) + 1)
        own: dict[str, Any] = {name: column[:, only] for name, column in actions.items()}
        return benchmark_returns(closes[:, only], before=before, **own)

    def levels(self, rows: MarketData) -> Floats:
        """Cumulative growth of 1 invested at the first row."""
        return np.asarray(np.cumprod(1.0 + self.returns(rows)[0]), np.float64)


def compute_features(
    data: MarketData, source: FeatureSource
) -> tuple[FeaturePanel, Pipeline | None]:
    """Features of the data, and the pipeline that computes those of streamed rows.

    Nothing is fitted here: fit a pipeline on the training part before.
    """
    if isinstance(source, FeaturePanel):
        if source.assets != data.assets or not np.array_equal(source.times, data.times):
            raise ValueError(
                f"features and data must have the same rows and assets, got {source} for {data}"
            )
        return source, None
    if isinstance(source, Pipeline):
        return source.transform(data), source
    names = source
    if names is None:
        volume = ["relative_volume(20)"] if "volume" in data.fields else []
        names = (*DEFAULT_FEATURES, *volume)
    pipeline = Pipeline(names, clip=5.0)
    return pipeline.transform(data), pipeline


def build_panel(
    data: MarketData,
    features: FeaturePanel | None,
    decisions: str,
    benchmark: Benchmark | str,
    open_ended: bool,
) -> PortfolioPanel:
    """Panel of the Rust core; without features where windows are shown from a file."""
    values, present = (None, None) if features is None else (features.values, features.present)
    columns = panel_columns(data, values, present, decisions)
    known = Benchmark(benchmark, data) if isinstance(benchmark, str) else benchmark
    columns["benchmark"], _ = known.returns(data)
    return PortfolioPanel(columns, open_ended)


def panel_columns(
    data: MarketData,
    features: NDArray[np.floating] | None,
    present: NDArray[np.bool_] | None,
    decisions: str,
) -> dict[str, Any]:
    """Columns of a panel of the Rust core, except the benchmark.

    Each row depends on itself alone, so that rows can be passed together or one by one.

    Args:
        data: the rows.
        features: their features; None where windows are shown from a file.
        present: mask of known features, as in `FeaturePanel`; None for all.
        decisions: rows of decisions, see `PortfolioConfig.decisions`.
    """
    columns = {
        "times": data.times.view(np.int64),
        "close": data.field("close"),
        "listed": data.listed,
        "quoted": data.quoted,
        "tradable": data.tradable,
        "decides": decision_rows(data, present, decisions),
    }
    if features is not None:
        columns["features"] = np.asarray(features, np.float32)
    for name in ("open", "volume", *ACTION_FIELDS):
        if name in data.fields:
            columns[name] = data.field(name)
    return columns


def decision_rows(
    data: MarketData, present: NDArray[np.bool_] | None, decisions: str
) -> NDArray[np.bool_]:
    """Mask of the rows of decisions."""
    if decisions == "every_row":
        return np.ones(len(data), np.bool_)
    if decisions == "trading_days":
        return np.ascontiguousarray(data.tradable.any(axis=1))
    if decisions == "complete":
        known: Any = np.True_
        if present is not None:
            known = np.logical_and.reduce(present.reshape(*present.shape[:2], -1), axis=2)
        complete = known & data.tradable | ~data.listed
        return np.ascontiguousarray(complete.all(axis=1) & data.listed.any(axis=1))
    raise ValueError(
        f"decisions must be 'every_row', 'trading_days' or 'complete', got {decisions!r}"
    )


def observation_space(
    data: MarketData,
    *,
    rows: int | None = None,
    lookback: int = 0,
    channels: int = 0,
    dtype: DTypeLike = np.float32,
) -> Dict:
    """Observation space of an agent: a window, or the index of one of `rows`, and its account."""
    assets = len(data.assets)
    if rows is not None:
        window = {"index": Box(0, rows - 1, (1,), np.int64)}
    else:
        window = {"windows": Box(-np.inf, np.inf, (lookback, assets, channels), dtype)}
    return Dict(
        {
            **window,
            "weights": Box(-np.inf, np.inf, (assets + 1,), np.float32),
            "mask": MultiBinary(assets),
            "account": Box(-np.inf, np.inf, (len(ACCOUNT),), np.float32),
        }
    )


def action_space(
    action: Literal["weights", "tilts"], data: MarketData, account: CashAccount | MarginAccount
) -> Space[Any]:
    """Action space of an agent with this account."""
    assets = len(data.assets)
    if action == "tilts":
        return MultiDiscrete([3] * assets)
    if isinstance(account, CashAccount):
        return Simplex(assets + 1)
    return Box(-account.leverage, account.leverage, (assets + 1,), np.float64)


def with_slots(data: MarketData, slots: int) -> MarketData:
    """Data with free slots: assets that are never listed."""
    if not isinstance(data, MarketData):
        raise TypeError(
            f"data must be a MarketData, got {data!r}; see MarketData.from_parquet, from_csv and "
            "from_frame"
        )
    if not slots:
        return data
    first = len(data.assets)
    names = [f"slot_{index}" for index in range(first, first + slots)]
    return data.replace(
        assets=(*data.assets, *names),
        values=_widen(data.values, slots, np.nan),
        **{name: _widen(getattr(data, name), slots, False) for name in MASKS},
    )


def fill_slot(data: MarketData, slot: int, asset: MarketData) -> MarketData:
    """Data with an asset in a slot that was free."""
    values = data.values.copy()
    values[:, slot] = asset.values[:, 0]
    masks = {name: getattr(data, name).copy() for name in MASKS}
    for name, mask in masks.items():
        mask[:, slot] = getattr(asset, name)[:, 0]
    names = (*data.assets[:slot], *asset.assets, *data.assets[slot + 1 :])
    sectors = {**data.sectors, **asset.sectors}
    return data.replace(assets=names, values=values, sectors=sectors, **masks)


def select_asset(name: str, source: MarketData, like: MarketData) -> MarketData:
    """One asset of `source`, with the fields and rows of `like`."""
    asset = source.select([name], like.fields)
    if not np.array_equal(asset.times, like.times):
        raise ValueError(
            f"rows of {name} do not match: got {len(asset)} rows up to {asset.times[-1:]}, "
            f"expected the {len(like)} known rows up to {like.times[-1]} with equal times"
        )
    return asset


def pad_bar(bar: Bar, slots: int) -> Bar:
    """Bar with missing values in free slots."""
    if not slots:
        return bar
    masks = {
        name: None if mask is None else _widen(np.asarray(mask)[None], slots, False)[0]
        for name, mask in bar.masks().items()
    }
    values = _widen(np.asarray(bar.values, np.float64)[None], slots, np.nan)[0]
    return Bar(bar.time, values, market=bar.market, **masks)


def check_windows(data: MarketData, windows: Windows, lookback: int) -> None:
    """Raise unless the windows of a file fit the assets of the data and the lookback."""
    if windows.assets != data.assets:
        raise DataError(
            f"assets of the windows do not match the data: got {', '.join(windows.assets)}, "
            f"expected {', '.join(data.assets)} in this order; name those of a file by "
            "Windows.open(..., assets=...)"
        )
    if windows.lookback != lookback:
        raise ValueError(f"lookback must be {windows.lookback} as in the windows, got {lookback}")


def needs_rolling_windows(data: MarketData, windows: Windows, stream: bool) -> bool:
    """Return True if windows of rows after those of the file are to be computed."""
    windows.require_order()
    return stream or (windows.pipeline is not None and bool(data.times[-1] > windows.times[-1]))


def window_indices(
    data: MarketData, windows: FileWindows, decides: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], int]:
    """Index of the window of each row of the data, and the first row of a decision.

    The first row of a decision is the first that has a window; from there on every row of a
    decision must have one. A row between decisions, which is shown only if an episode ends with
    it, has the last window before it.

    Raises:
        DataError: a window is missing.
    """
    times = windows.times
    indices = np.searchsorted(times, data.times, side="right") - 1
    has_window = times[np.maximum(indices, 0)] == data.times
    if not has_window.any():
        raise DataError(
            f"no window has the time of a row: windows are from {times[0]} to {times[-1]}, rows "
            f"from {data.times[0]} to {data.times[-1]}"
        )
    first = max(int(np.argmax(has_window)), data.warm_up)
    missing = np.flatnonzero(decides[first:] & ~has_window[first:])
    if missing.size:
        raise DataError(
            f"no window for the decision at {data.times[first + missing[0]]} ({missing.size} of "
            f"{len(data) - first} rows have none); write the missing windows, or cut the data"
        )
    return np.maximum(indices, 0), first


def panel_windows(features: FeaturePanel, lookback: int) -> PanelWindows:
    """Windows of features in memory, as the Rust core shows them."""
    values = np.ascontiguousarray(features.values, np.float32).view()
    # A read-only panel needs no copy.
    values.flags.writeable = False
    return PanelWindows(
        values, lookback, times=features.times, assets=features.assets, features=features.names
    )


def _widen(array: Any, slots: int, fill: Any) -> Any:
    rest = np.full((len(array), slots, *array.shape[2:]), fill, array.dtype)
    return np.concatenate([array, rest], axis=1)
