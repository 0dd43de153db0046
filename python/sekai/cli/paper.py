"""`sekai paper`: run a trained agent on a feed with a paper broker."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import shlex
import signal
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import sekai
from sekai.cli.failure import FAILED, INTERRUPTED, CommandError, guarded
from sekai.cli.options import AllowOption, ImportOption, QuietOption, RunArgument, RunsOption
from sekai.cli.screen import errors, note, say, show_table
from sekai.experiment.run_folder import DEFAULT_ROOT, RunFolder, find_run
from sekai.storage.files import atomic_write, private_folder
from sekai.storage.strict_json import parse_json

if TYPE_CHECKING:
    from sekai.cli.feed_file import FeedFile
    from sekai.data import MarketData
    from sekai.experiment.experiment import Experiment
    from sekai.live import Feed, LiveRunner, Parity, RiskLimits, SessionFolder, SessionStatus

MAX_PARITY_ROWS = 20_000
"""Maximum rows that are replayed when a session ends, which takes some seconds."""

KEPT_ROWS = 1_024

EXAMPLES = (
    "sekai paper demo",
    "sekai paper demo --speed 86400 --on-stop flatten",
    "sekai paper demo --feed feed.toml --limits limits.toml",
    "sekai paper demo --resume",
)

OnStop = Literal["hold", "flatten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """Options of a paper session, stored in its folder; None where an option was not passed."""

    feed: str | None = None
    """Feed file; without one, the test rows of the run are replayed."""

    limits: dict[str, Any] | None = None
    """Risk limits, as `RiskLimits.from_dict` takes them."""

    speed: float | None = None
    on_stop: OnStop | None = None
    allow: list[str] | None = None
    """Differences from the data of training that are allowed."""

    def save(self, file: Path) -> None:
        """Write the options atomically."""
        atomic_write(file, f"{json.dumps(asdict(self), indent=1)}\n".encode(), fsync=True)

    @classmethod
    def load(cls, file: Path) -> PaperOptions:
        """Read the options that `save` wrote; no options if the file is absent."""
        if not file.exists():
            return cls()
        try:
            return cls(**parse_json(file.read_text(encoding="utf-8")))._checked()
        except (OSError, ValueError, TypeError) as error:
            raise CommandError(
                f"cannot read the options of the session from {file}: {error}. Without it, pass "
                f"the --feed and --limits of the session again"
            ) from error

    def with_defaults(self, defaults: PaperOptions) -> PaperOptions:
        """Copy with the values of `defaults` for options that were not passed."""
        passed = {name: value for name, value in asdict(self).items() if value is not None}
        return PaperOptions(**{**asdict(defaults), **passed})

    def _checked(self) -> PaperOptions:
        kinds = {"feed": str, "limits": dict, "speed": (int, float), "on_stop": str, "allow": list}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):  # type: ignore[arg-type]
                raise ValueError(f"{name} has an invalid value {value!r:.80}")
        _checked_on_stop(self.on_stop)
        return self


@dataclass(frozen=True, slots=True)
class PaperSession:
    """Paper session that is ready to run."""

    runner: LiveRunner
    folder: SessionFolder
    env_options: dict[str, Any]

    def parity(self) -> Parity:
        """Replay the session through the historical env and compare."""
        from sekai.live import check_parity

        return check_parity(self.folder.path, sekai.make("Portfolio-v0", **self.env_options))


@guarded
def paper(
    run: RunArgument,
    feed: Annotated[
        Path | None,
        typer.Option(help="Feed file; without one, the test rows of the run are replayed."),
    ] = None,
    limits: Annotated[Path | None, typer.Option(help="TOML file with risk limits.")] = None,
    speed: Annotated[
        float | None,
        typer.Option(help="Replay speed as a multiple of real time; unlimited by default."),
    ] = None,
    bars: Annotated[
        int | None, typer.Option(min=1, help="Stop after trading on this many rows.")
    ] = None,
    on_stop: Annotated[
        str | None,
        typer.Option(help="Positions at the end: hold (default) or flatten."),
    ] = None,
    session: Annotated[str | None, typer.Option(help="Name of the session.")] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue a session, by default the last one, with its own feed and limits "
            "unless others are passed.",
        ),
    ] = False,
    allow: AllowOption = None,
    runs: RunsOption = DEFAULT_ROOT,
    imports: ImportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Trade the policy of a run on a feed with a paper broker and risk limits.

    All files are stored in runs/NAME/live/SESSION: a journal that survives a crash, trades, logs.
    Ctrl-C stops after the current row; a second Ctrl-C stops at once. `sekai watch NAME` shows the
    session while it runs.
    """
    folder = find_run(run, runs)
    if not folder.policy.is_file():
        raise CommandError(
            f"{folder.path} has no policy yet, its state is {folder.facts['state']}; "
            f"`sekai train {folder.path} --resume` continues it"
        )
    options = PaperOptions(
        feed=None if feed is None else os.path.abspath(feed),
        limits=_read_limits(limits),
        speed=speed,
        on_stop=_checked_on_stop(on_stop),
        allow=allow,
    )
    started = start_paper(folder, options, name=session, resume=resume, imports=imports or ())
    if not quiet:
        note(f"session {started.folder.path}; to watch it: sekai watch {started.folder.path}")
    command = f"sekai paper {folder.name} --resume --session {started.folder.path.name}"
    command += "".join(f" --import {shlex.quote(module)}" for module in imports or ())
    try:
        status, was_interrupted = asyncio.run(_run(started, bars, quiet))
    except BaseException:
        note(f"session aborted; open orders may remain at the broker; to continue: {command}")
        raise
    _show(status, started, command)
    if status.state in ("failed", "killed"):
        raise typer.Exit(FAILED)
    if was_interrupted:
        raise typer.Exit(INTERRUPTED)


def start_paper(
    run: RunFolder,
    options: PaperOptions,
    *,
    name: str | None,
    resume: bool,
    imports: Sequence[str] = (),
) -> PaperSession:
    """Create a paper session of a run, or prepare one to continue.

    Args:
        run: the run whose policy trades.
        options: options that were passed; a resumed session keeps its others.
        name: name of the session.
        resume: continue an existing session.
        imports: modules of the user that register what the run names.
    """
    from sekai.config.toml_file import ConfigSource
    from sekai.data import require_same_data
    from sekai.experiment.reading import read_experiment
    from sekai.live import LiveConfig, LiveRunner, PaperBroker
    from sekai.policy import load_policy

    folder = _session_folder(run, name, resume)
    options = options.with_defaults(PaperOptions.load(folder.facts))
    experiment = read_experiment(ConfigSource.read(run.config), imports, acts_only=True)
    if experiment.id != "Portfolio-v0":
        raise CommandError(
            f"{run.name} trades {experiment.id}; a paper session needs a run of Portfolio-v0"
        )
    data, others = _test_data(experiment)
    feed = _feed(options, folder, data, others)
    if feed.history is None:
        raise CommandError(f"{options.feed} has no rows before start_row; set it to at least 1")
    env_options = {**_live_options(others), "data": feed.history}
    env_options["keep_rows"] = _rows_to_keep(env_options)
    env = sekai.make("Portfolio-v0", **env_options)
    policy = load_policy(run.policy, allow=options.allow or ())
    require_same_data(policy, env)
    config = LiveConfig(limits=_limits(options), on_stop=options.on_stop or "hold")
    # All options are valid: the session folder can be created.
    private_folder(folder.path)
    broker = PaperBroker.like(env, folder.paper)
    options.save(folder.facts)
    runner = LiveRunner(policy, env, feed, broker, folder.path, config)
    return PaperSession(runner, folder, env_options)


def _feed(
    options: PaperOptions, folder: SessionFolder, data: MarketData, env_options: dict[str, Any]
) -> Feed:
    """Feed of a session, with its history: that of the session, of the feed file, or of the run."""
    from sekai.cli.feed_file import FeedFile
    from sekai.live.feeds import ReplayFeed
    from sekai.live.feeds.history import load_history, save_history

    if options.feed is None:
        return ReplayFeed(data, max(data.warm_up, 1), options.speed)
    file = FeedFile.read(Path(options.feed))
    history = data
    if folder.history.exists():
        history = load_history(folder.history)
    elif file.has_history:
        # Stored with the session, which can only continue on the same rows.
        is_cold = file.is_cold_start
        history = _collect(file, folder, data, env_options) if is_cold else file.read_history(data)
        private_folder(folder.path)
        save_history(folder.history, history)
    return file.feed(data, history, options.speed)


def _collect(
    file: FeedFile, folder: SessionFolder, data: MarketData, env_options: dict[str, Any]
) -> MarketData:
    """Collect rows of a feed until the features are ready; nothing is traded meanwhile."""
    from sekai.live import SessionStatus, collect_history
    from sekai.live.status import StatusWriter

    rows = file.history_rows or _rows_for_features(data, env_options)
    private_folder(folder.path)
    note(f"cold start: collecting {rows} rows for the features; nothing is traded meanwhile")

    def report(count: int) -> None:
        text = f"cold start: {count} of {rows} rows collected, nothing is traded yet"
        writer.offer(SessionStatus(session=folder.path.name, state="starting", reason=text))

    async def collect() -> MarketData:
        feed = file.feed(data, None)
        async with feed:
            return await collect_history(
                feed,
                data.assets,
                rows,
                fields=data.fields,
                seconds=file.row_seconds,
                note_row=report,
            )

    with StatusWriter(folder.status) as writer:
        report(0)
        return asyncio.run(collect())


def _rows_for_features(data: MarketData, options: dict[str, Any]) -> int:
    """Rows after which the window of an env holds features of complete windows."""
    from sekai.envs.portfolio.config import PortfolioConfig
    from sekai.envs.portfolio.panel import compute_features

    pipeline = compute_features(data, options.get("features"))[1]
    lookback = int(options.get("lookback", PortfolioConfig().lookback))
    if pipeline is not None and pipeline.lookback is None:
        raise CommandError(
            "features have no fixed lookback; set rows in [history] of the feed file"
        )
    return lookback - 1 + (1 if pipeline is None else max(1, int(pipeline.lookback or 1)))


def _checked_on_stop(value: str | None) -> OnStop | None:
    if value is None or value in ("hold", "flatten"):
        return value  # type: ignore[return-value]
    raise CommandError(f"--on-stop must be hold or flatten, got {value!r}")


def _read_limits(file: Path | None) -> dict[str, Any] | None:
    from sekai.config.convert import ConversionError, mentioned_key
    from sekai.config.toml_file import ConfigSource
    from sekai.live import RiskLimits

    if file is None:
        return None
    source = ConfigSource.read(file)
    try:
        return RiskLimits.from_dict(source.values).to_dict()
    except ConversionError as error:
        source.refuse(error.path, str(error), value=not error.is_key)
    except ValueError as error:
        source.refuse(mentioned_key(str(error), source.values), str(error))


def _limits(options: PaperOptions) -> RiskLimits:
    from sekai.live import RiskLimits

    if options.limits is not None:
        return RiskLimits.from_dict(options.limits)
    return RiskLimits()


def _session_folder(run: RunFolder, name: str | None, resume: bool) -> SessionFolder:
    from sekai.live import SessionFolder

    root = run.path / "live"
    if name is not None and (name != Path(name).name or name in ("", ".", "..")):
        raise CommandError(f"--session must be a name and not a path, got {name!r}")
    folders = [file.parent for file in root.glob("*/journal.jsonl")]
    # A long session writes to later segments of its journal.
    known = [
        folder.name
        for folder in sorted(
            folders,
            key=lambda folder: max(file.stat().st_mtime for file in folder.glob("journal*.jsonl")),
        )
    ]
    if resume:
        if not known:
            raise CommandError(f"{run.name} has no session to continue; leave out --resume")
        if name is not None and name not in known:
            raise CommandError(
                f"{run.name} has no session {name!r}; expected one of {', '.join(known)}"
            )
        return SessionFolder(root / (name or known[-1]))
    if name in known:
        raise CommandError(f"{root / str(name)} exists; --resume continues it")
    return SessionFolder(root / (name or _new_name(known)))


def _new_name(known: Collection[str]) -> str:
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    names = itertools.chain([now], (f"{now}-{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in known)


def _test_data(experiment: Experiment) -> tuple[MarketData, dict[str, Any]]:
    """Test rows of a run, and the other options of its env."""
    from sekai.envs import Portfolio
    from sekai.experiment.preparation import prepare

    options = dict(prepare(experiment).test)
    data = options.pop("data", None)
    if data is None:
        # The data that the env simulates by default.
        data = Portfolio(**options).data
    return data, options


def _live_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options of the same env on a stream of rows, with orders in units."""
    from sekai.market import Execution

    execution = dataclasses.replace(options.get("execution", Execution()), sizing="decision")
    changes = {"stream": True, "episode_rows": None, "decisions": "every_row"}
    others = {name: value for name, value in options.items() if name not in ("starts", "record")}
    return {**others, **changes, "execution": execution}


def _rows_to_keep(options: dict[str, Any]) -> int | None:
    """Rows to keep in memory, so that a session can run for years; None for all."""
    from sekai.envs.portfolio.panel import compute_features

    history = options["data"]
    pipeline = compute_features(history, options.get("features"))[1]
    needed = None if pipeline is None else pipeline.stream(history).rows_needed
    if needed is None:
        return None
    return int(max(KEPT_ROWS, needed, options.get("lookback", 0)))


async def _run(session: PaperSession, bars: int | None, quiet: bool) -> tuple[SessionStatus, bool]:
    interrupts = 0
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            note("stopping after this row; press Ctrl-C again to stop at once")
            session.runner.stop()
        elif task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        # Where the loop does not support this, Ctrl-C stops at once.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, interrupt)
    progress = asyncio.ensure_future(_show_progress(session, bars, quiet))
    try:
        return await session.runner.run(bars), bool(interrupts)
    except asyncio.CancelledError:
        if interrupts < 2:
            raise
        raise KeyboardInterrupt from None
    finally:
        progress.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)


async def _show_progress(session: PaperSession, bars: int | None, quiet: bool) -> None:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = errors()
    if quiet or not console.is_terminal:
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("waiting for the first row", total=bars)
        while True:
            await asyncio.sleep(0.25)
            if hasattr(session.runner, "monitor"):
                progress.update(task, description=_summary(session.runner.status()))


def _summary(status: SessionStatus) -> str:
    if status.kill_requested and not status.kill_obeyed:
        return status.kill_text
    return (
        f"{status.state}: {status.bars:,} rows, equity {status.equity:,.2f} "
        f"({status.profit:+,.2f}), {status.fills:,} fills, {status.orders_refused:,} refused"
    )


def _show_positions(status: SessionStatus) -> None:
    rows = [
        (
            asset,
            f"{position['units']:,.6g}",
            f"{position['price']:,.{status.price_decimals.get(asset, 2)}f}",
            f"{position['value']:,.2f}",
            f"{position['weight']:.1%}",
        )
        for asset, position in status.positions.items()
    ]
    if rows:
        show_table(("position", ">units", ">price", ">value", ">weight"), rows)


def _show(status: SessionStatus, session: PaperSession, command: str) -> None:
    say(_summary(status))
    for reason in (status.kill_text, status.reason, *status.alerts[:3]):
        if reason:
            note(reason)
    _show_positions(status)
    rows = [
        (
            name.replace("_", " "),
            f"{latency.count:,}",
            *(f"{value:.3f}" for value in (latency.p50, latency.p99, latency.p999)),
            f"{latency.largest:.3f}",
        )
        for name, latency in status.latency.items()
        if latency.count
    ]
    show_table(("latency, ms", ">count", ">p50", ">p99", ">p99.9", ">largest"), rows)
    traded = session.runner.episode.row
    if traded > MAX_PARITY_ROWS:
        say(f"parity    not checked for {traded:,} rows; use sekai.live.check_parity")
    elif traded:
        parity = session.parity()
        say(f"parity    {parity.equal:,} of {parity.rows:,} rows replay to the same bytes")
    say(f"session   {session.folder.path}")
    if status.state in ("stopped", "killed"):
        say(f"continue  {command}")
    if status.state == "killed":
        say(f"          remove {session.folder.kill} first to trade again")
