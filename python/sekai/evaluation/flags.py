"""Warning flags: automatic remarks on suspicious results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import (
    BaselineComparison,
    DeflatedSharpe,
    Episode,
    Flag,
    PolicyOutcome,
)
from sekai.evaluation.scorer import MIN_SEEDS, count_dates, is_overlapping
from sekai.market import Compromise

__all__ = ["changed_settings_flags", "deflated_sharpe_flags", "flags_of"]

Floats = NDArray[np.float64]

ACTION_TOLERANCE = 1e-4
"""Largest difference of actions that count as equal."""

CLONE_CORRELATION = 0.9999
"""Correlation of returns from which two policies may be clones."""

WEIGHT_TOLERANCE = 0.01
"""Mean difference of weights up to which two policies may be clones."""

IMPLAUSIBLE_SHARPE = 0.35
"""Implausible Sharpe ratio per step: more than 5 a year for daily returns."""

MIN_BASELINES = 3

MIN_DEFLATED_SHARPE = 0.95


def flags_of(
    agent: PolicyOutcome,
    baselines: Sequence[PolicyOutcome],
    comparisons: Sequence[BaselineComparison],
    bootstraps: bool,
) -> list[Flag]:
    """Flags about the episodes of the agent and its baselines."""
    flags = [
        _constant_action(agent),
        _no_trades(agent),
        _ruined(agent),
        _losing(agent),
        _turnover_blow_up(agent),
        _constraints_relaxed(agent),
        _exceeds_volume(agent),
        _implausible(agent),
        _few_seeds(agent, bootstraps),
        _overlapping(agent),
        _few_baselines(baselines),
        _unequal(agent, baselines),
        _not_ahead(comparisons),
        *(_clone(agent, baseline) for baseline in baselines),
    ]
    return [flag for flag in flags if flag is not None]


def deflated_sharpe_flags(deflated_sharpe: DeflatedSharpe | None) -> list[Flag]:
    """Flag a positive Sharpe ratio that is not significant after correction for trials."""
    if deflated_sharpe is None or not deflated_sharpe.sharpe > 0:
        return []
    if not deflated_sharpe.deflated < MIN_DEFLATED_SHARPE:
        return []
    after = f" after {deflated_sharpe.trials} trials" if deflated_sharpe.trials > 1 else ""
    message = (
        f"deflated Sharpe ratio{after} is {deflated_sharpe.deflated:.1%}, below "
        f"{MIN_DEFLATED_SHARPE:.0%}: the result may be due to luck"
    )
    return [_warning("low_deflated_sharpe", message)]


def changed_settings_flags(changes: Sequence[str]) -> list[Flag]:
    """Flag of an evaluation with settings that differ from those of the run.

    Args:
        changes: the settings, as `section.key=value`.
    """
    if not changes:
        return []
    message = f"evaluated with other settings than the run: {', '.join(changes)}"
    return [_warning("changed_settings", message)]


def _constant_action(agent: PolicyOutcome) -> Flag | None:
    actions = [episode.actions for episode in agent.episodes if episode.actions.size]
    if not actions or sum(map(len, actions)) < 2:
        return None
    joined = np.concatenate(actions)
    scale = np.maximum(1.0, np.abs(joined).max(axis=0))
    if (np.ptp(joined, axis=0) > ACTION_TOLERANCE * scale).any():
        return None
    return _warning(
        "constant_action",
        f"same action in all {len(joined)} steps: the policy ignores its observations",
    )


def _no_trades(agent: PolicyOutcome) -> Flag | None:
    turnovers = [episode.turnover for episode in agent.episodes if episode.turnover is not None]
    if not turnovers or any(turnover.any() for turnover in turnovers):
        return None
    return _warning("no_trades", f"no trade in any of {len(turnovers)} episodes")


def _ruined(agent: PolicyOutcome) -> Flag | None:
    accounts = [episode for episode in agent.episodes if len(episode.equity)]
    count = sum(bool((episode.equity <= 0).any()) for episode in accounts)
    if not count:
        return None
    return _warning("ruined", f"{count} of {len(accounts)} episodes ended in ruin")


def _losing(agent: PolicyOutcome) -> Flag | None:
    gains = _gains(agent.episodes)
    if gains.size == 0 or gains.mean() >= 0:
        return None
    return _warning("losing", f"mean profit per episode after costs is {gains.mean():,.4g}")


def _turnover_blow_up(agent: PolicyOutcome) -> Flag | None:
    gains = _gains(agent.episodes)
    costs = np.array([episode.total_cost for episode in agent.episodes if len(episode.equity)])
    if gains.size == 0 or costs.sum() <= 0 or gains.sum() > 0:
        return None
    gross = float((gains + costs).sum())
    if gross <= 0:
        return None
    return _warning(
        "turnover_blow_up", f"costs of {costs.sum():,.4g} exceed the gross profit of {gross:,.4g}"
    )


def _constraints_relaxed(agent: PolicyOutcome) -> Flag | None:
    decisions = [e.compromise for e in agent.episodes if e.compromise is not None]
    bits = np.concatenate([np.zeros(0, np.int64), *decisions])
    if not bits.any():
        return None
    counts = {kind: int(np.count_nonzero(bits & kind)) for kind in Compromise}
    kinds = ", ".join(f"{kind.name} {count:,}" for kind, count in counts.items() if count)
    return _warning(
        "constraints_relaxed",
        f"{np.count_nonzero(bits):,} of {len(bits):,} decisions could not meet all constraints, "
        f"which were relaxed ({kinds.lower()}), see sekai.market.Compromise",
    )


def _exceeds_volume(agent: PolicyOutcome) -> Flag | None:
    shares = [episode.outcome.get("participation", 0.0) for episode in agent.episodes]
    count = sum(share > 1.0 for share in shares)
    if not count:
        return None
    return _warning(
        "exceeds_volume",
        f"{count} of {len(shares)} episodes fill more than the market traded, up to "
        f"{max(shares):.1f} times; cap fills by vol_threshold, or trade smaller orders",
    )


def _implausible(agent: PolicyOutcome) -> Flag | None:
    accounts = [episode.returns for episode in agent.episodes if len(episode.equity) > 2]
    if not accounts:
        return None
    returns = np.concatenate(accounts)
    deviation = returns.std()
    if len(returns) < 30 or not deviation > 0:
        return None
    ratio = returns.mean() / deviation
    if ratio < IMPLAUSIBLE_SHARPE:
        return None
    return _warning(
        "implausible",
        f"Sharpe ratio of {ratio:.2f} per step is implausible; look for memorized data or "
        "look-ahead",
    )


def _few_seeds(agent: PolicyOutcome, bootstraps: bool) -> Flag | None:
    count = len(agent.episodes)
    if count >= MIN_SEEDS:
        return None
    sample = "one market" if bootstraps and count == 1 else f"{count} seeds"
    return _warning("few_seeds", f"only {sample}; use at least {MIN_SEEDS} seeds")


def _overlapping(agent: PolicyOutcome) -> Flag | None:
    if not is_overlapping(agent.episodes):
        return None
    _, distinct = count_dates(agent.episodes)
    return _warning(
        "overlapping_episodes",
        f"{len(agent.episodes)} episodes share dates and count as one history of {distinct:,} "
        "rows; metrics of returns are of that history",
    )


def _few_baselines(baselines: Sequence[PolicyOutcome]) -> Flag | None:
    if len(baselines) >= MIN_BASELINES:
        return None
    return _warning(
        "few_baselines", f"only {len(baselines)} baselines; use at least {MIN_BASELINES}"
    )


def _unequal(agent: PolicyOutcome, baselines: Sequence[PolicyOutcome]) -> Flag | None:
    for baseline in baselines:
        for own, other in zip(agent.episodes, baseline.episodes, strict=True):
            if _start(own) != _start(other):
                return Flag(
                    name="unequal_episodes",
                    level="error",
                    message=f"seed {own.seed} gave the agent and {baseline.name} different "
                    f"episodes, starting at {_start(own)} and {_start(other)}",
                )
    return None


def _start(episode: Episode) -> tuple[str, float]:
    first = "" if episode.times is None else str(episode.times[0])
    return first, float(episode.equity[0]) if len(episode.equity) else 0.0


def _not_ahead(comparisons: Sequence[BaselineComparison]) -> Flag | None:
    phrases = {"behind": "significantly worse", "inconclusive": "not significantly better"}
    parts = [
        f"{phrase} than that of {', '.join(names)}"
        for standing, phrase in phrases.items()
        if (names := [each.baseline for each in comparisons if each.standing == standing])
    ]
    if not parts:
        return None
    return _warning("not_ahead", f"{comparisons[0].metric} is {'; '.join(parts)}")


def _clone(agent: PolicyOutcome, baseline: PolicyOutcome) -> Flag | None:
    pairs = list(zip(agent.episodes, baseline.episodes, strict=True))
    if not all(len(own.rewards) == len(other.rewards) for own, other in pairs):
        return None
    if not (_same_actions(pairs) or _same_account(pairs)):
        return None
    return _warning("clone", f"acts like the baseline {baseline.name}")


def _same_actions(pairs: Sequence[tuple[Episode, Episode]]) -> bool:
    return all(
        own.actions.size > 0
        and own.actions.shape == other.actions.shape
        and np.allclose(own.actions, other.actions, rtol=0.0, atol=ACTION_TOLERANCE)
        for own, other in pairs
    )


def _same_account(pairs: Sequence[tuple[Episode, Episode]]) -> bool:
    if not all(len(own.equity) > 2 and len(other.equity) > 2 for own, other in pairs):
        return False
    own_returns = np.concatenate([own.returns for own, _ in pairs])
    other_returns = np.concatenate([other.returns for _, other in pairs])
    if not (own_returns.std() > 0 and other_returns.std() > 0):
        return bool(np.array_equal(own_returns, other_returns))
    if np.corrcoef(own_returns, other_returns)[0, 1] < CLONE_CORRELATION:
        return False
    gaps = [
        np.abs(own.weights - other.weights).mean()
        for own, other in pairs
        if own.weights is not None and other.weights is not None
    ]
    return not gaps or float(np.mean(gaps)) * len(pairs[0][0].assets or (1,)) < WEIGHT_TOLERANCE * 2


def _gains(episodes: Sequence[Episode]) -> Floats:
    accounts = [episode.equity for episode in episodes if len(episode.equity)]
    return np.array([equity[-1] - equity[0] for equity in accounts])


def _warning(name: str, message: str) -> Flag:
    return Flag(name=name, level="warning", message=message)
