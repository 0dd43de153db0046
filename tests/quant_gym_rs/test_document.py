"""The documented examples of `quant_gym_rs` run, and do what they say."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env as check_stable_baselines3

import sekai
from quant_gym_rs import PyTradingEnv, PyVecTradingEnv
from sekai.compat import to_gymnasium


def test_basic_usage() -> None:
    env = PyTradingEnv(max_ticks=10000, seed=42)
    obs = env.reset(seed=42)
    assert obs.shape == (54,)
    assert len(env.feature_names()[:5]) == 5

    total_reward = 0.0
    for _step in range(10000):
        action = 1  # Hold
        obs, reward, terminated, truncated, info = env.step(action)
        total_reward += reward
        if terminated:
            break

    assert (terminated, truncated) == (False, True)
    assert (info["tick"], total_reward) == (10000, 0.0)


@pytest.mark.parametrize("episodes", [3, pytest.param(100, marks=pytest.mark.nightly)])
def test_collecting_episodes_for_scikit_learn(episodes: int) -> None:
    env = PyTradingEnv(max_ticks=5000, seed=0)
    draw = np.random.default_rng(0)
    rows, labels = [], []
    for episode in range(episodes):
        obs = env.reset(seed=episode)
        for _ in range(5000):
            action = draw.choice([0, 1, 2])
            next_obs, reward, done, _, _info = env.step(action)
            rows.append(obs)
            labels.append(1 if reward > 0 else (0 if reward == 0 else -1))
            obs = next_obs
            if done:
                break
    features, outcomes = np.array(rows), np.array(labels)
    assert features.shape == (5000 * episodes, 54)
    assert set(outcomes) == {-1, 0, 1}

    scaled = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-12)
    model = LogisticRegression(max_iter=2000).fit(scaled[::10], outcomes[::10])

    shares = np.unique(outcomes, return_counts=True)[1] / len(outcomes)
    assert model.predict_proba(scaled[:9]).shape == (9, 3)
    assert model.score(scaled[::10], outcomes[::10]) > shares.max() - 0.02


def test_vectorised_usage() -> None:
    vec_env = PyVecTradingEnv(num_envs=8, max_ticks=10000, base_seed=42)
    obs = vec_env.reset_all()
    assert obs.shape == (8, 54)
    draw = np.random.default_rng(0)

    ended = 0
    for _ in range(10000):
        actions = draw.integers(0, 3, size=8).tolist()
        obs, rewards, dones, truncs, infos = vec_env.step_all(actions)
        ended += sum(dones) + sum(truncs)

    assert (obs.shape, rewards.shape) == ((8, 54), (8,))
    assert ended == 8
    assert [info["tick"] for info in infos] == [10000] * 8


def wrapped(**options: Any) -> Any:
    return to_gymnasium(sekai.make("Trading-v0", **options))


@pytest.mark.parametrize("options", [{}, {"symbols": 2, "agent": True}, {"action": "weights"}])
def test_the_checkers_of_gymnasium_and_stable_baselines3_pass(options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        # They would rather have bounds, float32 and scaled observations; the document has not.
        warnings.simplefilter("ignore", UserWarning)
        check_gymnasium(wrapped(**options), skip_render_check=True)
        check_stable_baselines3(wrapped(**options))


@pytest.mark.nightly
def test_stable_baselines3_learns_on_it() -> None:
    env = wrapped(max_ticks=50, normalize=True, agent=True, reward="log_growth")
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
    before = [value.clone() for value in model.policy.parameters()]
    model.learn(256)

    assert any(
        not bool((one == other).all())
        for one, other in zip(before, model.policy.parameters(), strict=True)
    )
    action, _ = model.predict(env.reset(seed=1)[0], deterministic=True)
    assert env.action_space.contains(int(action))
