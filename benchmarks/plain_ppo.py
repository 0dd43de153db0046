"""PPO in a single file, with torch and nothing else: the peer that everybody could write.

From the paper (Schulman et al., 2017) and the habits of the field: all envs step together, one
buffer of tensors for each thing that is remembered, advantages from the last step backwards, parts
of a shuffled rollout, Adam. Episodes that are cut off count as ended, as is usual in such files.
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
    """How it learns."""

    rollout_steps: int = 128
    epochs: int = 4
    minibatches: int = 4
    learning_rate: float = 3e-4
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.0
    value_weight: float = 0.5
    gradient_norm: float = 0.5
    initial_spread: float = 0.5


def layer(wide: int, narrow: int, gain: float = math.sqrt(2.0)) -> nn.Linear:
    """A layer that begins orthogonal."""
    made = nn.Linear(wide, narrow)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


class Network(nn.Module):
    """Two networks of two layers of 64: one acts, one judges."""

    def __init__(self, seen: int, done: int, spread: float) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            layer(seen, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, done, 0.01)
        )
        self.critic = nn.Sequential(
            layer(seen, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0)
        )
        self.log_spread = nn.Parameter(torch.full((1, done), math.log(spread)))

    def value(self, seen: Tensor) -> Tensor:
        """What the future is worth."""
        worth: Tensor = self.critic(seen)
        return worth.flatten()

    def act(
        self, seen: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """An action, its log-probability, the entropy and the value."""
        mean = self.actor(seen)
        chances: Any = Normal(mean, self.log_spread.expand_as(mean).exp())
        if action is None:
            action = chances.sample()
        return action, chances.log_prob(action).sum(1), chances.entropy().sum(1), self.value(seen)


class PlainPPO:
    """Learns from a vector env whose actions are numbers with bounds."""

    def __init__(self, vec: VecEnv, settings: PlainSettings, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.vec, self.settings, count = vec, settings, vec.num_envs
        space = vec.action_space
        assert isinstance(space, Box), "actions are numbers"
        width, size = int(np.prod(vec.observation_space.shape or ())), int(np.prod(space.shape))
        self.low, self.high = space.low, space.high
        self.network = Network(width, size, settings.initial_spread)
        self.optimiser = torch.optim.Adam(
            self.network.parameters(), lr=settings.learning_rate, eps=1e-5
        )
        shape = settings.rollout_steps, count
        self.seen, self.actions = torch.zeros((*shape, width)), torch.zeros((*shape, size))
        self.log_probs, self.rewards = torch.zeros(shape), torch.zeros(shape)
        self.dones, self.values = torch.zeros(shape), torch.zeros(shape)
        self.now = torch.as_tensor(vec.reset(seed=seed).observations, dtype=torch.float32)
        self.done = torch.zeros(count)

    def fit(self, steps: int) -> None:
        """Learn for so many steps of single envs."""
        rows = self.settings.rollout_steps * self.vec.num_envs
        for _ in range(-(-steps // rows)):
            self.act()
            advantages = self.advantages()
            self.learn(advantages)

    def to_env(self, action: Tensor) -> NDArray[np.float64]:
        """Numbers of [-1, 1] as actions."""
        numbers = action.numpy().clip(-1.0, 1.0)
        stretched: NDArray[np.float64] = self.low + (numbers + 1.0) * 0.5 * (self.high - self.low)
        return stretched

    @torch.no_grad()
    def act(self) -> None:
        """Fill the buffers."""
        for step in range(self.settings.rollout_steps):
            self.seen[step], self.dones[step] = self.now, self.done
            action, log_prob, _, value = self.network.act(self.now)
            self.actions[step], self.log_probs[step], self.values[step] = action, log_prob, value
            result = self.vec.step(self.to_env(action))
            self.rewards[step] = torch.as_tensor(result.rewards)
            self.now = torch.as_tensor(result.observations, dtype=torch.float32)
            self.done = torch.as_tensor(result.terminated | result.truncated, dtype=torch.float32)

    @torch.no_grad()
    def advantages(self) -> Tensor:
        """Generalised advantages, from the last step backwards."""
        settings, last = self.settings, torch.zeros(self.vec.num_envs)
        found = torch.zeros_like(self.rewards)
        after, goes_on = self.network.value(self.now), 1.0 - self.done
        for step in reversed(range(settings.rollout_steps)):
            surprise = self.rewards[step] + settings.discount * after * goes_on - self.values[step]
            last = surprise + settings.discount * settings.trace * goes_on * last
            found[step] = last
            after, goes_on = self.values[step], 1.0 - self.dones[step]
        return found

    def learn(self, advantages: Tensor) -> None:
        """Several passes over the rollout, part by part."""
        rows = advantages.numel()
        seen, actions = self.seen.reshape(rows, -1), self.actions.reshape(rows, -1)
        log_probs, advantages = self.log_probs.reshape(-1), advantages.reshape(-1)
        returns = advantages + self.values.reshape(-1)
        size = rows // self.settings.minibatches
        for _ in range(self.settings.epochs):
            order = torch.randperm(rows)
            for first in range(0, rows, size):
                part = order[first : first + size]
                self.descend(
                    seen[part], actions[part], log_probs[part], advantages[part], returns[part]
                )

    def descend(
        self, seen: Tensor, actions: Tensor, log_probs: Tensor, advantages: Tensor, returns: Tensor
    ) -> None:
        """One step of the optimiser."""
        settings = self.settings
        _, now, entropy, values = self.network.act(seen, actions)
        ratio = (now - log_probs).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
        gain = torch.min(ratio * advantages, clipped * advantages).mean()
        misjudged = ((values - returns) ** 2).mean()
        loss = settings.value_weight * misjudged - gain - settings.entropy_weight * entropy.mean()
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), settings.gradient_norm)
        self.optimiser.step()
