"""Parity check: a recorded session replayed through the historical env, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sekai.core.env import Env
from sekai.envs.portfolio import Portfolio
from sekai.envs.portfolio.panel import pad_bar
from sekai.live.config import SessionFolder
from sekai.live.episode import LiveEpisode
from sekai.live.journal import read_journal
from sekai.live.recovery import RecordedRow, recorded_rows

__all__ = ["Parity", "check_parity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Result of a parity check."""

    rows: int
    """Observed rows of the session."""

    equal: int
    """Rows whose observation, reward and info have the same digest in the replay."""

    first_difference: int | None = None
    """First row that differs, counted from 1."""

    @property
    def is_whole(self) -> bool:
        """True if all rows are equal."""
        return self.equal == self.rows


def check_parity(
    folder: Path | str, env: Env[Any, Any], *, simulate: bool = False, seed: int = 0
) -> Parity:
    """Replay a session through the env on history, and compare digests row by row.

    Args:
        folder: session folder.
        env: env made as for the session, before its first step; it is not changed.
        simulate: True to let the env simulate its fills, False to use the journaled accounts. A
            paper broker without faults, and risk limits that refused nothing, give the same rows
            either way.
        seed: seed of the session.
    """
    inner = env.unwrapped
    if not isinstance(inner, Portfolio):
        raise TypeError(f"parity needs a Portfolio-v0 env, got {type(inner).__name__}")
    records = read_journal(SessionFolder(Path(folder)).journal)
    rows = [row for row in recorded_rows(records, inner.assets) if row.is_observed]
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
        row.apply_decision(episode)
    return Parity(rows=len(rows), equal=equal, first_difference=first)


def _historical(env: Portfolio, rows: Sequence[RecordedRow]) -> Portfolio:
    """Return the same env on a panel that has all rows from the start."""
    if env.pipeline is None:
        raise ValueError("parity needs features of a pipeline, got a panel of features")
    history = env.data
    stream = env.pipeline.stream(history)
    for row in rows:
        bar = pad_bar(row.bar, env.config.slots)
        stream.push(bar.time, bar.values, market=bar.market, **bar.masks())
    config = replace(env.config, stream=False, starts=len(history) - 1, slots=0, keep_rows=None)
    features = env.pipeline if env.window_file is None else env.window_file
    return Portfolio(stream.panel(), features=features, config=config)
