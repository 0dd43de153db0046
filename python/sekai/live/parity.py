"""A recorded session replayed through the historical env: the same bytes, or where they part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sekai.core.env import Env
from sekai.envs.portfolio import Portfolio
from sekai.envs.portfolio_universe import padded
from sekai.live.journal import read_journal
from sekai.live.live_episode import LiveEpisode
from sekai.live.recovery import KeptRow, kept_rows
from sekai.live.session_folder import SessionFolder

__all__ = ["Parity", "check_parity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """How much of a session comes out the same."""

    rows: int
    """Rows of the session that were observed."""

    equal: int
    """Those whose observation, reward and account have the same digest in the replay."""

    first_difference: int | None = None
    """The first row, counted from 1, where they part."""

    @property
    def is_whole(self) -> bool:
        """Whether all are equal."""
        return self.equal == self.rows


def check_parity(
    folder: Path | str, env: Env[Any, Any], *, simulate: bool = False, seed: int = 0
) -> Parity:
    """Replay a session through the env on history, and compare digests row by row.

    Args:
        folder: of the session.
        env: made as for the session, at its beginning; it is not moved.
        simulate: whether the env works out by itself what became of its orders. Otherwise it is
            told what the broker said then. A paper broker without faults, and limits that refused
            nothing, come out the same both ways.
        seed: of the session.
    """
    rows = _observed_rows(SessionFolder(Path(folder)))
    inner = env.unwrapped
    if not isinstance(inner, Portfolio):
        raise TypeError(f"an env of Portfolio-v0 was wanted, found {type(inner).__name__}")
    if not rows:
        return Parity(rows=0, equal=0)
    episode = LiveEpisode(_historical(inner, rows), seed)
    equal, first = 0, None
    for number, row in enumerate(rows, 1):
        observed = episode.advance(row.bar, None if simulate else row.account)
        if observed.digest == row.digest:
            equal += 1
        elif first is None:
            first = number
        if row.action is not None:
            episode.action = row.action
        row.change(episode)
    return Parity(rows=len(rows), equal=equal, first_difference=first)


def _observed_rows(folder: SessionFolder) -> list[KeptRow]:
    rows = kept_rows(read_journal(folder.journal))
    return [row for row in rows if row.digest is not None and row.account is not None]


def _historical(env: Portfolio, rows: Sequence[KeptRow]) -> Portfolio:
    """The same env on a panel that has all rows from the beginning."""
    if env.pipeline is None:
        raise ValueError("features that a pipeline computes were wanted, found a panel of them")
    history = env.data
    stream = env.pipeline.stream(history)
    for row in rows:
        bar = padded(row.bar, env.config.slots)
        stream.push(bar.time, bar.values, market=bar.market, **bar.masks())
    config = replace(env.config, stream=False, starts=len(history) - 1, slots=0, keep_rows=None)
    shown = env.pipeline if env.window_file is None else env.window_file
    return Portfolio(stream.panel(), features=shown, config=config)
