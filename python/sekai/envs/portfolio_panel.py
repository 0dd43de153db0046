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
    values, present = (None, None) if features is None else (features.values, features.present)
    columns = columns_of(data, values, present, decisions)
    known = Benchmark(benchmark, data) if isinstance(benchmark, str) else benchmark
    columns["benchmark"], _ = known.returns(data)
    return PortfolioPanel(columns, open_ended)


def columns_of(
    data: MarketData,
    features: NDArray[np.floating] | None,
    present: NDArray[np.bool_] | None,
    decisions: str,
) -> dict[str, Any]:
    """The columns that the Rust core reads, but for the benchmark.

    Each row is made of itself alone, so that rows can be taken together or one by one.

    Args:
        data: the rows.
        features: what is shown of them; None where that is shown from elsewhere.
        present: what of the features is there, as `FeaturePanel` has it; None for all.
        decisions: which rows decisions fall on.
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
    for name in ("open", "volume"):
        if name in data.fields:
            columns[name] = data.field(name)
    return columns


def decision_rows(
    data: MarketData, present: NDArray[np.bool_] | None, decisions: str
) -> NDArray[np.bool_]:
    """The rows that decisions fall on."""
    if decisions == "every_row":
        return np.ones(len(data), np.bool_)
    if decisions == "trading_days":
        return np.ascontiguousarray(data.tradable.any(axis=1))
    if decisions == "complete":
        complete = np.True_ if present is None else _all_there(present)
        there = complete & data.tradable | ~data.listed
        return np.ascontiguousarray(there.all(axis=1) & data.listed.any(axis=1))
    raise ValueError(
        f"decisions must be 'every_row', 'trading_days' or 'complete', was {decisions!r}"
    )


def _all_there(present: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where every feature of an asset is."""
    flat = present.reshape(*present.shape[:2], -1)
    there: NDArray[np.bool_] = np.logical_and.reduce(flat, axis=2)
    return there


def _named(data: MarketData, names: Sequence[str] | None) -> Sequence[str]:
    if names is not None:
        return names
    return (*DEFAULT_FEATURES, *(["relative_volume(20)"] if "volume" in data.fields else []))


def _check_rows(data: MarketData, features: FeaturePanel) -> None:
    if features.assets != data.assets or not np.array_equal(features.times, data.times):
        raise ValueError(
            f"features of the rows and assets of the data were wanted, found {features} for {data}"
        )
