"""Save and resume training: the result is identical bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from sekai.training import PPO, load_policy

FIRST, SECOND = 4_096, 4_096
OPTIONS: dict[str, Any] = {"n_envs": 16, "n_steps": 64, "seed": 7}


def new_agent() -> PPO:
    """Untrained market maker."""
    return PPO("MarketMaking-v0", env_options={"episode_steps": 100}, **OPTIONS)


def same(one: PPO, other: PPO) -> bool:
    """Return True if the parameters of two agents are equal, bit for bit."""
    ours, theirs = one.network.state_dict(), other.network.state_dict()
    return ours.keys() == theirs.keys() and all(bool((ours[k] == theirs[k]).all()) for k in ours)


def main() -> None:
    """Train with and without interruption, compare, and use the saved policy."""
    whole = new_agent()
    whole.fit(FIRST)  # in two parts, so that schedules of rates are planned the same
    whole.fit(SECOND)
    print(f"never stopped:  {whole.steps:,} steps")

    with tempfile.TemporaryDirectory() as folder:
        first = new_agent()
        first.fit(FIRST)
        # One file: weights, optimiser, random streams, and the envs in the middle of an episode.
        path = Path(first.save(Path(folder) / "half"))
        print(f"stopped after:  {first.steps:,} steps, {path.stat().st_size / 1e3:,.0f} kB kept")
        first.close()

        resumed = PPO.resume(path, SECOND)
        print(f"resumed until:  {resumed.steps:,} steps")
        policy = load_policy(path)  # acts, without envs and without what learns

    print(f"the same bits:  {same(whole, resumed)}")
    assert same(whole, resumed), "a resumed training has to be the one that never stopped"
    assert not same(whole, first), "the second half has taught something"

    env = sekai.make("MarketMaking-v0", episode_steps=100)
    quotes: Any = policy.predict(env.reset(seed=1).observation)
    print(f"\nthe policy of the first half quotes {np.round(quotes, 3)} from the mid")
    for agent in (whole, resumed):
        agent.close()


if __name__ == "__main__":
    main()
