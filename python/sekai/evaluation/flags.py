"""What a reader should know before believing the numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Comparison, Flag, PolicyOutcome
from sekai.evaluation.outcomes import MANY
from sekai.evaluation.shared_dates import counted_dates, is_one_history

__all__ = ["flags_of"]

Floats = NDArray[np.float64]

STILL = 1e-4
"""How far actions may be apart that are still the same."""

ALIKE = 0.9999
"""The correlation of returns from which on two policies are one."""

NEAR = 0.01
"""The mean distance of weights up to which they are the same."""

IMPLAUSIBLE = 0.35
"""A Sharpe ratio of one step that nobody has: more than 5 a year for days."""

BASELINES = 3
"""Fewer say little about what is easy."""


def flags_of(
    agent: PolicyOutcome,
    baselines: Sequence[PolicyOutcome],
    comparisons: Sequence[Comparison],
    bootstraps: bool,
) -> list[Flag]:
    """Everything that is found in what was played."""
    found = [
        _constant_action(agent), _no_trades(agent), _ruined(agent), _losing(agent),
        _turnover_blow_up(agent), _implausible(agent), _few_seeds(agent, bootstraps),
        _overlapping(agent), _few_baselines(baselines), _unequal(agent, baselines),
        _not_ahead(comparisons), *(_clone(agent, other) for other in baselines),
    ]  # fmt: skip
    return [flag for flag in found if flag is not None]


def _constant_action(agent: PolicyOutcome) -> Flag | None:
    actions = [one.actions for one in agent.episodes if one.actions.size]
    if not actions or sum(map(len, actions)) < 2:
        return None
    joined = np.concatenate(actions)
    scale = np.maximum(1.0, np.abs(joined).max(axis=0))
    if (np.ptp(joined, axis=0) > STILL * scale).any():
        return None
    return _warning(
        "constant_action",
        f"the same action in all {len(joined)} steps: what it sees makes no difference to it",
    )


def _no_trades(agent: PolicyOutcome) -> Flag | None:
    traded = [one.turnover for one in agent.episodes if one.turnover is not None]
    if not traded or any(one.any() for one in traded):
        return None
    return _warning("no_trades", f"nothing was traded in any of {len(traded)} episodes")


def _ruined(agent: PolicyOutcome) -> Flag | None:
    accounts = [one for one in agent.episodes if len(one.equity)]
    count = sum(bool((one.equity <= 0).any()) for one in accounts)
    if not count:
        return None
    return _warning("ruined", f"{count} of {len(accounts)} episodes ended in ruin")


def _losing(agent: PolicyOutcome) -> Flag | None:
    gains = _gains(agent.episodes)
    if gains.size == 0 or gains.mean() >= 0:
        return None
    return _warning(
        "losing", f"it loses money: {gains.mean():,.4g} in an episode after costs, on average"
    )


def _turnover_blow_up(agent: PolicyOutcome) -> Flag | None:
    gains = _gains(agent.episodes)
    costs = np.array([one.total_cost for one in agent.episodes if len(one.equity)])
    if gains.size == 0 or costs.sum() <= 0 or gains.sum() > 0:
        return None
    gross = float((gains + costs).sum())
    if gross <= 0:
        return None
    return _warning(
        "turnover_blow_up",
        f"costs of {costs.sum():,.4g} eat more than the {gross:,.4g} that was gained before them",
    )


def _implausible(agent: PolicyOutcome) -> Flag | None:
    accounts = [one.returns for one in agent.episodes if len(one.equity) > 2]
    if not accounts:
        return None
    returns = np.concatenate(accounts)
    spread = returns.std()
    if len(returns) < 30 or not spread > 0 or returns.mean() / spread < IMPLAUSIBLE:
        return None
    return _warning(
        "implausible",
        f"a Sharpe ratio of {returns.mean() / spread:.2f} a step is more than anybody has: look "
        f"for data that was memorised, or seen before its time",
    )


def _few_seeds(agent: PolicyOutcome, bootstraps: bool) -> Flag | None:
    count = len(agent.episodes)
    if count >= MANY:
        return None
    how = "one market" if bootstraps and count == 1 else f"{count} seeds"
    return _warning("few_seeds", f"{how} only: {MANY} seeds or more are needed to say much")


def _overlapping(agent: PolicyOutcome) -> Flag | None:
    if not is_one_history(agent.episodes):
        return None
    total, distinct = counted_dates(agent.episodes)
    return _warning(
        "overlapping_episodes",
        f"{len(agent.episodes)} episodes share their dates: of {total:,} rows {distinct:,} are "
        f"different, and they count as one history of so many",
    )


def _few_baselines(baselines: Sequence[PolicyOutcome]) -> Flag | None:
    if len(baselines) >= BASELINES:
        return None
    return _warning(
        "few_baselines", f"{len(baselines)} baselines, and at least {BASELINES} are usual"
    )


def _unequal(agent: PolicyOutcome, baselines: Sequence[PolicyOutcome]) -> Flag | None:
    for other in baselines:
        for mine, theirs in zip(agent.episodes, other.episodes, strict=True):
            if not _same_start(mine, theirs):
                return Flag(
                    name="unequal_episodes",
                    level="error",
                    message=f"on seed {mine.seed} the agent and {other.name} did not play the same "
                    f"episode: they began at {_start(mine)} and {_start(theirs)}",
                )
    return None


def _same_start(one: Episode, other: Episode) -> bool:
    return _start(one) == _start(other)


def _start(episode: Episode) -> tuple[str, float]:
    first = "" if episode.times is None else str(episode.times[0])
    return first, float(episode.equity[0]) if len(episode.equity) else 0.0


def _not_ahead(comparisons: Sequence[Comparison]) -> Flag | None:
    behind = [one.baseline for one in comparisons if one.standing != "ahead"]
    if not behind:
        return None
    return _warning(
        "not_ahead", f"it is not surely better than {', '.join(behind)} by {comparisons[0].metric}"
    )


def _clone(agent: PolicyOutcome, other: PolicyOutcome) -> Flag | None:
    pairs = list(zip(agent.episodes, other.episodes, strict=True))
    if not all(len(one.rewards) == len(two.rewards) for one, two in pairs):
        return None
    if not (_same_actions(pairs) or _same_account(pairs)):
        return None
    return _warning("clone", f"it does what {other.name} does, which needs no learning")


def _same_actions(pairs: Sequence[tuple[Episode, Episode]]) -> bool:
    return all(
        one.actions.size > 0
        and one.actions.shape == two.actions.shape
        and np.allclose(one.actions, two.actions, rtol=0.0, atol=STILL)
        for one, two in pairs
    )


def _same_account(pairs: Sequence[tuple[Episode, Episode]]) -> bool:
    if not all(len(one.equity) > 2 and len(two.equity) > 2 for one, two in pairs):
        return False
    mine = np.concatenate([one.returns for one, _ in pairs])
    theirs = np.concatenate([two.returns for _, two in pairs])
    if not (mine.std() > 0 and theirs.std() > 0):
        return bool(np.array_equal(mine, theirs))
    if np.corrcoef(mine, theirs)[0, 1] < ALIKE:
        return False
    gaps = [
        np.abs(one.weights - two.weights).mean()
        for one, two in pairs
        if one.weights is not None and two.weights is not None
    ]
    return not gaps or float(np.mean(gaps)) * len(pairs[0][0].assets or (1,)) < NEAR * 2


def _gains(episodes: Sequence[Episode]) -> Floats:
    return np.array([one.equity[-1] - one.equity[0] for one in episodes if len(one.equity)])


def _warning(name: str, message: str) -> Flag:
    return Flag(name=name, level="warning", message=message)
