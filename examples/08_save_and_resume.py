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


def same(agent: PPO, other: PPO) -> bool:
    """Return True if the parameters of two agents are equal, bit for bit."""
    state, other_state = agent.network.state_dict(), other.network.state_dict()
    return state.keys() == other_state.keys() and all(
        bool((state[k] == other_state[k]).all()) for k in state
    )


def main() -> None:
    """Train with and without interruption, compare, and use the saved policy."""
    whole = new_agent()
    whole.fit(FIRST)  # in two parts, so that learning rate schedules are the same
    whole.fit(SECOND)
    print(f"uninterrupted:  {whole.steps:,} steps")

    with tempfile.TemporaryDirectory() as folder:
        first = new_agent()
        first.fit(FIRST)
        # One file: weights, optimiser state, random generators, and envs in mid-episode.
        path = Path(first.save(Path(folder) / "half"))
        print(f"stopped after:  {first.steps:,} steps, {path.stat().st_size / 1e3:,.0f} kB saved")
        first.close()

        resumed = PPO.resume(path, SECOND)
        print(f"resumed until:  {resumed.steps:,} steps")
        policy = load_policy(path)  # inference only, without envs and optimiser

    print(f"identical:      {same(whole, resumed)}")
    assert same(whole, resumed), "the resumed run differs from the uninterrupted run"
    assert not same(whole, first), "the second half did not change the parameters"

    env = sekai.make("MarketMaking-v0", episode_steps=100)
    quotes: Any = policy.predict(env.reset(seed=1).observation)
    print(f"\nthe policy of the first half quotes {np.round(quotes, 3)} from the mid price")
    for agent in (whole, resumed):
        agent.close()


if __name__ == "__main__":
    main()
