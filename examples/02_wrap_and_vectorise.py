"""Wrappers and vector envs: wrap an environment and run many at once, faster."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai

ENVS, STEPS = 64, 200


def layered() -> sekai.Env[Any, Any]:
    """Market making with actions from -1 to 1 and at most 100 steps."""
    env: Any = sekai.make("MarketMaking-v0", episode_steps=STEPS)
    env = sekai.TimeLimit(env, 100)  # the end of the limit truncates, it never terminates
    env = sekai.RescaleAction(env, -1.0, 1.0)
    return sekai.RecordEpisodeStatistics(env)  # outermost: it counts what the agent is given


def statistics_of_many() -> NDArray[np.float64]:
    """Episode returns of 64 wrapped envs."""
    returns: list[float] = []
    with sekai.SyncVecEnv([layered] * ENVS) as vec:
        vec.reset(seed=1)  # env i has the seed 1 + i
        for _ in range(100):
            batch = vec.step(np.full((ENVS, 2), -0.5))
            # The next episode has begun already; what ended is kept beside it.
            ended = np.flatnonzero(batch.dones).tolist()
            stats = [batch.infos[place]["episode"] for place in ended]
            returns += [episode.episode_return for episode in stats]
    return np.array(returns)


def timed(mode: Any) -> tuple[float, float]:
    """What 64 envs earned together, and steps a second."""
    with sekai.make_vec("MarketMaking-v0", ENVS, mode, episode_steps=STEPS) as vec:
        vec.reset(seed=1)
        actions, earned = np.full((ENVS, 2), 0.3), 0.0
        begin = time.perf_counter()
        for _ in range(STEPS):
            earned += float(vec.step(actions).rewards.sum())
        return earned, ENVS * STEPS / (time.perf_counter() - begin)


def histogram(values: NDArray[np.float64], bars: int = 40) -> str:
    """A row of bars."""
    counts, _ = np.histogram(values, bins=bars)
    return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / counts.max()))] for count in counts)


def main() -> None:
    """Show the layers, what their episodes gave, and two ways to run many."""
    print("layers, from the outside in:")
    for layer in layered():
        print(f"   {type(layer).__name__}")

    returns = statistics_of_many()
    print(f"\n{len(returns)} episodes: {returns.mean():.2f} ± {returns.std() / 8:.2f}")
    print(f"   {returns.min():.0f} |{histogram(returns)}| {returns.max():.0f}")

    print(f"\n{ENVS} envs without layers:")
    for mode, how in (("sync", "one after the other"), ("native", "all in one call, in Rust")):
        earned, speed = timed(mode)
        print(f"   {mode:<8}{how:<26}earned {earned:,.4f}{speed:>14,.0f} steps a second")


if __name__ == "__main__":
    main()
