"""Single-file PPO in plain torch, as a baseline for throughput.

It follows the paper (Schulman et al., 2017) and common practice: all envs step together, rollout
buffers are tensors, GAE runs backwards from the last step, minibatches come from a shuffled
rollout, and Adam optimises. Truncated episodes count as terminated, as is usual in such files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Normal

from sekai.spaces import Box
from sekai.vector import VecEnv

__all__ = ["PlainPPO", "PlainSettings"]


@dataclass(frozen=True, kw_only=True)
class PlainSettings:
    """Hyperparameters of `PlainPPO`."""

    rollout_steps: int = 128
    epochs: int = 4
    minibatches: int = 4
    learning_rate: float = 3e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    std_init: float = 0.5


def layer(inputs: int, outputs: int, gain: float = math.sqrt(2.0)) -> nn.Linear:
    """Linear layer with orthogonal initial weights."""
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Network(nn.Module):
    """Actor and critic with two hidden layers of 64 units each."""

    def __init__(self, observations: int, actions: int, std: float) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            layer(observations, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, actions, 0.01)
        )
        self.critic = nn.Sequential(
            layer(observations, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0)
        )
        self.log_std = nn.Parameter(torch.full((1, actions), math.log(std)))

    def value(self, observations: Tensor) -> Tensor:
        """Value estimates of observations."""
        values: Tensor = self.critic(observations)
        return values.flatten()

    def sample(
        self, observations: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return an action, its log-probability, the entropy and the value."""
        mean = self.actor(observations)
        distribution: Any = Normal(mean, self.log_std.expand_as(mean).exp())
        if action is None:
            action = distribution.sample()
        return (
            action,
            distribution.log_prob(action).sum(1),
            distribution.entropy().sum(1),
            self.value(observations),
        )


class PlainPPO:
    """PPO for a vector env with a bounded `Box` action space."""

    def __init__(self, vec: VecEnv, settings: PlainSettings, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.vec, self.settings, count = vec, settings, vec.num_envs
        space = vec.action_space
        assert isinstance(space, Box), "actions need a Box space"
        width, size = int(np.prod(vec.observation_space.shape or ())), int(np.prod(space.shape))
        self.low, self.high = space.low, space.high
        self.network = Network(width, size, settings.std_init)
        self.optimiser = torch.optim.Adam(
            self.network.parameters(), lr=settings.learning_rate, eps=1e-5
        )
        shape = settings.rollout_steps, count
        self.observations, self.actions = torch.zeros((*shape, width)), torch.zeros((*shape, size))
        self.log_probs, self.rewards = torch.zeros(shape), torch.zeros(shape)
        self.dones, self.values = torch.zeros(shape), torch.zeros(shape)
        self.observation = torch.as_tensor(vec.reset(seed=seed).observations, dtype=torch.float32)
        self.done = torch.zeros(count)

    def fit(self, steps: int) -> None:
        """Train for `steps` env-steps, rounded up to whole rollouts."""
        rows = self.settings.rollout_steps * self.vec.num_envs
        for _ in range(-(-steps // rows)):
            self.collect()
            advantages = self.advantages()
            self.train(advantages)

    def to_env(self, action: Tensor) -> NDArray[np.float64]:
        """Scale actions from [-1, 1] to the bounds of the action space."""
        clipped = action.numpy().clip(-1.0, 1.0)
        scaled: NDArray[np.float64] = self.low + (clipped + 1.0) * 0.5 * (self.high - self.low)
        return scaled

    @torch.no_grad()
    def collect(self) -> None:
        """Collect a rollout into the buffers."""
        for step in range(self.settings.rollout_steps):
            self.observations[step], self.dones[step] = self.observation, self.done
            action, log_prob, _, value = self.network.sample(self.observation)
            self.actions[step], self.log_probs[step], self.values[step] = action, log_prob, value
            result = self.vec.step(self.to_env(action))
            self.rewards[step] = torch.as_tensor(result.rewards)
            self.observation = torch.as_tensor(result.observations, dtype=torch.float32)
            self.done = torch.as_tensor(result.terminated | result.truncated, dtype=torch.float32)

    @torch.no_grad()
    def advantages(self) -> Tensor:
        """Generalized advantage estimates (GAE), computed backwards."""
        settings, last = self.settings, torch.zeros(self.vec.num_envs)
        advantages = torch.zeros_like(self.rewards)
        next_value, continues = self.network.value(self.observation), 1.0 - self.done
        for step in reversed(range(settings.rollout_steps)):
            delta = self.rewards[step] + settings.gamma * next_value * continues - self.values[step]
            last = delta + settings.gamma * settings.gae_lambda * continues * last
            advantages[step] = last
            next_value, continues = self.values[step], 1.0 - self.dones[step]
        return advantages

    def train(self, advantages: Tensor) -> None:
        """Train for several epochs over minibatches of the rollout."""
        rows = advantages.numel()
        observations, actions = self.observations.reshape(rows, -1), self.actions.reshape(rows, -1)
        log_probs, advantages = self.log_probs.reshape(-1), advantages.reshape(-1)
        returns = advantages + self.values.reshape(-1)
        size = rows // self.settings.minibatches
        for _ in range(self.settings.epochs):
            order = torch.randperm(rows)
            for first in range(0, rows, size):
                index = order[first : first + size]
                self.gradient_step(
                    observations[index],
                    actions[index],
                    log_probs[index],
                    advantages[index],
                    returns[index],
                )

    def gradient_step(
        self,
        observations: Tensor,
        actions: Tensor,
        log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
    ) -> None:
        """Take a gradient step on one minibatch."""
        settings = self.settings
        _, new_log_probs, entropy, values = self.network.sample(observations, actions)
        ratio = (new_log_probs - log_probs).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = ratio.clamp(1.0 - settings.clip_range, 1.0 + settings.clip_range)
        policy_objective = torch.min(ratio * advantages, clipped * advantages).mean()
        value_loss = ((values - returns) ** 2).mean()
        loss = settings.vf_coef * value_loss - policy_objective - settings.ent_coef * entropy.mean()
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), settings.max_grad_norm)
        self.optimiser.step()
