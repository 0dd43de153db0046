"""One trial of a sweep: training with pruning, and the score on the validation part."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sekai.experiment.experiment import FIRST_EVALUATION_SEED
from sekai.experiment.run_folder import RunFolder, lock_run

if TYPE_CHECKING:
    from sekai.config.toml_file import ConfigSource
    from sekai.evaluation.tasks import Task
    from sekai.experiment.experiment import Experiment
    from sekai.experiment.preparation import EnvOptions
    from sekai.training import Agent, Callback

FIRST_VALIDATION_SEED = 2 * FIRST_EVALUATION_SEED
"""Seeds from here on are for validation: trials are scored on them, and the test uses others."""

TrialState = Literal["running", "complete", "pruned", "failed"]

Report = Callable[[int, float], bool]
"""Receives the number of an evaluation and its mean return; returns True to prune the trial."""


@dataclass(frozen=True, slots=True)
class TrialTask:
    """One trial to run."""

    number: int
    source: ConfigSource
    """Experiment with the settings of the trial."""

    imports: tuple[str, ...]
    folder: Path
    """Run folder to create."""

    command: str


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """Result of a trial."""

    state: TrialState
    steps: int = 0
    score: float = math.nan
    """Headline metric on the validation part."""

    sharpe: float = math.nan
    """Sharpe ratio per period on the validation part."""

    model: str = ""
    """Digest of the policy's file."""

    invalid: tuple[str, ...] = ()
    """Flags that invalidate the score."""

    error: str = ""


def run_trial(task: TrialTask, report: Report | None) -> TrialOutcome:
    """Train the agent of a trial and score it on the validation part; the test part is not read.

    Args:
        task: the trial.
        report: receives the evaluations during training; None without pruning.
    """
    from sekai.experiment.preparation import prepare
    from sekai.experiment.reading import read_experiment

    try:
        experiment = read_experiment(task.source, task.imports)
        return _run(task, experiment, prepare(experiment), report)
    except Exception as error:
        # Settings may ask for more memory than there is, or break code of the user: the trial
        # fails, and the sweep goes on.
        run = RunFolder(task.folder)
        message = f"{type(error).__name__}: {error}"
        if run.config.is_file():
            run.note(state="failed", error=message, traceback=traceback.format_exc())
        return TrialOutcome("failed", error=message)


def validation_task(experiment: Experiment, prepared: EnvOptions) -> Task:
    """Task of the validation part: the direction of its score, and the digest of its rows."""
    from sekai.evaluation.env_source import as_env_source
    from sekai.evaluation.tasks import task_of

    return task_of(as_env_source(experiment.id, prepared.validation))


def _run(
    task: TrialTask, experiment: Experiment, prepared: EnvOptions, report: Report | None
) -> TrialOutcome:
    from sekai.config.toml_file import dump_toml
    from sekai.experiment.run import run_facts

    run = RunFolder(task.folder)
    agent = experiment.new_agent(prepared.train)
    try:
        config = dump_toml(experiment.resolved(run.path.name))
        run.begin(config, run_facts(experiment, task.command))
        with lock_run(run.path):
            is_pruned = _fit(agent, experiment, prepared, run, report)
            agent.save(run.policy, training=False)
            if is_pruned:
                run.note(state="pruned", steps=agent.steps)
                return TrialOutcome("pruned", agent.steps, model=_digest(run))
            outcome = _scored(experiment, prepared, run, task.command, agent.steps)
            is_scored = outcome.state == "complete"
            state = "finished" if is_scored else "failed"
            run.note(state=state, steps=agent.steps, error=outcome.error or None)
            return outcome
    finally:
        agent.close()


def _fit(
    agent: Agent,
    experiment: Experiment,
    prepared: EnvOptions,
    run: RunFolder,
    report: Report | None,
) -> bool:
    """Train the agent; return True if the trial was pruned."""
    from sekai.training import Evaluate, Track

    callbacks: list[Callback] = []
    every, pruning = experiment.evaluate.every, None
    if every is not None:
        options = prepared.validation
        seed = FIRST_VALIDATION_SEED
        callbacks.append(Evaluate(experiment.id, every=every, seed=seed, env_options=options))
        if report is not None:
            pruning = _pruning(report)
            callbacks.append(pruning)
    callbacks.append(Track(run.curve))
    agent.fit(experiment.train.steps, callbacks)
    return pruning is not None and pruning.is_over


def _pruning(report: Report) -> Callback:
    """Callback that reports evaluations and stops a pruned trial."""
    # Made here: the class needs torch, which the program may not need.
    from sekai.training import Callback

    class Pruning(Callback):
        def __init__(self) -> None:
            self._evaluations, self._is_pruned = 0, False

        def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
            score = metrics["eval/return"]
            if not math.isnan(score):
                self._evaluations += 1
                self._is_pruned = report(self._evaluations, score)
            return self._is_pruned

        @property
        def is_over(self) -> bool:
            return self._is_pruned

    return Pruning()


def _scored(
    experiment: Experiment, prepared: EnvOptions, run: RunFolder, command: str, steps: int
) -> TrialOutcome:
    from sekai.evaluation import evaluate
    from sekai.experiment.run import headline

    section = experiment.evaluate
    baselines = section.baselines or validation_task(experiment, prepared).baselines
    evaluation = evaluate(
        run.policy,
        experiment.id,
        seeds=range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + section.seeds),
        # The score is the agent's own: other baselines would only take time.
        baselines=baselines[:1],
        env_options=prepared.validation,
        name=run.name,
        level=section.level,
        sensitivity=False,
        command=command,
        progress=False,
    )
    run.note(validation=headline(evaluation))
    sharpe, score = evaluation.deflated_sharpe, evaluation.agent.metrics[evaluation.headline].value
    values: dict[str, Any] = {
        "steps": steps,
        "sharpe": math.nan if sharpe is None else sharpe.sharpe,
        "model": _digest(run),
        "invalid": tuple(flag.name for flag in evaluation.flags if flag.level == "error"),
    }
    if not math.isfinite(score):
        error = f"{evaluation.headline} on the validation part must be finite, got {score}"
        return TrialOutcome("failed", error=error, **values)
    if values["invalid"]:
        error = f"the score is invalid: {', '.join(values['invalid'])}"
        return TrialOutcome("failed", error=error, **values)
    return TrialOutcome("complete", score=score, **values)


def _digest(run: RunFolder) -> str:
    from sekai.evaluation.evaluate import model_of

    # That of evaluations, so that the trial ledger counts a policy once.
    return model_of(run.policy, "")
