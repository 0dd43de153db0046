"""A run from its first step to its report, and from where it was interrupted."""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sekai.cli.experiment.experiment import Experiment
from sekai.cli.experiment.prepare import Prepared, prepare
from sekai.cli.experiment.sections import FIRST_JUDGED_SEED
from sekai.cli.experiment.toml import toml_text
from sekai.cli.judging import headline_of, judge, report_on
from sekai.cli.runs.run_folder import RunFolder, now
from sekai.cli.runs.run_lock import RunLock
from sekai.cli.screen import note, waiting
from sekai.cli.signals import ending_as_interrupts
from sekai.cli.summary import show_summary
from sekai.registry import make

if TYPE_CHECKING:
    from sekai.training import Agent, Callback

__all__ = ["go_on_with", "start"]

PLAIN_SECONDS = 5.0
"""The least time between two lines of progress where there is no terminal."""

PACKAGES = ("sekai", "numpy", "torch", "torchrl")


def start(experiment: Experiment, run: RunFolder, command: str, quiet: bool) -> None:
    """Train, judge and report, in a folder of its own.

    Args:
        experiment: what.
        run: where; nothing may be there.
        command: what was typed, for the record.
        quiet: whether progress is kept to oneself.
    """
    if not quiet:
        train = experiment.train
        note(f"{run.path}: {train.algorithm} learns {experiment.id} in {train.steps:,} steps")
    prepared = _prepared(experiment, quiet)
    agent = experiment.agent(
        experiment.id,
        seed=experiment.run.seed,
        settings=experiment.settings,
        env_options=prepared.train,
    )
    # Only now: what cannot be trained leaves no folder behind.
    run.begin(toml_text(experiment.resolved(run.name)), _facts(experiment, command))
    _work(agent, experiment, prepared, run, command, quiet)


def go_on_with(experiment: Experiment, run: RunFolder, command: str, quiet: bool) -> None:
    """Go on with a run where its last checkpoint is, bit for bit."""
    from sekai.training import latest_checkpoint

    prepared = _prepared(experiment, quiet)
    file = latest_checkpoint(run.checkpoints)
    given: dict[str, Any] = {"env_options": prepared.train}
    if file is None:
        note("no checkpoint was kept: training begins anew")
        given |= {"seed": experiment.run.seed, "settings": experiment.settings}
        agent = experiment.agent(experiment.id, **given)
    else:
        agent = experiment.agent.resume(file, env=experiment.id, **given)
        note(f"goes on from {file}, after {agent.steps:,} steps")
    _work(agent, experiment, prepared, run, command, quiet)


def _prepared(experiment: Experiment, quiet: bool) -> Prepared:
    prepared = prepare(experiment)
    if prepared.about and not quiet:
        note(prepared.about)
    # What it is judged on is looked at before hours are spent on it.
    with make(experiment.env.spec, **prepared.test) as env:
        env.reset(seed=FIRST_JUDGED_SEED)
    return prepared


def _work(
    agent: Agent,
    experiment: Experiment,
    prepared: Prepared,
    run: RunFolder,
    command: str,
    quiet: bool,
) -> None:
    with RunLock(run.path), ending_as_interrupts(), _recorded(run, agent):
        run.note(state="running", last_command=command, error=None)
        run.curve.go_back_to(agent.steps)
        left = experiment.train.steps - agent.steps
        if left > 0:
            agent.fit(left, _callbacks(experiment, prepared, run, quiet))
        agent.save(run.policy, training=False)
        _judge(experiment, prepared, run, command, quiet)
    agent.close()


def _judge(
    experiment: Experiment,
    prepared: Prepared,
    run: RunFolder,
    command: str,
    quiet: bool,
) -> None:
    with waiting(f"judging on {experiment.evaluate.seeds} unseen seeds", quiet):
        evaluation = judge(experiment, prepared, run, command)
        run.note(headline=headline_of(evaluation))
        report = report_on(evaluation, run.report)
    show_summary(evaluation, run, report)


def _callbacks(
    experiment: Experiment, prepared: Prepared, run: RunFolder, quiet: bool
) -> list[Callback]:
    from sekai.training import Checkpoint, Evaluate, ProgressBar, Track

    train, callbacks = experiment.train, list[Any]()
    every = experiment.evaluate.every
    if every is not None:
        options = prepared.validation
        callbacks.append(Evaluate(experiment.id, every=every, env_options=options))
    callbacks.append(Checkpoint(run.checkpoints, every=train.checkpoint_every,
                                seconds=train.checkpoint_seconds, envs=None))  # fmt: skip
    callbacks.append(Track(run.curve))
    if not quiet:
        seconds = 0.5 if sys.stderr.isatty() else PLAIN_SECONDS
        callbacks.append(ProgressBar(always=True, seconds=seconds))
    return callbacks


@contextlib.contextmanager
def _recorded(run: RunFolder, agent: Agent) -> Iterator[None]:
    """Write down how it ended, whatever the end was."""
    try:
        yield
    except KeyboardInterrupt:
        run.note(state="interrupted", steps=agent.steps)
        note(f"{run.path} keeps what was learnt in {agent.steps:,} steps; to go on:\n"
             f"  sekai train {run.path} --resume")  # fmt: skip
        raise
    except BaseException as error:
        run.note(state="failed", steps=agent.steps, error=f"{type(error).__name__}: {error}")
        raise
    run.note(state="finished", steps=agent.steps, finished=now())


def _facts(experiment: Experiment, command: str) -> dict[str, Any]:
    return {
        "state": "running",
        "command": command,
        "env": experiment.id,
        "algorithm": experiment.train.algorithm,
        "seed": experiment.run.seed,
        "steps": 0,
        "planned_steps": experiment.train.steps,
        "headline": None,
        "error": None,
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}
