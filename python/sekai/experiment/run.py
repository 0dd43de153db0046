"""Running an experiment: training, checkpoints, evaluation and report of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from sekai.error import MissingExtraError
from sekai.experiment.run_folder import (
    DEFAULT_ROOT,
    ExperimentError,
    RunFolder,
    find_run,
    free_name,
    latest_name,
    lock_run,
    name_taken,
    utc_now,
)

if TYPE_CHECKING:
    from sekai.config.toml_file import ConfigSource
    from sekai.evaluation import Evaluation, WalkForwardEvaluation
    from sekai.experiment.experiment import Experiment
    from sekai.experiment.preparation import EnvOptions
    from sekai.training import Agent, Callback

PLAIN_SECONDS = 5.0
"""Minimum seconds between two lines of progress without a terminal."""

PACKAGES = ("sekai", "numpy", "torch")


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """Result of an experiment."""

    agent: Agent
    """The trained agent; its envs are closed."""

    evaluation: Evaluation
    run: RunFolder
    report: Path | None
    """HTML report; None if a package for it is missing."""

    walk_forward: WalkForwardEvaluation | None = None
    """Walk-forward evaluation, if the experiment asks for one."""

    def _repr_html_(self) -> str:
        from html import escape

        return f"{self.evaluation._repr_html_()}<p>{escape(str(self.run.path))}</p>"


def _write_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Output of a run."""

    progress: bool = True
    """Show a progress bar and the stages of the run."""

    log: Callable[[str], None] = _write_line
    """Receives messages, line by line."""

    command: str = "sekai.run_experiment"
    """Command that started the run, for the record."""

    ray: str | None = None
    """Address of a Ray cluster whose workers run the envs, "auto", or "local" for a new one."""

    def note(self, text: str) -> None:
        """Log a message if progress is shown."""
        if self.progress:
            self.log(text)


def run_experiment(
    file: str | Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    name: str | None = None,
    runs: str | Path = DEFAULT_ROOT,
    imports: Sequence[str] = (),
    resume: bool = False,
    progress: bool = False,
) -> ExperimentResult:
    """Train an agent from an experiment file, evaluate it, and write a report.

    An interrupt (Ctrl-C, or a notebook's stop button) saves a checkpoint and raises
    `KeyboardInterrupt`; `resume=True` continues from it.

    Args:
        file: the experiment file; with `resume`, also the name or the folder of a run.
        overrides: values by `section.key`, such as `{"train.steps": 10_000}`.
        name: name of the run; by default that of the file, with a number if it is taken.
        runs: folder of the runs.
        imports: modules that register envs, features or kinds of the experiment.
        resume: continue a run from its last checkpoint.
        progress: show a progress bar.

    Raises:
        ConfigError: a key or a value is invalid; the message points at the line.
        ExperimentError: the run exists already, or cannot be resumed.
    """
    options = output_of(progress)
    root = Path(runs)
    if resume:
        if overrides:
            raise ExperimentError("a resumed run keeps its settings: leave out overrides")
        return resume_run(run_to_resume(Path(file), name, root), imports, options)
    return start_run(source_with(file, overrides, name), root, imports, options)


def output_of(progress: bool) -> RunOptions:
    """Output of a run that Python started."""
    return RunOptions(progress=progress, log=_write_line if progress else lambda text: None)


def source_with(
    file: str | Path, overrides: Mapping[str, Any] | None, name: str | None
) -> ConfigSource:
    """Experiment file with overrides by `section.key`."""
    from sekai.config.toml_file import ConfigError, ConfigSource

    source = ConfigSource.read(Path(file))
    for key, value in (overrides or {}).items():
        path = tuple(key.split("."))
        if len(path) < 2 or not all(path):
            raise ConfigError(f"overrides[{key!r}]: expected section.key, such as 'train.steps'")
        source.set(path, value, f"overrides[{key!r}]")
    if name is not None:
        source.set(("run", "name"), name, "name")
    return source


def start_run(
    source: ConfigSource, runs: Path, imports: Sequence[str], options: RunOptions
) -> ExperimentResult:
    """Train, evaluate and report an experiment in a new run folder.

    Args:
        source: the experiment.
        runs: folder of the runs.
        imports: modules that register what the experiment names.
        options: output of the run.
    """
    from sekai.config.toml_file import dump_toml
    from sekai.experiment.reading import read_experiment

    section = source.values.get("run", {})
    name = section.get("name") if isinstance(section, dict) else None
    if isinstance(name, str) and (runs / name).exists():
        raise name_taken(RunFolder(runs / name))
    experiment = read_experiment(source, imports)
    if experiment.run.seeds is not None:
        source.refuse(("run", "seeds"), "several training seeds need sekai.experiment.run_seeds")
    run = RunFolder(runs / (experiment.run.name or free_name(runs, default_name(source))))
    train = experiment.train
    options.note(
        f"{run.path}: training {train.algorithm} on {experiment.id}, {train.steps:,} steps"
    )
    _require_envs_for_ray(experiment, options)
    prepared = _prepared(experiment, options)
    agent = experiment.new_agent(prepared.train)
    # Only then: an experiment that cannot be trained leaves no folder behind.
    with _cluster(options):
        facts = run_facts(experiment, options.command)
        run.begin(dump_toml(experiment.resolved(run.path.name)), facts)
        return _train(agent, experiment, prepared, run, options)


def resume_run(run: RunFolder, imports: Sequence[str], options: RunOptions) -> ExperimentResult:
    """Continue a run from its last checkpoint, bit for bit."""
    from sekai.config.toml_file import ConfigSource
    from sekai.experiment.reading import read_experiment
    from sekai.training import latest_checkpoint

    if run.facts["state"] == "finished":
        raise ExperimentError(
            f"{run.path} is finished; `sekai evaluate {run.name}` evaluates it again"
        )
    experiment = read_experiment(ConfigSource.read(run.config), imports)
    _require_envs_for_ray(experiment, options)
    prepared = _prepared(experiment, options)
    checkpoint = latest_checkpoint(run.checkpoints)
    if checkpoint is None:
        options.log("no checkpoint found: training starts over")
        agent = experiment.new_agent(prepared.train)
    else:
        agent = experiment.resumed_agent(checkpoint, prepared.train)
        options.log(f"resuming from {checkpoint}, after {agent.steps:,} steps")
    with _cluster(options):
        return _train(agent, experiment, prepared, run, options)


def run_to_resume(file: Path, name: str | None, runs: Path) -> RunFolder:
    """Run by its name, its folder, or the experiment file that it was started with."""
    from sekai.config.toml_file import ConfigSource

    if name is not None:
        return find_run(name, runs)
    if not file.is_file():
        return find_run(str(file), runs)
    section = ConfigSource.read(file).values.get("run", {})
    named = section.get("name") if isinstance(section, dict) else None
    return find_run(named or latest_name(runs, file.stem), runs)


def evaluate_run(
    experiment: Experiment,
    prepared: EnvOptions,
    run: RunFolder,
    command: str,
    allow: Collection[str] = (),
    changes: Sequence[str] = (),
) -> Evaluation:
    """Evaluate the saved policy of a run beside baselines on unseen seeds, and save the result.

    Args:
        experiment: seeds and baselines.
        prepared: options of the test env.
        run: the run.
        command: command that started the evaluation, for the record.
        allow: differences from the data of training that are allowed; see `evaluate`.
        changes: settings that differ from those of the run, for a flag.
    """
    from sekai.evaluation import save_evaluation
    from sekai.evaluation.evaluate import evaluate
    from sekai.evaluation.flags import changed_settings_flags
    from sekai.evaluation.statistics import TrialLedger
    from sekai.experiment.index_page import run_summary

    section = experiment.evaluate
    evaluation = evaluate(
        run.policy,
        experiment.id,
        seeds=list(section.evaluation_seeds),
        baselines=section.baselines,
        env_options=prepared.test,
        name=run.name,
        level=section.level,
        sensitivity=section.sensitivity,
        ledger=TrialLedger(run.ledger),
        command=command,
        allow=allow,
    )
    flags = [*changed_settings_flags(changes), *evaluation.flags]
    evaluation = dataclasses.replace(evaluation, flags=flags, learning=run.curve.columns())
    save_evaluation(evaluation, run.evaluation)
    run.note(headline=headline(evaluation), summary=run_summary(evaluation))
    return evaluation


def write_run_report(
    evaluations: Evaluation | list[Evaluation], path: Path, log: Callable[[str], None]
) -> Path | None:
    """Write the HTML report; None, with a message, if a package for it is missing."""
    from sekai.evaluation.report import write_report

    try:
        return write_report(evaluations, path)
    except MissingExtraError as error:
        log(f"no report: {error}")
        return None


def headline(evaluation: Evaluation) -> dict[str, Any]:
    """Headline metric of a run with its confidence interval, and if it is invalid."""
    interval = evaluation.agent.metrics[evaluation.headline]
    values = {"value": interval.value, "low": interval.low, "high": interval.high}
    texts = {name: str(value) for name, value in values.items()}
    return {"metric": evaluation.headline, **texts, "is_valid": evaluation.is_valid}


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C within the `with` block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def default_name(source: ConfigSource) -> str:
    """Name of a run that has none: that of the file, or of env and algorithm."""
    if source.file is not None:
        return source.file.stem
    env = str(source.values["env"]["id"]).rpartition("/")[2].rpartition("-v")[0].lower()
    return f"{env}-{source.values['train'].get('algorithm', 'ppo')}"


def _prepared(experiment: Experiment, options: RunOptions) -> EnvOptions:
    from sekai.config.convert import pointing_at
    from sekai.experiment.experiment import FIRST_EVALUATION_SEED
    from sekai.experiment.preparation import prepare
    from sekai.registry import make

    prepared = prepare(experiment)
    if prepared.summary:
        options.note(prepared.summary)
    # A test env that cannot be built is reported before hours of training.
    with (
        pointing_at(experiment.config, "env"),
        make(experiment.env.spec, **prepared.test) as env,
    ):
        env.reset(seed=FIRST_EVALUATION_SEED)
        _require_same_spaces(experiment, env)
    return prepared


def _require_same_spaces(experiment: Experiment, env: Any) -> None:
    """Refuse a data set of another env, before training."""
    if experiment.train.dataset is None:
        return
    from sekai.config.convert import pointing_at
    from sekai.training import ReplayDataset

    with pointing_at(experiment.config, "train", ("dataset",)):
        dataset = ReplayDataset.load(experiment.train.dataset)
        for name in ("observation_space", "action_space"):
            if getattr(dataset, name) != getattr(env, name):
                raise ValueError(f"the data set has another {name} than {experiment.id}")


def _train(
    agent: Agent,
    experiment: Experiment,
    prepared: EnvOptions,
    run: RunFolder,
    options: RunOptions,
) -> ExperimentResult:
    from sekai.experiment.index_page import refresh_index

    with lock_run(run.path), sigterm_as_interrupt(), _recorded(run, agent, options):
        run.note(state="running", last_command=options.command, error=None)
        run.curve.truncate(agent.steps)
        remaining = experiment.train.steps - agent.steps
        if remaining > 0:
            callbacks = _callbacks(experiment, prepared, run, options)
            engine: dict[str, Any] = {} if options.ray is None else {"engine": "ray"}
            agent.fit(remaining, callbacks, **engine)
        agent.save(run.policy, training=False)
        options.note(f"evaluating on {experiment.evaluate.seeds} unseen seeds")
        # The saved policy, and not the one in memory: its result can be reproduced.
        evaluation = evaluate_run(experiment, prepared, run, options.command)
        report = write_run_report(evaluation, run.report, options.log)
        folds = _walk_forward(experiment, run, options)
    agent.close()
    refresh_index(run, options.log)
    return ExperimentResult(agent, evaluation, run, report, folds)


def _require_envs_for_ray(experiment: Experiment, options: RunOptions) -> None:
    if options.ray is not None and experiment.train.dataset is not None:
        raise ExperimentError(
            f"{experiment.train.algorithm} is trained on a data set, without envs that workers "
            "could step; leave out ray"
        )


def _cluster(options: RunOptions) -> contextlib.AbstractContextManager[Any]:
    """Connection to the Ray cluster of a run, which `Agent.fit` uses; without one nothing."""
    if options.ray is None:
        return contextlib.nullcontext()
    from sekai.training.ray.cluster import connected

    return connected(options.ray, None)


def _walk_forward(
    experiment: Experiment, run: RunFolder, options: RunOptions
) -> WalkForwardEvaluation | None:
    if experiment.evaluate.walk_forward is None:
        return None
    from sekai.experiment.walk_forward import walk_forward_run

    folds = walk_forward_run(experiment, run, options.command, options.note)
    write_run_report(folds.joined, run.walk_forward.with_suffix(".html"), options.log)
    return folds


def _callbacks(
    experiment: Experiment, prepared: EnvOptions, run: RunFolder, options: RunOptions
) -> list[Callback]:
    from sekai.training import Checkpoint, Evaluate, ProgressBar, Track

    train, callbacks = experiment.train, list[Any]()
    every = experiment.evaluate.every
    if every is not None:
        callbacks.append(Evaluate(experiment.id, every=every, env_options=prepared.validation))
    seconds = train.checkpoint_seconds
    callbacks.append(Checkpoint(run.checkpoints, every=train.checkpoint_every, seconds=seconds))
    callbacks.append(Track(run.curve))
    if options.progress:
        seconds = 0.5 if sys.stderr.isatty() else PLAIN_SECONDS
        callbacks.append(ProgressBar(always=True, seconds=seconds))
    return callbacks


@contextlib.contextmanager
def _recorded(run: RunFolder, agent: Agent, options: RunOptions) -> Iterator[None]:
    """Record the final state in run.json, also after an error."""
    try:
        yield
    except KeyboardInterrupt:
        run.note(state="interrupted", steps=agent.steps)
        options.log(
            f"interrupted after {agent.steps:,} steps; to continue:\n"
            f"  sekai train {run.path} --resume"
        )
        raise
    except BaseException as error:
        run.note(state="failed", steps=agent.steps, error=f"{type(error).__name__}: {error}")
        raise
    run.note(state="finished", steps=agent.steps, finished=utc_now())


def run_facts(experiment: Experiment, command: str) -> dict[str, Any]:
    """Content of run.json at the start of a run."""
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
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
    }
