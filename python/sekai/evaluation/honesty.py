"""How much of an agent's Sharpe ratio is luck, counted with all trials on the same data."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Flag, Honesty
from sekai.evaluation.metrics import sharpe
from sekai.evaluation.statistics import TrialLedger, honesty_of

__all__ = ["Ledger", "judged_honesty", "luck_flags"]

Floats = NDArray[np.float64]
Ledger = TrialLedger | str | os.PathLike[str]

SURE = 0.95


def judged_honesty(
    episodes: Sequence[Episode], data: str, name: str, model: str, ledger: Ledger | None
) -> Honesty | None:
    """What is left of a ratio; None where there is no account.

    Args:
        episodes: of the agent.
        data: what identifies the data.
        name: what the agent is called.
        model: what identifies it, "" where nothing does.
        ledger: the trials so far, which this one is added to; None counts this one alone.
    """
    returns = _pooled(episodes)
    if len(returns) < 3:
        return None
    if ledger is None:
        return honesty_of(returns, 1)
    book = ledger if isinstance(ledger, TrialLedger) else TrialLedger(ledger)
    book.record(data, name, sharpe(returns, 1.0), model)
    return honesty_of(returns, [trial.sharpe for trial in book.trials(data)])


def luck_flags(honesty: Honesty | None) -> list[Flag]:
    """A warning where a gain may be luck."""
    if honesty is None or not honesty.sharpe > 0 or not honesty.deflated < SURE:
        return []
    after = f" after {honesty.trials} trials" if honesty.trials > 1 else ""
    message = (
        f"the chance that its Sharpe ratio is more than luck{after} is {honesty.deflated:.0%}, "
        f"below {SURE:.0%}"
    )
    return [Flag(name="may_be_luck", level="warning", message=message)]


def _pooled(episodes: Sequence[Episode]) -> Floats:
    """Returns of all episodes; of those on the same date the mean, since they are not two."""
    accounts = [one for one in episodes if len(one.equity) > 1]
    if not accounts:
        return np.zeros(0)
    returns = np.concatenate([one.returns for one in accounts])
    if any(one.times is None for one in accounts):
        return returns
    times = np.concatenate([one.times[1:] for one in accounts if one.times is not None])
    _, places = np.unique(times, return_inverse=True)
    found: Floats = np.bincount(places, returns) / np.bincount(places)
    return found
