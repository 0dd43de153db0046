"""What a paper session is made of: the env of a run, a feed, and a broker with its rules."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sekai
from sekai.cli.failure import CommandError
from sekai.cli.feed_file import feed_of
from sekai.cli.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from sekai.cli.experiment.experiment import Experiment
    from sekai.data import MarketData
    from sekai.live import LiveRunner, Parity, RiskLimits, SessionFolder

__all__ = ["PaperSession", "begin_paper"]

KEPT_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class PaperSession:
    """A session that is ready to run."""

    runner: LiveRunner
    folder: SessionFolder
    options: dict[str, Any]
    """What the env was made with."""

    def parity(self) -> Parity:
        """How much of the session replays to the same bytes through the historical env."""
        from sekai.live import check_parity

        return check_parity(self.folder.path, sekai.make("Portfolio-v0", **self.options))


def begin_paper(
    run: RunFolder,
    *,
    feed_file: Path | None,
    limits_file: Path | None,
    speed: float | None,
    on_stop: Literal["hold", "flatten"],
    name: str | None,
    resume: bool,
) -> PaperSession:
    """Make a session of a run, or go on with one.

    Args:
        run: whose policy trades.
        feed_file: what brings rows; None replays those that the agent was judged on.
        limits_file: what no policy may exceed.
        speed: of a replay, times as fast as it happened.
        on_stop: what becomes of positions in the end.
        name: of the session.
        resume: whether to go on with one.
    """
    from sekai.cli.experiment.read import read_experiment
    from sekai.cli.experiment.source import Source
    from sekai.live import LiveConfig, LiveRunner, PaperBroker
    from sekai.training import load_policy

    folder = _folder(run, name, resume)
    experiment = read_experiment(Source.read(run.config))
    if experiment.id != "Portfolio-v0":
        raise CommandError(
            f"{run.name} trades {experiment.id}, and a feed has rows for Portfolio-v0"
        )
    data, others = _market(experiment)
    feed = feed_of(feed_file, data, speed)
    if feed.history is None:
        raise CommandError(f'{feed_file} brings no history: say history = "..." in it')
    options = {**_live_options(others), "data": feed.history}
    options["keep_rows"] = _kept(options)
    env = sekai.make("Portfolio-v0", **options)
    folder.path.mkdir(parents=True, exist_ok=True)
    broker = PaperBroker.like(env, folder.paper)
    config = LiveConfig(limits=_limits(limits_file, feed_file is None), on_stop=on_stop)
    runner = LiveRunner(load_policy(run.policy), env, feed, broker, folder.path, config)
    return PaperSession(runner, folder, options)


def _folder(run: RunFolder, name: str | None, resume: bool) -> SessionFolder:
    from sekai.live import SessionFolder

    root = run.path / "live"
    known = sorted(path.parent.name for path in root.glob("*/journal.jsonl"))
    if resume:
        if not known:
            raise CommandError(f"{run.name} has no session to go on with: leave out --resume")
        if name is not None and name not in known:
            raise CommandError(f"{run.name} has no session {name!r}: it has {', '.join(known)}")
        return SessionFolder(root / (name or known[-1]))
    if name in known:
        raise CommandError(f"{root / str(name)} is there: --resume goes on with it")
    now = datetime.now(timezone.utc)
    return SessionFolder(root / (name or now.strftime("%Y%m%dT%H%M%S")))


def _market(experiment: Experiment) -> tuple[MarketData, dict[str, Any]]:
    """The rows that the agent was judged on, and the other options of its env."""
    from sekai.cli.experiment.prepare import prepare
    from sekai.envs import Portfolio

    options = dict(prepare(experiment).test)
    data = options.pop("data", None)
    if data is None:
        # What the env makes up by itself when nobody gives it anything.
        data = Portfolio(**options).data
    return data, options


def _live_options(options: dict[str, Any]) -> dict[str, Any]:
    """The same env on rows that come one by one, with orders in units."""
    from sekai.market import Execution

    execution = dataclasses.replace(options.get("execution", Execution()), sizing="decision")
    changed = {"stream": True, "episode_rows": None, "decisions": "every_row"}
    kept = {name: one for name, one in options.items() if name not in ("starts", "record")}
    return {**kept, **changed, "execution": execution}


def _kept(options: dict[str, Any]) -> int | None:
    """Rows to keep, so that a session can run for years; None where features may need all."""
    from sekai.envs.portfolio_panel import features_of

    history = options["data"]
    pipeline = features_of(history, options.get("features"))[1]
    needed = None if pipeline is None else pipeline.stream(history).rows_needed
    if needed is None:
        return None
    return int(max(KEPT_ROWS, needed, options.get("lookback", 0)))


def _limits(file: Path | None, is_replay: bool) -> RiskLimits:
    from sekai.cli.experiment.source import Source
    from sekai.live import RiskLimits

    if file is None:
        # Years of rows in a minute are no reason to stop a replay.
        return RiskLimits(max_orders_per_minute=None) if is_replay else RiskLimits()
    try:
        return RiskLimits.from_dict(Source.read(file).values)
    except ValueError as error:
        raise CommandError(f"{file}: {error}") from error
