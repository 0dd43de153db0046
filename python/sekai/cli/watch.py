"""`sekai watch`: web page with the status of training runs and live sessions."""

from __future__ import annotations

import contextlib
import os
import webbrowser
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import RunsOption
from sekai.cli.screen import note, say
from sekai.error import MissingExtraError
from sekai.experiment.run_folder import DEFAULT_ROOT, ExperimentError, RunFolder, runs_in
from sekai.storage.names import did_you_mean

if TYPE_CHECKING:
    from sekai.live.config import SessionFolder
    from sekai.live.watch.security import Token
    from sekai.live.watch.sources import MonitorSource

EXAMPLES = (
    "sekai watch",
    "sekai watch demo demo/live/paper",
    "sekai watch demo --port 0 --open",
)

PACKAGES = ("starlette", "uvicorn", "prometheus_client", "plotly")
"""Packages of the extra `live` that the page needs."""

TOKEN_VARIABLE = "SEKAI_WATCH_TOKEN"


@guarded
def watch(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs, sessions as RUN/live/SESSION, or folders; by default whatever is running."
        ),
    ] = None,
    runs: RunsOption = DEFAULT_ROOT,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 for any free port.")
    ] = 8321,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow other machines, unencrypted.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token; else {TOKEN_VARIABLE}, else a random one."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Show the status of training runs and live sessions on a local web page.

    Anyone with the address and its token can view the page and stop trading. Ctrl-C ends the page
    and nothing else. Prometheus metrics are at /metrics, with the token as a bearer token.
    """
    with _extra():
        import plotly.offline  # type: ignore[import-untyped,unused-ignore]  # noqa: F401

        from sekai.live.watch.app import watch_app
        from sekai.live.watch.server import Service, listening_socket, server_url
    from sekai.live.watch.security import Token

    secret = _read_token(token_file)
    _check_host(host, allow_remote, secret is not None)
    token = Token(secret)
    sources = find_sources(name, runs) if name else [newest_source(runs)]
    try:
        listener = listening_socket(host, port)
    except OSError as error:
        raise CommandError(
            f"cannot listen on {host}:{port}: {error}; --port 0 chooses a free port"
        ) from error
    with listener, Service(watch_app(sources, token, host), listener) as service:
        _show_address(sources, server_url(listener), token, is_secret=secret is not None)
        if open_page:
            webbrowser.open(f"{server_url(listener)}?token={token.ticket()}")
        service.run()


def find_sources(names: Iterable[str], root: Path) -> list[MonitorSource]:
    """Sessions and training runs by name, each once.

    The name of a run stands for its training and for its running sessions, or else the last
    session; whatever is running comes first.

    Args:
        names: names of runs, `RUN/live/SESSION`, or folders of either.
        root: folder of the runs.

    Raises:
        CommandError: a name is unknown.
    """
    sources: dict[Path, MonitorSource] = {}
    for name in names:
        for path, source in sources_of(name, root).items():
            sources.setdefault(path, source)
    return list(sources.values())


def newest_source(root: Path) -> MonitorSource:
    """The running session or training that was updated last.

    Raises:
        CommandError: nothing is running.
    """
    from sekai.cli.training_source import TrainingSource
    from sekai.live.watch.sources import SessionSource

    running: list[tuple[float, MonitorSource]] = [
        (_modified(session.status), SessionSource(session))
        for session in _sessions_in(root)
        if is_alive(session)
    ]
    for run in runs_in(root):
        if _is_running(run):
            updated = max(_modified(run.curve.file), _modified(run.config))
            running.append((updated, TrainingSource(run)))
    if not running:
        known = ", ".join(_names(root)[-6:])
        remedy = f"name one of {known}" if known else "start a run with sekai train"
        raise CommandError(f"nothing is running in {root}; {remedy}")
    return max(running, key=lambda entry: entry[0])[1]


def sources_of(name: str, root: Path) -> dict[Path, MonitorSource]:
    """Sources of a run, or of a session folder, by path."""
    from sekai.live.config import SessionFolder
    from sekai.live.watch.sources import SessionSource

    for path in (root / name, Path(name)):
        if _is_session(path):
            return {path.resolve(): SessionSource(SessionFolder(path.resolve()))}
    for path in (root / name, Path(name)):
        if (path / "run.json").is_file():
            return _sources_of_run(RunFolder(path.resolve()))
    known = _names(root)
    suggestion = did_you_mean(name, known) if known else "; there are no runs yet"
    raise CommandError(f"there is no run and no session {name!r} in {root}{suggestion}")


def _sources_of_run(run: RunFolder) -> dict[Path, MonitorSource]:
    from sekai.cli.training_source import TrainingSource
    from sekai.live.config import SessionFolder
    from sekai.live.watch.sources import SessionSource

    folders = [SessionFolder(path) for path in sorted(run.path.glob("live/*")) if _is_session(path)]
    folders.sort(key=lambda folder: _modified(folder.status), reverse=True)
    shown = [folder for folder in folders if is_alive(folder)] or folders[:1]
    sessions: dict[Path, MonitorSource] = {folder.path: SessionSource(folder) for folder in shown}
    training: dict[Path, MonitorSource] = {run.path: TrainingSource(run)}
    return training | sessions if _is_running(run) else sessions | training


def _sessions_in(root: Path) -> list[SessionFolder]:
    from sekai.live.config import SessionFolder

    return [SessionFolder(path) for path in sorted(root.glob("*/live/*")) if _is_session(path)]


def _is_session(path: Path) -> bool:
    from sekai.live.config import SessionFolder

    folder = SessionFolder(path)
    return any(file.is_file() for file in (folder.status, folder.facts, folder.journal))


def _names(root: Path) -> list[str]:
    sessions = [session.path.relative_to(root).as_posix() for session in _sessions_in(root)]
    return [*(run.name for run in runs_in(root)), *sessions]


def is_alive(session: SessionFolder) -> bool:
    """Return True if a process runs the session: its status is recent."""
    from sekai.live.watch.sources import RUNNING_STATES, SessionSource

    report = SessionSource(session).read()
    status = report["status"]
    return bool(status and status["state"] in RUNNING_STATES and report["silent_since"] is None)


def _is_running(run: RunFolder) -> bool:
    try:
        return bool(run.facts["state"] == "running")
    except ExperimentError:
        return False


def _modified(file: Path) -> float:
    return file.stat().st_mtime if file.exists() else 0.0


def _read_token(file: Path | None) -> str | None:
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    return os.environ.get(TOKEN_VARIABLE) or None


def _check_host(host: str, allow_remote: bool, has_token: bool) -> None:
    from sekai.live.watch.security import is_loopback

    if is_loopback(host) or (allow_remote and has_token):
        return
    raise CommandError(
        f"{host} can be reached from other machines, and the connection is not encrypted. "
        "Better: leave out --host, and on the other machine `ssh -L 8321:127.0.0.1:8321 HERE`. "
        f"To do it nevertheless, pass a token by {TOKEN_VARIABLE} or --token-file, and "
        "--allow-remote"
    )


def _show_address(
    sources: list[MonitorSource], address: str, token: Token, *, is_secret: bool
) -> None:
    for source in sources:
        note(f"watching {source.kind} {source.title}")
        if remark := kill_remark(source):
            note(remark)
    if is_secret:
        # The user knows the token, and this output may be logged.
        say(f"{address}?token=...")
        note("replace the dots with your token")
    else:
        say(f"{address}?token={token.text}")
        note("anyone with this address can view the page and stop trading")
    note("Ctrl-C ends the page; runs and sessions continue")


def kill_remark(source: MonitorSource) -> str:
    """Kill switch of a session: requested, and obeyed or not; empty if it is off."""
    from sekai.live.watch.sources import SessionSource

    if not isinstance(source, SessionSource):
        return ""
    report = source.read()
    status = source.status
    if status is not None and status.kill_text:
        return status.kill_text
    return "" if report["kill"] is None else f"kill requested, NOT obeyed yet: {report['kill']}"


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    """Turn the ImportError of a package of the extra into an error that names the extra."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise MissingExtraError.of(package, "live,cli", "sekai watch") from error
