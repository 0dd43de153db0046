"""Look-ahead detection: run a policy on data whose future was replaced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.data import FeaturePanel, MarketData, Pipeline, Windows
from sekai.data.corporate_actions import adjusted
from sekai.data.market_data import PRICE_FIELDS
from sekai.evaluation.evaluation import Episode, Flag
from sekai.evaluation.policy import Policy
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.tasks import Task
from sekai.evaluation.tasks.portfolio import PortfolioTask

__all__ = ["look_ahead_flags", "replace_future"]

Floats = NDArray[np.float64]

SEEDS = 2
"""Episodes that are repeated with another future."""

CUTS = (0.3, 0.7)
"""Shares of an episode after which the future is replaced."""

MIN_SCORE = 4.0
"""Standard errors from which foreknowledge is reported, if exceeded on every replaced market."""

MARKETS = 2
"""Replaced markets: a slowly drifting policy may fit one of them by accident."""

HORIZONS = (1, 2, 5)
"""Rows ahead that are tested for foreknowledge."""

MIN_ROWS = 20
"""Independent rows needed for the test of foreknowledge."""


def look_ahead_flags(policy: Policy, task: Task, seeds: Sequence[int]) -> list[Flag]:
    """Flags about look-ahead in a portfolio policy or its features."""
    if not isinstance(task, PortfolioTask):
        return []
    features = (task.source.options or {}).get("features")
    if _is_fitted_on(features, task.data):
        message = "features were fitted on the evaluated rows; fit them on earlier rows"
        return [Flag(name="fitted_on_test_data", level="error", message=message)]
    reason = _why_unchecked(task, features)
    chosen = list(seeds)[:SEEDS]
    if reason is None and not _is_repeatable(policy, task, chosen):
        reason = "policy is not deterministic, so that look-ahead cannot be tested"
    if reason is not None:
        return [Flag(name="look_ahead_unchecked", level="warning", message=reason)]
    problem = _changed_past(policy, task, chosen) or _foreknowledge(policy, task, seeds)
    return [] if problem is None else [Flag(name="look_ahead", level="error", message=problem)]


def replace_future(data: MarketData, row: int, rng: np.random.Generator) -> MarketData:
    """Return the panel with all rows after `row` replaced by unrelated ones.

    Log returns are drawn from a normal distribution with the sample covariance and mean 0;
    overnight gaps are kept. Dividends move with prices, splits stay, other fields are permuted.
    Missing prices stay missing.
    """
    later = np.arange(row + 1, len(data))
    if len(later) < 2:
        return data
    close = adjusted(data).field("close")
    with np.errstate(invalid="ignore", divide="ignore"):
        moves = np.log(close[later] / close[later - 1])
    moves = np.where(np.isfinite(moves), moves, 0.0)
    factor = np.ones_like(close)
    factor[later] = np.exp(np.cumsum(_drawn_like(moves, rng) - moves, axis=0))
    values = data.values.copy()
    order = rng.permutation(len(later))
    for index, name in enumerate(data.fields):
        if name == "open":
            values[1:, :, index] *= factor[:-1]
        elif name in PRICE_FIELDS or name == "dividend":
            values[:, :, index] *= factor
        elif name != "split":
            values[later, :, index] = values[later[order], :, index]
    _widen(values, data.fields)
    return data.replace(values=np.where(data.quoted[:, :, None], values, data.values))


def _is_fitted_on(features: object, data: MarketData | None) -> bool:
    if data is None or not isinstance(features, Pipeline):
        return False
    return features.learns and features.fitted_on == data.digest


def _why_unchecked(task: PortfolioTask, features: object) -> str | None:
    if task.data is None or task.config() is None:
        return "env cannot be rebuilt with other data; pass its id and env_options"
    if isinstance(features, (FeaturePanel, Windows)):
        return (
            "features are precomputed and cannot be recomputed from other data; pass their names "
            "or a Pipeline"
        )
    return None


def _run(
    policy: Policy, task: PortfolioTask, seeds: Sequence[int], data: MarketData | None = None
) -> list[Episode]:
    source = task.source.with_options(data=task.data if data is None else data)
    # A new task, so that the evaluated one keeps its data.
    return run_episodes(policy, source, type(task)(source), list(seeds))


def _is_repeatable(policy: Policy, task: PortfolioTask, seeds: Sequence[int]) -> bool:
    runs = zip(_run(policy, task, seeds), _run(policy, task, seeds), strict=True)
    return all(np.array_equal(first.actions, second.actions) for first, second in runs)


def _changed_past(policy: Policy, task: PortfolioTask, seeds: Sequence[int]) -> str | None:
    """Describe an action that changes when only later rows change."""
    assert task.data is not None, "checked by _why_unchecked"
    rng = np.random.default_rng(0)
    for seed in seeds:
        actual = _run(policy, task, [seed])[0]
        rows = np.searchsorted(task.data.times, _times(actual))
        for step in (int(cut * (len(rows) - 1)) for cut in CUTS):
            data = replace_future(task.data, int(rows[step]), rng)
            other = _run(policy, task, [seed], data)[0]
            # The decision on a row knows that row: later decisions may differ.
            first = _first_difference(actual, other, step + 1)
            if first is not None:
                return (
                    f"seed {seed}: the action of step {first} changes when only rows after step "
                    f"{step} change; the policy or its observations use future data"
                )
    return None


def _first_difference(episode: Episode, other: Episode, steps: int) -> int | None:
    steps = min(steps, len(episode.actions), len(other.actions))
    differ = (episode.actions[:steps] != other.actions[:steps]).any(axis=1)
    return int(np.argmax(differ)) if differ.any() else None


def _foreknowledge(policy: Policy, task: PortfolioTask, seeds: Sequence[int]) -> str | None:
    """Describe actions on replaced markets that fit the returns of the actual one."""
    assert task.data is not None, "checked by _why_unchecked"
    runs = [
        _run(policy, task, seeds, replace_future(task.data, 0, np.random.default_rng(number)))
        for number in range(1, 1 + MARKETS)
    ]
    for horizon in HORIZONS:
        tables = [
            _fit_scores(episodes, task.data, task.adjusted_marks, horizon) for episodes in runs
        ]
        for aspect in tables[0]:
            scores = [table[aspect] for table in tables]
            if min(scores) > MIN_SCORE or max(scores) < -MIN_SCORE:
                return (
                    f"actions on replaced markets fit the {aspect} of the actual market within "
                    f"{horizon} rows: {min(map(abs, scores)):.1f} standard errors"
                )
    return None


def _fit_scores(
    episodes: Sequence[Episode], data: MarketData, marks: Floats, horizon: int
) -> dict[str, float]:
    """Scores, in standard errors, of the fit between weight changes and unseen returns."""
    scores: dict[str, _RowMeans] = {}
    for episode in episodes:
        rows = np.searchsorted(data.times, _times(episode))[:-1]
        rows = rows[rows + 1 + horizon < len(data)]
        if len(rows) < 2:
            continue
        targets = _targets(episode)[: len(rows), : len(data.assets)]
        # Orders fill on the next row: foreknowledge may begin before the fill or after it.
        ahead = marks[rows + 1 + horizon] / marks[rows + 1] + marks[rows + horizon] / marks[rows]
        ahead = np.nan_to_num(ahead - 2.0)
        for aspect, fits in _fits(targets - targets.mean(axis=0), ahead).items():
            scores.setdefault(aspect, _RowMeans(len(data))).add(rows, fits)
    return {aspect: means.score(horizon) for aspect, means in scores.items()}


def _targets(episode: Episode) -> Floats:
    """Actions by step; of several agents, their mean."""
    agents = max(1, len(episode.members))
    targets: Floats = episode.actions.reshape(len(episode.actions), agents, -1).mean(axis=1)
    return targets


def _fits(tilts: Floats, ahead: Floats) -> dict[str, Floats]:
    """Products of weight changes with relative returns, their size, and the market return."""
    market = ahead.mean(axis=1)
    own = ahead - market[:, None]
    size = np.abs(own)
    size = size - size.mean(axis=0)
    gross = tilts.sum(axis=1)
    return {
        "returns": (tilts * own).sum(axis=1),
        "volatility": (tilts * size).sum(axis=1),
        "direction": gross * (market - market.mean()),
    }


class _RowMeans:
    """Means by row, since values of several episodes on one row are not independent."""

    def __init__(self, rows: int) -> None:
        self.total, self.count = np.zeros(rows), np.zeros(rows)

    def add(self, rows: NDArray[np.int64], values: Floats) -> None:
        self.total[rows] += values
        self.count[rows] += 1

    def score(self, horizon: int) -> float:
        """Mean over rows in standard errors."""
        means = self.total[self.count > 0] / self.count[self.count > 0]
        # Returns over several rows overlap.
        independent = len(means) / (1 + horizon)
        deviation = means.std()
        if independent < MIN_ROWS or not deviation > 1e-12:
            return 0.0
        return float(means.mean() / deviation * np.sqrt(independent))


def _widen(values: Floats, fields: Sequence[str]) -> None:
    """Extend highs and lows to include open and close."""
    columns = [fields.index(name) for name in ("open", "high", "low", "close") if name in fields]
    for name, extreme in (("high", np.fmax), ("low", np.fmin)):
        if name in fields:
            values[:, :, fields.index(name)] = extreme.reduce(values[:, :, columns], axis=2)


def _drawn_like(moves: Floats, rng: np.random.Generator) -> Floats:
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(moves, rowvar=False)))
    scales = np.sqrt(np.maximum(variances, 0.0))
    drawn: Floats = (rng.standard_normal(moves.shape) * scales) @ directions.T
    return drawn


def _times(episode: Episode) -> NDArray[np.datetime64]:
    assert episode.times is not None, "portfolio episodes have dates"
    return episode.times
