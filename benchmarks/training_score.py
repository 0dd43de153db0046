"""Wall time of PPO to a fixed score in market making, against stable-baselines3.

Time includes the construction of the agent and training; evaluation is excluded, with deterministic
actions in the same episodes for both. The score is the mean wealth at the end of an episode.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import stable_baselines3
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnvWrapper

import sekai
from sekai.compat import to_stable_baselines3
from sekai.training import PPO

__all__ = ["GOAL", "seconds_to_goal"]

ENV = "MarketMaking-v0"
GOAL = 66.5
"""Mean final wealth. The best known policy earns about 68; both start at about 30."""

JUDGED_EPISODES = 512
PATIENCE = 30.0
"""Seconds after which a run has failed."""

Predict = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Judge:
    """Stopwatch that runs during training and is paused during evaluation."""

    def __init__(self) -> None:
        self.seconds, self._since = 0.0, time.perf_counter()
        self.has_reached = False

    @property
    def is_over(self) -> bool:
        """True after the goal is reached or the time limit has passed."""
        return self.has_reached or self.seconds > PATIENCE

    def look(self, predict: Predict) -> None:
        """Evaluate a policy with the clock paused."""
        self.seconds += time.perf_counter() - self._since
        self.has_reached = score(predict) >= GOAL
        self._since = time.perf_counter()


# The best of about twenty settings for each, on seeds below 10 (seeds from 10 on are reported):
# rollouts of 512 to 8,192 samples, one to ten epochs, learning rates from 2e-3 to 3e-2, clip ranges
# of 0.2 and 0.4, three initial deviations; for the peer smaller and smoother networks, too.
OURS: dict[str, Any] = {
    "n_envs": 1024,
    "n_steps": 2,
    "n_epochs": 1,
    "batch_size": 1_024,
    "clip_range": 0.4,
    "learning_rate": 2e-2,
    "learning_rate_schedule": "constant",
    "gamma": 0.5,
    "gae_lambda": 0.5,
    # Observations are already of unit scale.
    "policy": {"std_init": 0.3, "norm_obs": False},
}
THEIRS: dict[str, Any] = {
    "n_envs": 256,
    "n_steps": 4,
    "n_epochs": 2,
    "batch_size": 512,
    "clip_range": 0.4,
    "learning_rate": 2e-2,
    "gamma": 0.5,
    "gae_lambda": 0.5,
    "policy_kwargs": {"log_std_init": -1.2},
}
CHUNK = 4096
"""Steps between two evaluations."""


class Stretched(VecEnvWrapper):
    """Actions from -1 to 1, as stable-baselines3 recommends, rescaled to the bounds."""

    def __init__(self, env: Any) -> None:
        space = env.action_space
        self.middle, self.half = (space.high + space.low) / 2, (space.high - space.low) / 2
        super().__init__(env, action_space=Box(-1.0, 1.0, space.shape, np.float32))

    def stretch(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        """Rescale actions to the bounds of the env."""
        stretched: NDArray[np.float64] = self.middle + self.half * actions.astype(np.float64)
        return stretched

    def reset(self) -> Any:
        """Start an episode in every env."""
        return self.venv.reset()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Send rescaled actions."""
        self.venv.step_async(self.stretch(actions))

    def step_wait(self) -> Any:
        """Wait for the step."""
        return self.venv.step_wait()


def ours(seed: int, judge: Judge, settings: dict[str, Any] = OURS) -> None:
    """PPO of sekai."""
    agent = PPO(ENV, seed=seed, env_options={"num_threads": 1}, **settings)
    while not judge.is_over:
        agent.fit(CHUNK)
        judge.look(agent.predict_batch)


class Looks(BaseCallback):
    """Callback that evaluates the policy between rollouts."""

    def __init__(self, judge: Judge, env: Stretched) -> None:
        super().__init__()
        self.judge, self.env = judge, env
        self.next_look = CHUNK

    def predict(self, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """Deterministic actions of the model."""
        actions, _ = self.model.predict(seen.astype(np.float32), deterministic=True)
        return self.env.stretch(actions)

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self.next_look:
            self.judge.look(self.predict)
            self.next_look += CHUNK

    def _on_step(self) -> bool:
        return not self.judge.is_over


def theirs(seed: int, judge: Judge, settings: dict[str, Any] = THEIRS) -> None:
    """PPO of stable-baselines3."""
    count, options = settings["n_envs"], {**settings}
    del options["n_envs"]
    vec = sekai.make_vec(ENV, count, copy=False, num_threads=1)
    env = Stretched(to_stable_baselines3(vec))
    env.seed(seed)
    model = stable_baselines3.PPO("MlpPolicy", env, seed=seed, device="cpu", **options)
    model.learn(100_000_000, callback=Looks(judge, env))


def score(predict: Predict) -> float:
    """Mean final wealth over fixed episodes."""
    vec = sekai.make_vec(ENV, JUDGED_EPISODES, copy=False, num_threads=1)
    seen, earned = vec.reset(seed=999).observations, 0.0
    for _ in range(200):
        result = vec.step(predict(seen))
        seen, earned = result.observations, earned + float(result.rewards.mean())
    return earned


def seconds_of(learn: Callable[[int, Judge], None], seed: int) -> float:
    """Wall time of one run; infinite if the goal is not reached."""
    judge = Judge()
    learn(seed, judge)
    return judge.seconds if judge.has_reached else float("inf")


def seconds_to_goal(seeds: range) -> dict[str, list[float]]:
    """Wall times of both by seed, interleaved."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small are slower on two
    makers = {"sekai": ours, "stable-baselines3": theirs}
    found: dict[str, list[float]] = {name: [] for name in makers}
    for seed in seeds:
        for name, make in makers.items():
            found[name].append(seconds_of(make, seed))
    torch.set_num_threads(threads)
    return found


if __name__ == "__main__":
    for name, seconds in seconds_to_goal(range(3)).items():
        print(name, [round(one, 1) for one in seconds], round(statistics.median(seconds), 1))
