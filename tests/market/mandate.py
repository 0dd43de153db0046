"""Random mandates, and what a general solver says of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import cvxpy
import numpy as np
from numpy.typing import NDArray

from sekai.market import ProjectedWeights, project_weights

Vector = NDArray[np.float64]
cp: Any = cvxpy
"""Much of its interface has no types."""
TIGHT = {f"tol_{name}": 1e-12 for name in ("gap_abs", "gap_rel", "feas")}
SETTINGS: dict[str, Any] = {"solver": cp.CLARABEL, "max_iter": 400, **TIGHT}


@dataclass(frozen=True)
class Mandate:
    """One projection: what is wanted, held and movable, and the constraints."""

    wanted: Vector
    held: Vector
    movable: NDArray[np.bool_]
    lower: Vector
    upper: Vector
    cash: tuple[float, float]
    leverage: float | None = None
    sectors: list[int | None] | None = None
    sector_caps: list[float | None] | None = None
    turnover: float | None = None
    net: tuple[float, float] | None = None
    betas: Vector | None = None
    beta: tuple[float, float] | None = None
    untradable: Literal["cash", "assets"] = "assets"

    @property
    def cash_bounds(self) -> tuple[float, float]:
        """Bounds of cash, those of the net exposure included."""
        least, most = (-np.inf, np.inf) if self.net is None else self.net
        return max(self.cash[0], 1.0 - most), min(self.cash[1], 1.0 - least)

    @property
    def target(self) -> Vector:
        """Target weights after the difference of untradable assets went to cash, if it does."""
        target: Vector = self.wanted.copy()
        if self.untradable == "cash":
            target[-1] += (self.wanted - self.held)[:-1][~self.movable].sum()
        return target

    def project(self) -> ProjectedWeights:
        return project_weights(
            self.wanted,
            self.held,
            self.movable,
            lower=self.lower,
            upper=self.upper,
            cash_lower=self.cash[0],
            cash_upper=self.cash[1],
            leverage=self.leverage,
            sectors=self.sectors,
            sector_caps=self.sector_caps,
            turnover=self.turnover,
            net_exposure=self.net,
            betas=self.betas,
            beta_exposure=self.beta,
            untradable=self.untradable,
        )

    def with_wanted(self, wanted: Vector) -> Mandate:
        return replace(self, wanted=wanted)

    def permuted(self, order: list[int]) -> Mandate:
        """The same with its assets in another order."""
        with_cash = [*order, -1]
        return replace(
            self,
            wanted=self.wanted[with_cash],
            held=self.held[with_cash],
            movable=self.movable[order],
            lower=self.lower[order],
            upper=self.upper[order],
            sectors=None if self.sectors is None else [self.sectors[asset] for asset in order],
            betas=None if self.betas is None else self.betas[order],
        )

    def sector_groups(self) -> list[tuple[float, NDArray[np.bool_]]]:
        """The cap of each sector that has one, and which assets are in it."""
        sectors = np.array([-1 if sector is None else sector for sector in self.sectors or []])
        caps = enumerate(self.sector_caps or [])
        return [(cap, sectors == sector) for sector, cap in caps if cap is not None]

    def excess(self, weights: Vector) -> float:
        """The most by which weights break a constraint, once it is relaxed for what must stay."""
        assets, held, stays = weights[:-1], self.held[:-1], ~self.movable
        low, high = np.where(stays, held, self.lower), np.where(stays, held, self.upper)
        gaps = [abs(weights.sum() - 1), *(low - assets), *(assets - high)]
        for cap, inside in [(self.leverage, np.ones_like(stays)), *self.sector_groups()]:
            if cap is not None:
                forced = np.abs(held[inside & stays]).sum()
                gaps.append(np.abs(assets[inside]).sum() - max(cap, forced))
        if self.turnover is not None:
            gaps.append(np.abs(assets - held).sum() - self.turnover)
        return float(max(gaps))

    def cash_excess(self, weights: Vector) -> float:
        low, high = self.cash_bounds
        return float(max(low - weights[-1], weights[-1] - high))

    def beta_excess(self, weights: Vector) -> float:
        if self.betas is None or self.beta is None:
            return 0.0
        exposure = self.betas @ weights[:-1]
        return float(max(self.beta[0] - exposure, exposure - self.beta[1]))


def random_mandate(rng: np.random.Generator, assets: int, parts: str) -> Mandate:
    """A mandate with the named parts; "to_cash" gives cash the wish for what must stay."""
    short, spread = "short" in parts, rng.choice([0.05, 0.3, 1.0])
    upper = rng.uniform(0.2, 2.5, assets) * rng.choice([1.0, 2.0, 4.0]) / assets
    lower = -upper * rng.uniform(0, 1.5) if short else np.zeros(assets)
    if assets > 1 and rng.random() < 0.2:
        upper[rng.integers(assets)] = rng.choice([0.0, np.inf])
    held_assets = rng.dirichlet(np.ones(assets + 1))[:-1] * rng.choice([0.5, 1.0])
    if short:
        held_assets *= rng.choice([-1.0, 1.0], assets)
    if rng.random() < 0.6:
        held_assets = np.clip(held_assets, lower, upper)
    if rng.random() < 0.3:
        held_assets[rng.random(assets) < 0.5] = 0.0
    held = np.append(held_assets, 1 - held_assets.sum())
    wanted = held + rng.normal(0, spread, assets + 1) + rng.choice([0.0, 0.0, 1.0, -2.0])
    copied = rng.random(assets + 1) < rng.choice([0.0, 0.4])
    wanted[copied] = held[copied]
    sectors: list[int | None] | None = None
    caps: list[float | None] | None = None
    if "sectors" in parts:
        count = int(rng.integers(1, 6))
        sectors = [None if rng.random() < 0.1 else int(s) for s in rng.integers(count, size=assets)]
        draws = [(rng.random() < 0.2, float(rng.uniform(0, 1.5) / count)) for _ in range(count)]
        caps = [None if is_free else cap for is_free, cap in draws]
    cash = (0.0, float(rng.choice([1.0, 0.2]) if rng.random() < 0.3 else 1.0))
    betas = rng.normal(1.0, 0.5, assets) if "beta" in parts else None
    return Mandate(
        wanted,
        held,
        rng.random(assets) < (0.7 if "immovable" in parts else 2.0),
        lower,
        upper,
        (-np.inf, np.inf) if "margin" in parts else cash,
        float(rng.uniform(0.2, 2.0)) if "leverage" in parts else None,
        sectors,
        caps,
        float(rng.choice([0.0, 0.02, 0.1, 0.3, 1.0])) if "turnover" in parts else None,
        _exposure(rng, short) if "net" in parts else None,
        betas,
        _exposure(rng, short) if "beta" in parts else None,
        "cash" if "to_cash" in parts else "assets",
    )


def _exposure(rng: np.random.Generator, short: bool) -> tuple[float, float]:
    """Bounds of an exposure, narrow or wide."""
    lower = float(rng.uniform(-0.4, 0.3) if short else rng.uniform(0.0, 0.6))
    return lower, lower + float(rng.choice([0.0, 0.05, 0.4]))


@dataclass(frozen=True)
class Answer:
    """Expected projection by the documented rules, from a general solver."""

    weights: Vector
    cash_gives: bool
    cut_short: bool
    beta_gives: bool = False

    def is_nearer(self, weights: Vector, mandate: Mandate) -> bool:
        """Return True if feasible weights are nearer than the solver's, due to its inaccuracy."""
        if self.cut_short or self.cash_gives or self.beta_gives:
            return False
        if max(mandate.excess(weights), mandate.beta_excess(weights)) > 1e-12:
            return False
        distances = [np.square(point - mandate.target).sum() for point in (weights, self.weights)]
        return bool(distances[0] < distances[1])


def solver_answer(mandate: Mandate) -> Answer:
    """The projection by the rules, with Clarabel."""
    weights = cp.Variable(len(mandate.held))
    off = cp.sum_squares(weights - mandate.target)
    moved = cp.norm1(weights[:-1] - mandate.held[:-1])
    cap = mandate.turnover
    turnover = [] if cap is None else [moved <= cap]
    rest = _without_cash(mandate, weights)
    beta = _beta(mandate, weights, 0.0)
    if _solve(off, [*rest, *_cash(mandate, weights, 0.0), *beta, *turnover]):
        return Answer(weights.value, False, False)

    missing = _missing(rest, lambda slack: _cash(mandate, weights, slack))
    rest += _cash(mandate, weights, missing)
    missing_beta = _missing(rest, lambda slack: _beta(mandate, weights, slack))
    rest += _beta(mandate, weights, missing_beta + (1e-9 if missing_beta > 1e-8 else 0.0))
    assert _solve(moved, rest)
    cut_short = cap is not None and float(moved.value) > cap + 1e-8
    assert _solve(off, rest if cut_short else [*rest, *turnover])
    point = weights.value
    if cap is not None and cut_short:
        way = point - mandate.held
        point = mandate.held + way * cap / np.abs(way[:-1]).sum()
    return Answer(point, missing > 1e-8, cut_short, missing_beta > 1e-8)


def _solve(objective: Any, constraints: list[Any]) -> bool:
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate answer is judged by the comparison
        try:
            problem.solve(**SETTINGS)
        except cp.SolverError:
            return False
    return problem.status in ("optimal", "optimal_inaccurate")


def _without_cash(mandate: Mandate, weights: Any) -> list[Any]:
    assets, held, movable = weights[:-1], mandate.held[:-1], mandate.movable
    constraints = [cp.sum(weights) == 1]
    for asset in range(len(held)):
        low, high = mandate.lower[asset], mandate.upper[asset]
        if not movable[asset]:
            low = high = held[asset]
        constraints.append(assets[asset] >= low)
        if np.isfinite(high):
            constraints.append(assets[asset] <= high)
    everything = np.ones(len(held), np.bool_)
    for cap, inside in [(mandate.leverage, everything), *mandate.sector_groups()]:
        if cap is not None and inside.any():
            forced = np.abs(held[inside & ~movable]).sum()
            constraints.append(cp.norm1(assets[inside]) <= max(cap, forced))
    return constraints


def _cash(mandate: Mandate, weights: Any, missing: Any) -> list[Any]:
    low, high = mandate.cash_bounds
    bounds = [] if np.isinf(low) else [weights[-1] >= low - missing]
    return bounds if np.isinf(high) else [*bounds, weights[-1] <= high + missing]


def _beta(mandate: Mandate, weights: Any, missing: Any) -> list[Any]:
    if mandate.betas is None or mandate.beta is None:
        return []
    exposure = mandate.betas @ weights[:-1]
    return [exposure >= mandate.beta[0] - missing, exposure <= mandate.beta[1] + missing]


def _missing(constraints: list[Any], bounds: Callable[[Any], list[Any]]) -> float:
    """Distance by which a value violates its bounds."""
    slack = cp.Variable(nonneg=True)
    inside = bounds(slack)
    if not inside:
        return 0.0
    assert _solve(slack, [*constraints, *inside])
    return float(slack.value)
