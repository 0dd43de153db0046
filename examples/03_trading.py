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

# Market makers, noise, value and technical traders trade in an order book. `agent` adds the own
# account to the observation, and `privileged` the fair value, which real traders do not observe.
MARKET: dict[str, Any] = {"regime": "volatile", "max_ticks": 200, "agent": True, "privileged": True}
BOOKS = 128
NAMES = sekai.make("Trading-v0", **MARKET).get_attr("feature_names")()
DEVIATION, POSITION = NAMES.index("f_fair_value_dev"), NAMES.index("a_position")
SELL, HOLD, BUY = 0, 1, 2


def below_value(observed: NDArray[Any], enter: float = 6e-4, limit: float = 0.3) -> NDArray[Any]:
    """Buy below the fair value and sell above it, up to a limit; close the position later."""
    deviation, position = observed[..., DEVIATION], observed[..., POSITION]
    lowest = np.where(position < 0, 0.0, -enter)
    highest = np.where(position > 0, 0.0, enter)
    buys = (deviation < lowest) & (position < limit)
    sells = (deviation > highest) & (position > -limit)
    return np.where(buys, BUY, np.where(sells, SELL, HOLD))


def trade(choose: Any) -> NDArray[np.float64]:
    """Profit of 128 accounts, each in its own market."""
    profit = np.zeros(BOOKS)
    with sekai.make_vec("Trading-v0", BOOKS, "native", **MARKET) as vec:
        observations = vec.reset(seed=1).observations
        for _ in range(MARKET["max_ticks"]):
            batch = vec.step(choose(observations))
            observations, profit = batch.observations, profit + batch.rewards
    return profit


def render(folder: Path, seed: int = 4) -> None:
    """Render one episode: a GIF with every tenth tick, and the last frame as PNG."""
    env = sekai.make("Trading-v0", **MARKET)
    recorded = RecordFrames(env, renderer_for(env, ticks=200), trigger=every_step(10))
    result: Any = recorded.reset(seed=seed)
    while not getattr(result, "done", False):
        result = recorded.step(int(below_value(result.observation)))
    folder.mkdir(parents=True, exist_ok=True)
    save_gif(recorded.frames, folder / "episode.gif", fps=8)
    save_png(recorded.frames[-1], folder / "episode.png")
    print(f"\n{len(recorded.frames)} frames: {folder / 'episode.gif'}, {folder / 'episode.png'}")


def main() -> None:
    """Compare rules in the same markets, then render one episode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/trading"))
    rng, begin = np.random.default_rng(0), time.perf_counter()
    print(f"{'rule':<14}{'profit':>10}{'± error':>10}{'profitable accounts':>24}")
    for name, choose in {
        "hold": lambda observations: np.full(len(observations), HOLD),
        "random": lambda observations: rng.integers(0, 3, len(observations)),
        "below value": below_value,
    }.items():
        profit = trade(choose)
        error, profitable = profit.std() / np.sqrt(BOOKS), (profit > 0).mean()
        print(f"{name:<14}{profit.mean():>+10.2f}{error:>10.2f}{profitable:>24.0%}")
    speed = 3 * BOOKS * MARKET["max_ticks"] / (time.perf_counter() - begin)
    print(f"{speed:,.0f} steps/s; profits are after spread and fees")
    render(parser.parse_args().folder)


if __name__ == "__main__":
    main()
