"""Reward and auxiliary info of a composed environment."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from sekai.compose.component import Component, WrapperLink
from sekai.compose.simulator import StateType
from sekai.error import SekaiError, StateError

__all__ = ["AuxiliaryInfoCollector", "Reward", "RewardCombination", "RewardError"]


class RewardError(SekaiError, ValueError):
    """Reward that is not a finite number."""


class Reward(Component, ABC, Generic[StateType]):
    """Reward of a simulator state; implement `reward`."""

    def __call__(self, simulator_state: StateType) -> float:
        """Reward of the state, checked to be finite.

        Raises:
            RewardError: it is not a finite number.
        """
        return finite(self.reward(simulator_state), type(self).__name__)

    @abstractmethod
    def reward(self, simulator_state: StateType) -> float:
        """Reward of the state reached by the last action."""

    def log(self, name: str, value: Any) -> None:
        """Log a number of this step; ignored without an env."""
        env = self.env
        if env is not None:
            env.logger.add_scalar(name, value)


class RewardCombination(Reward[StateType]):
    """Weighted sum of rewards; each weighted term is logged under its name.

    Args:
        rewards: a reward and its weight for each name.
    """

    state_excludes: ClassVar[tuple[str, ...]] = ("rewards",)

    def __init__(self, rewards: Mapping[str, tuple[Reward[StateType], float]]) -> None:
        self.rewards = {name: _term(name, term) for name, term in rewards.items()}

    def reward(self, simulator_state: StateType) -> float:
        """Weighted sum."""
        total = 0.0
        for name, (reward, weight) in self.rewards.items():
            value = finite(reward.reward(simulator_state), name, type(reward).__name__)
            weighted = finite(weight * value, name, f"weight {weight} times {value}")
            self.log(name, weighted)
            total += weighted
        return total

    def state_dict(self) -> dict[str, Any]:
        """State of every term."""
        members = {name: reward.state_dict() for name, (reward, _) in self.rewards.items()}
        return {"own": super().state_dict(), "rewards": members}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore every term; a rejected state changes nothing."""
        if state_dict.keys() != {"own", "rewards"} or (
            state_dict["rewards"].keys() != self.rewards.keys()
        ):
            raise StateError(
                f"state must be of the rewards {list(self.rewards)}, got "
                f"{list(state_dict.get('rewards', state_dict))}"
            )
        before = self.state_dict()
        try:
            self._load(state_dict)
        except Exception:
            self._load(before)
            raise

    def _load(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(state_dict["own"])
        for name, (reward, _) in self.rewards.items():
            reward.load_state_dict(state_dict["rewards"][name])

    def _attach(self, link: WrapperLink | None) -> None:
        super()._attach(link)
        for reward, _ in self.rewards.values():
            reward._attach(link)


def finite(value: Any, name: str, source: str | None = None) -> float:
    """Convert a reward to a finite float, or raise an error that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise RewardError(
            f"reward {name!r} must be a number, got {type(value).__name__} {value!r}"
        ) from error
    if not math.isfinite(number):
        origin = "" if source is None else f" ({source})"
        raise RewardError(f"reward {name!r}{origin} must be finite, got {number}")
    return number


def _term(name: str, term: Any) -> tuple[Reward[Any], float]:
    try:
        reward, weight = term
        weight = float(weight)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name!r} must be a pair (reward, weight), got {term!r}") from error
    if not isinstance(reward, Reward):
        raise TypeError(f"{name!r} must be a Reward with its weight, got {reward!r}")
    if not math.isfinite(weight):
        raise ValueError(f"weight of {name!r} must be finite, got {weight}")
    return reward, weight


AuxInfoType = TypeVar("AuxInfoType")


class AuxiliaryInfoCollector(Component, ABC, Generic[StateType, AuxInfoType]):
    """Collects `info["aux_info"]`, after the reward of the step."""

    def __call__(self, simulator_state: StateType) -> AuxInfoType:
        """Result of `collect`."""
        return self.collect(simulator_state)

    @abstractmethod
    def collect(self, simulator_state: StateType) -> AuxInfoType:
        """Auxiliary info of the state."""
