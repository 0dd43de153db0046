"""Market data and its features as the rows that portfolios are traded on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioPanel
from sekai.data import FeaturePanel, MarketData, Pipeline

__all__ = ["FeatureSource", "columns_of", "decision_rows", "features_of", "panel_of"]

FeatureSource = Pipeline | FeaturePanel | Sequence[str] | None

DEFAULT_FEATURES = ("log_return", "volatility(20)", "momentum(60)", "rank(momentum(20))")


def features_of(data: MarketData, source: FeatureSource) -> tuple[FeaturePanel, Pipeline | None]:
    """What is shown of the data, and what computes it for rows that are still to come.

    Nothing is fitted here: what learns from data has to be fitted on the training part before.
    """
    if isinstance(source, FeaturePanel):
        _check_rows(data, source)
        return source, None
    pipeline = source if isinstance(source, Pipeline) else Pipeline(_named(data, source), clip=5.0)
    return pipeline.transform(data), pipeline


def panel_of(
    data: MarketData,
    features: FeaturePanel | None,
    decisions: str,
    benchmark: str,
    open_ended: bool,
) -> PortfolioPanel:
    """The rows of the Rust core; without features where those are shown from elsewhere."""
    values, complete = None, np.ones(data.listed.shape, np.bool_)
    if features is not None:
        values = np.ascontiguousarray(features.values, np.float32)
        present = features.present.reshape(len(data), len(data.assets), -1)
        complete = np.logical_and.reduce(present, axis=2)
    columns = columns_of(data, values)
    columns["decides"] = decision_rows(data, complete, decisions)
    columns["benchmark"] = benchmark_returns(data, benchmark)
    return PortfolioPanel(columns, open_ended)


def columns_of(data: MarketData, features: NDArray[np.float32] | None) -> dict[str, Any]:
    """The columns that the Rust core reads, as arrays of their own."""
    columns = {
        "times": data.calendar.nanoseconds,
        "close": np.ascontiguousarray(data.field("close")),
        "listed": np.ascontiguousarray(data.listed),
        "quoted": np.ascontiguousarray(data.quoted),
        "tradable": np.ascontiguousarray(data.tradable),
    }
    if features is not None:
        columns["features"] = features
    for name in ("open", "volume"):
        if name in data.fields:
            columns[name] = np.ascontiguousarray(data.field(name))
    return columns


def decision_rows(
    data: MarketData, complete: NDArray[np.bool_], decisions: str
) -> NDArray[np.bool_]:
    """The rows that decisions fall on."""
    if decisions == "every_row":
        return np.ones(len(data), np.bool_)
    if decisions == "trading_days":
        return np.ascontiguousarray(data.tradable.any(axis=1))
    if decisions == "complete":
        there = complete & data.tradable | ~data.listed
        return np.ascontiguousarray(there.all(axis=1) & data.listed.any(axis=1))
    raise ValueError(
        f"decisions must be 'every_row', 'trading_days' or 'complete', was {decisions!r}"
    )


def benchmark_returns(data: MarketData, benchmark: str) -> NDArray[np.float64]:
    """What the benchmark returned in each row since the one before."""
    if benchmark == "equal_weight":
        return _equal_weight(data)
    if benchmark in data.market:
        levels = data.market[benchmark]
    elif benchmark in data.assets:
        levels = data.field("close")[:, data.asset(benchmark)]
    else:
        raise ValueError(
            f"benchmark must be 'equal_weight', an asset or a series of the market, was "
            f"{benchmark!r}"
        )
    known = _last_known(levels[:, None])[:, 0]
    before = np.concatenate([known[:1], known[:-1]])
    with np.errstate(invalid="ignore", divide="ignore"):
        returns = known / before - 1.0
    return np.where(np.isfinite(returns), returns, 0.0)


def _equal_weight(data: MarketData) -> NDArray[np.float64]:
    """The mean return of the assets that had a price in the row before and have one now."""
    known = _last_known(np.where(data.quoted, data.field("close"), np.nan))
    with np.errstate(invalid="ignore"):
        returns = known[1:] / known[:-1] - 1.0
    there = np.isfinite(returns) & data.listed[1:]
    total = np.where(there, returns, 0.0).sum(axis=1)
    counts = there.sum(axis=1)
    means = np.divide(total, counts, out=np.zeros(len(total)), where=counts > 0)
    return np.concatenate([[0.0], means])


def _last_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = np.where(np.isfinite(values), np.arange(len(values))[:, None], 0)
    latest: NDArray[np.float64] = np.take_along_axis(
        values, np.maximum.accumulate(rows, axis=0), axis=0
    )
    return latest


def _named(data: MarketData, names: Sequence[str] | None) -> Sequence[str]:
    if names is not None:
        return names
    return (*DEFAULT_FEATURES, *(["relative_volume(20)"] if "volume" in data.fields else []))


def _check_rows(data: MarketData, features: FeaturePanel) -> None:
    if features.assets != data.assets or not np.array_equal(features.times, data.times):
        raise ValueError(
            f"features of the rows and assets of the data were wanted, found {features} for {data}"
        )
