"""What portfolios are like at one moment, read from a native batch without moving it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch
from sekai.data import MarketData
from sekai.envs.portfolio_log import LEAD
from sekai.error import ResetRequired

__all__ = ["Holdings", "continued", "holdings", "portfolio_scene"]

Floats = NDArray[np.float64]
Log = dict[str, Any]

COLUMNS = ("row", "agent", "asset", "units", "price", "rate", "steps")
"""What of a log goes on when the next part of it is joined to it."""


@dataclass(frozen=True, slots=True, eq=False)
class Holdings:
    """What all agents of one env have, and when that is."""

    seed: int
    episode: int
    row: int
    cash: Floats
    """Of each agent."""
    units: Floats
    """Agents by assets."""


def holdings(reader: PortfolioBatch, state: Mapping[str, Any], env: int) -> Holdings:
    """What agents have in one env of a batch whose state is `state`.

    A batch that keeps a log opens one with what is held when a state is loaded. `reader` is a
    batch like that of the state, or that batch itself; afterwards it keeps no log.
    """
    reader.waits(env)  # refuses an env that is not there
    reader.keep_log(True)
    try:
        reader.load_state_dict(state)
        log = {log["env"]: log for log in reader.take_log()}[env]
    finally:
        reader.keep_log(False)
    row, cash = int(log["opening_row"]), log["opening_cash"]
    # Whoever is in an episode has begun with cash.
    if row == 0 and not cash.any() and not log["opening_units"].any():
        raise ResetRequired(f"env {env} is in no episode: call reset() to begin one")
    units = log["opening_units"].reshape(len(cash), -1)
    return Holdings(log["seed"], log["episode"], row, cash, units)


def portfolio_scene(
    held: Holdings, data: MarketData, agents: Mapping[str, float], benchmark: Floats
) -> dict[str, Any]:
    """What a picture of portfolios is drawn from.

    Args:
        held: what the agents have.
        data: all rows that are known.
        agents: what each agent began with, by name.
        benchmark: the level of the benchmark in each row.
    """
    values = held.units * _marks(data, held.row, held.units)
    equity = held.cash + values.sum(axis=1)
    parts = np.column_stack([values, held.cash])
    weights = np.divide(parts, equity[:, None], out=np.zeros_like(parts), where=equity[:, None] > 0)
    return {
        "seed": held.seed,
        "episode": held.episode,
        "tick": held.row,
        "time": data.times[held.row],
        "agents": tuple(agents),
        "assets": data.assets,
        "beginnings": np.array(list(agents.values())),
        "equities": equity,
        "weights": weights.astype(np.float32),
        "benchmark": float(benchmark[held.row]),
    }


def continued(before: Sequence[Log], after: Sequence[Log]) -> list[Log]:
    """Logs of batches that were taken one after the other, as if they had been taken at once.

    What was logged of an episode in two parts is one log again.
    """
    logs: list[Log] = []
    for env in sorted({int(log["env"]) for log in [*before, *after]}):
        own = [log for log in before if log["env"] == env]
        later = [log for log in after if log["env"] == env]
        if own and later and _goes_on(own[-1], later[0]):
            own[-1] = _joined(own[-1], later.pop(0))
        logs += own + later
    return logs


def _goes_on(first: Log, second: Log) -> bool:
    """Whether `second` begins where `first` has ended."""
    return _end(first) == (*_key(second), int(second["opening_row"]))


def _end(log: Log) -> tuple[int, int, int, int]:
    # The row follows the agent, its reward and the seconds.
    steps = log["steps"]
    return (*_key(log), int(steps[-1, LEAD] if len(steps) else log["opening_row"]))


def _key(log: Log) -> tuple[int, int, int]:
    return int(log["env"]), int(log["seed"]), int(log["episode"])


def _joined(first: Log, second: Log) -> Log:
    return first | {name: np.concatenate([first[name], second[name]]) for name in COLUMNS}


def _marks(data: MarketData, row: int, units: Floats) -> Floats:
    """The last price of each asset that is held; 0 of others, which count for nothing."""
    closes = data.field("close")
    marks = np.where(data.quoted[row], closes[row], 0.0)
    for asset in np.flatnonzero(~data.quoted[row] & (units != 0).any(axis=0)):
        quoted = np.flatnonzero(data.quoted[:row, asset])
        marks[asset] = closes[quoted[-1], asset]
    return marks
