"""Objectives that count risk, not the mean return alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

__all__ = ["Risk", "RiskKind", "Volatility", "risk_of"]

RiskKind = Literal["none", "volatility", "drawdown", "cvar"]
"""What is weighed against the mean return."""

KINDS = ("none", "volatility", "drawdown", "cvar")

RECENT = 1_000
"""Episodes that the tail of returns is known from."""

MEMORY = 0.9
"""How much of the mean reward stays from one rollout to the next."""


class Risk(ABC):
    """Changes rewards so that their mean return is the objective that counts risk."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    @abstractmethod
    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """The rewards of some steps of all envs, with what risk takes from them.

        Args:
            rewards: times by envs; nothing where nobody acted.
            done: where an episode ended.
            acted: what counts; None where all does.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


def risk_of(kind: RiskKind, weight: float, level: float, num_envs: int) -> Risk | None:
    """The objective of that name; None for the mean return alone."""
    if kind == "volatility":
        return Volatility(weight)
    if kind == "drawdown":
        return Drawdown(weight, num_envs)
    return Tail(weight, level, num_envs) if kind == "cvar" else None


class Volatility(Risk):
    """The mean reward, less `weight` times the variance of rewards (Bisi et al., 2020).

    Every reward pays for its squared distance from the mean, which is tracked; through the mean
    itself no gradient flows, since on average there is no distance from it.
    """

    def __init__(self, weight: float) -> None:
        super().__init__(weight)
        self.mean: float | None = None

    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """Rewards, less the squared distance from their mean."""
        self.learn(rewards if acted is None else rewards[acted])
        return self.charged(rewards)

    def learn(self, counted: Tensor) -> None:
        """Take in what recent steps paid."""
        if counted.numel():
            found = float(counted.mean())
            self.mean = found if self.mean is None else MEMORY * self.mean + (1 - MEMORY) * found

    def charged(self, rewards: Tensor) -> Tensor:
        """Rewards, whenever they were paid, less the squared distance from the mean of now.

        For a given mean this depends on the step alone, so that it also holds for steps of earlier
        policies, drawn from replay (mean-variance policy iteration: Zhang et al., 2021).
        """
        if self.mean is None:
            return rewards
        return rewards - self.weight * (rewards - self.mean) ** 2

    def state_dict(self) -> dict[str, Any]:
        """The mean reward."""
        return {"mean": self.mean}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.mean = None if state["mean"] is None else float(state["mean"])


class Drawdown(Risk):
    """The return of an episode, less `weight` times its deepest fall from a peak.

    A step pays for as much as it makes the deepest fall deeper, so that an episode pays for all
    of it. The path is the sum of rewards, and goes on from one rollout to the next.
    """

    def __init__(self, weight: float, num_envs: int) -> None:
        super().__init__(weight)
        self.path = torch.zeros(num_envs, dtype=torch.float64)
        self.peak = torch.zeros(num_envs, dtype=torch.float64)
        self.deepest = torch.zeros(num_envs, dtype=torch.float64)

    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """Rewards, less how much deeper the fall has become."""
        deepened = torch.empty_like(rewards)
        for step in range(len(rewards)):
            self.path = self.path + rewards[step]
            self.peak = torch.maximum(self.peak, self.path)
            deepest = torch.maximum(self.deepest, self.peak - self.path)
            deepened[step] = deepest - self.deepest
            goes_on = ~done[step]
            self.path, self.peak = self.path * goes_on, self.peak * goes_on
            self.deepest = deepest * goes_on
        return rewards - self.weight * deepened

    def state_dict(self) -> dict[str, Any]:
        """Where each path is."""
        return {"path": self.path, "peak": self.peak, "deepest": self.deepest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        for name, own in self.state_dict().items():
            own.copy_(state[name])


class Tail(Risk):
    """Between the mean return and the mean of the worst returns: (1 - weight) and weight of each.

    The worst are the share `level` of episodes, as recent ones show it. The mean of the worst is
    the highest value, over all thresholds, of the threshold less the mean shortfall from it over
    the level (Rockafellar and Uryasev, 2000), and the quantile is the best threshold. So the last
    step of an episode that ended below the quantile pays for its shortfall, and the gradient is
    that of the tail alone (Tamar et al., 2015), also where episodes are longer than rollouts.
    """

    def __init__(self, weight: float, level: float, num_envs: int) -> None:
        super().__init__(weight)
        self.level = level
        self.running = torch.zeros(num_envs, dtype=torch.float64)
        self.recent: deque[float] = deque(maxlen=RECENT)

    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """Rewards, less the shortfalls of the episodes that ended in the tail."""
        returns = torch.zeros_like(rewards)
        for step in range(len(rewards)):
            self.running = self.running + rewards[step]
            returns[step] = self.running
            self.running = self.running * ~done[step]
        self.recent.extend(returns[done].tolist())
        if not self.recent:
            return (1.0 - self.weight) * rewards
        threshold = float(np.quantile(np.array(self.recent), self.level))
        shortfall = (threshold - returns).clamp_min(0.0) * done
        return (1.0 - self.weight) * rewards - self.weight / self.level * shortfall

    def state_dict(self) -> dict[str, Any]:
        """The returns so far, and those of recent episodes."""
        return {"running": self.running, "recent": np.array(self.recent, np.float64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.running.copy_(state["running"])
        self.recent = deque(state["recent"].tolist(), maxlen=RECENT)
