"""An agent is judged beside baselines, on episodes that it has never seen."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.cli.experiment.experiment import Experiment
from sekai.cli.experiment.prepare import Prepared
from sekai.cli.runs.run_folder import RunFolder
from sekai.cli.screen import note
from sekai.error import MissingExtraError

if TYPE_CHECKING:
    from sekai.evaluation import Evaluation

__all__ = ["headline_of", "judge", "report_on"]


def judge(experiment: Experiment, prepared: Prepared, run: RunFolder, command: str) -> Evaluation:
    """Judge the policy of a run as the experiment says, and keep what was found beside it.

    It is judged by what is in its file and not by what is in memory: that is what others can check.

    Args:
        experiment: the seeds and baselines.
        prepared: what the envs to be judged on are made with.
        run: whose policy, and where it is kept.
        command: what was typed, for the record.
    """
    from sekai.evaluation import save_evaluation
    from sekai.evaluation.evaluate import evaluate
    from sekai.evaluation.statistics import TrialLedger

    section = experiment.evaluate
    found = evaluate(
        run.policy,
        experiment.id,
        seeds=list(section.judged_seeds),
        baselines=section.baselines,
        env_options=prepared.test,
        name=run.name,
        level=section.level,
        sensitivity=section.sensitivity,
        ledger=TrialLedger(run.ledger),
        command=command,
    )
    judged = dataclasses.replace(found, learning=run.curve.columns())
    save_evaluation(judged, run.evaluation)
    return judged


def report_on(evaluations: Evaluation | list[Evaluation], path: Path) -> Path | None:
    """Write the report; None, with a word on why, where a package for it is missing."""
    from sekai.evaluation.report import write_report

    try:
        return write_report(evaluations, path)
    except MissingExtraError as error:
        note(f"no report: {error}")
        return None


def headline_of(evaluation: Evaluation) -> dict[str, Any]:
    """The number that a run is listed by."""
    found = evaluation.agent.metrics[evaluation.headline]
    values = {"value": found.value, "low": found.low, "high": found.high}
    return {"metric": evaluation.headline, **{name: str(one) for name, one in values.items()}}
