"""Operate a live session: status, kill switch, and deliberate commands that its journal records."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import RunsOption
from sekai.cli.screen import say
from sekai.cli.watch import is_alive, kill_remark, sources_of
from sekai.experiment.run_folder import DEFAULT_ROOT

if TYPE_CHECKING:
    from sekai.live.commands import CommandName
    from sekai.live.watch.sources import SessionSource

__all__ = ["COMMANDS", "EXAMPLES"]

EXAMPLES = (
    "sekai session status demo",
    'sekai session kill demo --reason "prices look wrong"',
    'sekai session adopt demo --reason "deposit of 10,000"',
)

SessionArgument = Annotated[
    str, typer.Argument(help="Run whose latest session is meant, or a session folder.")
]
ReasonOption = Annotated[str, typer.Option(help="Reason, which is recorded.")]


@guarded
def status(
    session: SessionArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole status.")] = False,
    runs: RunsOption = DEFAULT_ROOT,
) -> None:
    """Show the state of a session, the causes that restrict trading, and its latest alerts."""
    from sekai.live.status import read_status

    source = _source(session, runs)
    report, current = source.read(), read_status(source.folder.status)
    if as_json:
        say(json.dumps(asdict(current), default=str))
        return
    say(f"{current.session}: {current.state} at {current.updated}")
    if report["silent_since"] is not None:
        say(f"no sign of life since {report['silent_since']}: the process has ended or hangs")
    for line in (current.reason, kill_remark(source)):
        if line:
            say(line)
    for name, reason in current.causes.items():
        say(f"  {name}: {reason}")
    for alert in current.alerts[:5]:
        say(f"  {alert}")


@guarded
def kill(
    session: SessionArgument,
    reason: ReasonOption = "no reason given",
    runs: RunsOption = DEFAULT_ROOT,
) -> None:
    """Pull the kill switch: open orders are cancelled, and nothing is traded until a release."""
    from sekai.live.kill_switch import kill_reason, write_kill_file

    source = _source(session, runs)
    before = kill_reason(source.folder.kill)
    write_kill_file(source.folder.kill, f"{reason} ({_user()})\n")
    if before is not None:
        say(f"the kill switch was pulled already: {before}")
    elif is_alive(source.folder):
        say(f"kill requested; `sekai session status {session}` shows when it is obeyed")
    else:
        say(f"kill requested; {source.folder.path} is not running, and obeys at its next start")


@guarded
def release(session: SessionArgument, runs: RunsOption = DEFAULT_ROOT) -> None:
    """Release the kill switch: the session trades again with its next row."""
    from sekai.live.kill_switch import kill_reason

    folder = _source(session, runs).folder
    if kill_reason(folder.kill) is None:
        raise CommandError(f"the kill switch of {folder.path} is not pulled")
    folder.kill.unlink(missing_ok=True)
    say("released")


@guarded
def adopt(session: SessionArgument, reason: ReasonOption, runs: RunsOption = DEFAULT_ROOT) -> None:
    """Accept the broker's account as it is, after positions or cash that no fill explains.

    Check positions and cash at the broker first: from then on the session trades on them.
    """
    _send(session, runs, "adopt_account", reason)


@guarded
def reset_peak(
    session: SessionArgument, reason: ReasonOption, runs: RunsOption = DEFAULT_ROOT
) -> None:
    """Measure the drawdown limit from today's equity on."""
    _send(session, runs, "reset_peak", reason)


@guarded
def reset_day(
    session: SessionArgument, reason: ReasonOption, runs: RunsOption = DEFAULT_ROOT
) -> None:
    """Measure the daily loss limit from the current equity on."""
    _send(session, runs, "reset_day", reason)


def _send(session: str, runs: Path, name: CommandName, reason: str) -> None:
    from sekai.live.commands import SessionCommand, write_command

    source = _source(session, runs)
    try:
        command = SessionCommand(name=name, reason=reason, by=_user())
    except ValueError as error:
        raise CommandError(str(error)) from error
    write_command(source.folder, command)
    when = "obeyed within a second" if is_alive(source.folder) else "obeyed when it starts again"
    say(f"{name} handed to {source.folder.path}, {when}")


def _source(name: str, runs: Path) -> SessionSource:
    """Session of a name; a run stands for the session that is running, or else the last one."""
    from sekai.live.watch.sources import SessionSource

    sources = [each for each in sources_of(name, runs).values() if isinstance(each, SessionSource)]
    if not sources:
        raise CommandError(f"{name!r} has no live session; expected a run with one, or its folder")
    if len(sources) > 1:
        names = ", ".join(f"{name}/live/{source.title}" for source in sources)
        raise CommandError(f"{name!r} has {len(sources)} running sessions; expected one of {names}")
    return sources[0]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown user"


COMMANDS = (
    ("status", status, ("sekai session status demo",)),
    ("kill", kill, ('sekai session kill demo --reason "prices look wrong"',)),
    ("release", release, ("sekai session release demo",)),
    ("adopt", adopt, ('sekai session adopt demo --reason "deposit of 10,000"',)),
    ("reset-peak", reset_peak, ('sekai session reset-peak demo --reason "reviewed the loss"',)),
    ("reset-day", reset_day, ('sekai session reset-day demo --reason "reviewed the loss"',)),
)
