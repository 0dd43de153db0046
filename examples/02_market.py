"""Trade in a living market and look at the episode: writes `episode.gif` and `episode.png`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import sekai
from sekai.rendering import RecordFrames, TradingRenderer, every_step, save_gif, save_png


class ValueTrader:
    """Buys what is cheap beside its fair value and sells what is dear, within a limit."""

    def __init__(self, names: list[str], threshold: float = 2e-4, limit: float = 0.12) -> None:
        self.deviation = names.index("f_fair_value_dev")
        self.position = names.index("a_position")
        self.threshold, self.limit = threshold, limit

    def __call__(self, observation: Any) -> int:
        """0 sells, 1 holds, 2 buys."""
        deviation, position = observation[self.deviation], observation[self.position]
        if deviation < -self.threshold and position < self.limit:
            return 2
        if deviation > self.threshold and position > -self.limit:
            return 0
        return 1


def play(ticks: int, every: int, seed: int) -> tuple[RecordFrames[Any, Any], dict[str, Any]]:
    """An episode as it was drawn, and what was known at its end."""
    env = sekai.make("Trading-v0", max_ticks=ticks, privileged=True, agent=True)
    agent = ValueTrader(env.unwrapped.feature_names())
    with TradingRenderer(ticks=ticks) as renderer:
        film = RecordFrames(env, renderer, trigger=every_step(every))
        observation = film.reset(seed=seed).observation
        while True:
            result = film.step(agent(observation))
            observation = result.observation
            if result.done:
                return film, result.info


def main() -> None:
    """Play, then save what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/market"))
    parser.add_argument("--ticks", type=int, default=300)
    parser.add_argument("--every", type=int, default=5, help="ticks from one frame to the next")
    parser.add_argument("--seed", type=int, default=24)
    options = parser.parse_args()

    begin = time.perf_counter()
    film, info = play(options.ticks, options.every, options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    save_gif(film.frames, options.folder / "episode.gif", fps=8)
    save_png(film.frames[-1], options.folder / "episode.png")
    print(f"{info['tick']:,} ticks, equity {info['equity']:,.2f}, fees {info['fees']:,.2f}")
    for name in ("episode.gif", "episode.png"):
        path = options.folder / name
        print(f"{path}  {path.stat().st_size / 1e6:.2f} MB")
    print(f"{len(film.frames)} frames in {time.perf_counter() - begin:.1f} seconds")


if __name__ == "__main__":
    main()
