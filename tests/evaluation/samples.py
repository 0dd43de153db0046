"""Synthetic evaluations for reports and files."""

from __future__ import annotations

import numpy as np

from sekai.evaluation import (
    BaselineComparison,
    DeflatedSharpe,
    Episode,
    EpisodeFills,
    Evaluation,
    Flag,
    Interval,
    PolicyOutcome,
    Provenance,
    Sensitivity,
)

ASSETS = ("AAA", "BBB", "CCC")
POLICIES = ("agent", "equal_weight", "buy_and_hold", "random")


def sample_episode(seed: int, drift: float = 0.0005, days: int = 500) -> Episode:
    """An account that grows, in three assets."""
    rng = np.random.default_rng(seed)
    first = np.datetime64("2020-01-01", "ns")
    weights = rng.dirichlet(np.ones(len(ASSETS) + 1), days)
    prices = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, (days + 1, len(ASSETS))), axis=0))
    step = np.sort(rng.integers(0, days, 40))
    asset = rng.integers(0, len(ASSETS), 40)
    return Episode(
        seed=seed,
        rewards=rng.normal(drift, 0.01, days),
        equity=1e6 * np.exp(np.cumsum(np.append(0.0, rng.normal(drift, 0.01, days)))),
        times=first + np.arange(days + 1).astype("timedelta64[D]"),
        assets=ASSETS,
        actions=weights.copy(),
        weights=weights,
        prices=prices,
        turnover=rng.uniform(0.0, 0.1, days),
        costs={"commission": rng.uniform(0, 50, days), "spread": rng.uniform(0, 80, days)},
        fills=EpisodeFills(
            step=step,
            asset=np.array(ASSETS)[asset],
            units=rng.normal(0, 100, 40),
            price=prices[step, asset],
        ),
        outcome={"final_equity": 1.1e6},
    )


def sample_outcome(name: str, seeds: list[int], drift: float) -> PolicyOutcome:
    """Make an outcome of a policy."""
    sharpe = Interval(value=20 * drift * 50, low=-0.2, high=1.9, method="bootstrap")
    return PolicyOutcome(
        name=name,
        metrics={"sharpe": sharpe, "calmar": Interval(value=float("nan"), low=-1.0, high=2.0)},
        by_seed={"sharpe": [drift * 1000 + seed for seed in seeds]},
        episodes=[sample_episode(seed, drift) for seed in seeds],
    )


def sample_evaluation(name: str = "example", seeds: tuple[int, ...] = (0, 1, 2)) -> Evaluation:
    """An agent beside three baselines."""
    chosen = list(seeds)
    difference = Interval(value=0.3, low=-0.1, high=0.7, method="seeds")
    return Evaluation(
        name=name,
        env="Portfolio-v0",
        task="portfolio",
        headline="sharpe",
        higher_is_better=True,
        periods_per_year=252.0,
        seeds=chosen,
        policies={
            policy: sample_outcome(policy, chosen, 0.0008 - 0.0002 * place)
            for place, policy in enumerate(POLICIES)
        },
        comparisons=[
            BaselineComparison(baseline=policy, metric="sharpe", difference=difference,
                               p_value=0.08, wins=2 / 3)
            for policy in POLICIES[1:]
        ],
        sensitivity=Sensitivity(
            metric="sharpe",
            cost_multiples=[0.0, 0.5, 1.0, 2.0, 4.0],
            by_cost={policy: [1.2, 1.1, 1.0, 0.8, 0.4] for policy in POLICIES},
            delays=[0, 1, 2],
            by_delay={policy: [1.0, 0.9, 0.7] for policy in POLICIES},
            break_even={"equal_weight": 2.7, "buy_and_hold": float("inf"), "random": 0.0},
        ),
        flags=[Flag(name="few_seeds", level="warning", message="three seeds say little")],
        deflated_sharpe=DeflatedSharpe(trials=7, observations=1500, sharpe=0.05, expected_best=0.03,
                        probabilistic=0.97, deflated=0.81, minimum_track_record=1100.0),
        provenance=Provenance(command="sekai evaluate runs/example", created="2026-01-01T00:00:00Z",
                              versions={"sekai": "0.3.0", "numpy": "2.0"}, data_digest="ab12"),
        learning={"steps": [0.0, 1e4, 2e4], "eval/return": [float("nan"), 0.1, 0.2]},
    )  # fmt: skip
