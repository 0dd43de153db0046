"""Walk-forward evaluation of an experiment: retrain on past rows, fold by fold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sekai.experiment.preparation import fit_pipeline, observed_rows, warm_up_rows
from sekai.experiment.run_folder import RunFolder

if TYPE_CHECKING:
    from sekai.data import MarketData
    from sekai.data.splits import Fold
    from sekai.evaluation import WalkForwardEvaluation
    from sekai.experiment.experiment import Experiment


def walk_forward_run(
    experiment: Experiment,
    run: RunFolder,
    command: str,
    log: Callable[[str], None],
    changes: Sequence[str] = (),
) -> WalkForwardEvaluation:
    """Train the agent of a run on each fold, evaluate it on the rows after, and save the result.

    Args:
        experiment: algorithm, data and `walk_forward` of `[evaluate]`.
        run: the run that keeps the result.
        command: command that started the evaluation, for the record.
        log: receives a message for each fold.
        changes: settings that differ from those of the run, for a flag.
    """
    from sekai.evaluation import save_evaluation, walk_forward
    from sekai.evaluation.flags import changed_settings_flags
    from sekai.evaluation.statistics import TrialLedger

    section, source, data = experiment.evaluate.walk_forward, experiment.source, experiment.data
    assert section is not None, "checked by the caller"
    assert source is not None, "Portfolio-v0 has data"
    assert data is not None, "Portfolio-v0 has data"
    panel = source.read(**experiment.source_options)
    pipeline = fit_pipeline(data, panel)
    trained = 0

    def train(rows: MarketData, fold: Fold) -> Any:
        nonlocal trained
        trained += 1
        log(f"walk-forward: training fold {trained} of {section.folds} on {_period(rows)}")
        features = {"data": rows, "features": fit_pipeline(data, rows)}
        agent = experiment.new_agent({**experiment.env_options, **features})
        agent.fit(experiment.train.steps)
        agent.close()
        return agent

    result = walk_forward(
        train,
        panel,
        folds=section.folds,
        train_rows=section.train_rows,
        test_rows=section.test_rows,
        expanding=section.expanding,
        embargo=data.embargo,
        warm_up=warm_up_rows(data, panel, observed_rows(experiment), pipeline),
        features=pipeline,
        baselines=experiment.evaluate.baselines,
        env_options=experiment.env_options,
        name=run.name,
        level=experiment.evaluate.level,
        ledger=TrialLedger(run.ledger),
        command=command,
    )
    flags = [*changed_settings_flags(changes), *result.joined.flags]
    result = dataclasses.replace(result, joined=dataclasses.replace(result.joined, flags=flags))
    save_evaluation(result.joined, run.walk_forward)
    return result


def _period(data: MarketData) -> str:
    rows = len(data) - data.warm_up
    return f"{rows} rows ({data.times[data.warm_up]!s:.10} to {data.times[-1]!s:.10})"
