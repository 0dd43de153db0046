"""Run folder: files, state, lock and learning curve of a training run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sekai.error import SekaiError
from sekai.storage.files import replace_file
from sekai.storage.lock import FileLock, is_locked
from sekai.storage.names import did_you_mean
from sekai.storage.strict_json import parse_json

DEFAULT_ROOT = Path("runs")
LOCK_FILE = ".lock"
SEEDS_FILE = "seeds.json"
"""File in a folder with a run for each training seed."""

SWEEP_FILE = "sweep.json"
"""File in a folder with a run for each trial of a sweep."""


class ExperimentError(SekaiError):
    """A run or an experiment cannot be used as requested."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Folder of a training run."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run; of a training seed or a trial, with that of the experiment."""
        folder = self.path.parent
        return f"{folder.name}/{self.path.name}" if _is_group(folder) else self.path.name

    @property
    def config(self) -> Path:
        """Experiment file with all defaults filled in."""
        return self.path / "config.toml"

    @property
    def curve(self) -> LearningCurve:
        """Learning curve."""
        return LearningCurve(self.path / "metrics.jsonl")

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def policy(self) -> Path:
        """Trained policy."""
        return self.path / "policy.safetensors"

    @property
    def evaluation(self) -> Path:
        """Evaluation file."""
        return self.path / "evaluation.json"

    @property
    def report(self) -> Path:
        """HTML report of the evaluation."""
        return self.path / "report.html"

    @property
    def walk_forward(self) -> Path:
        """Walk-forward evaluation file, of all test rows; its report is beside it."""
        return self.path / "walk_forward.json"

    @property
    def ledger(self) -> Path:
        """Trial ledger, shared by all runs in the folder of the runs."""
        folder = self.path.parent
        return (folder.parent if _is_group(folder) else folder) / "trials.jsonl"

    @property
    def facts(self) -> dict[str, Any]:
        """Content of run.json; a running run whose process has ended counts as interrupted.

        Raises:
            ExperimentError: run.json cannot be read.
        """
        try:
            facts = _checked_facts(parse_json(self._facts.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            remedy = self.retrain_hint if self.config.is_file() else "remove it"
            raise ExperimentError(f"{self.path} is not a valid run: {error}; {remedy}") from error
        if facts["state"] == "running" and not is_run_locked(self.path):
            facts["state"] = "interrupted"
        return facts

    @property
    def retrain_hint(self) -> str:
        """Remedy where files of the run are lost."""
        name = free_name(self.path.parent, self.path.name)
        return f"`sekai train {self.config} --name {name}` trains it again"

    def note(self, **changes: Any) -> None:
        """Update entries of run.json."""
        facts = parse_json(self._facts.read_text(encoding="utf-8"))
        self._write({**facts, **changes, "updated": utc_now()})

    def begin(self, config: str, facts: Mapping[str, Any]) -> None:
        """Create the folder.

        Args:
            config: text of config.toml.
            facts: content of run.json.

        Raises:
            ExperimentError: the folder exists, or its parent is a file.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ExperimentError(
                f"{self.path.parent} is a file, not a folder for runs; choose another with --runs"
            ) from error
        try:
            self.path.mkdir()
        except FileExistsError as error:
            raise name_taken(self) from error
        self.config.write_text(config, encoding="utf-8")
        self._write({**facts, "created": utc_now(), "updated": utc_now()})

    @property
    def _facts(self) -> Path:
        return self.path / "run.json"

    def _write(self, facts: Mapping[str, Any]) -> None:
        with replace_file(self._facts, ".json") as draft:
            draft.write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")


class LearningCurve:
    """Learning curve: a JSON Lines file with one line of metrics per iteration.

    Args:
        file: path that ends in .jsonl; the file may be absent.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Append an iteration: the interface of `sekai.training.Track`."""
        values = {
            name: value if math.isfinite(value) else str(value) for name, value in metrics.items()
        }
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({**values, "steps": steps}, allow_nan=False) + "\n")

    def rows(self) -> list[dict[str, float]]:
        """Metrics by iteration, up to the first incomplete line."""
        if not self.file.exists():
            return []
        rows = []
        for line in self.file.read_text(encoding="utf-8").splitlines():
            try:
                row = {name: float(value) for name, value in parse_json(line).items()}
                _ = int(row["steps"])
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                # Left by a process that was killed while writing, or altered since.
                break
            rows.append(row)
        return rows

    def columns(self) -> dict[str, list[float]]:
        """Metrics by name; NaN in iterations without a value."""
        rows = self.rows()
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name, math.nan) for row in rows] for name in names}

    def last_steps(self) -> int:
        """Number of steps in the last line."""
        rows = self.rows()
        return int(rows[-1]["steps"]) if rows else 0

    def truncate(self, steps: int) -> None:
        """Remove iterations after `steps`, which a resumed run repeats."""
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        remaining = [
            line for line, row in zip(lines, self.rows(), strict=False) if row["steps"] <= steps
        ]
        with replace_file(self.file, ".jsonl") as draft:
            draft.write_text("".join(f"{line}\n" for line in remaining), encoding="utf-8")


def lock_run(folder: Path) -> FileLock:
    """Context manager that locks a run folder; `BusyError` if another process holds the lock."""
    return FileLock(
        folder / LOCK_FILE, f"another process is working on {folder}: wait for it, or stop it"
    )


def is_run_locked(folder: Path) -> bool:
    """Return True if a process is working on the run."""
    return is_locked(folder / LOCK_FILE)


def utc_now() -> str:
    """Current time in UTC as ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def name_taken(folder: RunFolder) -> ExperimentError:
    """Error for the name of an existing run."""
    return ExperimentError(
        f"{folder.path} exists, and runs are never overwritten: --resume continues it, --name "
        f"chooses another name, such as --name {free_name(folder.path.parent, folder.path.name)}"
    )


def free_name(root: Path, name: str) -> str:
    """First free name out of `name`, `name-2`, `name-3`, ..."""
    candidate, number = name, 1
    while (root / candidate).exists():
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def latest_name(root: Path, name: str) -> str:
    """Last existing name out of `name`, `name-2`, `name-3`, ...; `name` if there is none."""
    candidate, number = name, 1
    while (root / f"{name}-{number + 1}").exists():
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def runs_in(root: Path) -> list[RunFolder]:
    """Runs in a folder, oldest first, with those of training seeds and the best of a sweep."""
    files = list(root.glob("*/run.json"))
    for marker in root.glob(f"*/{SEEDS_FILE}"):
        files.extend(marker.parent.glob("*/run.json"))
    for marker in root.glob(f"*/{SWEEP_FILE}"):
        # The best trial alone is evaluated on the test part.
        runs = map(RunFolder, marker.parent.glob("trial-*"))
        files.extend(run.path / "run.json" for run in runs if run.evaluation.is_file())
    return sorted((RunFolder(file.parent) for file in files), key=_age)


def is_seeds_folder(folder: Path) -> bool:
    """Return True for a folder with a run for each training seed."""
    return (folder / SEEDS_FILE).is_file()


def is_sweep_folder(folder: Path) -> bool:
    """Return True for a folder with a run for each trial of a sweep."""
    return (folder / SWEEP_FILE).is_file()


def find_run(name: str, root: Path) -> RunFolder:
    """Run by its name in `root`, or by the path of its folder.

    Raises:
        ExperimentError: there is no such run.
    """
    for path in (root / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path)
    known = [run.name for run in runs_in(root)]
    suggestion = did_you_mean(name, known) if known else "; there are no runs yet"
    raise ExperimentError(f"there is no run {name!r} in {root}{suggestion}")


def _is_group(folder: Path) -> bool:
    return is_seeds_folder(folder) or is_sweep_folder(folder)


def _age(run: RunFolder) -> tuple[str, str]:
    try:
        created = str(run.facts.get("created", ""))
    except ExperimentError:
        # Unreadable runs are listed too; the listing shows the error.
        created = ""
    return created, run.name


def _checked_facts(facts: Any) -> dict[str, Any]:
    """Content of run.json, if the entries that commands compute with have the expected types."""
    if not isinstance(facts, dict) or not isinstance(facts.get("state"), str):
        raise ValueError("run.json has no state")
    steps, headline = facts.get("planned_steps", 0), facts.get("headline")
    if type(steps) is not int:
        raise ValueError(f"planned_steps in run.json must be a whole number, got {steps!r:.80}")
    if headline is not None and not _is_headline(headline):
        raise ValueError(f"headline in run.json must be a metric with bounds, got {headline!r:.80}")
    return facts


def _is_headline(headline: Any) -> bool:
    try:
        _ = [float(headline[name]) for name in ("value", "low", "high")]
        return isinstance(headline["metric"], str)
    except (KeyError, TypeError, ValueError, OverflowError):
        return False
