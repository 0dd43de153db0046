"""Pipelines for portfolios that look ahead, each beside a twin that does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.result import StepResult
from sekai.data import FeaturePanel, MarketData, Pipeline
from sekai.envs import Portfolio
from sekai.utils.perturbation import Stamped

Floats = NDArray[np.float64]
Data = Mapping[str, Any]
Features = Callable[[Data], Floats]

ROWS, ASSETS = 40, 3
LAG, HOUR = 4, 4


def sample(seed: int = 0) -> dict[str, Any]:
    """A market with halts, a delisting and gaps in a signal; fundamentals and revisions."""
    rng = np.random.default_rng(seed)
    shape = (ROWS, ASSETS)
    close = 50 * np.exp(np.cumsum(rng.normal(0, 0.02, shape), axis=0))
    open_ = close * np.exp(rng.normal(0, 0.01, shape))
    signal = rng.normal(size=shape)
    signal[:3] = np.nan
    quoted, listed = np.ones((2, *shape), np.bool_)
    quoted[[9, 10, 17, 25], [0, 0, 1, 0]] = False
    listed[30:, 2] = quoted[30:, 2] = False
    volume = rng.uniform(1e5, 1e6, shape)
    values = np.stack([open_, close, volume, signal], axis=2)
    market = MarketData(
        np.datetime64("2021-03-01", "ns") + np.arange(ROWS) * np.timedelta64(1, "D"),
        ["A", "B", "C"], ["open", "close", "volume", "signal"],
        np.where(quoted[:, :, None], values, np.nan), listed=listed, quoted=quoted,
    )  # fmt: skip
    rows = np.arange(ROWS)
    return {
        "market": market,
        "fundamental": Stamped(rng.normal(size=shape), rows + LAG),
        "revised": Stamped(rng.normal(size=shape), rows + 3),
        "released": rng.normal(size=shape),
    }


def portfolio(features: Features) -> Callable[[Data], Portfolio]:
    """Factory of an env that observes these features of all assets."""

    def make(data: Data) -> Portfolio:
        market: MarketData = data["market"]
        block = np.nan_to_num(features(data))[:, :, None].astype(np.float32)
        present = np.ones(block.shape[:2], np.bool_)
        shown = FeaturePanel(block, ("shown",), present, market.times, market.assets)
        return Portfolio(market, shown, lookback=3, episode_rows=24)

    return make


def close_of(data: Data) -> Floats:
    """The last close that is known, from the first one on."""
    close = data["market"].field("close")
    return filled(close)


def filled(values: Floats) -> Floats:
    """Gaps filled with what was before them."""
    rows = np.where(np.isfinite(values), np.arange(len(values))[:, None], 0)
    latest: Floats = np.take_along_axis(values, np.maximum.accumulate(rows, axis=0), axis=0)
    return np.nan_to_num(latest)


def scaled_by(fit_on: Callable[[MarketData], MarketData]) -> Features:
    def features(data: Data) -> Floats:
        market = data["market"]
        pipeline = Pipeline(["log_return"], scaling="zscore").fit(fit_on(market))
        return pipeline.transform(market).values[:, :, 0].astype(np.float64)

    return features


def back_filled(data: Data) -> Floats:
    return filled(data["market"].field("close")[::-1])[::-1]


def survivors(data: Data) -> Floats:
    return np.where(data["market"].listed[-1], close_of(data), 0.0)


def listed_now(data: Data) -> Floats:
    return np.where(data["market"].listed, close_of(data), 0.0)


def hour_labelled_by_its_open(data: Data) -> Floats:
    close = close_of(data)
    return close[[min(row // HOUR * HOUR + HOUR - 1, ROWS - 1) for row in range(ROWS)]]


def hour_that_has_closed(data: Data) -> Floats:
    close = close_of(data)
    return close[[max((row + 1) // HOUR * HOUR - 1, 0) for row in range(ROWS)]]


def merged_on_index(data: Data) -> Floats:
    """Rows without a signal are left out, and the rest is numbered from the first row on."""
    signal = data["market"].field("signal")[3:]
    return np.vstack([np.nan_to_num(signal), np.zeros((3, ASSETS))])


def merged_on_time(data: Data) -> Floats:
    return np.asarray(np.nan_to_num(data["market"].field("signal")))


def unlagged_fundamentals(data: Data) -> Floats:
    return np.asarray(data["fundamental"].values)


def published_fundamentals(data: Data) -> Floats:
    return np.vstack([np.zeros((LAG, ASSETS)), data["fundamental"].values[:-LAG]])


def most_traded_of_all_time(data: Data) -> Floats:
    total = np.nan_to_num(data["market"].field("volume")).sum(axis=0)
    return np.asarray(np.where(total == total.max(), close_of(data), 0.0))


def most_traded_so_far(data: Data) -> Floats:
    total = np.nan_to_num(data["market"].field("volume")).cumsum(axis=0)
    return np.where(total == total.max(axis=1, keepdims=True), close_of(data), 0.0)


def revised_values(data: Data) -> Floats:
    return np.asarray(data["revised"].values)


def first_releases(data: Data) -> Floats:
    return np.asarray(data["released"])


def label_among_features(data: Data) -> Floats:
    close = close_of(data)
    return np.vstack([close[1:] / close[:-1] - 1.0, np.zeros((1, ASSETS))])


def past_return(data: Data) -> Floats:
    close = close_of(data)
    return np.vstack([np.zeros((1, ASSETS)), close[1:] / close[:-1] - 1.0])


TWINS: dict[str, tuple[Features, Features]] = {
    "full-sample scaler": (
        scaled_by(lambda market: market),
        scaled_by(lambda market: market.rows(0, 3)),
    ),
    "back-fill": (back_filled, close_of),
    "dropped delisted assets": (survivors, listed_now),
    "higher timeframe labelled by its open": (hour_labelled_by_its_open, hour_that_has_closed),
    "merge on the index": (merged_on_index, merged_on_time),
    "unlagged fundamentals": (unlagged_fundamentals, published_fundamentals),
    "future universe": (most_traded_of_all_time, most_traded_so_far),
    "revised data": (revised_values, first_releases),
    "label among features": (label_among_features, past_return),
}


class TellsFills(Portfolio):
    """A portfolio that tells the mean price of each row's fills."""

    def reset(self, **given: Any) -> Any:
        self.batch.keep_log(True)
        return super().reset(**given)

    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        prices = np.concatenate([log["price"] for log in self.batch.take_log()])
        reported = {"fill_price": float(prices.mean())} if prices.size else {}
        return StepResult(
            result.observation, result.reward, result.terminated, result.truncated,
            {**result.info, **reported},
        )  # fmt: skip


def prices(seed: int = 0) -> dict[str, Floats]:
    """Opens and closes alone: where halts are part of the future, so is whether an order fills."""
    market = sample(seed)["market"]
    return {name: filled(market.field(name)) for name in ("open", "close")}


def fills_at_the_next_open(data: Data) -> Portfolio:
    times = np.datetime64("2021-03-01", "ns") + np.arange(ROWS) * np.timedelta64(1, "D")
    values = np.stack([data["open"], data["close"]], axis=2)
    market = MarketData(times, ["A", "B", "C"], ["open", "close"], values)
    return TellsFills(market, ["log_return"], lookback=3, episode_rows=24)


def fills_at_the_seen_close(data: Data) -> Portfolio:
    """Every order is filled at the close that the decision was made on."""
    close = data["close"]
    return fills_at_the_next_open({"open": np.vstack([close[:1], close[:-1]]), "close": close})
