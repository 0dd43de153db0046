"""Trading in a simulated market: a rule in 128 envs at once, and a video of one episode."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai
from sekai.rendering import RecordFrames, every_step, renderer_for, save_gif, save_png

# Makers, noise, value and technical traders meet in a book; `agent` shows the own account, and
# `privileged` the fair value, which no real trader sees: with it, a rule can be simple.
MARKET: dict[str, Any] = {"regime": "volatile", "max_ticks": 200, "agent": True, "privileged": True}
BOOKS = 128
NAMES = sekai.make("Trading-v0", **MARKET).get_attr("feature_names")()
DEVIATION, POSITION = NAMES.index("f_fair_value_dev"), NAMES.index("a_position")
SELL, HOLD, BUY = 0, 1, 2


def below_worth(seen: NDArray[Any], enter: float = 6e-4, limit: float = 0.3) -> NDArray[Any]:
    """Buy below the fair value and sell above it, up to a limit; close the position later."""
    deviation, position = seen[..., DEVIATION], seen[..., POSITION]
    lowest = np.where(position < 0, 0.0, -enter)
    highest = np.where(position > 0, 0.0, enter)
    buys = (deviation < lowest) & (position < limit)
    sells = (deviation > highest) & (position > -limit)
    return np.where(buys, BUY, np.where(sells, SELL, HOLD))


def trade(choose: Any) -> NDArray[np.float64]:
    """What each of 128 accounts earned in a market of its own."""
    profit = np.zeros(BOOKS)
    with sekai.make_vec("Trading-v0", BOOKS, "native", **MARKET) as vec:
        seen = vec.reset(seed=1).observations
        for _ in range(MARKET["max_ticks"]):
            batch = vec.step(choose(seen))
            seen, profit = batch.observations, profit + batch.rewards
    return profit


def film(folder: Path, seed: int = 4) -> None:
    """Write the film of one episode, a frame for every tenth tick, and its last picture."""
    env = sekai.make("Trading-v0", **MARKET)
    recorded = RecordFrames(env, renderer_for(env, ticks=200), trigger=every_step(10))
    result: Any = recorded.reset(seed=seed)
    while not getattr(result, "done", False):
        result = recorded.step(int(below_worth(result.observation)))
    folder.mkdir(parents=True, exist_ok=True)
    save_gif(recorded.frames, folder / "episode.gif", fps=8)
    save_png(recorded.frames[-1], folder / "episode.png")
    print(f"\n{len(recorded.frames)} frames: {folder / 'episode.gif'}, {folder / 'episode.png'}")


def main() -> None:
    """Compare rules in the same markets, then look at one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/trading"))
    rng, begin = np.random.default_rng(0), time.perf_counter()
    print(f"{'rule':<14}{'profit':>10}{'± error':>10}{'accounts that gained':>24}")
    for name, choose in {
        "hold": lambda seen: np.full(len(seen), HOLD),
        "at random": lambda seen: rng.integers(0, 3, len(seen)),
        "below worth": below_worth,
    }.items():
        profit = trade(choose)
        error, gained = profit.std() / np.sqrt(BOOKS), (profit > 0).mean()
        print(f"{name:<14}{profit.mean():>+10.2f}{error:>10.2f}{gained:>24.0%}")
    speed = 3 * BOOKS * MARKET["max_ticks"] / (time.perf_counter() - begin)
    print(f"{speed:,.0f} steps a second; spread and fees are paid")
    film(parser.parse_args().folder)


if __name__ == "__main__":
    main()
