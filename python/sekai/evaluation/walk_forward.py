"""Walk-forward evaluation: train on past rows, evaluate on the rows after them, fold by fold."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.data import MarketData, Pipeline
from sekai.data.splits import Amount, Fold, WalkForward
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.evaluate import FIRST_SEED, LEFT_OUT, evaluate, provenance_of
from sekai.evaluation.evaluation import CapCheck, Episode, Evaluation, metric_columns
from sekai.evaluation.flags import deflated_sharpe_flags, flags_of
from sekai.evaluation.metrics import periods_per_year
from sekai.evaluation.scorer import MIN_RETURNS, Scorer, returns_by_date
from sekai.evaluation.statistics.deflated_sharpe import Ledger, record_deflated_sharpe
from sekai.evaluation.tasks import task_of
from sekai.evaluation.tasks.portfolio import digest_of_judged_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["WalkForwardEvaluation", "walk_forward"]

Trainer = Callable[[MarketData, Fold], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkForwardEvaluation:
    """Walk-forward result: every fold, and all test rows as one account."""

    folds: list[Evaluation]
    """Evaluation of each fold on its test rows."""

    joined: Evaluation
    """Evaluation of the concatenated test rows: out-of-sample performance with retraining."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    """Number of training and test rows of each fold."""

    def to_frame(self, backend: str = "pandas") -> Any:
        """Frame with a row for each fold, policy and metric; the fold "joined" is all of them.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        from sekai.data.writing import as_frame

        parts = {str(index): fold for index, fold in enumerate(self.folds)}
        tables = {
            name: metric_columns(part) for name, part in (parts | {"joined": self.joined}).items()
        }
        rows = [name for name, table in tables.items() for _ in table["policy"]]
        shared = next(iter(tables.values()))
        columns = {
            key: [value for table in tables.values() for value in table[key]] for key in shared
        }
        return as_frame({"fold": rows, **columns}, backend, "WalkForwardEvaluation.to_frame")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the equity of the joined test rows, with a line where each fold begins.

        Args:
            ax: matplotlib axes to draw on; those of a new figure if None.
        """
        from sekai.evaluation.report.pictures import draw_walk_forward

        return draw_walk_forward(self, ax)

    def __repr__(self) -> str:
        return f"WalkForwardEvaluation({len(self.folds)} folds, joined: {self.joined!r})"

    def _repr_html_(self) -> str:
        return self.joined._repr_html_()


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
    """Train and evaluate on a sequence of folds that moves through time.

    Every fold is evaluated in `Portfolio-v0` as one episode over all of its test rows. Features
    are fitted on the training rows of their fold.

    Args:
        train_fn: `train_fn(train_data, fold)` returns a policy for `evaluate`. `fold.test` is
            there for sizes; do not train on it.
        data: all rows.
        folds: number of folds, the last ones if there is room for more.
        train_rows: training rows or duration; three times the test rows if None.
        test_rows: test rows or duration; as many as fit if None.
        embargo: rows or duration left out between training and test rows.
        warm_up: rows of history before the test rows, for features that look back.
        expanding: train on all earlier rows instead of the last `train_rows`.
        features: feature names, or a `Pipeline` of which a copy is fitted for each fold.
        baselines: baselines to compare with; those of portfolios if None.
        env_options: further options of the env.
        name: name of the agent.
        level: confidence level.
        ledger: trial ledger of this data, or the path of its file; all folds are one trial.
        command: command that reproduces the evaluation.
    """
    cuts = _folds(data, folds, train_rows, test_rows, embargo, warm_up, expanding)
    options = dict(env_options or {})
    evaluations = [
        evaluate(
            train_fn(fold.train, fold),
            "Portfolio-v0",
            seeds=[FIRST_SEED],
            baselines=baselines,
            name=name,
            env_options={
                **options,
                **_fitted(features, fold),
                **_whole_episode(options),
                "data": fold.test,
            },
            level=level,
            sensitivity=False,
            command=command,
        )
        for fold in cuts
    ]
    digests = data.digest, digest_of_judged_rows([fold.test for fold in cuts])
    joined = _joined(evaluations, data, options, level, command, digests)
    returns = returns_by_date(joined.agent.episodes)
    deflated_sharpe = record_deflated_sharpe(returns, digests[1], name, "", ledger, joined.flags)
    flags = [*joined.flags, *deflated_sharpe_flags(deflated_sharpe)]
    return WalkForwardEvaluation(
        folds=evaluations,
        joined=replace(joined, deflated_sharpe=deflated_sharpe, flags=flags),
        rows=[
            (len(part.train) - part.train.warm_up, len(part.test) - part.test.warm_up)
            for part in cuts
        ],
    )


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
        raise ValueError(f"folds must be at least 1, got {folds}")
    if test_rows is None:
        test_rows = _default_test_rows(data, folds, train_rows, embargo)
    if train_rows is None:
        if not isinstance(test_rows, int):
            raise ValueError(f"train_rows is required with test_rows={test_rows!r}")
        train_rows = 3 * test_rows
    cuts = WalkForward(
        data,
        train_rows=train_rows,
        test_rows=test_rows,
        embargo=embargo,
        warm_up=warm_up,
        expanding=expanding,
    )
    if len(cuts) < folds:
        raise ValueError(
            f"data has room for {len(cuts)} folds of {train_rows} training and {test_rows} test "
            f"rows, got folds={folds}; use fewer or shorter folds"
        )
    chosen = list(cuts)[-folds:]
    shortest = min(len(fold.test) - fold.test.warm_up for fold in chosen)
    if shortest <= MIN_RETURNS:
        raise ValueError(
            f"folds of {shortest} test rows have no confidence interval; expected at least "
            f"{MIN_RETURNS + 1} each: use fewer folds, a larger test_rows or more data"
        )
    return chosen


def _default_test_rows(
    data: MarketData, folds: int, train_rows: Amount | None, embargo: Amount
) -> int:
    """Test rows for which all folds fit, with three times as many training rows by default."""
    rows = len(data) - data.warm_up
    gap = embargo if isinstance(embargo, int) else 0
    if train_rows is None:
        return (rows - gap) // (folds + 3)
    if not isinstance(train_rows, int):
        raise ValueError(f"test_rows is required with train_rows={train_rows!r}")
    return max(1, (rows - gap - train_rows) // folds)


def _fitted(features: Pipeline | Sequence[str] | None, fold: Fold) -> dict[str, Any]:
    if features is None:
        return {}
    if not isinstance(features, Pipeline):
        return {"features": features}
    own = copy.deepcopy(features)
    own.fit(fold.train)
    return {"features": own}


def _whole_episode(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of one episode over all test rows."""
    config = options.get("config")
    if config is not None:
        return {"config": replace(config, episode_rows=None, starts="sequential")}
    return {"episode_rows": None, "starts": "sequential"}


def _joined(
    folds: Sequence[Evaluation],
    data: MarketData,
    options: Mapping[str, Any],
    level: float,
    command: str | None,
    digests: tuple[str, str],
) -> Evaluation:
    """All folds as one account, each continuing with the equity of the one before."""
    first = folds[0]
    task = task_of(as_env_source("Portfolio-v0", {**options, "data": data}))
    scorer = Scorer(task, periods_per_year(data.times), level, bootstraps=True)
    outcomes = {
        name: scorer.outcome(name, [_chained([fold.policies[name].episodes[0] for fold in folds])])
        for name in first.policies
        # A baseline may be left out of some folds.
        if all(name in fold.policies for fold in folds)
    }
    agent, *others = outcomes.values()
    comparisons = scorer.comparisons(agent, others)
    flags = [
        replace(flag, message=f"fold {number}: {flag.message}")
        for number, fold in enumerate(folds)
        for flag in fold.flags
        if flag.level == "error" or flag.name == LEFT_OUT
    ]
    settings = {**first.provenance.settings, "folds": len(folds)}
    return replace(
        first,
        policies=outcomes,
        caps=CapCheck.joined(agent.episodes),
        periods_per_year=scorer.periods,
        comparisons=comparisons,
        flags=[*flags_of(agent, others, comparisons, bootstraps=True), *flags],
        provenance=provenance_of(command, digests, first.provenance.model, settings),
    )


def _chained(episodes: Sequence[Episode]) -> Episode:
    """Concatenate episodes: returns are kept, money is scaled to the current equity."""
    first, levels, scales = episodes[0], [episodes[0].equity], [1.0]
    for episode in episodes[1:]:
        scales.append(float(levels[-1][-1] / episode.equity[0]))
        levels.append(episode.equity[1:] * scales[-1])
    scaled = list(zip(episodes, scales, strict=True))
    return replace(
        first,
        rewards=np.concatenate([episode.rewards for episode in episodes]),
        equity=np.concatenate(levels),
        times=_concatenated([episode.times for episode in episodes], overlap=1),
        actions=np.concatenate([episode.actions for episode in episodes]),
        weights=_concatenated([episode.weights for episode in episodes]),
        prices=_concatenated([episode.prices for episode in episodes], overlap=1),
        turnover=_concatenated([episode.turnover for episode in episodes]),
        costs={
            kind: np.concatenate([episode.costs[kind] * scale for episode, scale in scaled])
            for kind in first.costs
        },
        benchmark=_concatenated([episode.benchmark for episode in episodes]),
        compromise=_concatenated([episode.compromise for episode in episodes]),
        caps=CapCheck.joined(episodes),
        fills=None,
        outcome={},
    )


def _concatenated(parts: Sequence[Any], overlap: int = 0) -> Any:
    """Concatenate arrays, of which all but the first lose `overlap` rows; None if any is None."""
    if any(part is None for part in parts):
        return None
    return np.concatenate([parts[0], *(part[overlap:] for part in parts[1:])])
