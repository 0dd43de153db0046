"""The folder of a run: where each part of it is, and what state it is in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sekai.cli.failure import CommandError
from sekai.cli.runs.learning_curve import LearningCurve
from sekai.cli.runs.run_lock import is_locked
from sekai.rendering.replacement import replacing
from sekai.storage.strict_json import parsed

__all__ = ["DEFAULT_ROOT", "RunFolder", "find_run", "free_name", "runs_in"]

DEFAULT_ROOT = Path("runs")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with all that became of a training."""

    path: Path

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.path.name

    @property
    def config(self) -> Path:
        """The experiment, with everything that it left open."""
        return self.path / "config.toml"

    @property
    def curve(self) -> LearningCurve:
        """What was told while the agent learnt."""
        return LearningCurve(self.path / "metrics.jsonl")

    @property
    def checkpoints(self) -> Path:
        """Agents to go on from."""
        return self.path / "checkpoints"

    @property
    def policy(self) -> Path:
        """What acts."""
        return self.path / "policy.safetensors"

    @property
    def evaluation(self) -> Path:
        """How it was judged."""
        return self.path / "evaluation.json"

    @property
    def report(self) -> Path:
        """The same to read."""
        return self.path / "report.html"

    @property
    def ledger(self) -> Path:
        """All trials of all runs beside this one."""
        return self.path.parent / "trials.jsonl"

    @property
    def facts(self) -> dict[str, Any]:
        """What run.json says; a run whose process has gone without a word was interrupted."""
        try:
            found = _checked_facts(parsed(self._facts.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise CommandError(self._unreadable(str(error))) from error
        if found["state"] == "running" and not is_locked(self.path):
            found["state"] = "interrupted"
        return found

    @property
    def anew(self) -> str:
        """What to type where files of the run are lost."""
        name = free_name(self.path.parent, self.name)
        return f"`sekai train {self.config} --name {name}` trains it anew"

    def note(self, **changes: Any) -> None:
        """Write down what has become of the run, beside what was known."""
        known = parsed(self._facts.read_text(encoding="utf-8"))
        self._write({**known, **changes, "updated": now()})

    def begin(self, config: str, facts: Mapping[str, Any]) -> None:
        """Make the folder; one that is there is refused.

        Args:
            config: the text of config.toml.
            facts: what run.json is to say.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise CommandError(
                f"runs are kept in a folder, and {self.path.parent} is a file: name another with "
                f"--runs"
            ) from error
        try:
            self.path.mkdir()
        except FileExistsError as error:
            raise taken(self) from error
        self.config.write_text(config, encoding="utf-8")
        self._write({**facts, "created": now(), "updated": now()})

    def _unreadable(self, why: str) -> str:
        what_to_do = self.anew if self.config.is_file() else "remove it"
        return f"{self.path} is no run: {why}; {what_to_do}"

    @property
    def _facts(self) -> Path:
        return self.path / "run.json"

    def _write(self, facts: Mapping[str, Any]) -> None:
        with replacing(self._facts, ".json") as draft:
            draft.write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _checked_facts(facts: Any) -> dict[str, Any]:
    """What run.json says, if what commands calculate with is of the type that they expect."""
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


def now() -> str:
    """The time in UTC, as ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def taken(folder: RunFolder) -> CommandError:
    """The error for a name that has a run already."""
    return CommandError(
        f"{folder.path} is there, and runs are never overwritten: --resume goes on with it, "
        f"--name takes another name, such as --name {free_name(folder.path.parent, folder.name)}"
    )


def free_name(root: Path, wanted: str) -> str:
    """The name itself, or the first of `name-2`, `name-3` that is free."""
    name, number = wanted, 1
    while (root / name).exists():
        number += 1
        name = f"{wanted}-{number}"
    return name


def last_name(root: Path, wanted: str) -> str:
    """The last of `name`, `name-2`, `name-3` that is there; the name itself if none is."""
    name, number = wanted, 1
    while (root / f"{wanted}-{number + 1}").exists():
        number += 1
        name = f"{wanted}-{number}"
    return name


def runs_in(root: Path) -> list[RunFolder]:
    """The runs in a folder, the oldest first."""
    found = [RunFolder(file.parent) for file in root.glob("*/run.json")]
    return sorted(found, key=_age)


def _age(run: RunFolder) -> tuple[str, str]:
    try:
        created = str(run.facts.get("created", ""))
    except CommandError:
        # What cannot be read is listed as well, by somebody who says so.
        created = ""
    return created, run.name


def find_run(name: str, root: Path) -> RunFolder:
    """The run of that name, or in the folder of that name.

    Raises:
        CommandError: there is none.
    """
    for path in (root / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path)
    from sekai.data.near_names import near

    known = [run.name for run in runs_in(root)]
    what = near(name, known) if known else ": nothing was trained there yet"
    raise CommandError(f"there is no run {name!r} in {root}{what}")
