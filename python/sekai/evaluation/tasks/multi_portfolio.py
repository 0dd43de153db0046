"""Holding several portfolios in one market, judged as one by the Sharpe ratio of them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.envs.portfolio_log import COST_KINDS, EpisodeLog
from sekai.evaluation.episode import Episode
from sekai.evaluation.tasks.portfolio import PortfolioTask, fills_of
from sekai.evaluation.tasks.task import Record
from sekai.evaluation.team_vec import TeamVec, told_of
from sekai.vector.vec_env import VecEnv

__all__ = ["MultiPortfolioTask"]

Floats = NDArray[np.float64]


class MultiPortfolioTask(PortfolioTask):
    """The account of a team is the sum of its members': what one gains from another is nothing."""

    def _data_of(self, vec: VecEnv) -> MarketData | None:
        found: MarketData | None = (self.arena.options or {}).get("data")
        return found

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """Find the data, and forget what was logged before."""
        batch = _batch_of(vec)
        if batch is not None:
            batch.keep_log(True)
        return super().begin(vec)

    def _take(self, vec: VecEnv) -> dict[int, EpisodeLog]:
        batch, logs = _batch_of(vec), dict[int, EpisodeLog]()
        if batch is None or self._data is None:
            return logs
        for log in EpisodeLog.take(batch):
            if len(log.steps):
                logs.setdefault(log.env, log)
        return logs

    def episode(self, record: Record, told: Any, log: EpisodeLog | None) -> Episode:
        """The account of all, step by step, and that of each."""
        agents = list(dict.fromkeys(key.partition("/")[0] for key in record.infos))
        infos = {agent: told_of(agent, record.infos) for agent in agents}
        members = {agent: _carried(own["equity"]) for agent, own in infos.items()}
        equity: Floats = np.sum(list(members.values()), axis=0)
        data = self._data
        # Who has left is told nothing of: NaN.
        rows = np.nanmax([own["time_index"] for own in infos.values()], axis=0).astype(np.int64)
        flows = {
            kind: np.nansum([own[kind] for own in infos.values()], axis=0)[1:]
            for kind in COST_KINDS
        }
        traded = np.nansum([own["turnover"][1:] * members[agent][:-1]
                            for agent, own in infos.items()], axis=0)  # fmt: skip
        return Episode(
            seed=record.seed,
            rewards=record.rewards,
            equity=equity,
            times=None if data is None else data.times[rows],
            assets=() if data is None else data.assets,
            actions=record.actions,
            weights=None if log is None else _weights(log, list(members.values())),
            prices=None if data is None else self.marks[rows],
            turnover=np.divide(traded, equity[:-1], out=np.zeros(len(traded)), where=traded > 0),
            costs=flows,
            fills=None if log is None else fills_of(log, rows),
            members=members,
        )


def _batch_of(vec: VecEnv) -> Any:
    """What writes down trades; None where envs are not native."""
    inner = vec.inner.vec if isinstance(vec, TeamVec) else vec
    return getattr(inner, "batch", None)


def _carried(equity: Floats) -> Floats:
    """Equity of an agent that keeps what it had when it left."""
    places = np.where(np.isnan(equity), 0, np.arange(len(equity)))
    found: Floats = equity[np.maximum.accumulate(places)]
    return found


def _weights(log: EpisodeLog, equity: list[Floats]) -> Floats:
    """What assets and cash are of all accounts together, after each step."""
    steps, total = len(equity[0]) - 1, np.sum(equity, axis=0)[1:, None]
    held = np.zeros((steps, len(log.assets) + 1))
    for place, own in enumerate(equity):
        weights = log.of_agent(place).steps.weights
        # An account that was closed is cash.
        held[: len(weights)] += weights * own[1 : len(weights) + 1, None]
        held[len(weights) :, -1] += own[len(weights) + 1 :]
    found: Floats = np.divide(held, total, out=np.zeros_like(held), where=total > 0)
    return found
