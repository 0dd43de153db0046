"""Trade in a living market and look at the episode: writes `episode.gif` and `episode.png`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import sekai
from sekai.rendering import (
    Frame,
    RecordFrames,
    TradingRenderer,
    every_step,
    save_gif,
    save_png,
)


class ValueTrader:
    """Buys what is cheap beside its fair value, sells what is dear, and leaves when it is not."""

    def __init__(self, names: list[str], enter: float = 1.5e-4, limit: float = 0.3) -> None:
        self.deviation, self.position = names.index("f_fair_value_dev"), names.index("a_position")
        self.enter, self.limit = enter, limit

    def __call__(self, observation: Any) -> int:
        """0 sells, 1 holds, 2 buys."""
        deviation, position = observation[self.deviation], observation[self.position]
        # What is held against the deviation has done its work.
        lowest = 0.0 if position < 0 else -self.enter
        highest = 0.0 if position > 0 else self.enter
        if deviation < lowest and position < self.limit:
            return 2
        return 0 if deviation > highest and position > -self.limit else 1


def play(ticks: int, every: int, seed: int) -> tuple[list[Frame], Frame, dict[str, Any]]:
    """The film of an episode, a picture of its end, and what was known then."""
    env = sekai.make("Trading-v0", max_ticks=ticks, privileged=True, agent=True)
    agent = ValueTrader(env.get_attr("feature_names")())
    with TradingRenderer(ticks=ticks) as renderer:
        film = RecordFrames(env, renderer, trigger=every_step(every))
        observation = film.reset(seed=seed).observation
        while True:
            result = film.step(agent(observation))
            observation = result.observation
            if result.done:
                return film.frames, renderer.render(env), result.info


def main() -> None:
    """Play, then save what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/market"))
    parser.add_argument("--ticks", type=int, default=300)
    parser.add_argument("--every", type=int, default=10, help="ticks from one frame to the next")
    parser.add_argument("--seed", type=int, default=24)
    options = parser.parse_args()

    begin = time.perf_counter()
    film, still, info = play(options.ticks, options.every, options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    save_gif(film, options.folder / "episode.gif", fps=8)
    save_png(still, options.folder / "episode.png")
    print(f"{info['tick']:,.0f} ticks, equity {info['equity']:,.2f}, fees {info['fees']:,.2f}")
    for name in ("episode.gif", "episode.png"):
        path = options.folder / name
        print(f"{path}  {path.stat().st_size / 1e6:.2f} MB")
    print(f"{len(film)} frames in {time.perf_counter() - begin:.1f} seconds")


if __name__ == "__main__":
    main()
