"""Rewards of order execution: price advantage, implementation shortfall and PPO reward."""

from __future__ import annotations

import numpy as np

from sekai.compose.orders.order import OrderDir
from sekai.compose.orders.state import SAOEState
from sekai.compose.reward import Reward

__all__ = ["PAPenaltyReward", "PPOReward", "ShortfallReward"]

FILLED = 1e-6
"""Amount left below which an order counts as filled."""

GOOD_RATIO = 1.1


def _concentration(state: SAOEState) -> float:
    """Sum of squared fills of the last step's ticks, as shares of the order."""
    last = state.last_step
    if last is None:
        return 0.0
    begin = int(np.searchsorted(state.ticks_for_order, last.datetime))
    shares = state.history.filled(begin) / state.order.amount
    return float(np.square(shares).sum())


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
        advantage = last.pa * last.deal_amount / simulator_state.order.amount
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
        begin = int(np.searchsorted(state.ticks_for_order, last.datetime))
        cost = float(state.history.matcher.fills(begin, state.history.worked)[3].sum())
        arrival = _arrival_price(state)
        gained = state.order.sign * (last.deal_amount * arrival - last.trade_value) - cost
        advantage = gained / (state.order.amount * arrival) * 1e4 if arrival > 0 else 0.0
        penalty = self.penalty * _concentration(state)
        self.log("reward/shortfall", advantage * self.scale)
        self.log("reward/penalty", (0.0 - penalty) * self.scale)
        return (advantage - penalty) * self.scale


def _arrival_price(state: SAOEState) -> float:
    """First known price of the window; 0 if there is none."""
    prices = state.backtest_data.deal_price[state.first_tick : state.cur_tick]
    known = prices[(prices > 0) & np.isfinite(prices)]
    return float(known[0]) if len(known) else 0.0


class PPOReward(Reward[SAOEState]):
    """Reward of 1, 0 or -1 at the end: mean fill price against the day's mean price.

    Given after step `max_step - 1` and when nothing is left; 0 before.

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
        ratio = self._ratio(simulator_state)
        if ratio < 1.0:
            return -1.0
        return 0.0 if ratio < GOOD_RATIO else 1.0

    def _ratio(self, state: SAOEState) -> float:
        market = _mean(state.backtest_data.deal_price[self.ticks])
        _, filled, value, _, price, _ = state.history.matcher.fills(0, state.history.worked)
        own = float(value.sum() / filled.sum()) if filled.sum() > 0 else _mean(price)
        if own <= 0 or market <= 0:
            return 1.0
        return own / market if state.order.direction is OrderDir.SELL else market / own


def _mean(prices: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    known = prices[(prices > 0) & np.isfinite(prices)]
    return float(known.mean()) if len(known) else 0.0
