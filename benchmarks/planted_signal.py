"""Whether PPO finds a signal that is there, and none where there is none.

Prices move at random, and a little by what one of two features said the day before. PPO learns
on the first two thirds of the days, with the settings that `Portfolio-v0` has anyway, and trades
the last third, after costs. There it is compared with equal weights, by a one-sided t-test of the
daily differences at 5 %, and with the single asset that did best in those very days.

Then the same with the rows of the features shuffled, so that they say nothing: what is found then
is a false discovery, and of twenty tests one is to be expected, at most.

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
"""Daily spread of returns, how much the signal moves them, and how long it stays."""

LEVEL = 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """How one agent did on days that it had never seen."""

    daily: float
    excess: float
    p_value: float
    best_asset: float
    seconds: float


def world(seed: int, shuffled: bool, assets: int = ASSETS) -> tuple[Floats, Floats]:
    """Closing prices and features, days by assets."""
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
    """What `Portfolio-v0` is made with, of some days."""
    before = np.concatenate([close[:1], close[:-1]])
    times = np.datetime64("2010-01-01") + np.arange(len(close)).astype("timedelta64[D]")
    names = tuple(f"asset_{place}" for place in range(close.shape[1]))
    data = MarketData(times, names, ["open", "close"], np.stack([before, close], axis=-1))
    there = np.ones(close.shape, np.bool_)
    shown = FeaturePanel(features.astype(np.float32), ("signal", "noise"), there, data.times, names)
    return {"data": data, "features": shown, "lookback": 1, "episode_rows": episode}


def grown(act: Any, given: dict[str, Any]) -> Floats:
    """Log returns of every day, after costs."""
    vec = make_vec("Portfolio-v0", 1, **given)
    seen, found = vec.reset(seed=0).observations, []
    while True:
        result = vec.step(act(seen))
        found.append(float(result.rewards[0]))
        if result.terminated[0] or result.truncated[0]:
            return np.array(found)
        seen = result.observations


def holding(weights: Floats) -> Any:
    """The same weights every day."""
    return lambda seen: weights[None]


def outcome(seed: int, steps: int, shuffled: bool) -> Outcome:
    """Learn on the first days, and be judged on the others."""
    started = time.process_time()
    close, features = world(seed, shuffled)
    learnt = options(close[:LEARNT_ROWS], features[:LEARNT_ROWS], EPISODE)
    later = close[LEARNT_ROWS:]
    unseen = options(later, features[LEARNT_ROWS:], len(later) - 4)
    agent = PPO("Portfolio-v0", seed=seed, env_options=learnt).fit(steps)
    own = grown(agent.predict_batch, unseen)
    even = grown(holding(np.append(np.full(ASSETS, 1 / ASSETS), 0.0)), unseen)
    alone = [grown(holding(np.eye(ASSETS + 1)[place]), unseen).mean() for place in range(ASSETS)]
    seconds = time.process_time() - started
    return Outcome(own.mean(), (own - even).mean(), p_value(own - even), float(max(alone)), seconds)


def p_value(differences: Floats) -> float:
    """The chance of a mean so high where there is none; of so many days the mean is normal."""
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return 0.5 * math.erfc(differences.mean() / error / math.sqrt(2))


def chance_of(discoveries: int, tests: int) -> float:
    """The chance of so many or more, where each test finds nothing that is there."""
    return sum(
        math.comb(tests, count) * LEVEL**count * (1 - LEVEL) ** (tests - count)
        for count in range(discoveries, tests + 1)
    )


def report(name: str, found: list[Outcome]) -> None:
    """One line for all seeds."""
    count = len(found)
    discoveries = sum(one.p_value < LEVEL for one in found)
    above_best = sum(one.daily > one.best_asset for one in found)
    excess = np.array([one.excess for one in found]) * 1e4
    print(
        f"{name}: found in {discoveries} of {count}; excess over equal weights, in basis points "
        f"a day: median {np.median(excess):.2f}, worst {excess.min():.2f}; above the best single "
        f"asset in {above_best} of {count}; {np.mean([one.seconds for one in found]):.0f} CPU "
        f"seconds each"
    )
    if name == "shuffled":
        chance = chance_of(discoveries, count)
        print(f"  so many or more false discoveries have a chance of {chance:.2f} at {LEVEL:.0%}")


def main() -> None:
    """Both worlds, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60_000)
    given = parser.parse_args()
    for shuffled in (False, True):
        found: list[Outcome] = []
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            found.append(outcome(seed, given.steps, shuffled))
            print(f"  seed {seed}: {found[-1]}", flush=True)
        report("shuffled" if shuffled else "planted", found)


if __name__ == "__main__":
    main()
