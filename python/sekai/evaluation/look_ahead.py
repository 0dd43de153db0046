"""Finds policies and envs that know the future, by giving them another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.data import FeaturePanel, MarketData, Pipeline, Windows
from sekai.data.market_data import PRICE_FIELDS
from sekai.evaluation.arena import Arena
from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Flag
from sekai.evaluation.players import Player
from sekai.evaluation.playing import play
from sekai.evaluation.tasks.portfolio import PortfolioTask
from sekai.evaluation.tasks.task import Task

__all__ = ["look_ahead_flags", "other_future"]

Floats = NDArray[np.float64]

SEEDS = 2
"""Episodes that are played again with another future."""

CUTS = (0.3, 0.7)
"""After which shares of an episode the future is another one."""

SURE = 4.0
"""Standard errors beyond which foreknowledge is no accident, if they are so in every world."""

WORLDS = 2
"""Other markets: what drifts slowly may fit one of them by chance."""

HORIZONS = (1, 2, 5)
"""Rows ahead that somebody might know of."""

LEAST = 20
"""Independent rows without which nothing can be said about foreknowledge."""


def look_ahead_flags(player: Player, task: Task, seeds: Sequence[int]) -> list[Flag]:
    """What is found where a policy is shown data with other rows to come."""
    if not isinstance(task, PortfolioTask):
        return []
    early = _fitted_too_early(task)
    if early is not None:
        return [Flag(name="fitted_on_judged_data", level="error", message=early)]
    unknown = _why_unknown(task)
    if unknown is not None:
        return [Flag(name="look_ahead_unchecked", level="warning", message=unknown)]
    chosen = list(seeds)[:SEEDS]
    if not _Play(player, task, chosen).same_as(_Play(player, task, chosen)):
        why = "it does not do the same twice, so that nothing can be said about the future"
        return [Flag(name="look_ahead_unchecked", level="warning", message=why)]
    message = _seen_too_early(player, task, chosen) or _known_without_seeing(player, task, seeds)
    return [] if message is None else [Flag(name="look_ahead", level="error", message=message)]


def _fitted_too_early(task: PortfolioTask) -> str | None:
    shown = (task.arena.options or {}).get("features")
    if task.data is None or not isinstance(shown, Pipeline):
        return None
    if shown.fitted_on != task.data.digest or not shown.learns:
        return None
    return "features were fitted on the rows that it is judged on: fit them on those before"


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
        self.episodes: list[Episode] = play(player, arena, type(task)(arena), self.seeds)

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
            other = _Play(player, task, [seed], other_future(truth.data, int(rows[step]), rng))
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


def _known_without_seeing(player: Player, task: PortfolioTask, seeds: Sequence[int]) -> str | None:
    """In a world where all rows are others, actions must not fit the rows that were."""
    assert task.data is not None, "data was looked for before"
    worlds = [
        _Play(player, task, seeds, other_future(task.data, 0, np.random.default_rng(number)))
        for number in range(1, 1 + WORLDS)
    ]
    for horizon in HORIZONS:
        found = [_foreknowledge(one.episodes, task.data, task.marks, horizon) for one in worlds]
        for what in found[0]:
            scores = [one[what] for one in found]
            if min(scores) > SURE or max(scores) < -SURE:
                return (
                    f"shown other markets, it still acts by {what} of the real one within "
                    f"{horizon} rows: {min(map(abs, scores)):.1f} standard errors from what "
                    f"chance would do"
                )
    return None


def _foreknowledge(
    episodes: Sequence[Episode], data: MarketData, marks: Floats, horizon: int
) -> dict[str, float]:
    """How well changes of weights fit what nobody was shown, in standard errors."""
    scores: dict[str, _ByRow] = {}
    for episode in episodes:
        rows = np.searchsorted(data.times, _times(episode))[:-1]
        rows = rows[rows + 1 + horizon < len(data)]
        if len(rows) < 2:
            continue
        wanted = _wanted(episode)[: len(rows), : len(data.assets)]
        # Orders fill on the next row: somebody may know what comes before that, or after.
        ahead = marks[rows + 1 + horizon] / marks[rows + 1] + marks[rows + horizon] / marks[rows]
        ahead = np.nan_to_num(ahead - 2.0)
        for what, fits in _fits(wanted - wanted.mean(axis=0), ahead).items():
            scores.setdefault(what, _ByRow(len(data))).add(rows, fits)
    return {what: one.score(horizon) for what, one in scores.items()}


def _wanted(episode: Episode) -> Floats:
    """What was decided; of several agents, the mean."""
    several = max(1, len(episode.members))
    found: Floats = episode.actions.reshape(len(episode.actions), several, -1).mean(axis=1)
    return found


def _fits(tilts: Floats, ahead: Floats) -> dict[str, Floats]:
    """By row: how changes of weights go with returns, with their size, and with the market."""
    market = ahead.mean(axis=1)
    own = ahead - market[:, None]
    size = np.abs(own)
    size = size - size.mean(axis=0)
    gross = tilts.sum(axis=1)
    return {
        "the returns": (tilts * own).sum(axis=1),
        "the risks": (tilts * size).sum(axis=1),
        "the direction": gross * (market - market.mean()),
    }


class _ByRow:
    """Numbers by row, of which those of several episodes on one row are not independent."""

    def __init__(self, rows: int) -> None:
        self.total, self.count = np.zeros(rows), np.zeros(rows)

    def add(self, rows: NDArray[np.int64], values: Floats) -> None:
        self.total[rows] += values
        self.count[rows] += 1

    def score(self, horizon: int) -> float:
        """The mean, in standard errors."""
        found = self.total[self.count > 0] / self.count[self.count > 0]
        # Returns over several rows overlap: only every so many of them are independent.
        independent = len(found) / (1 + horizon)
        spread = found.std()
        if independent < LEAST or not spread > 1e-12:
            return 0.0
        return float(found.mean() / spread * np.sqrt(independent))


def other_future(data: MarketData, row: int, rng: np.random.Generator) -> MarketData:
    """The same panel up to a row, and one that has nothing to do with it after that.

    Moves from close to close are drawn from a normal distribution with the covariance that assets
    have had, and no mean; rows open as far from the close before as they did. What is no price
    comes in another order. Rows that lack a price stay so.
    """
    later = np.arange(row + 1, len(data))
    if len(later) < 2:
        return data
    close = data.field("close")
    with np.errstate(invalid="ignore", divide="ignore"):
        moves = np.log(close[later] / close[later - 1])
    moves = np.where(np.isfinite(moves), moves, 0.0)
    factor = np.ones_like(close)
    factor[later] = np.exp(np.cumsum(_drawn_like(moves, rng) - moves, axis=0))
    values = data.values.copy()
    order = rng.permutation(len(later))
    for place, name in enumerate(data.fields):
        if name == "open":
            values[1:, :, place] *= factor[:-1]
        elif name in PRICE_FIELDS:
            values[:, :, place] *= factor
        else:
            values[later, :, place] = values[later[order], :, place]
    _widen(values, data.fields)
    return data.replace(values=np.where(data.quoted[:, :, None], values, data.values))


def _widen(values: Floats, fields: Sequence[str]) -> None:
    """Let highs and lows hold what a row opens and closes with."""
    places = [fields.index(name) for name in ("open", "high", "low", "close") if name in fields]
    for name, most in (("high", np.fmax), ("low", np.fmin)):
        if name in fields:
            values[:, :, fields.index(name)] = most.reduce(values[:, :, places], axis=2)


def _drawn_like(moves: Floats, rng: np.random.Generator) -> Floats:
    spread, directions = np.linalg.eigh(np.atleast_2d(np.cov(moves, rowvar=False)))
    scales = np.sqrt(np.maximum(spread, 0.0))
    drawn: Floats = (rng.standard_normal(moves.shape) * scales) @ directions.T
    return drawn


def _times(episode: Episode) -> NDArray[np.datetime64]:
    assert episode.times is not None, "portfolios have dates"
    return episode.times
