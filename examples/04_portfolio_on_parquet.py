"""Portfolio on bars from Parquet files: fit on the training part, trade the rest with costs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai
from sekai.data import MarketData, default_pipeline, simulate_regimes
from sekai.market import Constraints, Costs

Weights = NDArray[np.float64]


def write_bars(folder: Path) -> Path:
    """Write synthetic daily bars of nine assets to three files."""
    data = simulate_regimes(assets=9, rows=1500, seed=11)
    for row in (0, 500, 1000):
        data.rows(row, row + 500).to_parquet(folder / f"bars_{row}.parquet")
    return folder


def equal_weight(observation: dict[str, Any]) -> Weights:
    """Equal weights, without cash."""
    assets = len(observation["mask"])
    return np.append(np.full(assets, 1.0 / assets), 0.0)


def hold(observation: dict[str, Any]) -> Weights:
    """Buy equal weights once, and hold."""
    held: Weights = observation["weights"].astype(np.float64)
    return equal_weight(observation) if held[-1] > 0.5 else held


def strongest(momentum: NDArray[np.float32]) -> Weights:
    """Equal weights in the third of assets with the highest momentum."""
    chosen = momentum >= np.quantile(momentum, 2 / 3)
    return np.append(chosen / chosen.sum(), 0.0)


def play(env: Any, decide: Any) -> tuple[float, float, float]:
    """Return, maximum drawdown, and costs as a share of the initial cash."""
    result = env.reset(seed=0)
    while not getattr(result, "done", False):
        result = env.step(decide(result.observation))
    (log,) = env.unwrapped.take_log()
    steps, begin = log.steps, log.opening_cash[0]
    return steps.equity[-1] / begin - 1.0, steps.drawdown.max(), steps.cost.sum() / begin


def main() -> None:
    """Compare three portfolio rules on bars in a folder."""
    bars = sys.argv[1] if len(sys.argv) > 1 else None  # with time, symbol, open, close, volume
    with tempfile.TemporaryDirectory() as folder:
        data = MarketData.from_parquet(Path(bars) if bars else write_bars(Path(folder)))
    # Rows between the parts are left out (embargo), so that no training data leaks into the test.
    train, test = data.split(0.7, embargo=5, warm_up=90)
    pipeline = default_pipeline(train).fit(train)
    print(f"{data}\n   train on {len(train)} rows, trade {len(test) - test.warm_up}\n")
    settings: dict[str, Any] = {"starts": "sequential", "episode_rows": None, "record": True}
    settings["costs"] = Costs(proportional=0.0005)
    settings["constraints"] = Constraints(max_weight=0.4)
    env = sekai.make("Portfolio-v0", data=test, features=pipeline, **settings)
    momentum = pipeline.transform(test).names.index("momentum(rows=60)")
    rules: dict[str, Any] = {"equal weight, every day": equal_weight, "buy and hold": hold}
    rules["momentum"] = lambda observation: strongest(observation["windows"][-1, :, momentum])
    print(f"{'':<26}{'return':>10}{'max drawdown':>15}{'costs':>10}")
    for name, decide in rules.items():
        growth, drawdown, cost = play(env, decide)
        print(f"{name:<26}{growth:>+10.2%}{drawdown:>15.2%}{cost:>10.2%}")


if __name__ == "__main__":
    main()
