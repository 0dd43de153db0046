"""Training seeds: one experiment trained with several seeds, each a run, and their summary."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.experiment.run import (
    RunOptions,
    default_name,
    output_of,
    resume_run,
    source_with,
    start_run,
    write_run_report,
)
from sekai.experiment.run_folder import (
    DEFAULT_ROOT,
    SEEDS_FILE,
    ExperimentError,
    RunFolder,
    free_name,
    is_seeds_folder,
    name_taken,
    utc_now,
)
from sekai.storage.strict_json import parse_json

if TYPE_CHECKING:
    from sekai.config.toml_file import ConfigSource
    from sekai.evaluation import Evaluation, Interval


@dataclass(frozen=True, slots=True)
class SeedsResult:
    """Result of an experiment with several training seeds."""

    path: Path
    """Folder of the experiment, with a run for each seed."""

    runs: dict[int, RunFolder]
    evaluations: dict[int, Evaluation]
    """Evaluation of each trained agent, by training seed."""

    report: Path | None
    """HTML report of all seeds; None if a package for it is missing."""

    def __repr__(self) -> str:
        value, count = self.interval(self.metric), len(self.evaluations)
        return f"SeedsResult({self.path}: {self.metric} {value} over {count} training seeds)"

    @property
    def metric(self) -> str:
        """Headline metric."""
        return next(iter(self.evaluations.values())).headline

    def values(self, metric: str) -> list[float]:
        """Metric of each trained agent, in the order of the seeds."""
        return [found.agent.metrics[metric].value for found in self.evaluations.values()]

    def median(self, metric: str) -> float:
        """Median of a metric over training seeds."""
        from statistics import median

        return float(median(self.values(metric)))

    def interval(self, metric: str) -> Interval:
        """Mean of a metric with its confidence interval over training seeds (Student's t)."""
        from sekai.evaluation.statistics.significance import seed_interval

        level = next(iter(self.evaluations.values())).agent.metrics[metric].level
        return seed_interval(self.values(metric), level)

    def ahead_of(self, baseline: str) -> int:
        """Number of training seeds whose agent is significantly ahead of a baseline."""
        return sum(
            comparison.standing == "ahead"
            for found in self.evaluations.values()
            for comparison in found.comparisons
            if comparison.baseline == baseline
        )


def run_seeds(
    file: str | Path,
    *,
    seeds: int | Sequence[int] | None = None,
    overrides: Mapping[str, Any] | None = None,
    name: str | None = None,
    runs: str | Path = DEFAULT_ROOT,
    imports: Sequence[str] = (),
    resume: bool = False,
    progress: bool = False,
) -> SeedsResult:
    """Train an experiment with several training seeds, each in a run folder of its own.

    Args:
        file: the experiment file; with `resume`, also the folder of the experiment.
        seeds: training seeds, or their number; None for `seeds` of `[run]` in the file.
        overrides: values by `section.key`, such as `{"train.steps": 10_000}`.
        name: name of the folder; by default that of the file, with a number if it is taken.
        runs: folder of the runs.
        imports: modules that register envs, features or kinds of the experiment.
        resume: continue: resume runs that were interrupted, and start those that are missing.
        progress: show progress bars.

    Raises:
        ConfigError: a key or a value is invalid; the message points at the line.
        ExperimentError: the folder exists already, or cannot be resumed.
    """
    options, root = output_of(progress), Path(runs)
    if resume:
        if overrides or seeds is not None:
            raise ExperimentError("a resumed experiment keeps its settings and seeds")
        folder = seeds_folder(Path(file), name, root)
        if folder is None:
            raise ExperimentError(f"there is no experiment of several seeds {file} in {root}")
        return resume_seeds(folder, imports, options)
    source = source_with(file, overrides, name)
    if seeds is not None:
        set_seeds(source, seeds, "seeds")
    return start_seeds(source, root, imports, options)


def set_seeds(source: ConfigSource, seeds: int | Sequence[int], option: str) -> None:
    """Set the training seeds: those listed, or so many from the seed of the experiment on."""
    if isinstance(seeds, int):
        first = source.values.get("run", {}).get("seed", 0)
        seeds = range(first, first + seeds)
    source.set(("run", "seeds"), list(seeds), option)


def start_seeds(
    source: ConfigSource, runs: Path, imports: Sequence[str], options: RunOptions
) -> SeedsResult:
    """Train an experiment with each of its training seeds in a new folder.

    Args:
        source: the experiment, with `seeds` in `[run]`.
        runs: folder of the runs.
        imports: modules that register what the experiment names.
        options: output of the runs.
    """
    from sekai.config.toml_file import dump_toml
    from sekai.experiment.reading import read_experiment

    experiment = read_experiment(source, imports)
    seeds = experiment.run.seeds
    if seeds is None:
        source.refuse(("run",), "[run] needs seeds, such as seeds = [1, 2, 3]")
    folder = runs / (experiment.run.name or free_name(runs, default_name(source)))
    if folder.exists():
        raise name_taken(RunFolder(folder))
    folder.mkdir(parents=True)
    config = dump_toml(experiment.resolved(folder.name))
    (folder / "config.toml").write_text(config, encoding="utf-8")
    marker = {"seeds": list(seeds), "command": options.command, "created": utc_now()}
    (folder / SEEDS_FILE).write_text(f"{json.dumps(marker, indent=2)}\n", encoding="utf-8")
    try:
        return _train_all(source, folder, list(seeds), imports, options)
    finally:
        if not any(folder.glob("*/run.json")):
            # An experiment that cannot be trained leaves no folder behind.
            shutil.rmtree(folder)


def resume_seeds(folder: Path, imports: Sequence[str], options: RunOptions) -> SeedsResult:
    """Continue an experiment of several seeds: runs that were interrupted or are missing."""
    from sekai.config.toml_file import ConfigSource

    try:
        marker = parse_json((folder / SEEDS_FILE).read_text(encoding="utf-8"))
        seeds = [int(seed) for seed in marker["seeds"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ExperimentError(f"{folder / SEEDS_FILE} cannot be read: {error}") from error
    source = ConfigSource.read(folder / "config.toml")
    return _train_all(source, folder, seeds, imports, options)


def seeds_folder(file: Path, name: str | None, runs: Path) -> Path | None:
    """Folder of several seeds by its name, its path or its experiment file; None if it is none."""
    candidates = [file, runs / file, runs / file.stem] if name is None else [runs / name]
    return next((folder for folder in candidates if is_seeds_folder(folder)), None)


def _train_all(
    source: ConfigSource,
    folder: Path,
    seeds: list[int],
    imports: Sequence[str],
    options: RunOptions,
) -> SeedsResult:
    runs: dict[int, RunFolder] = {}
    evaluations: dict[int, Evaluation] = {}
    for number, seed in enumerate(seeds, 1):
        options.note(f"training seed {seed}, {number} of {len(seeds)}")
        run = runs[seed] = RunFolder(folder / f"seed-{seed}")
        evaluations[seed] = _evaluation_of(source, run, seed, imports, options)
    report = write_run_report(list(evaluations.values()), folder / "report.html", options.log)
    return SeedsResult(folder, runs, evaluations, report)


def _evaluation_of(
    source: ConfigSource, run: RunFolder, seed: int, imports: Sequence[str], options: RunOptions
) -> Evaluation:
    """Train the run of one seed, or load its evaluation if it is finished."""
    from sekai.evaluation import load_evaluation

    if not run.path.exists():
        own = dataclasses.replace(source, values=copy.deepcopy(source.values))
        section = own.values.setdefault("run", {})
        section.pop("seeds", None)
        section.update(name=run.path.name, seed=seed)
        return start_run(own, run.path.parent, imports, options).evaluation
    if run.facts["state"] == "finished":
        return load_evaluation(run.evaluation)
    return resume_run(run, imports, options).evaluation
