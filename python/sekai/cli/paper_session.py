"""What a paper session is made of: the env of a run, a feed, and a broker with its rules."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sekai
from sekai.cli.failure import CommandError
from sekai.cli.feed_file import feed_of
from sekai.cli.paper_options import PaperOptions
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
    asked: PaperOptions,
    *,
    name: str | None,
    resume: bool,
    imports: Sequence[str] = (),
) -> PaperSession:
    """Make a session of a run, or go on with one.

    Args:
        run: whose policy trades.
        asked: what was asked for; of a session that goes on, the rest is as it was begun.
        name: of the session.
        resume: whether to go on with one.
        imports: modules of the user that register what the run names.
    """
    from sekai.cli.experiment.read import read_experiment
    from sekai.cli.experiment.source import Source
    from sekai.live import LiveConfig, LiveRunner, PaperBroker
    from sekai.training import load_policy

    folder = _folder(run, name, resume)
    asked = asked.or_else(PaperOptions.begun_with(folder.facts))
    experiment = read_experiment(Source.read(run.config), imports)
    if experiment.id != "Portfolio-v0":
        raise CommandError(
            f"{run.name} trades {experiment.id}, and a feed has rows for Portfolio-v0"
        )
    data, others = _market(experiment)
    feed = feed_of(None if asked.feed is None else Path(asked.feed), data, asked.speed)
    if feed.history is None:
        raise CommandError(f'{asked.feed} brings no history: say history = "..." in it')
    options = {**_live_options(others), "data": feed.history}
    options["keep_rows"] = _kept(options)
    env, policy = sekai.make("Portfolio-v0", **options), load_policy(run.policy)
    config = LiveConfig(limits=_limits(asked), on_stop=asked.on_stop or "hold")
    # From here on there is a session: what was asked wrongly has been said.
    folder.path.mkdir(parents=True, exist_ok=True)
    broker = PaperBroker.like(env, folder.paper)
    asked.save(folder.facts)
    runner = LiveRunner(policy, env, feed, broker, folder.path, config)
    return PaperSession(runner, folder, options)


def _folder(run: RunFolder, name: str | None, resume: bool) -> SessionFolder:
    from sekai.live import SessionFolder

    root = run.path / "live"
    if name is not None and (name != Path(name).name or name in ("", ".", "..")):
        raise CommandError(f"--session must be a name and no path, was {name!r}")
    found = sorted(root.glob("*/journal.jsonl"), key=lambda file: file.stat().st_mtime)
    known = [file.parent.name for file in found]
    if resume:
        if not known:
            raise CommandError(f"{run.name} has no session to go on with: leave out --resume")
        if name is not None and name not in known:
            raise CommandError(f"{run.name} has no session {name!r}: it has {', '.join(known)}")
        return SessionFolder(root / (name or known[-1]))
    if name in known:
        raise CommandError(f"{root / str(name)} is there: --resume goes on with it")
    return SessionFolder(root / (name or _new_name(known)))


def _new_name(known: Collection[str]) -> str:
    """The time, and a number if there are more sessions than seconds."""
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    names = itertools.chain([now], (f"{now}-{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in known)


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


def _limits(asked: PaperOptions) -> RiskLimits:
    from sekai.live import RiskLimits

    if asked.limits is not None:
        return RiskLimits.from_dict(asked.limits)
    # Years of rows in a minute are no reason to stop a replay.
    return RiskLimits(max_orders_per_minute=None) if asked.feed is None else RiskLimits()
