"""Market data and its features as the rows that portfolios are traded on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioPanel
from sekai.data import FeaturePanel, MarketData, Pipeline
from sekai.envs.portfolio_benchmark import Benchmark

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
    benchmark: Benchmark | str,
    open_ended: bool,
) -> PortfolioPanel:
    """The rows of the Rust core; without features where those are shown from elsewhere."""
    values, complete = None, np.ones(data.listed.shape, np.bool_)
    if features is not None:
        values = features.values
        present = features.present.reshape(len(data), len(data.assets), -1)
        complete = np.logical_and.reduce(present, axis=2)
    columns = columns_of(data, values, complete, decisions)
    known = Benchmark(benchmark, data) if isinstance(benchmark, str) else benchmark
    columns["benchmark"] = known.returns(data)
    return PortfolioPanel(columns, open_ended)


def columns_of(
    data: MarketData,
    features: NDArray[np.floating] | None,
    complete: NDArray[np.bool_],
    decisions: str,
) -> dict[str, Any]:
    """The columns that the Rust core reads, but for the benchmark, as arrays of their own.

    Each row is made of itself alone, so that rows can be taken together or one by one.
    """
    columns = {
        "times": data.calendar.nanoseconds,
        "close": np.ascontiguousarray(data.field("close")),
        "listed": np.ascontiguousarray(data.listed),
        "quoted": np.ascontiguousarray(data.quoted),
        "tradable": np.ascontiguousarray(data.tradable),
        "decides": decision_rows(data, complete, decisions),
    }
    if features is not None:
        columns["features"] = np.ascontiguousarray(features, np.float32)
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


def _named(data: MarketData, names: Sequence[str] | None) -> Sequence[str]:
    if names is not None:
        return names
    return (*DEFAULT_FEATURES, *(["relative_volume(20)"] if "volume" in data.fields else []))


def _check_rows(data: MarketData, features: FeaturePanel) -> None:
    if features.assets != data.assets or not np.array_equal(features.times, data.times):
        raise ValueError(
            f"features of the rows and assets of the data were wanted, found {features} for {data}"
        )
