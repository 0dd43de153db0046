"""Train a portfolio agent, and evaluate it on held-out days against baselines."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from sekai.data import MarketData, register_feature
from sekai.evaluation import evaluate
from sekai.training import PPO

ASSETS, DAYS = 8, 2_000


def market(seed: int = 3) -> MarketData:
    """Random prices, slightly predicted by the signal of the day before."""
    rng = np.random.default_rng(seed)
    signal, noise = rng.standard_normal((2, DAYS, ASSETS))
    for day in range(1, DAYS):
        signal[day] = 0.9 * signal[day - 1] + 0.44 * signal[day]
    returns = 0.01 * rng.standard_normal((DAYS, ASSETS))
    returns[1:] += 0.003 * signal[:-1]
    close = 100.0 * np.exp(np.cumsum(returns, axis=0))
    opened = np.concatenate([close[:1], close[:-1]])
    times = np.datetime64("2015-01-01T16:00") + np.arange(DAYS) * np.timedelta64(1, "D")
    names = [f"asset {index}" for index in range(ASSETS)]
    values = np.stack([opened, close, signal, noise], axis=-1)
    return MarketData(times, names, ["open", "close", "signal", "noise"], values)


@register_feature("signal")
def signal(data: MarketData) -> Any:
    """Feature that predicts returns of the next day; the agent has to learn this."""
    return data.field("signal")


@register_feature("noise")
def noise(data: MarketData) -> Any:
    """Feature with the same distribution and no information."""
    return data.field("noise")


def main() -> None:
    """Split, train, evaluate, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/evaluation"))
    parser.add_argument("--steps", type=int, default=15_000, help="training steps")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    # Days between the parts are left out (embargo), so that no training data leaks into the test.
    train, test = market().split(0.65, embargo=5)
    task: dict[str, Any] = {"features": ("signal", "noise"), "lookback": 1, "episode_rows": 126}

    begin = time.perf_counter()
    agent = PPO("Portfolio-v0", seed=1, env_options={**task, "data": train})
    agent.fit(options.steps)
    print(f"trained on {agent.steps:,} steps in {time.perf_counter() - begin:.0f} seconds\n")

    # All policies get the same episodes, cash, costs and fill rules.
    evaluation = evaluate(
        agent,
        "Portfolio-v0",
        name="PPO",
        env_options={**task, "data": test},
        seeds=8,
        baselines=["equal_weight", "buy_and_hold", "momentum", "risk_parity"],
        ledger=options.folder / "trials.jsonl",  # counts trials for the deflated Sharpe ratio
    )
    print(evaluation)
    print(f"\nfull report: {evaluation.to_html(options.folder / 'report.html')}")


if __name__ == "__main__":
    main()
