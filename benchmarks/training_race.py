"""Wall time of PPO to detect a signal in thirty assets, against stable-baselines3.

The market is that of `planted_signal.py`: training on its first rows, evaluation on the others,
after costs. Time includes the construction of the agent and training; evaluation is excluded, with
deterministic actions in the same episodes for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import stable_baselines3
from gymnasium.spaces import Box
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnvWrapper

import sekai
from planted_signal import EPISODE, LEARNT_ROWS, options, world
from sekai.compat import to_stable_baselines3
from sekai.training import PPO

__all__ = ["GOAL", "race"]

ENV = "Portfolio-v0"
WORLD = 7
ASSETS = 30
GOAL = 15.0
"""Mean daily return in basis points; equal weights earn three."""

CHUNK = 4_096
"""Steps between two evaluations."""

PATIENCE = 90.0
"""Seconds after which a run has failed."""

REACH = 5.0
"""Bound of the logits of weights, for both."""

Score = Callable[[Callable[[Any], NDArray[np.float64]]], float]

# The best of some twenty-five settings for each, on seeds from 100 on. Our policy shares weights
# between assets. The peer's policy reads the flattened observation, and of its networks the one
# without hidden layers trains fastest by far.
OURS: dict[str, Any] = {
    "n_envs": 256,
    "n_steps": 4,
    "learning_rate": 1e-2,
    "learning_rate_schedule": "constant",
    "gamma": 0.5,
    "gae_lambda": 0.0,
    "policy": {
        "width": 16,
        "encoder_layers": 1,
        "activation": "silu",
        "std_init": 1.0,
    },
}
THEIRS: dict[str, Any] = {
    "n_steps": 16,
    "n_epochs": 4,
    "batch_size": 1024,
    "learning_rate": 3e-3,
    "gamma": 0.5,
    "gae_lambda": 0.0,
    "policy_kwargs": {"log_std_init": -0.5, "net_arch": []},
}
THEIR_ENVS = 256


class Softened(VecEnvWrapper):
    """Softmax of actions, as in our policy."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, action_space=Box(-1.0, 1.0, (ASSETS + 1,), np.float32))

    def weights(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        """Convert actions to portfolio weights."""
        grown = np.exp(REACH * np.clip(actions.astype(np.float64), -1.0, 1.0))
        shares: NDArray[np.float64] = grown / grown.sum(axis=1, keepdims=True)
        return shares

    def reset(self) -> Any:
        """Start an episode in every env."""
        return self.venv.reset()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Send converted actions."""
        self.venv.step_async(self.weights(actions))

    def step_wait(self) -> Any:
        """Wait for the step."""
        return self.venv.step_wait()


def ours(seed: int, data: dict[str, Any]) -> tuple[Callable[[], object], Callable[[Any], Any]]:
    """PPO of sekai: functions that train for a chunk of steps, and that act."""
    agent = PPO(ENV, seed=seed, env_options=data, **OURS)
    return lambda: agent.fit(CHUNK), agent.predict_batch


def theirs(seed: int, data: dict[str, Any]) -> tuple[Callable[[], object], Callable[[Any], Any]]:
    """PPO of stable-baselines3: functions that train for a chunk of steps, and that act."""
    env = Softened(to_stable_baselines3(sekai.make_vec(ENV, THEIR_ENVS, copy=False, **data)))
    env.seed(seed)
    model = stable_baselines3.PPO("MultiInputPolicy", env, seed=seed, device="cpu", **THEIRS)

    def act(seen: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
        actions, _ = model.predict(dict(seen), deterministic=True)
        return env.weights(actions)

    return lambda: model.learn(CHUNK, reset_num_timesteps=False), act


def score_on(data: dict[str, Any]) -> Score:
    """Return a function that scores a policy: mean daily return in basis points."""
    vec = sekai.make_vec(ENV, 128, copy=False, num_threads=1, **data)

    def score(act: Callable[[Any], NDArray[np.float64]]) -> float:
        seen, earned = vec.reset(seed=999).observations, 0.0
        for _ in range(EPISODE):
            result = vec.step(act(seen))
            seen, earned = result.observations, earned + float(result.rewards.mean())
        return 1e4 * earned / EPISODE

    return score


def seconds_of(make: Callable[..., Any], seed: int, data: dict[str, Any], score: Score) -> float:
    """Wall time of one run; infinite if the goal is not reached."""
    started = time.perf_counter()
    learn, act = make(seed, data)
    spent = time.perf_counter() - started
    while spent < PATIENCE:
        started = time.perf_counter()
        learn()
        spent += time.perf_counter() - started
        if score(act) >= GOAL:
            return spent
    return float("inf")


def race(seeds: range) -> dict[str, list[float]]:
    """Wall times of both by seed, interleaved."""
    close, features = world(WORLD, shuffled=False, assets=ASSETS)
    learnt = options(close[:LEARNT_ROWS], features[:LEARNT_ROWS], EPISODE)
    score = score_on(options(close[LEARNT_ROWS:], features[LEARNT_ROWS:], EPISODE))
    makers = {"sekai": ours, "stable-baselines3": theirs}
    found: dict[str, list[float]] = {name: [] for name in makers}
    for seed in seeds:
        for name, make in makers.items():
            found[name].append(seconds_of(make, seed, {**learnt, "num_threads": 1}, score))
    return found
