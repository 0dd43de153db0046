"""What a policy is paid."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic

from sekai.compose.attached import Component, WrapperLink
from sekai.compose.simulator import StateType
from sekai.error import SekaiError, StateError

__all__ = ["Reward", "RewardCombination", "RewardError"]


class RewardError(SekaiError, ValueError):
    """A reward is not a finite number."""


class Reward(Component, ABC, Generic[StateType]):
    """Pays for a state: write `reward`."""

    def __call__(self, simulator_state: StateType) -> float:
        """What `reward` pays.

        Raises:
            RewardError: it is not a finite number.
        """
        return finite(self.reward(simulator_state), type(self).__name__)

    @abstractmethod
    def reward(self, simulator_state: StateType) -> float:
        """What the state is worth; it has been reached by the last action."""

    def log(self, name: str, value: Any) -> None:
        """Tell a number of this step; without an env there is nobody to tell it to."""
        env = self.env
        if env is not None:
            env.logger.add_scalar(name, value)


class RewardCombination(Reward[StateType]):
    """The sum of several rewards, each times its weight and logged, weighted, under its name."""

    state_excludes: ClassVar[tuple[str, ...]] = ("rewards",)

    def __init__(self, rewards: Mapping[str, tuple[Reward[StateType], float]]) -> None:
        """Combine rewards.

        Args:
            rewards: for each name a reward and its weight.
        """
        self.rewards = {name: _term(name, term) for name, term in rewards.items()}

    def reward(self, simulator_state: StateType) -> float:
        """The weighted sum."""
        total = 0.0
        for name, (reward, weight) in self.rewards.items():
            value = finite(reward.reward(simulator_state), name, type(reward).__name__)
            weighted = finite(weight * value, name, f"weight {weight} times {value}")
            self.log(name, weighted)
            total += weighted
        return total

    def state_dict(self) -> dict[str, Any]:
        """The state of every member."""
        members = {name: reward.state_dict() for name, (reward, _) in self.rewards.items()}
        return {"own": super().state_dict(), "rewards": members}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Give every member its state; a refused state changes nothing."""
        if state_dict.keys() != {"own", "rewards"} or (
            state_dict["rewards"].keys() != self.rewards.keys()
        ):
            raise StateError(
                f"a state of the rewards {list(self.rewards)} was wanted, found "
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
    """The value as a float, or an error that names the reward it is of."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise RewardError(
            f"the reward {name!r} must be a number, was {type(value).__name__} {value!r}"
        ) from error
    if not math.isfinite(number):
        origin = "" if source is None else f" ({source})"
        raise RewardError(f"the reward {name!r}{origin} must be finite, was {number}")
    return number


def _term(name: str, term: Any) -> tuple[Reward[Any], float]:
    try:
        reward, weight = term
        weight = float(weight)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name!r} must be a pair (reward, weight), was {term!r}") from error
    if not isinstance(reward, Reward):
        raise TypeError(f"{name!r} must be a Reward with its weight, was {reward!r}")
    if not math.isfinite(weight):
        raise ValueError(f"the weight of {name!r} must be finite, was {weight}")
    return reward, weight
