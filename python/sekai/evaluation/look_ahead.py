"""Finds policies and envs that know the future, by giving them another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import FeaturePanel, MarketData, Windows
from sekai.data.market_data import PRICE_FIELDS
from sekai.evaluation.arena import Arena
from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Flag
from sekai.evaluation.players import Player
from sekai.evaluation.playing import play
from sekai.evaluation.tasks.portfolio import PortfolioTask
from sekai.evaluation.tasks.task import Task

__all__ = ["look_ahead_flags", "shuffled"]

Floats = NDArray[np.float64]

SEEDS = 2
"""Episodes that are played again with another future."""

CUTS = (0.3, 0.7)
"""After which shares of an episode the future is another one."""

SURE = 5.0
"""Standard errors beyond which foreknowledge is no accident."""

HORIZONS = (1, 2, 5)
"""Rows ahead that somebody might know of."""

LEAST = 60
"""Rows without which nothing can be said about foreknowledge."""


def look_ahead_flags(player: Player, task: Task, seeds: Sequence[int]) -> list[Flag]:
    """What is found where a policy is shown data with other rows to come."""
    if not isinstance(task, PortfolioTask):
        return []
    unknown = _why_unknown(task)
    if unknown is not None:
        return [Flag(name="look_ahead_unchecked", level="warning", message=unknown)]
    chosen = list(seeds)[:SEEDS]
    if not _Play(player, task, chosen).same_as(_Play(player, task, chosen)):
        why = "it does not do the same twice, so that nothing can be said about the future"
        return [Flag(name="look_ahead_unchecked", level="warning", message=why)]
    message = _seen_too_early(player, task, chosen) or _known_without_seeing(player, task, seeds)
    return [] if message is None else [Flag(name="look_ahead", level="error", message=message)]


def _why_unknown(task: PortfolioTask) -> str | None:
    if task.data is None or task.config() is None:
        return "the env can not be made again with other data: give its id and env_options"
    shown = (task.arena.options or {}).get("features")
    if isinstance(shown, (FeaturePanel, Windows)):
        return (
            "features were computed before, and nobody can compute them again from other data: "
            "give their names or a Pipeline"
        )
    return None


class _Play:
    """What a policy does on some data."""

    def __init__(
        self, player: Player, task: PortfolioTask, seeds: Sequence[int],
        data: MarketData | None = None,
    ) -> None:  # fmt: skip
        assert task.data is not None, "data was looked for before"
        self.seeds, self.data = list(seeds), task.data if data is None else data
        arena: Arena = task.arena.with_options(data=self.data)
        # A task of its own, so that the other keeps the data it was judged on.
        self.episodes: list[Episode] = play(player, arena, PortfolioTask(arena), self.seeds)

    def rows(self, place: int) -> NDArray[np.int64]:
        """The rows of the data that an episode went through."""
        return np.searchsorted(self.data.times, _times(self.episodes[place]))

    def same_as(self, other: _Play) -> bool:
        pairs = zip(self.episodes, other.episodes, strict=True)
        return all(np.array_equal(one.actions, two.actions) for one, two in pairs)


def _seen_too_early(player: Player, task: PortfolioTask, seeds: Sequence[int]) -> str | None:
    """Actions up to a row must not change where only later rows do."""
    rng = np.random.default_rng(0)
    for seed in seeds:
        truth = _Play(player, task, [seed])
        rows = truth.rows(0)
        for step in (int(cut * (len(rows) - 1)) for cut in CUTS):
            other = _Play(player, task, [seed], shuffled(truth.data, int(rows[step]), rng))
            # The decision on a row knows that row: the first that may differ is the one after.
            first = _first_difference(truth.episodes[0], other.episodes[0], step + 1)
            if first is not None:
                return (
                    f"on seed {seed} its action in step {first} changes when only rows after step "
                    f"{step} are others: it, or what it is shown, knows the future"
                )
    return None


def _first_difference(one: Episode, other: Episode, steps: int) -> int | None:
    steps = min(steps, len(one.actions), len(other.actions))
    differ = (one.actions[:steps] != other.actions[:steps]).any(axis=1)
    return int(np.argmax(differ)) if differ.any() else None


def _known_without_seeing(
    player: Player, task: PortfolioTask, seeds: Sequence[int]
) -> str | None:
    """In a world where all rows are others, actions must not fit the rows that were."""
    assert task.data is not None, "data was looked for before"
    rng = np.random.default_rng(1)
    data = task.data
    world = _Play(player, task, seeds, shuffled(data, 0, rng))
    marks = task.marks
    for horizon in HORIZONS:
        score = _foreknowledge(world.episodes, data, marks, horizon)
        if abs(score) > SURE:
            return (
                f"shown another market, it still acts by what the real one does within {horizon} "
                f"rows: {abs(score):.1f} standard errors from what chance would do"
            )
    return None


def _foreknowledge(
    episodes: Sequence[Episode], data: MarketData, marks: Floats, horizon: int
) -> float:
    """How well changes of weights fit returns that nobody was shown, in standard errors."""
    total, count = np.zeros(len(data)), np.zeros(len(data))
    assets = len(data.assets)
    for episode in episodes:
        rows = np.searchsorted(data.times, _times(episode))[:-1]
        wanted = episode.actions[:, :assets]
        there = rows + 1 + horizon < len(data)
        rows, wanted = rows[there], wanted[there]
        if len(rows) < 2:
            continue
        # Orders fill on the next row. What is always held is no foreknowledge.
        ahead = np.nan_to_num(marks[rows + 1 + horizon] / marks[rows + 1] - 1.0)
        nearest = np.nan_to_num(marks[rows + horizon] / marks[rows] - 1.0)
        tilts = wanted - wanted.mean(axis=0)
        tilts = tilts - tilts.mean(axis=1, keepdims=True)
        total[rows] += (tilts * (ahead + nearest)).sum(axis=1)
        count[rows] += 1
    found = total[count > 0] / count[count > 0]
    # Returns over several rows overlap: only every so many of them are independent.
    independent = len(found) / horizon
    spread = found.std()
    if independent < LEAST or not spread > 1e-12:
        return 0.0
    return float(found.mean() / spread * np.sqrt(independent))


def shuffled(data: MarketData, row: int, rng: np.random.Generator) -> MarketData:
    """The same panel up to a row; after it, what happened there in another order.

    Prices keep their scale: each row moves every asset by what another row moved it by, and all
    prices of a row move together. Rows that lack a price stay as they are.
    """
    later = np.arange(row + 1, len(data))
    if len(later) < 2:
        return data
    close = data.field("close")
    with np.errstate(invalid="ignore", divide="ignore"):
        moves = np.log(close[later] / close[later - 1])
    moves = np.where(np.isfinite(moves), moves, 0.0)
    drawn = _other_order(len(later), rng)
    factor = np.ones_like(close)
    factor[later] = np.exp(np.cumsum(moves[drawn] - moves, axis=0))
    values = data.values.copy()
    for place, name in enumerate(data.fields):
        if name in PRICE_FIELDS:
            values[:, :, place] *= factor
        else:
            values[later, :, place] = values[later[drawn], :, place]
    return data.replace(values=np.where(data.quoted[:, :, None], values, data.values))


def _other_order(count: int, rng: np.random.Generator) -> Any:
    """An order in which nothing stays where it was."""
    order = rng.permutation(count)
    places = np.empty(count, np.int64)
    places[order] = np.roll(order, 1)
    return places


def _times(episode: Episode) -> NDArray[np.datetime64]:
    assert episode.times is not None, "portfolios have dates"
    return episode.times
