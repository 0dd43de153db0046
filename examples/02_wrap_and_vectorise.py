"""Wrappers and vector envs: wrap an environment and run many at once, faster."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai

ENVS, STEPS = 64, 200


def make_env() -> sekai.Env[Any, Any]:
    """Wrap market making: actions from -1 to 1, and at most 100 steps."""
    env: Any = sekai.make("MarketMaking-v0", episode_steps=STEPS)
    env = sekai.TimeLimit(env, 100)  # the time limit truncates, it never terminates
    env = sekai.RescaleAction(env, -1.0, 1.0)
    return sekai.RecordEpisodeStatistics(env)  # outermost: counts the rewards that the agent gets


def episode_returns() -> NDArray[np.float64]:
    """Episode returns of 64 wrapped envs."""
    returns: list[float] = []
    with sekai.SyncVecEnv([make_env] * ENVS) as vec:
        vec.reset(seed=1)  # env i has the seed 1 + i
        for _ in range(100):
            batch = vec.step(np.full((ENVS, 2), -0.5))
            # Autoreset has started the next episode; statistics of the ended one are in its info.
            ended = np.flatnonzero(batch.dones).tolist()
            stats = [batch.infos[index]["episode"] for index in ended]
            returns += [episode.episode_return for episode in stats]
    return np.array(returns)


def measure(mode: Any) -> tuple[float, float]:
    """Step 64 envs; return their total reward and steps per second."""
    with sekai.make_vec("MarketMaking-v0", ENVS, mode, episode_steps=STEPS) as vec:
        vec.reset(seed=1)
        actions, reward = np.full((ENVS, 2), 0.3), 0.0
        begin = time.perf_counter()
        for _ in range(STEPS):
            reward += float(vec.step(actions).rewards.sum())
        return reward, ENVS * STEPS / (time.perf_counter() - begin)


def histogram(values: NDArray[np.float64], bars: int = 40) -> str:
    """Histogram as one line of text."""
    counts, _ = np.histogram(values, bins=bars)
    return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / counts.max()))] for count in counts)


def main() -> None:
    """Print the wrappers, statistics of episodes, and the speed of two vector envs."""
    print("wrappers, from the outside in:")
    for wrapper in make_env():
        print(f"   {type(wrapper).__name__}")

    returns = episode_returns()
    print(f"\n{len(returns)} episodes: {returns.mean():.2f} ± {returns.std() / 8:.2f}")
    print(f"   {returns.min():.0f} |{histogram(returns)}| {returns.max():.0f}")

    print(f"\n{ENVS} envs without wrappers:")
    for mode, kind in (("sync", "one after the other"), ("native", "all in one call, in Rust")):
        reward, speed = measure(mode)
        print(f"   {mode:<8}{kind:<26}reward {reward:,.4f}{speed:>14,.0f} steps/s")


if __name__ == "__main__":
    main()
