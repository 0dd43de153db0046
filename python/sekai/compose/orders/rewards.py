"""Rewards of order execution: price advantage, implementation shortfall and PPO reward."""

from __future__ import annotations

import numpy as np

from sekai.compose.orders.state import SAOEMetrics, SAOEState
from sekai.compose.reward import Reward

__all__ = ["PAPenaltyReward", "PPOReward", "ShortfallReward"]

FILLED = 1e-6
"""Amount left below which an order counts as filled."""


def _concentration(state: SAOEState) -> float:
    """Sum of squared fills of the last step's ticks, as shares of the order."""
    last = state.last_step
    if last is None:
        return 0.0
    return state.history.matcher.concentration(*_last_ticks(state, last))


def _last_ticks(state: SAOEState, last: SAOEMetrics) -> tuple[int, int]:
    """Range of the last step's ticks in the window."""
    return int(np.searchsorted(state.ticks_for_order, last.datetime)), state.history.worked


class PAPenaltyReward(Reward[SAOEState]):
    """Reward: the step's price advantage over the order's TWAP, less a concentration penalty.

    Both use filled amounts, so that the advantages sum to the order's. TWAP includes later
    prices: use this reward for training only.

    Args:
        penalty: basis points for an order that is filled in one tick.
        scale: factor of the reward.
    """

    def __init__(self, penalty: float = 100.0, scale: float = 1.0) -> None:
        self.penalty, self.scale = penalty, scale

    def reward(self, simulator_state: SAOEState) -> float:
        """Reward of the last step."""
        last = simulator_state.last_step
        if last is None:
            return 0.0
        matcher = simulator_state.history.matcher
        advantage = matcher.advantage(*_last_ticks(simulator_state, last))
        penalty = self.penalty * _concentration(simulator_state)
        self.log("reward/pa", advantage * self.scale)
        self.log("reward/penalty", (0.0 - penalty) * self.scale)
        return (advantage - penalty) * self.scale


class ShortfallReward(Reward[SAOEState]):
    """Reward: negative implementation shortfall of the step with costs, in basis points.

    The rewards of an order sum to its implementation shortfall with the sign changed. No later
    price enters, so that the reward is known live.

    Args:
        penalty: basis points for an order that is filled in one tick.
        scale: factor of the reward.
    """

    def __init__(self, penalty: float = 0.0, scale: float = 1.0) -> None:
        self.penalty, self.scale = penalty, scale

    def reward(self, simulator_state: SAOEState) -> float:
        """Reward of the last step."""
        state, last = simulator_state, simulator_state.last_step
        if last is None:
            return 0.0
        advantage = state.history.matcher.shortfall(*_last_ticks(state, last))
        penalty = self.penalty * _concentration(state)
        self.log("reward/shortfall", advantage * self.scale)
        self.log("reward/penalty", (0.0 - penalty) * self.scale)
        return (advantage - penalty) * self.scale


class PPOReward(Reward[SAOEState]):
    """Reward of 1, 0 or -1 at the end: mean fill price against the day's mean price.

    The mean is over all days of an order over several days. Given after step `max_step - 1` and
    when nothing is left; 0 before.

    Args:
        max_step: steps of an order.
        start_time_index: first tick of the day in the mean price.
        end_time_index: last tick of the day in the mean price.
    """

    def __init__(self, max_step: int, start_time_index: int = 0, end_time_index: int = 239) -> None:
        if max_step < 1 or not 0 <= start_time_index <= end_time_index:
            raise ValueError(
                f"max_step must be at least 1 and the ticks ascending, got {max_step}, "
                f"{start_time_index} and {end_time_index}"
            )
        self.max_step = max_step
        self.ticks = slice(start_time_index, end_time_index + 1)

    def reward(self, simulator_state: SAOEState) -> float:
        """Reward of the state."""
        is_last = simulator_state.cur_step == self.max_step - 1
        if not is_last and simulator_state.position >= FILLED:
            return 0.0
        history, ticks = simulator_state.history, self.ticks
        return history.matcher.price_score(history.worked, ticks.start, ticks.stop)
