"""Windows that are looked up when they are read are the windows that would have been shown."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.data import simulate_regimes
from sekai.envs import Portfolio
from sekai.training import PPO
from sekai.training.observations import WindowGather
from sekai.vector import SyncVecEnv

DATA = simulate_regimes(3, 200, seed=1)
QUICK: dict[str, Any] = {"n_envs": 4, "n_steps": 8, "batch_size": 16, "n_epochs": 1}


def agent(observation: str, policy: str = "mean") -> PPO:
    options = {"data": DATA, "observation": observation, "episode_rows": 5}
    small = {"backbone": policy, "width": 16}
    # Where rates fall towards the end, two halves are not the whole; indices have no native form.
    steady = {**QUICK, "learning_rate_schedule": "constant", "rollout": "torch", "update": "torch"}
    return PPO("Portfolio-v0", policy=small, env_options=options, **steady)


@pytest.mark.parametrize("policy", ["mean", "mlp"])
def test_an_index_teaches_what_the_window_teaches_to_the_bit(policy: str) -> None:
    shown, indexed = agent("window", policy).fit(96), agent("index", policy).fit(96)

    weights = shown.network.state_dict()
    assert list(weights) == list(indexed.network.state_dict())
    assert all(map(torch.equal, weights.values(), indexed.network.state_dict().values()))
    seen = shown.vec.reset(seed=3).observations
    numbered = indexed.vec.reset(seed=3).observations
    assert np.array_equal(shown.predict_batch(seen), indexed.predict_batch(numbered))


def test_a_rollout_of_indices_stores_eight_bytes_of_each_window() -> None:
    indexed = agent("index")

    stored = indexed.rollout.observations()

    assert stored["index"][0, 0].nbytes == 8
    assert "windows" not in stored


def test_an_agent_of_indices_acts_and_learns_on_after_loading(tmp_path: Path) -> None:
    whole, half = agent("index").fit(128), agent("index").fit(64)
    half.save(tmp_path)
    options = {"data": DATA, "observation": "index", "episode_rows": 5}

    resumed = PPO.resume(tmp_path, 64, env="Portfolio-v0", env_options=options)
    loaded = PPO.load(tmp_path, env="Portfolio-v0", env_options=options)

    ends = whole.network.state_dict(), resumed.network.state_dict()
    assert all(map(torch.equal, ends[0].values(), ends[1].values()))
    assert not any("windows" in name for name in ends[0])
    seen = loaded.vec.reset(seed=3).observations
    assert np.array_equal(loaded.predict_batch(seen), half.predict_batch(seen))


def test_envs_one_by_one_share_their_windows() -> None:
    def one(seed: int = 1) -> Portfolio:
        data = simulate_regimes(3, 200, seed=seed)
        return Portfolio(data, observation="index", episode_rows=5)

    same = PPO(SyncVecEnv([one, one]), policy="mean", n_steps=8, batch_size=8)

    assert isinstance(same.gather, WindowGather)
    with pytest.raises(ValueError, match="the same windows"):
        PPO(SyncVecEnv([one, lambda: one(2)]), policy="mean")


def test_a_copied_network_reads_the_same_windows() -> None:
    indexed = agent("index")

    copied = copy.deepcopy(indexed.network)

    assert copied.inputs.gather is indexed.network.inputs.gather
