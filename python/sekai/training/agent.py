"""What all agents have in common: they learn from envs, act, and can be kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.agent_settings import AgentSettings
from sekai.training.callbacks.callback import Callback
from sekai.training.defaults import default_settings
from sekai.training.episodes import Episodes
from sekai.training.observations import leaves_of, tensors_of
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.randomness import Randomness
from sekai.training.worlds import vector_of
from sekai.vector.batching import Batcher
from sekai.vector.vec_env import VecEnv

__all__ = ["Agent"]

Metrics = dict[str, float]


class Agent(ABC):
    """A policy that learns from an env.

    The same seed and settings on the same env give the same policy, bit for bit.
    """

    settings_type: ClassVar[type[AgentSettings]] = AgentSettings
    network: nn.Module
    """Everything that is learnt; what is saved of an agent."""

    def __init__(
        self,
        env: Any,
        *,
        policy: str | PolicySettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        settings: AgentSettings | None = None,
        env_options: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Get ready to learn.

        Args:
            env: an id, a spec, a vector env, an env of sekai, gymnasium or PettingZoo, or a
                function that makes one.
            policy: the name of a backbone, or settings of the networks.
            seed: for everything that is random: the networks at first, the envs, the choices.
            settings: how to learn; None takes what is known to suit the env.
            env_options: what the env is made with, where it is an id.
            changes: single settings, instead of those of `settings`.
        """
        self.env_given = env
        self.env_options = dict(env_options or {})
        self.seed = seed
        base = settings or default_settings(self.settings_type, env)
        self.settings = base.replaced(**_with_policy(base, policy, changes))
        self.vec = self._vector()
        self.randomness = Randomness(seed)
        self.steps = 0
        self.planned_steps = 0
        with self.randomness:
            self._build()
        self.episodes = Episodes(self.vec.num_envs)
        self._has_begun = False

    def _vector(self) -> VecEnv:
        vec = vector_of(self.env_given, self.settings.num_envs, self.env_options)
        if not isinstance(vec, VecEnv):
            raise TypeError(
                f"{type(self).__name__} learns for one agent, and {self.env_given!r} has several: "
                "use MADDPG or QMIX, or share_parameters(env)"
            )
        self.leaves = leaves_of(vec.observation_space)
        self.actions = ActionMap(vec.action_space)
        self._batcher = Batcher(vec.observation_space)
        return vec

    @abstractmethod
    def _build(self) -> None:
        """Make networks, optimisers and storage."""

    @abstractmethod
    def _begin(self) -> None:
        """Start the envs."""

    @abstractmethod
    def _iterate(self) -> Metrics:
        """Let the envs act for a while, learn from it, and tell how that went."""

    @property
    @abstractmethod
    def iteration_steps(self) -> int:
        """Steps of single envs in an iteration."""

    @abstractmethod
    def choose(self, observations: dict[str, Tensor], deterministic: bool) -> Tensor:
        """What the policy chooses, before it is turned into actions of the env."""

    def fit(self, steps: int, callbacks: Sequence[Callback] = ()) -> Agent:
        """Learn for so many steps of single envs, rounded up to whole iterations.

        Args:
            steps: how many, beside those that were learnt before.
            callbacks: who is told after each iteration, and may end it all.
        """
        if steps < 1:
            raise ValueError(f"steps must be at least 1, was {steps}")
        self.planned_steps = self.steps + steps
        for callback in callbacks:
            callback.on_start(self)
        try:
            while self.steps < self.planned_steps:
                metrics = self._one_iteration()
                # Everybody is told, also when one of them wants to stop.
                wishes = [callback.on_iteration(self, metrics) for callback in callbacks]
                if any(wishes):
                    break
        finally:
            for callback in callbacks:
                callback.on_end(self)
        return self

    def _one_iteration(self) -> Metrics:
        with self.randomness:
            if not self._has_begun:
                self._begin()
                self._has_begun = True
            metrics = self._iterate()
        self.steps += self.iteration_steps
        recent = self.episodes.summary
        return {
            "steps": float(self.steps),
            "episodes": float(recent.episodes),
            "episode_return": recent.episode_return,
            "episode_length": recent.episode_length,
            **metrics,
        }

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """The action for one observation of one env."""
        batch = self._batcher.stack([observation])
        rows = self.predict_batch(batch, deterministic)
        return Batcher(self.vec.action_space).rows(rows)[0]

    @torch.no_grad()
    def predict_batch(self, observations: Any, deterministic: bool = True) -> Any:
        """Actions for a batch of observations, as a vector env gives and takes them."""
        with self.randomness:
            chosen = self.choose(tensors_of(observations), deterministic)
        return self.actions.to_env(chosen)

    def close(self) -> None:
        """Close the envs."""
        self.vec.close()

    @property
    def done_share(self) -> float:
        """How much of what was planned is over."""
        return self.steps / self.planned_steps if self.planned_steps else 0.0


def _with_policy(base: AgentSettings, policy: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    if policy is None:
        return dict(changes)
    if isinstance(policy, str):
        policy = base.policy.replaced(backbone=policy)
    elif isinstance(policy, Mapping):
        policy = base.policy.replaced(**policy)
    return {**changes, "policy": policy}


def mean_metrics(found: Sequence[Mapping[str, float]]) -> Metrics:
    """The means of what was told several times."""
    names = found[0] if found else {}
    return {name: float(np.mean([told[name] for told in found])) for name in names}
