"""Power and false positive rate of PPO on a planted signal.

Returns are random, with a small component predicted by one of two features of the day before. PPO
trains on the first two thirds of the days with the default settings of `Portfolio-v0`, and trades
the last third, after costs. It is compared with equal weights by a one-sided t-test of the daily
differences at 5 %, and with the best single asset in hindsight.

The control shuffles the rows of the features, which removes the signal: a detection is then a false
discovery, of which about one in twenty tests is expected.

    python benchmarks/planted_signal.py [--seeds 20] [--steps 60000]

Settings were chosen on seeds from 100 on; seeds from 0 on are reported.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import FeaturePanel, MarketData
from sekai.training import PPO
from sekai.vector.make_vec import make_vec

ASSETS, ROWS, LEARNT_ROWS, EPISODE = 8, 2_250, 1_500, 64
NOISE, STRENGTH, MEMORY = 0.01, 0.003, 0.9
"""Daily volatility of returns, effect of the signal on them, and autocorrelation of the signal."""

LEVEL = 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Out-of-sample result of one agent."""

    daily: float
    excess: float
    p_value: float
    best_asset: float
    seconds: float


def world(seed: int, shuffled: bool, assets: int = ASSETS) -> tuple[Floats, Floats]:
    """Generate closing prices and features, days by assets."""
    rng = np.random.default_rng(seed)
    fresh = rng.standard_normal((ROWS, assets))
    signal = fresh.copy()
    for row in range(1, ROWS):
        signal[row] = MEMORY * signal[row - 1] + np.sqrt(1 - MEMORY**2) * fresh[row]
    returns = NOISE * rng.standard_normal((ROWS, assets))
    returns[1:] += STRENGTH * signal[:-1]
    features = np.stack([signal, rng.standard_normal((ROWS, assets))], axis=-1)
    if shuffled:
        features = features[rng.permutation(ROWS)]
    return 100.0 * np.exp(np.cumsum(returns, axis=0)), features


def options(close: Floats, features: Floats, episode: int) -> dict[str, Any]:
    """Arguments of `Portfolio-v0` for some days."""
    before = np.concatenate([close[:1], close[:-1]])
    times = np.datetime64("2010-01-01") + np.arange(len(close)).astype("timedelta64[D]")
    names = tuple(f"asset_{index}" for index in range(close.shape[1]))
    data = MarketData(times, names, ["open", "close"], np.stack([before, close], axis=-1))
    present = np.ones(close.shape, np.bool_)
    panel = FeaturePanel(
        features.astype(np.float32), ("signal", "noise"), present, data.times, names
    )
    return {"data": data, "features": panel, "lookback": 1, "episode_rows": episode}


def daily_returns(act: Any, env_options: dict[str, Any]) -> Floats:
    """Daily log returns of a policy, after costs."""
    vec = make_vec("Portfolio-v0", 1, **env_options)
    observations, returns = vec.reset(seed=0).observations, []
    while True:
        result = vec.step(act(observations))
        returns.append(float(result.rewards[0]))
        if result.terminated[0] or result.truncated[0]:
            return np.array(returns)
        observations = result.observations


def constant_weights(weights: Floats) -> Any:
    """Policy of constant weights."""
    return lambda observations: weights[None]


def outcome(seed: int, steps: int, shuffled: bool) -> Outcome:
    """Train on the first days, and evaluate on the others."""
    started = time.process_time()
    close, features = world(seed, shuffled)
    train_options = options(close[:LEARNT_ROWS], features[:LEARNT_ROWS], EPISODE)
    test_close = close[LEARNT_ROWS:]
    test_options = options(test_close, features[LEARNT_ROWS:], len(test_close) - 4)
    agent = PPO("Portfolio-v0", seed=seed, env_options=train_options).fit(steps)
    returns = daily_returns(agent.predict_batch, test_options)
    equal_weights = daily_returns(
        constant_weights(np.append(np.full(ASSETS, 1 / ASSETS), 0.0)), test_options
    )
    single_assets = [
        daily_returns(constant_weights(np.eye(ASSETS + 1)[index]), test_options).mean()
        for index in range(ASSETS)
    ]
    seconds = time.process_time() - started
    return Outcome(
        returns.mean(),
        (returns - equal_weights).mean(),
        p_value(returns - equal_weights),
        float(max(single_assets)),
        seconds,
    )


def p_value(differences: Floats) -> float:
    """P-value of a one-sided test that the mean is positive, with the normal approximation."""
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return 0.5 * math.erfc(differences.mean() / error / math.sqrt(2))


def binomial_tail(discoveries: int, tests: int) -> float:
    """Probability of at least `discoveries` false positives, from the binomial distribution."""
    return sum(
        math.comb(tests, count) * LEVEL**count * (1 - LEVEL) ** (tests - count)
        for count in range(discoveries, tests + 1)
    )


def report(name: str, results: list[Outcome]) -> None:
    """Print a summary over seeds."""
    count = len(results)
    discoveries = sum(result.p_value < LEVEL for result in results)
    above_best = sum(result.daily > result.best_asset for result in results)
    excess = np.array([result.excess for result in results]) * 1e4
    seconds = np.mean([result.seconds for result in results])
    print(
        f"{name}: detected in {discoveries} of {count}; excess over equal weights, in basis points "
        f"a day: median {np.median(excess):.2f}, worst {excess.min():.2f}; above the best single "
        f"asset in {above_best} of {count}; {seconds:.0f} CPU seconds each"
    )
    if name == "shuffled":
        tail = binomial_tail(discoveries, count)
        print(f"  probability of at least as many false discoveries at {LEVEL:.0%}: {tail:.2f}")


def main() -> None:
    """Run both cases, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60_000)
    arguments = parser.parse_args()
    for shuffled in (False, True):
        results: list[Outcome] = []
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            results.append(outcome(seed, arguments.steps, shuffled))
            print(f"  seed {seed}: {results[-1]}", flush=True)
        report("shuffled" if shuffled else "planted", results)


if __name__ == "__main__":
    main()
