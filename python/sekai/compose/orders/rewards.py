"""What working an order pays."""

from __future__ import annotations

import numpy as np

from sekai.compose.orders.order import OrderDir
from sekai.compose.orders.state import SAOEState
from sekai.compose.reward import Reward

__all__ = ["PAPenaltyReward", "PPOReward", "ShortfallReward"]

FILLED = 1e-6
"""What may be left of an order that counts as filled."""

GOOD_RATIO = 1.1


def _concentration(state: SAOEState) -> float:
    """The sum of squares of what the last step's ticks filled, as shares of the order."""
    last = state.last_step
    if last is None:
        return 0.0
    begin = int(np.searchsorted(state.ticks_for_order, last.datetime))
    shares = state.history.filled(begin) / state.order.amount
    return float(np.square(shares).sum())


class PAPenaltyReward(Reward[SAOEState]):
    """The step's price advantage over the order's TWAP, less a penalty for trading in lumps.

    Both count what was filled, so that the advantages add up to the order's. TWAP has prices in
    it that come later than the step: a reward to learn from, not to decide by.
    """

    def __init__(self, penalty: float = 100.0, scale: float = 1.0) -> None:
        """Weigh.

        Args:
            penalty: basis points for an order that is filled in one tick.
            scale: what the sum is multiplied by.
        """
        self.penalty, self.scale = penalty, scale

    def reward(self, simulator_state: SAOEState) -> float:
        """What the last step is worth."""
        last = simulator_state.last_step
        if last is None:
            return 0.0
        advantage = last.pa * last.deal_amount / simulator_state.order.amount
        penalty = self.penalty * _concentration(simulator_state)
        self.log("reward/pa", advantage * self.scale)
        self.log("reward/penalty", (0.0 - penalty) * self.scale)
        return (advantage - penalty) * self.scale


class ShortfallReward(Reward[SAOEState]):
    """How much better than at the first price the step traded, less costs, in basis points.

    The rewards of an order add up to its implementation shortfall, with the sign turned around.
    Nothing later than the step enters: this reward can be had live.
    """

    def __init__(self, penalty: float = 0.0, scale: float = 1.0) -> None:
        """Weigh.

        Args:
            penalty: basis points for an order that is filled in one tick.
            scale: what the sum is multiplied by.
        """
        self.penalty, self.scale = penalty, scale

    def reward(self, simulator_state: SAOEState) -> float:
        """What the last step is worth."""
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
    """The first price of the window that is known by now; 0 if none is."""
    prices = state.backtest_data.deal_price[state.first_tick : state.cur_tick]
    known = prices[(prices > 0) & np.isfinite(prices)]
    return float(known[0]) if len(known) else 0.0


class PPOReward(Reward[SAOEState]):
    """1, 0 or -1 at the end: how the mean price of fills compares with the day's mean price.

    Paid after step `max_step - 1` and whenever nothing is left; 0 before.
    """

    def __init__(self, max_step: int, start_time_index: int = 0, end_time_index: int = 239) -> None:
        """Choose the end and what to compare with.

        Args:
            max_step: how many steps an order has.
            start_time_index: the first tick of the day whose price is in the mean.
            end_time_index: the last one.
        """
        if max_step < 1 or not 0 <= start_time_index <= end_time_index:
            raise ValueError(
                f"max_step of at least 1 and an ascending pair of ticks were wanted, found "
                f"{max_step}, {start_time_index} and {end_time_index}"
            )
        self.max_step = max_step
        self.ticks = slice(start_time_index, end_time_index + 1)

    def reward(self, simulator_state: SAOEState) -> float:
        """What the state is worth."""
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
