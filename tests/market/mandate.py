"""Random mandates, and what a general solver says of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

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
        return float(max(self.cash[0] - weights[-1], weights[-1] - self.cash[1]))


def random_mandate(rng: np.random.Generator, assets: int, parts: str) -> Mandate:
    """A mandate with the named parts: leverage, sectors, turnover, immovable; short, margin."""
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
    )


@dataclass(frozen=True)
class Answer:
    """What the rules of the module ask for, found by a general solver."""

    weights: Vector
    cash_gives: bool
    cut_short: bool

    def is_nearer(self, weights: Vector, mandate: Mandate) -> bool:
        """Whether weights that are allowed are nearer than the solver's: its own inaccuracy."""
        if self.cut_short or self.cash_gives or mandate.excess(weights) > 1e-12:
            return False
        distances = [np.square(point - mandate.wanted).sum() for point in (weights, self.weights)]
        return bool(distances[0] < distances[1])


def solver_answer(mandate: Mandate) -> Answer:
    """The projection by the rules, with Clarabel."""
    weights = cp.Variable(len(mandate.held))
    off = cp.sum_squares(weights - mandate.wanted)
    moved = cp.norm1(weights[:-1] - mandate.held[:-1])
    cap = mandate.turnover
    turnover = [] if cap is None else [moved <= cap]
    rest = _without_cash(mandate, weights)
    if _solve(off, [*rest, *_cash(mandate, weights, 0.0), *turnover]):
        return Answer(weights.value, False, False)

    missing = _missing_cash(mandate, weights, rest)
    rest += _cash(mandate, weights, missing)
    assert _solve(moved, rest)
    cut_short = cap is not None and float(moved.value) > cap + 1e-8
    assert _solve(off, rest if cut_short else [*rest, *turnover])
    point = weights.value
    if cap is not None and cut_short:
        way = point - mandate.held
        point = mandate.held + way * cap / np.abs(way[:-1]).sum()
    return Answer(point, missing > 1e-8, cut_short)


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


def _cash(mandate: Mandate, weights: Any, missing: float) -> list[Any]:
    low, high = mandate.cash
    bounds = [] if np.isinf(low) else [weights[-1] >= low - missing]
    return bounds if np.isinf(high) else [*bounds, weights[-1] <= high + missing]


def _missing_cash(mandate: Mandate, weights: Any, constraints: list[Any]) -> float:
    """How far outside its bounds cash has to be."""
    missing = cp.Variable(nonneg=True)
    low, high = mandate.cash
    if np.isinf(low):
        return 0.0
    inside = [weights[-1] >= low - missing, weights[-1] <= high + missing]
    assert _solve(missing, [*constraints, *inside])
    return float(missing.value)
