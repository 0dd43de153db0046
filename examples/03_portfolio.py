"""Hold a portfolio on bars of your own: fit features on the past, and judge on the rest."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai
from sekai.data import MarketData, default_pipeline, simulate_regimes
from sekai.market import Constraints, Costs

Weights = NDArray[np.float64]


def main() -> None:
    """Compare three simple ways to hold the assets of a folder of bars, after costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bars", nargs="?", help="Parquet with time, symbol, open, close, volume")
    bars = parser.parse_args().bars
    with tempfile.TemporaryDirectory() as folder:
        data = MarketData.from_parquet(Path(bars) if bars else _written(Path(folder)))
    print(data)
    train, test = data.split(0.7, embargo=5, warm_up=90)
    pipeline = default_pipeline(train).fit(train)
    env = sekai.make(
        "Portfolio-v0", data=test, features=pipeline, starts="sequential", episode_rows=None,
        costs=Costs(proportional=0.0005), constraints=Constraints(max_weight=0.4), record=True,
    )  # fmt: skip
    momentum = pipeline.transform(test).names.index("momentum(rows=60)")
    for name, decide in {
        "equal weight, every day": equal_weight,
        "buy and hold": hold,
        "momentum": lambda seen: strongest(seen["windows"][-1, :, momentum]),
    }.items():
        growth, cost = play(env, decide)
        print(f"{name:>24}: {growth:+7.2%} after {cost:.2%} of costs")


def equal_weight(seen: dict[str, Any]) -> Weights:
    """The same of everything."""
    assets = len(seen["mask"])
    return np.append(np.full(assets, 1.0 / assets), 0.0)


def hold(seen: dict[str, Any]) -> Weights:
    """Buy the same of everything once, and leave it alone."""
    held: Weights = seen["weights"].astype(np.float64)
    return equal_weight(seen) if held[-1] > 0.5 else held


def strongest(momentum: NDArray[np.float32]) -> Weights:
    """All of it in the third that has risen most."""
    chosen = momentum >= np.quantile(momentum, 2 / 3)
    return np.append(chosen / chosen.sum(), 0.0)


def play(env: Any, decide: Any) -> tuple[float, float]:
    """What became of the money in the test part, and what was paid on the way."""
    seen, done = env.reset(seed=0).observation, False
    while not done:
        result = env.step(decide(seen))
        seen, done = result.observation, result.done
    (log,) = env.take_log()
    begin = float(log.steps.equity[0] - log.steps.pnl[0])
    return float(log.steps.equity[-1]) / begin - 1.0, sum(log.costs.values()) / begin


def _written(folder: Path) -> Path:
    path = folder / "bars.parquet"
    simulate_regimes(assets=9, rows=1500, seed=11).to_parquet(path)
    return path


if __name__ == "__main__":
    main()
