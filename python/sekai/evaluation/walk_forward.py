"""Judge a way to train: on rows that come after those it was trained on, fold by fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sekai.data import MarketData, Pipeline
from sekai.data.splits import Amount, Fold, WalkForward
from sekai.evaluation.arena import arena_of
from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluate import FIRST_SEED, evaluate
from sekai.evaluation.evaluation import Evaluation, Flag, PolicyOutcome, Provenance
from sekai.evaluation.flags import flags_of
from sekai.evaluation.honesty import Ledger, judged_honesty, luck_flags
from sekai.evaluation.metrics import periods_per_year
from sekai.evaluation.outcomes import Measure
from sekai.evaluation.provenance import provenance_of
from sekai.evaluation.tasks import task_of

__all__ = ["WalkForwardEvaluation", "walk_forward"]

Trainer = Callable[[MarketData, Fold], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkForwardEvaluation:
    """Every fold, and all rows that nobody was trained on as one account."""

    folds: list[Evaluation]
    """One for each fold, on its test rows."""

    joined: Evaluation
    """The test rows one after the other: what somebody would have earned who trained anew."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    """Of each fold, how many rows it was trained and tested on."""


def walk_forward(
    train_fn: Trainer,
    data: MarketData,
    *,
    folds: int = 5,
    train_rows: Amount | None = None,
    test_rows: Amount | None = None,
    embargo: Amount = 0,
    warm_up: Amount = 60,
    expanding: bool = False,
    features: Pipeline | Sequence[str] | None = None,
    baselines: Sequence[Any] | Mapping[str, Any] | None = None,
    env_options: Mapping[str, Any] | None = None,
    name: str = "agent",
    level: float = 0.95,
    ledger: Ledger | None = None,
    command: str | None = None,
) -> WalkForwardEvaluation:
    """Train on some rows, judge on those after them, and go on.

    Every fold is judged in `Portfolio-v0` as one episode through all of its test rows, with the
    costs of `env_options`. What learns from data is fitted on the training rows of its fold.

    Args:
        train_fn: `train_fn(train_data, fold)` returns what `evaluate` can judge. The fold has
            its number, and `fold.test`, which is there to size things by and not to look at.
        data: all rows.
        folds: how many, the last ones where there is room for more.
        train_rows: rows, or time, to train on; three times the test rows if not given.
        test_rows: rows, or time, to test on; what the data has room for if not given.
        embargo: rows, or time, between the two that belong to neither.
        warm_up: rows of history that test rows begin with, for features that look back.
        expanding: train on everything before, instead of the last `train_rows`.
        features: what is shown: names, or a `Pipeline` of which a copy is fitted for each fold.
        baselines: whom to judge it beside; those of portfolios if not given.
        env_options: other options of the env.
        name: what the agent is called.
        level: of intervals.
        ledger: the trials on this data so far, or the path of their file; all folds together are
            one more.
        command: what to run to get the same again.
    """
    cuts = _folds(data, folds, train_rows, test_rows, embargo, warm_up, expanding)
    options = dict(env_options or {})
    judged: list[Evaluation] = []
    for fold in cuts:
        own = {**options, **_features(features, fold), **_whole(options)}
        policy = train_fn(fold.train, fold)
        judged.append(
            evaluate(
                policy, "Portfolio-v0", seeds=[FIRST_SEED], baselines=baselines, name=name,
                env_options={**own, "data": fold.test}, level=level, sensitivity=False,
                command=command,
            )
        )  # fmt: skip
    rows = [(_own_rows(fold.train), _own_rows(fold.test)) for fold in cuts]
    joined = _joined(judged, data, options, level, command)
    honesty = judged_honesty(joined.agent.episodes, data.digest, name, "", ledger)
    joined = replace(joined, honesty=honesty, flags=[*joined.flags, *luck_flags(honesty)])
    return WalkForwardEvaluation(folds=judged, joined=joined, rows=rows)


def _folds(
    data: MarketData,
    folds: int,
    train_rows: Amount | None,
    test_rows: Amount | None,
    embargo: Amount,
    warm_up: Amount,
    expanding: bool,
) -> list[Fold]:
    if folds < 1:
        raise ValueError(f"folds must be at least 1, was {folds}")
    if test_rows is None:
        test_rows = _room(data, folds, train_rows, embargo)
    if train_rows is None:
        if not isinstance(test_rows, int):
            raise ValueError(f"train_rows were wanted with test_rows of {test_rows!r}, found none")
        train_rows = 3 * test_rows
    cuts = WalkForward(
        data, train_rows=train_rows, test_rows=test_rows, embargo=embargo, warm_up=warm_up,
        expanding=expanding,
    )  # fmt: skip
    if len(cuts) < folds:
        raise ValueError(
            f"room for {folds} folds of {train_rows} to train and {test_rows} to test was wanted, "
            f"found room for {len(cuts)}: ask for fewer, or for shorter ones"
        )
    return list(cuts)[-folds:]


def _room(data: MarketData, folds: int, train_rows: Amount | None, embargo: Amount) -> int:
    """Test rows so that all folds fit, with three times as many to train on if nobody says."""
    rows = len(data) - data.warm_up
    gap = embargo if isinstance(embargo, int) else 0
    if train_rows is None:
        return (rows - gap) // (folds + 3)
    if not isinstance(train_rows, int):
        raise ValueError(f"test_rows were wanted with train_rows of {train_rows!r}, found none")
    return max(1, (rows - gap - train_rows) // folds)


def _features(given: Pipeline | Sequence[str] | None, fold: Fold) -> dict[str, Any]:
    """Features for the test rows, which know the training rows alone."""
    if given is None:
        return {}
    if not isinstance(given, Pipeline):
        return {"features": given}
    import copy

    own = copy.deepcopy(given)
    own.fit(fold.train)
    return {"features": own}


def _whole(options: Mapping[str, Any]) -> dict[str, Any]:
    """One episode from the first test row to the last."""
    config = options.get("config")
    if config is not None:
        return {"config": replace(config, episode_rows=None, starts="sequential")}
    return {"episode_rows": None, "starts": "sequential"}


def _own_rows(data: MarketData) -> int:
    return len(data) - data.warm_up


def _joined(
    folds: Sequence[Evaluation],
    data: MarketData,
    options: Mapping[str, Any],
    level: float,
    command: str | None,
) -> Evaluation:
    """All folds as one account, which goes on with what the fold before has left."""
    first = folds[0]
    task = task_of(arena_of("Portfolio-v0", {**options, "data": data}))
    measure = Measure(task, periods_per_year(data.times), level, bootstraps=True)
    outcomes: dict[str, PolicyOutcome] = {}
    for policy in first.policies:
        episodes = [one.policies[policy].episodes[0] for one in folds]
        outcomes[policy] = measure.outcome(policy, [_chained(episodes)])
    agent, *others = outcomes.values()
    comparisons = measure.comparisons(agent, others)
    return replace(
        first,
        policies=outcomes,
        periods_per_year=measure.periods,
        comparisons=comparisons,
        flags=[*flags_of(agent, others, comparisons, bootstraps=True), *_errors(folds)],
        provenance=_provenance(first.provenance, command, data, len(folds)),
    )


def _errors(folds: Sequence[Evaluation]) -> list[Flag]:
    """What makes the numbers of a fold worthless makes those of all folds so."""
    return [
        replace(flag, message=f"fold {number}: {flag.message}")
        for number, fold in enumerate(folds)
        for flag in fold.flags
        if flag.level == "error"
    ]


def _provenance(first: Provenance, command: str | None, data: MarketData, folds: int) -> Provenance:
    settings = {**first.settings, "folds": folds}
    return provenance_of(command, data.digest, first.model, settings)


def _chained(episodes: Sequence[Episode]) -> Episode:
    """Episodes end to end: returns stay as they are, money is scaled to what there is."""
    levels, scales = [episodes[0].equity], [1.0]
    for one in episodes[1:]:
        scales.append(float(levels[-1][-1] / one.equity[0]))
        levels.append(one.equity[1:] * scales[-1])
    first = episodes[0]
    return replace(
        first,
        rewards=np.concatenate([one.rewards for one in episodes]),
        equity=np.concatenate(levels),
        times=_after_first([one.times for one in episodes]),
        actions=np.concatenate([one.actions for one in episodes]),
        weights=_together([one.weights for one in episodes]),
        prices=_after_first([one.prices for one in episodes]),
        turnover=_together([one.turnover for one in episodes]),
        costs={
            kind: np.concatenate(
                [one.costs[kind] * scale for one, scale in zip(episodes, scales, strict=True)]
            )
            for kind in first.costs
        },
        fills=None,
        outcome={},
    )


def _together(parts: Sequence[Any]) -> Any:
    return None if any(part is None for part in parts) else np.concatenate(parts)


def _after_first(parts: Sequence[Any]) -> Any:
    if any(part is None for part in parts):
        return None
    return np.concatenate([parts[0], *(part[1:] for part in parts[1:])])
