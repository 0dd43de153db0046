"""`sekai paper`: run a trained agent on a feed, with a paper broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sekai.cli.failure import FAILED, INTERRUPTED, CommandError, guarded
from sekai.cli.paper_options import PaperOptions, ending_of
from sekai.cli.runs.run_folder import DEFAULT_ROOT, find_run
from sekai.cli.screen import note, say, show_table
from sekai.cli.user_modules import ImportOption

if TYPE_CHECKING:
    from sekai.cli.paper_session import PaperSession
    from sekai.live import SessionStatus

__all__ = ["EXAMPLES", "paper"]

MOST_ROWS = 20_000
"""Rows that are replayed when a session ends: so many take some seconds."""

EXAMPLES = (
    "sekai paper demo",
    "sekai paper demo --speed 86400 --on-stop flatten",
    "sekai paper demo --feed feed.toml --limits limits.toml",
    "sekai paper demo --resume",
)


@guarded
def paper(
    run: Annotated[str, typer.Argument(help="The name of a run, or its folder.")],
    feed: Annotated[
        Path | None,
        typer.Option(help="A feed file; without one, the rows that the agent was judged on."),
    ] = None,
    limits: Annotated[
        Path | None, typer.Option(help="A TOML file with what no policy may exceed.")
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(help="Times as fast as it happened; as fast as can be if not given."),
    ] = None,
    bars: Annotated[int | None, typer.Option(min=1, help="Rows after which to stop.")] = None,
    on_stop: Annotated[
        str | None,
        typer.Option(help="What becomes of positions in the end: hold, the default, or flatten."),
    ] = None,
    session: Annotated[str | None, typer.Option(help="What the session is called.")] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with a session, the last one if not named, with the feed and the limits it "
            "was begun with if no others are given.",
        ),
    ] = False,
    runs: Annotated[
        Path, typer.Option(envvar="SEKAI_RUNS", help="Where runs are kept.")
    ] = DEFAULT_ROOT,
    imports: ImportOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Trade what a run has learnt on a feed, with pretended money and real rules.

    Everything is kept in runs/NAME/live/SESSION: a journal that survives a crash, trades, logs.
    Ctrl-C stops after the row that is under way; a second one stops at once. `sekai watch NAME`
    shows it while it runs.
    """
    from sekai.cli.paper_session import begin_paper

    folder = find_run(run, runs)
    if not folder.policy.is_file():
        raise CommandError(
            f"{folder.path} has no policy yet, its state is {folder.facts['state']}: "
            f"`sekai train {folder.path} --resume` goes on with it"
        )
    asked = PaperOptions(
        feed=None if feed is None else os.path.abspath(feed), limits=_limits_in(limits),
        speed=speed, on_stop=ending_of(on_stop),
    )  # fmt: skip
    begun = begin_paper(folder, asked, name=session, resume=resume, imports=imports or ())
    if not quiet:
        note(f"session {begun.folder.path}; to look at it: sekai watch {begun.folder.path}")
    again = f"sekai paper {folder.name} --resume --session {begun.folder.path.name}"
    try:
        status, was_interrupted = asyncio.run(_run(begun, bars, quiet))
    except BaseException:
        note(f"the session is broken off, and its orders may stand; to go on: {again}")
        raise
    _show(status, begun, again)
    if status.state in ("failed", "killed"):
        raise typer.Exit(FAILED)
    if was_interrupted:
        raise typer.Exit(INTERRUPTED)


def _limits_in(file: Path | None) -> dict[str, Any] | None:
    """The limits of a file, if they are such."""
    from sekai.cli.experiment.source import Source
    from sekai.live import RiskLimits

    if file is None:
        return None
    try:
        return RiskLimits.from_dict(Source.read(file).values).to_dict()
    except ValueError as error:
        raise CommandError(f"{file}: {error}") from error


async def _run(begun: PaperSession, bars: int | None, quiet: bool) -> tuple[SessionStatus, bool]:
    interrupts = 0
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            note("stopping after this row; once more to stop at once")
            begun.runner.stop()
        elif task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        # Where the loop cannot do this, Ctrl-C stops at once.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, interrupt)
    progress = asyncio.ensure_future(_progress(begun, bars, quiet))
    try:
        return await begun.runner.run(bars), bool(interrupts)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        progress.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)


async def _progress(begun: PaperSession, bars: int | None, quiet: bool) -> None:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from sekai.cli.screen import errors

    console = errors()
    if quiet or not console.is_terminal:
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("waiting for the first row", total=bars)
        while True:
            await asyncio.sleep(0.25)
            if hasattr(begun.runner, "monitor"):
                shown.update(task, description=_words(begun.runner.status()))


def _words(status: SessionStatus) -> str:
    return (
        f"{status.state}: {status.bars:,} rows, equity {status.equity:,.2f} "
        f"({status.profit:+,.2f}), {status.fills:,} fills, {status.orders_refused:,} refused"
    )


def _show(status: SessionStatus, begun: PaperSession, again: str) -> None:
    say(_words(status))
    for reason in (status.reason, *status.alerts[:3]):
        if reason:
            note(reason)
    rows = [
        (name.replace("_", " "), f"{one.count:,}", f"{one.p50:.3f}", f"{one.p99:.3f}",
         f"{one.p999:.3f}", f"{one.largest:.3f}")
        for name, one in status.latency.items() if one.count
    ]  # fmt: skip
    show_table(("latency, ms", ">count", ">p50", ">p99", ">p99.9", ">largest"), rows)
    traded = begun.runner.episode.row
    if traded > MOST_ROWS:
        say(f"parity    of {traded:,} rows takes long: sekai.live.check_parity looks at it")
    elif traded:
        parity = begun.parity()
        say(f"parity    {parity.equal:,} of {parity.rows:,} rows replay to the same bytes")
    say(f"session   {begun.folder.path}")
    if status.state in ("stopped", "killed"):
        say(f"to go on  {again}")
    if status.state == "killed":
        say(f"          which trades when {begun.folder.kill} is taken away")
