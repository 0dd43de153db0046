"""What is left of an agent where trading costs more, or takes longer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sekai.evaluation.evaluation import Sensitivity
from sekai.evaluation.outcomes import Measure
from sekai.evaluation.players import Player
from sekai.evaluation.playing import play
from sekai.evaluation.tasks.task import Task

__all__ = ["COST_MULTIPLES", "DELAYS", "break_even", "sensitivity_of"]

COST_MULTIPLES = (0.0, 0.5, 1.0, 2.0, 4.0)
DELAYS = (0, 1, 2)
Lead = Callable[[float], float]

REFINEMENTS = 2
"""How often a break-even is looked at more closely."""


def sensitivity_of(
    players: Mapping[str, Player],
    measured: Mapping[str, float],
    task: Task,
    measure: Measure,
    seeds: Sequence[int],
) -> Sensitivity:
    """The headline metric of all policies, the agent first, with other costs and delays.

    Args:
        players: who plays.
        measured: the headline metric of each as costs and delays are.
        task: what is played.
        measure: how episodes become numbers.
        seeds: the same as before.
    """
    sweep = _Sweep(players, measured, task, measure, seeds)
    multiples = list(COST_MULTIPLES) if task.with_costs(2.0) is not None else []
    by_cost = {name: [sweep.at_cost(name, one) for one in multiples] for name in players}
    agent, *baselines = players
    sign = 1.0 if task.higher_is_better else -1.0

    def lead(baseline: str, multiple: float) -> float:
        return sign * (sweep.at_cost(agent, multiple) - sweep.at_cost(baseline, multiple))

    return Sensitivity(
        metric=task.headline,
        cost_multiples=multiples,
        by_cost=by_cost if multiples else {},
        delays=list(DELAYS),
        by_delay={name: [sweep.at_delay(name, one) for one in DELAYS] for name in players},
        break_even={name: break_even(partial(lead, name), multiples) for name in baselines}
        if multiples
        else {},
    )


def break_even(lead: Lead, multiples: Sequence[float]) -> float:
    """The multiple of costs at which a lead is gone.

    Args:
        lead: how far the agent is ahead at a multiple of the costs.
        multiples: those that are looked at first, ascending.

    Returns:
        Infinity where the agent is still ahead at the last, 0 where it never is, and NaN where
        that can not be said.
    """
    leads = [lead(one) for one in multiples]
    if any(math.isnan(one) for one in leads):
        return math.nan
    if leads[-1] > 0:
        return math.inf
    ahead = [place for place, one in enumerate(leads) if one > 0]
    if not ahead:
        return 0.0
    low, high = ahead[-1], ahead[-1] + 1
    return _crossing(lead, (multiples[low], leads[low]), (multiples[high], leads[high]))


def _crossing(lead: Lead, low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where a straight line crosses 0, drawn again through what is found there."""
    for _ in range(REFINEMENTS):
        middle = _between(low, high)
        found = lead(middle)
        if found == 0:
            return middle
        low, high = ((middle, found), high) if found > 0 else (low, (middle, found))
    return _between(low, high)


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    return low[0] + (high[0] - low[0]) * low[1] / (low[1] - high[1])


class _Sweep:
    """Plays every setting once."""

    def __init__(
        self,
        players: Mapping[str, Player],
        measured: Mapping[str, float],
        task: Task,
        measure: Measure,
        seeds: Sequence[int],
    ) -> None:
        self.players, self.task, self.measure, self.seeds = players, task, measure, seeds
        self._found = {(name, 1.0, 0): value for name, value in measured.items()}

    def at_cost(self, name: str, multiple: float) -> float:
        return self._at(name, multiple, 0)

    def at_delay(self, name: str, delay: int) -> float:
        return self._at(name, 1.0, delay)

    def _at(self, name: str, multiple: float, delay: int) -> float:
        key = (name, multiple, delay)
        if key not in self._found:
            usual = self.task.prepared(self.task.arena)
            arena = usual if multiple == 1.0 else self.task.with_costs(multiple)
            assert arena is not None, "costs are changed only where they can be"
            episodes = play(self.players[name], arena, self.task, self.seeds, delay=delay)
            self._found[key] = self.measure.headline(episodes)
        return self._found[key]
