"""What is meant by the names of things to watch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sekai.cli.failure import CommandError
from sekai.cli.runs.run_folder import RunFolder, runs_in
from sekai.cli.runs.training_source import TrainingSource
from sekai.data.near_names import near
from sekai.live.session_folder import SessionFolder
from sekai.live.watch.session_source import WITH_PROCESS, SessionSource
from sekai.live.watch.source import Source

__all__ = ["find_sources", "newest_source", "sessions_in"]


def find_sources(names: Iterable[str], root: Path) -> list[Source]:
    """The sessions and the training runs of those names, each once.

    A run is what is learnt and what trades with it: its sessions that run now, or else the last
    one, and its training; what runs comes first.

    Args:
        names: of a run, `RUN/live/SESSION`, or a folder of either.
        root: where runs are kept.

    Raises:
        CommandError: there is none of that name.
    """
    found: dict[Path, Source] = {}
    for name in names:
        for path, source in _of_name(name, root).items():
            found.setdefault(path, source)
    return list(found.values())


def _of_name(name: str, root: Path) -> dict[Path, Source]:
    """By their folders."""
    for path in (root / name, Path(name)):
        if _is_session(path):
            return {path.resolve(): SessionSource(SessionFolder(path.resolve()))}
    for path in (root / name, Path(name)):
        if (path / "run.json").is_file():
            return _of_run(RunFolder(path.resolve()))
    known = _names(root)
    what = near(name, known) if known else ": nothing was trained or traded there yet"
    raise CommandError(f"there is no run and no session {name!r} in {root}{what}")


def newest_source(root: Path) -> Source:
    """What runs now; of several, the one that told something last.

    Raises:
        CommandError: nothing does.
    """
    running: list[tuple[float, Source]] = [
        (_written(one.status), SessionSource(one)) for one in sessions_in(root) if _is_alive(one)
    ]
    for run in runs_in(root):
        if _is_running(run):
            last = max(_written(run.curve.file), _written(run.config))
            running.append((last, TrainingSource(run)))
    if not running:
        known = ", ".join(_names(root)[-6:])
        what = f"name one to look at: {known}" if known else "sekai train begins one"
        raise CommandError(f"nothing runs in {root} now; {what}")
    return max(running, key=lambda one: one[0])[1]


def _of_run(run: RunFolder) -> dict[Path, Source]:
    told = [SessionFolder(one) for one in sorted(run.path.glob("live/*")) if _is_session(one)]
    told.sort(key=lambda one: _written(one.status), reverse=True)
    shown = [one for one in told if _is_alive(one)] or told[:1]
    sessions: dict[Path, Source] = {one.path: SessionSource(one) for one in shown}
    training: dict[Path, Source] = {run.path: TrainingSource(run)}
    return training | sessions if _is_running(run) else sessions | training


def sessions_in(root: Path) -> list[SessionFolder]:
    """The sessions of all runs in a folder."""
    return [SessionFolder(path) for path in sorted(root.glob("*/live/*")) if _is_session(path)]


def _is_session(path: Path) -> bool:
    folder = SessionFolder(path)
    return any(file.is_file() for file in (folder.status, folder.facts, folder.journal))


def _names(root: Path) -> list[str]:
    sessions = [one.path.relative_to(root).as_posix() for one in sessions_in(root)]
    return [*(run.name for run in runs_in(root)), *sessions]


def _is_alive(session: SessionFolder) -> bool:
    found = SessionSource(session).read()
    status = found["status"]
    return bool(status and status["state"] in WITH_PROCESS and found["silent_since"] is None)


def _is_running(run: RunFolder) -> bool:
    try:
        return bool(run.facts["state"] == "running")
    except CommandError:
        return False


def _written(file: Path) -> float:
    return file.stat().st_mtime if file.exists() else 0.0
