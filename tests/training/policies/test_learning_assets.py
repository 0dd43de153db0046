"""What is planted in every asset is found once, for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.data import FeaturePanel, MarketData
from sekai.training import PPO
from sekai.vector.make_vec import make_vec

ASSETS, ROWS, EPISODE = 6, 600, 64


def planted(seed: int) -> dict[str, Any]:
    """A market in which the first of two features tells a part of the next return."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((ROWS, ASSETS, 2)).astype(np.float32)
    returns = 0.01 * rng.standard_normal((ROWS, ASSETS))
    returns[1:] += 0.006 * features[:-1, :, 0]
    close = 100.0 * np.exp(np.cumsum(returns, axis=0))
    before = np.concatenate([close[:1], close[:-1]])
    times = np.datetime64("2020-01-01") + np.arange(ROWS).astype("timedelta64[D]")
    names = tuple(f"asset_{place}" for place in range(ASSETS))
    data = MarketData(times, names, ["open", "close"], np.stack([before, close], axis=-1))
    there = np.ones((ROWS, ASSETS), np.bool_)
    shown = FeaturePanel(features, ("signal", "noise"), there, data.times, names)
    return {"data": data, "features": shown, "lookback": 2, "episode_rows": EPISODE}


@pytest.mark.timeout(400)
def test_a_signal_of_assets_is_learnt_and_holds_in_other_data() -> None:
    agent = PPO("Portfolio-v0", n_envs=32, env_options=planted(0)).fit(16_384)
    vec = make_vec("Portfolio-v0", 64, **planted(1))
    even = np.full((64, ASSETS + 1), 1.0 / (ASSETS + 1))
    growth = {"learnt": 0.0, "even": 0.0}

    for name in growth:
        seen = vec.reset(seed=0).observations
        for _ in range(EPISODE):
            result = vec.step(agent.predict_batch(seen) if name == "learnt" else even)
            seen, growth[name] = result.observations, growth[name] + result.rewards.mean()

    assert growth["learnt"] / EPISODE > growth["even"] / EPISODE + 0.0012
