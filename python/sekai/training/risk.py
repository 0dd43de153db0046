"""Risk-sensitive objectives: volatility, drawdown and CVaR penalties on rewards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

__all__ = ["Risk", "RiskKind", "VolatilityRisk", "make_risk"]

RiskKind = Literal["none", "volatility", "drawdown", "cvar"]
"""Risk measure that is weighed against the mean return."""

KINDS = ("none", "volatility", "drawdown", "cvar")

RECENT = 1_000
"""Episodes from which the quantile of returns is estimated."""

MEMORY = 0.9
"""Decay of the running mean reward."""


class Risk(ABC):
    """Risk penalty: changes rewards so that their mean return is the risk-sensitive objective."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    @abstractmethod
    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """Rewards of some steps of all envs, less the risk penalty.

        Args:
            rewards: times by envs; zero where nobody acted.
            done: where an episode ended.
            acted: steps that count; None for all.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """State for checkpoints."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""


def make_risk(kind: RiskKind, weight: float, level: float, num_envs: int) -> Risk | None:
    """Make a risk penalty by name; None for the mean return alone."""
    if kind == "volatility":
        return VolatilityRisk(weight)
    if kind == "drawdown":
        return DrawdownRisk(weight, num_envs)
    return CVaRRisk(weight, level, num_envs) if kind == "cvar" else None


class VolatilityRisk(Risk):
    """Mean reward less `weight` times the variance of rewards (Bisi et al., 2020).

    Each reward is reduced by its squared distance from the running mean, whose own gradient is
    zero.
    """

    def __init__(self, weight: float) -> None:
        super().__init__(weight)
        self.mean: float | None = None

    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """Rewards less the weighted squared distance from their mean."""
        self.update(rewards if acted is None else rewards[acted])
        return self.penalized(rewards)

    def update(self, rewards_counted: Tensor) -> None:
        """Update the running mean."""
        if rewards_counted.numel():
            recent = float(rewards_counted.mean())
            self.mean = recent if self.mean is None else MEMORY * self.mean + (1 - MEMORY) * recent

    def penalized(self, rewards: Tensor) -> Tensor:
        """Rewards of any time, less the weighted squared distance from the current mean.

        Given the mean it depends on one step only, so that it is valid for transitions of a replay
        buffer (mean-variance policy iteration: Zhang et al., 2021).
        """
        if self.mean is None:
            return rewards
        return rewards - self.weight * (rewards - self.mean) ** 2

    def state_dict(self) -> dict[str, Any]:
        """State for checkpoints."""
        return {"mean": self.mean}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.mean = None if state["mean"] is None else float(state["mean"])


class DrawdownRisk(Risk):
    """Return of an episode less `weight` times its maximum drawdown.

    Each reward is reduced by the increase of the maximum drawdown in its step. The path is the sum
    of rewards, and continues over rollouts.
    """

    def __init__(self, weight: float, num_envs: int) -> None:
        super().__init__(weight)
        self.path = torch.zeros(num_envs, dtype=torch.float64)
        self.peak = torch.zeros(num_envs, dtype=torch.float64)
        self.deepest = torch.zeros(num_envs, dtype=torch.float64)

    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """Rewards less the weighted increase of the maximum drawdown."""
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
        """State for checkpoints."""
        return {"path": self.path, "peak": self.peak, "deepest": self.deepest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        for name, own in self.state_dict().items():
            own.copy_(state[name])


class CVaRRisk(Risk):
    """Weighted sum of mean return and CVaR: (1 - weight) and weight of each.

    CVaR is the mean of the worst share `level` of returns: the maximum over thresholds of the
    threshold less the mean shortfall divided by the level (Rockafellar and Uryasev, 2000), reached
    at the quantile, which is estimated from recent episodes. The last reward of an episode below
    the quantile is reduced by the shortfall, which gives the gradient of the tail (Tamar et al.,
    2015), also for episodes longer than rollouts.
    """

    def __init__(self, weight: float, level: float, num_envs: int) -> None:
        super().__init__(weight)
        self.level = level
        self.running = torch.zeros(num_envs, dtype=torch.float64)
        self.recent: deque[float] = deque(maxlen=RECENT)

    def shaped(self, rewards: Tensor, done: Tensor, acted: Tensor | None = None) -> Tensor:
        """Rewards less the shortfalls of episodes in the tail."""
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
        """State for checkpoints."""
        return {"running": self.running, "recent": np.array(self.recent, np.float64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.running.copy_(state["running"])
        self.recent = deque(state["recent"].tolist(), maxlen=RECENT)
