"""Hyperparameter sweeps: trials of an experiment, selected on the validation part."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.experiment.run import (
    RunOptions,
    default_name,
    evaluate_run,
    output_of,
    sigterm_as_interrupt,
    source_with,
    write_run_report,
)
from sekai.experiment.run_folder import (
    DEFAULT_ROOT,
    SWEEP_FILE,
    ExperimentError,
    RunFolder,
    free_name,
    is_sweep_folder,
    latest_name,
    lock_run,
    name_taken,
    utc_now,
)
from sekai.experiment.search_space import (
    SearchedSetting,
    SweepSection,
    new_pruner,
    new_sampler,
    number_of_trials,
    searched_settings,
    trial_source,
)
from sekai.experiment.study import TrialStudy
from sekai.experiment.trial import (
    TrialOutcome,
    TrialState,
    TrialTask,
    run_trial,
    validation_task,
)
from sekai.storage.files import replace_file
from sekai.storage.strict_json import parse_json

if TYPE_CHECKING:
    from sekai.config.toml_file import ConfigSource
    from sekai.evaluation import Evaluation
    from sekai.experiment.experiment import Experiment
    from sekai.experiment.preparation import EnvOptions
    from sekai.experiment.trial_workers import TrialWorkers

STUDY_FILE = "study.journal"
"""Journal of Optuna, which its dashboard can show."""


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """One trial of a sweep so far."""

    number: int
    state: TrialState
    settings: Mapping[str, Any]
    """Settings by dotted name."""

    score: float = math.nan
    """Headline metric on the validation part; NaN unless the trial is complete."""

    evaluations: int = 0
    """Evaluations during training so far, with a pruner."""

    last_return: float = math.nan
    """Mean return of the last of them."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Result of a sweep: its trials, and the best one evaluated on the test part."""

    path: Path
    """Folder of the sweep, with a run for each trial."""

    trials: tuple[SweepTrial, ...]
    best: SweepTrial
    """Trial with the best score on the validation part."""

    evaluation: Evaluation
    """Evaluation of the best trial on the test part, which no other trial has read."""

    run: RunFolder
    """Run of the best trial."""

    report: Path | None
    """HTML report of the evaluation; None if a package for it is missing."""

    def __repr__(self) -> str:
        counts = [f"{count} {state}" for state, count in self.counts.items() if count]
        return f"SweepResult({self.path}: {', '.join(counts)}; best {self.run.name})"

    @property
    def counts(self) -> dict[TrialState, int]:
        """Number of trials by state."""
        states = [trial.state for trial in self.trials]
        return {state: states.count(state) for state in ("complete", "pruned", "failed")}


Watch = Callable[[Sequence[SweepTrial]], None]
"""Receives all trials whenever one changes."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Execution of a sweep: its trials at the same time, and its output."""

    jobs: int | None = None
    """Trials at the same time; None for one, with Ray one per core of the cluster."""

    ray: str | None = None
    """Address of a Ray cluster that runs the trials, "auto", or "local" for a new one."""

    output: RunOptions = field(default_factory=RunOptions)
    watch: Watch | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ExperimentError(f"jobs must be at least 1, got {self.jobs}")


def run_sweep(
    file: str | Path,
    *,
    trials: int | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    name: str | None = None,
    runs: str | Path = DEFAULT_ROOT,
    imports: Sequence[str] = (),
    resume: bool = False,
    progress: bool = False,
    watch: Watch | None = None,
) -> SweepResult:
    """Search settings of an experiment with Optuna, and evaluate the best trial on the test part.

    Trials are trained on the training part and compared on the validation part. All of them, also
    those that were pruned or failed, count in the trial ledger. With one job, the same seed gives
    the same trials and results, also if the sweep was interrupted and continued.

    Args:
        file: the experiment file, with `[sweep]`; with `resume`, also the folder of the sweep.
        trials: number of trials, instead of that of the file.
        jobs: trials at the same time, each in a process; with `ray` None for one per core.
        ray: address of a Ray cluster that runs the trials, "auto", or "local" for a new one.
        overrides: values by `section.key`, such as `{"train.steps": 10_000}`.
        name: name of the folder; by default that of the file, with a number if it is taken.
        runs: folder of the runs.
        imports: modules that register envs, features or kinds of the experiment.
        resume: continue a sweep; trials that were not finished are run again.
        progress: log the trials.
        watch: receives all trials whenever one changes.

    Raises:
        ConfigError: a key or a value is invalid; the message points at the line.
        ExperimentError: the folder exists already, cannot be resumed, or no trial is complete.
    """
    options = SweepOptions(jobs, ray, output_of(progress), watch)
    root = Path(runs)
    if resume:
        if overrides or trials is not None:
            raise ExperimentError("a resumed sweep keeps its settings: leave out overrides, trials")
        return resume_sweep(sweep_to_resume(Path(file), name, root), imports, options)
    source = source_with(file, overrides, name)
    if trials is not None:
        source.set(("sweep", "trials"), trials, "trials")
    return start_sweep(source, root, imports, options)


def start_sweep(
    source: ConfigSource, runs: Path, imports: Sequence[str], options: SweepOptions
) -> SweepResult:
    """Run a sweep in a new folder.

    Args:
        source: the experiment, with `[sweep]`.
        runs: folder of the runs.
        imports: modules that register what the experiment names.
        options: execution and output.
    """
    from sekai.config.toml_file import dump_toml

    plan = SweepPlan.read(source, imports)
    folder = runs / (plan.experiment.run.name or free_name(runs, default_name(source)))
    if folder.exists():
        raise name_taken(RunFolder(folder))
    folder.mkdir(parents=True)
    values = copy.deepcopy(source.values)
    if plan.experiment.data is not None and "source" in values.get("data", {}):
        # Relative to the folder of the file, of which this is a copy elsewhere.
        values["data"]["source"] = plan.experiment.data.source
    if plan.experiment.train.dataset is not None:
        values["train"]["dataset"] = plan.experiment.train.dataset
    (folder / "config.toml").write_text(dump_toml(values), encoding="utf-8")
    facts = {"state": "running", "command": options.output.command, "created": utc_now()}
    (folder / SWEEP_FILE).write_text(f"{json.dumps(facts, indent=2)}\n", encoding="utf-8")
    return Sweep(folder, plan, options).run()


def resume_sweep(folder: Path, imports: Sequence[str], options: SweepOptions) -> SweepResult:
    """Continue a sweep; trials that were not finished are run again."""
    from sekai.config.toml_file import ConfigSource

    plan = SweepPlan.read(ConfigSource.read(folder / "config.toml"), imports)
    return Sweep(folder, plan, options).run()


def sweep_to_resume(file: Path, name: str | None, runs: Path) -> Path:
    """Folder of a sweep by its name, its path, or the experiment file it was started with."""
    candidates = [file, runs / file, runs / latest_name(runs, file.stem)]
    for folder in candidates if name is None else [runs / name]:
        if is_sweep_folder(folder):
            return folder
    raise ExperimentError(f"there is no sweep {name or file} in {runs}")


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A checked sweep."""

    source: ConfigSource
    imports: tuple[str, ...]
    experiment: Experiment
    """The experiment without the searched settings."""

    prepared: EnvOptions
    section: SweepSection
    settings: tuple[SearchedSetting, ...]
    trials: int

    @classmethod
    def read(cls, source: ConfigSource, imports: Sequence[str]) -> SweepPlan:
        """Check a sweep: its experiment, and each searched setting at its extreme values.

        Raises:
            ConfigError: with the location of the first invalid key or value.
        """
        from sekai.experiment.preparation import prepare
        from sekai.experiment.reading import read_experiment, sweep_section

        experiment = read_experiment(source, imports)
        if "sweep" not in source.values:
            source.refuse(("sweep",), "[sweep] is missing; it needs trials and [sweep.space]")
        section = sweep_section(source)
        _require_selectable(source, section, experiment)
        settings = tuple(searched_settings(source, section))
        trials = number_of_trials(source, section)
        new_sampler(source, section, settings, 0, 1)
        new_pruner(source, section)
        for setting in settings:
            for value in setting.extremes:
                read_experiment(trial_source(source, [(setting, value)]), imports)
        prepared = prepare(experiment)
        if "data" in prepared.train and prepared.validation["data"] is prepared.train["data"]:
            source.refuse(
                ("data", "split"),
                "a sweep selects on a validation part; expected a split in three parts, such as "
                "split = [0.6, 0.2, 0.2]",
            )
        return cls(source, tuple(imports), experiment, prepared, section, settings, trials)


def _require_selectable(
    source: ConfigSource, section: SweepSection, experiment: Experiment
) -> None:
    """Refuse combinations of sections that a sweep cannot run."""
    if experiment.run.seeds is not None:
        message = "a sweep trains with one seed; remove seeds, or train the best trial with them"
        source.refuse(("run", "seeds"), message, value=False)
    if experiment.evaluate.walk_forward is not None:
        message = "a sweep has no walk-forward evaluation; remove walk_forward"
        source.refuse(("evaluate", "walk_forward"), message, value=False)
    if section.pruner != "NopPruner" and experiment.evaluate.every is None:
        message = f"{section.pruner} needs evaluations during training: set every in [evaluate]"
        source.refuse(("sweep", "pruner"), message)


class Sweep:
    """A sweep in its folder.

    Args:
        folder: folder of the sweep.
        plan: the experiment and its search space.
        options: execution and output.
    """

    def __init__(self, folder: Path, plan: SweepPlan, options: SweepOptions) -> None:
        from sekai.evaluation.statistics import TrialLedger

        self.folder, self.plan, self.options = folder, plan, options
        self._ledger = TrialLedger(RunFolder(self._trial_folder(0)).ledger)
        task = validation_task(plan.experiment, plan.prepared)
        self._digest, self._headline = task.judged_digest, task.headline
        self._sign = 1 if task.higher_is_better else -1
        self._study: TrialStudy

    def run(self) -> SweepResult:
        """Run the trials that are missing, and evaluate the best one."""
        plan = self.plan
        with lock_run(self.folder), self._interruption():
            self._study = TrialStudy(
                self.folder / STUDY_FILE,
                self.folder.name,
                maximizes=self._sign > 0,
                distributions={each.name: each.distribution() for each in plan.settings},
                sampler=partial(
                    new_sampler, plan.source, plan.section, plan.settings, jobs=self._jobs
                ),
                pruner=partial(new_pruner, plan.source, plan.section),
            )
            for number in self._study.rewind():
                self._remove(number)
            self._search()
            return self._finish()

    @property
    def trials(self) -> list[SweepTrial]:
        """All trials so far."""
        return [self._trial(record) for record in self._study.records()]

    @property
    def _jobs(self) -> int:
        return self.options.jobs or (1 if self.options.ray is None else 2)

    @property
    def _reports(self) -> bool:
        """True if trials report their evaluations."""
        return self.plan.section.pruner != "NopPruner"

    def _search(self) -> None:
        if self._study.count() >= self.plan.trials and not self._study.waiting:
            return
        if self.options.ray is None and self._jobs == 1:
            while task := self._next_task():
                report = partial(self._is_pruned, task.number) if self._reports else None
                self._end(task.number, run_trial(task, report))
            return
        from sekai.experiment.trial_workers import ProcessWorkers, RayWorkers

        if self.options.ray is not None:
            with RayWorkers(self.options.ray, self.options.jobs) as machines:
                self._search_with(machines)
        else:
            with ProcessWorkers(self._jobs) as processes:
                self._search_with(processes)

    def _search_with(self, workers: TrialWorkers) -> None:
        from sekai.experiment.trial_workers import TrialScore

        running = 0
        while True:
            while running < workers.capacity and (task := self._next_task()):
                workers.start(task, self._reports)
                running += 1
            if not running:
                return
            event = workers.next_event()
            if isinstance(event, TrialScore):
                is_pruned = self._is_pruned(event.number, event.evaluation, event.score)
                workers.answer(event.number, is_pruned)
            else:
                self._end(event.number, event.outcome)
                running -= 1

    def _next_task(self) -> TrialTask | None:
        """Next trial, if one is left; one that was not finished first."""
        if not self._study.waiting and self._study.count() >= self.plan.trials:
            return None
        number, labels = self._study.ask()
        self._show()
        return TrialTask(
            number,
            self._source(labels),
            self.plan.imports,
            self._trial_folder(number),
            self.options.output.command,
        )

    def _source(self, labels: Mapping[str, Any]) -> ConfigSource:
        values = [(each, each.value(labels[each.name])) for each in self.plan.settings]
        return trial_source(self.plan.source, values)

    def _is_pruned(self, number: int, evaluation: int, score: float) -> bool:
        # Optuna compares in the direction of the study, and returns are better if higher.
        is_pruned = self._study.report(number, evaluation, self._sign * score)
        self._show()
        return is_pruned

    def _end(self, number: int, outcome: TrialOutcome) -> None:
        """Record the end of a trial, first in the ledger: what is not there was not tried."""
        model = outcome.model or self._substitute(number)
        name = RunFolder(self._trial_folder(number)).name
        self._ledger.record(self._digest, name, outcome.sharpe, model, outcome.invalid)
        self._study.tell(
            number, outcome.state, outcome.score, {"model": model, "error": outcome.error}
        )
        self._show()
        trial = self.trials[number]
        text = {"complete": f"{self._headline} {trial.score:.4g}", "failed": trial.error}
        settings = ", ".join(f"{name} {value}" for name, value in trial.settings.items())
        done = text.get(trial.state, f"after {trial.evaluations} evaluations")
        if self.options.watch is None:
            self.options.output.note(f"trial {number} {trial.state}: {done} ({settings})")

    def _finish(self) -> SweepResult:
        """Evaluate the best trial on the test part, once."""
        from sekai.evaluation import load_evaluation
        from sekai.experiment.index_page import refresh_index
        from sekai.experiment.preparation import prepare
        from sekai.experiment.reading import read_experiment

        trials, output = self.trials, self.options.output
        complete = [trial for trial in trials if trial.state == "complete"]
        if not complete:
            first = next((f": {trial.error}" for trial in trials if trial.error), "")
            raise ExperimentError(f"no trial of {self.folder} is complete{first}")
        best = max(complete, key=lambda trial: (self._sign * trial.score, -trial.number))
        run = RunFolder(self._trial_folder(best.number))
        if self._facts["state"] == "finished":
            report = run.report if run.report.is_file() else None
            return SweepResult(
                self.folder, tuple(trials), best, load_evaluation(run.evaluation), run, report
            )
        output.note(f"evaluating the best trial, {run.name}, on the test part")
        labels = self._study.records()[best.number].params
        experiment = read_experiment(self._source(labels), self.plan.imports)
        prepared = prepare(experiment)
        self._count_trials(best.number, experiment, prepared)
        evaluation = evaluate_run(experiment, prepared, run, output.command)
        report = write_run_report(evaluation, run.report, output.log)
        self._note(state="finished", best=run.path.name)
        refresh_index(run, output.log)
        return SweepResult(self.folder, tuple(trials), best, evaluation, run, report)

    def _count_trials(self, best: int, experiment: Experiment, prepared: EnvOptions) -> None:
        """Record all other trials for the test part: they count, and their ratios are unknown."""
        from sekai.evaluation.env_source import as_env_source
        from sekai.evaluation.tasks import task_of

        digest = task_of(as_env_source(experiment.id, prepared.test)).judged_digest
        if digest == self._digest:
            # Simulated episodes: the trials are counted already.
            return
        for record in self._study.records():
            if record.number != best:
                name = RunFolder(self._trial_folder(record.number)).name
                self._ledger.record(digest, name, math.nan, record.user_attrs["model"])

    def _trial(self, record: Any) -> SweepTrial:
        states: dict[str, TrialState] = {"COMPLETE": "complete", "PRUNED": "pruned"}
        states |= {"FAIL": "failed", "RUNNING": "running", "WAITING": "running"}
        state, last = states[record.state.name], record.last_step
        return SweepTrial(
            number=record.number,
            state=state,
            settings={
                each.name: each.value(record.params[each.name])
                for each in self.plan.settings
                if each.name in record.params
            },
            score=record.value if state == "complete" else math.nan,
            evaluations=len(record.intermediate_values),
            last_return=math.nan if last is None else self._sign * record.intermediate_values[last],
            error=record.user_attrs.get("error", ""),
        )

    def _show(self) -> None:
        if self.options.watch is not None:
            self.options.watch(self.trials)

    def _trial_folder(self, number: int) -> Path:
        return self.folder / f"trial-{number:04}"

    def _remove(self, number: int) -> None:
        """Remove what an unfinished trial has left; `BusyError` if it is still running."""
        folder = self._trial_folder(number)
        if folder.exists():
            with lock_run(folder):
                shutil.rmtree(folder)

    def _substitute(self, number: int) -> str:
        """Identifier in the ledger of a trial without a policy, the same if it is run again."""
        text = f"{self.folder.name} {self._facts['created']} {number}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def _facts(self) -> dict[str, Any]:
        file = self.folder / SWEEP_FILE
        try:
            facts: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))
            _ = str(facts["state"]), str(facts["created"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ExperimentError(f"{file} cannot be read: {error}") from error
        return facts

    def _note(self, **changes: Any) -> None:
        content = json.dumps({**self._facts, **changes}, indent=2)
        with replace_file(self.folder / SWEEP_FILE, ".json") as draft:
            draft.write_text(f"{content}\n", encoding="utf-8")

    @contextlib.contextmanager
    def _interruption(self) -> Iterator[None]:
        with sigterm_as_interrupt():
            try:
                yield
            except KeyboardInterrupt:
                self.options.output.log(
                    f"interrupted; to continue:\n  sekai sweep {self.folder} --resume"
                )
                raise
