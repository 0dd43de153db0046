"""A policy that was trained trades a universe that changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sekai.data import simulate_regimes
from sekai.envs import Portfolio
from sekai.training import PPO
from sekai.vector.make_vec import make_vec

MARKET = simulate_regimes(4, 160, seed=1)
DATA = MARKET.select(MARKET.assets[:3])
QUICK: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "rollout": "torch"}
OPTIONS: dict[str, Any] = {"lookback": 4, "episode_rows": 20, "slots": 2}


def test_while_learning_nothing_is_asked_for_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vec = make_vec("Portfolio-v0", 4, data=DATA, **OPTIONS)
    agent, step = PPO(vec, **QUICK), vec.step
    asked: list[Any] = []

    def recorded(actions: Any, **rest: Any) -> Any:
        asked.append(actions)
        return step(actions, **rest)

    monkeypatch.setattr(vec, "step", recorded)

    agent.fit(64)

    weights = np.concatenate(asked)
    assert weights.shape == (64, 6)
    assert (weights[:, 3:5] == 0.0).all()
    assert (weights[:, [0, 1, 2, 5]] > 0.0).all()


def test_an_asset_that_comes_is_traded_and_one_that_goes_is_not() -> None:
    agent = PPO(make_vec("Portfolio-v0", 4, data=DATA, **OPTIONS), **QUICK).fit(32)
    env = Portfolio(DATA, **OPTIONS)
    seen = env.reset(seed=0).observation
    before = agent.predict(seen)

    env.add_asset(MARKET.assets[3], MARKET)
    env.remove_asset(MARKET.assets[0])
    seen = env.step(before).observation
    after = agent.predict(seen)

    assert (before > 0.0).tolist() == [True, True, True, False, False, True]
    assert (after > 0.0).tolist() == [False, True, True, True, False, True]
    assert after.sum() == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_policy_for_every_backbone() -> None:
    for name in ("attention", "graph", "max"):
        agents = [
            PPO(make_vec("Portfolio-v0", 2, data=DATA, **OPTIONS), policy=name, **QUICK).fit(16)
            for _ in range(2)
        ]
        one, same = (agent.network.state_dict().values() for agent in agents)
        assert all(map(torch.equal, one, same))
