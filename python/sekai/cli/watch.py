"""`sekai watch`: a page that shows how trainings and live sessions are doing."""

from __future__ import annotations

import contextlib
import os
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.runs.run_folder import DEFAULT_ROOT
from sekai.cli.screen import note, say
from sekai.error import MissingExtraError

if TYPE_CHECKING:
    from sekai.live.watch.source import Source
    from sekai.live.watch.token import Token

__all__ = ["EXAMPLES", "watch"]

EXAMPLES = (
    "sekai watch",
    "sekai watch demo demo/live/paper",
    "sekai watch demo --port 0 --open",
)

PACKAGES = ("starlette", "uvicorn", "prometheus_client", "plotly")
"""What the extra `live` brings for this."""

TOKEN_VARIABLE = "SEKAI_WATCH_TOKEN"


@guarded
def watch(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs with what trades, RUN/live/SESSION, or folders; what runs now if not given."
        ),
    ] = None,
    runs: Annotated[
        Path, typer.Option(envvar="SEKAI_RUNS", help="Where runs are kept.")
    ] = DEFAULT_ROOT,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where the page is; 0 for any port.")
    ] = 8321,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let other machines in, unencrypted.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with the token; else {TOKEN_VARIABLE}, else one is made."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open the page in a browser.")
    ] = False,
) -> None:
    """Show how trainings and live sessions are doing, on a page of this machine alone.

    Whoever has the address with its token may look, and may stop trading. Ctrl-C ends the page and
    nothing else. Numbers for Prometheus are at /metrics, with the token as a bearer.
    """
    with _extra():
        import plotly.offline  # type: ignore[import-untyped,unused-ignore]  # noqa: F401

        from sekai.live.watch.app import watch_app
        from sekai.live.watch.server import Service, address_of, listening
    from sekai.live.watch.token import Token

    given = _given_token(token_file)
    _check_reach(host, allow_remote, given is not None)
    token = Token(given)
    sources = _sources(name or [], runs)
    try:
        listener = listening(host, port)
    except OSError as error:
        raise CommandError(
            f"{host}:{port} cannot be listened at: {error}; --port 0 takes any that is free"
        ) from error
    with listener, Service(watch_app(sources, token, host), listener) as service:
        _tell(sources, address_of(listener), token, is_given=given is not None)
        if open_page:
            webbrowser.open(f"{address_of(listener)}?token={token.ticket()}")
        service.run()


def _sources(names: list[str], runs: Path) -> list[Source]:
    from sekai.cli.watched import find_sources, newest_source

    if not names:
        return [newest_source(runs)]
    return find_sources(names, runs)


def _given_token(file: Path | None) -> str | None:
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    return os.environ.get(TOKEN_VARIABLE) or None


def _check_reach(host: str, allow_remote: bool, has_token: bool) -> None:
    from sekai.live.watch.hosts import is_loopback

    if is_loopback(host) or (allow_remote and has_token):
        return
    raise CommandError(
        f"{host} can be reached from other machines, and what is sent there is not encrypted. "
        "Better: leave out --host, and on the other machine `ssh -L 8321:127.0.0.1:8321 HERE`. "
        f"To do it nevertheless, give a token by {TOKEN_VARIABLE} or --token-file, and "
        "--allow-remote"
    )


def _tell(sources: list[Source], address: str, token: Token, *, is_given: bool) -> None:
    for source in sources:
        note(f"watching {source.kind} {source.title}")
    if is_given:
        # Whoever gave it knows it, and this output may be kept.
        say(f"{address}?token=...")
        note("put the token that you gave in place of the dots")
    else:
        say(f"{address}?token={token.text}")
        note("whoever has this address may look, and may stop trading")
    note("Ctrl-C ends the page; what is watched goes on")


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    """Say what to install where a package is missing."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise MissingExtraError.of(package, "live,cli", "sekai watch") from error
