"""How much of an agent's Sharpe ratio is luck, counted with all trials on the same data."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Flag, Honesty
from sekai.evaluation.metrics import sharpe
from sekai.evaluation.shared_dates import returns_by_date
from sekai.evaluation.statistics import TrialLedger, honesty_of

__all__ = ["Ledger", "judged_honesty", "luck_flags"]

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
    returns = returns_by_date(episodes)
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
        f"the chance that its Sharpe ratio is more than luck{after} is {honesty.deflated:.1%}, "
        f"below {SURE:.0%}"
    )
    return [Flag(name="may_be_luck", level="warning", message=message)]
