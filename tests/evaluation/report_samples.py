"""Evaluations with all that a report can show, and some with little of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation import (
    BaselineComparison,
    Episode,
    EpisodeFills,
    Evaluation,
    Flag,
    Interval,
    PolicyOutcome,
    Provenance,
    Sensitivity,
)
from sekai.evaluation.metrics import metrics_of
from tests.evaluation.samples import sample_evaluation

Floats = NDArray[np.float64]

NAMES = ("ADA", "BEL", "CAL", "DOT", "ERG", "FIG", "GAL", "HEX", "ION", "JET", "KIP", "LUX", "MOL")
RULES = ("agent", "equal_weight", "buy_and_hold", "minimum_variance", "momentum", "random")
HOSTILE = (
    '<script>window.hacked = true</script><b>&amp;</b><img src=x onerror="window.hacked = true">'
)


def market(seed: int, days: int, assets: int) -> Floats:
    """Returns of assets that move together, some with more drift than others."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0.0003, 0.008, (days, 1))
    drift = np.linspace(-0.0004, 0.0010, assets)
    return np.asarray(common + rng.normal(drift, 0.011, (days, assets)))


def wishes(rule: str, returns: Floats, seed: int) -> Floats:
    """Weights of assets and cash, day by day: slow enough to look at."""
    days, assets = returns.shape
    place = RULES.index(rule) if rule in RULES else 9
    rng = np.random.default_rng([seed, place])
    walk = np.cumsum(rng.normal(0, 0.05, (days, assets + 1)), axis=0)
    tilt = np.append(np.linspace(-1.0, 1.4, assets), -0.8) * (rule == "agent")
    raw = np.exp(tilt + walk * (rule in ("agent", "random", "momentum")))
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))


def played(rule: str, seed: int, days: int, assets: int, dates: bool) -> Episode:
    """An account that follows a rule and pays for it."""
    returns = market(seed, days, assets)
    weights = wishes(rule, returns, seed)
    moved = np.abs(np.diff(weights[:, :-1], axis=0, prepend=0.0)).sum(axis=1)
    growth = (weights[:, :-1] * returns).sum(axis=1) - 0.0006 * moved
    equity = 1e6 * np.append(1.0, np.cumprod(1 + growth))
    prices = 100 * np.vstack([np.ones(assets), np.cumprod(1 + returns, axis=0)])
    step, asset = np.divmod(np.arange(0, days * assets, 17), assets)
    first = np.datetime64("2021-01-04", "D")
    times = np.busday_offset(first, np.arange(days + 1), roll="forward").astype("datetime64[ns]")
    return Episode(
        seed=seed,
        rewards=np.log1p(growth),
        equity=equity,
        times=times if dates else None,
        assets=NAMES[:assets],
        actions=weights,
        weights=weights,
        prices=prices,
        turnover=moved,
        costs={
            "commission": 0.0002 * moved * equity[:-1],
            "spread": 0.0004 * moved * equity[:-1],
            "financing": np.full(days, -2.0),
        },
        fills=EpisodeFills(
            step=step,
            asset=np.array(NAMES)[asset],
            units=np.where((step + asset) % 3 == 0, -1.0, 1.0) * (10 + asset),
            price=prices[step + 1, asset],
        ),
    )


def outcome_of(rule: str, seeds: list[int], days: int, assets: int, dates: bool) -> PolicyOutcome:
    """Its metrics, with rough intervals."""
    periods = 252.0 if dates else float("nan")
    episodes = [played(rule, seed, days, assets, dates) for seed in seeds]
    rows = [metrics_of(episode, periods) for episode in episodes]
    by_seed = {name: [row[name] for row in rows] for name in rows[0]}
    return PolicyOutcome(
        name=rule,
        metrics={name: rough(values) for name, values in by_seed.items()},
        by_seed=by_seed,
        episodes=episodes,
    )


def rough(values: list[float]) -> Interval:
    """A mean, give or take two standard errors."""
    mean, error = float(np.mean(values)), 2 * float(np.std(values)) / max(len(values), 1) ** 0.5
    return Interval(value=mean, low=mean - error, high=mean + error, method="seeds")


def rich_evaluation(
    name: str = "ppo-attention-7",
    seeds: int = 16,
    days: int = 504,
    assets: int = 9,
    dates: bool = True,
    headline: str = "sharpe",
) -> Evaluation:
    """An agent with a real edge beside five baselines, on so many seeds."""
    chosen = list(range(100, 100 + seeds))
    policies = {rule: outcome_of(rule, chosen, days, assets, dates) for rule in RULES}
    headline = headline if dates else "episode_return"
    agent = np.array(policies["agent"].by_seed[headline])
    compared = []
    for rule in RULES[1:]:
        gap = agent - np.array(policies[rule].by_seed[headline])
        compared.append(
            BaselineComparison(baseline=rule, metric=headline, difference=rough(list(gap)),
                       p_value=0.003, wins=float(np.mean(gap > 0)))
        )  # fmt: skip
    sample = sample_evaluation(name)
    steps = np.arange(0, 2e6, 1e5)
    learnt = np.random.default_rng(0).normal(0, 0.05, len(steps)) + 1 - np.exp(-steps / 5e5)
    return replace(
        sample,
        headline=headline,
        periods_per_year=252.0 if dates else float("nan"),
        seeds=chosen,
        policies=policies,
        comparisons=compared,
        sensitivity=bearing(policies, headline),
        flags=[],
        learning={"steps": list(steps), "eval/return": list(learnt), "loss": list(1 / (1 + steps))},
        provenance=Provenance(
            command="sekai evaluate runs/ppo-attention-7 --seeds 16 --baselines equal_weight "
            "buy_and_hold minimum_variance momentum random",
            created="2026-03-02T09:30:12Z",
            versions={"sekai": "0.3.0", "numpy": "2.1.0", "torch": "2.14.0", "python": "3.11.7"},
            data_digest="b1946ac92492d2347c6235b4d2611184",
            model="sha256:591785b794601e21",
            settings={"fee_rate": "0.0002", "spread": "0.0004", "fill": "next open"},
        ),
    )


def bearing(policies: dict[str, PolicyOutcome], metric: str) -> Sensitivity:
    """Make a cost and delay sensitivity."""
    multiples = [0.0, 0.5, 1.0, 2.0, 4.0]
    left = {name: policies[name].metrics[metric].value for name in policies}
    steep = {name: 0.02 + 0.12 * place % 0.3 for place, name in enumerate(policies)}
    return Sensitivity(
        metric=metric,
        cost_multiples=multiples,
        by_cost={
            name: [left[name] - steep[name] * (one - 1) for one in multiples] for name in policies
        },
        delays=[0, 1, 2],
        by_delay={name: [left[name] * (1 - 0.1 * one) for one in range(3)] for name in policies},
        break_even={"equal_weight": 3.4, "buy_and_hold": float("inf"), "random": 0.0},
    )


def flagged_evaluation() -> Evaluation:
    """Evaluation with implausible results and hostile names."""
    sample = sample_evaluation(HOSTILE)
    agent = {HOSTILE: replace(sample.agent, name=HOSTILE)}
    return replace(
        sample,
        policies=agent | sample.baselines,
        flags=[
            Flag(name="few_seeds", level="warning", message=f"three seeds say little {HOSTILE}"),
            Flag(name="look_ahead", level="error", message="actions change with the future"),
        ],
        learning={"steps": [0.0, 1.0, 2.0], HOSTILE: [0.0, float("nan"), 1.0]},
        provenance=replace(
            sample.provenance, command=HOSTILE, settings={HOSTILE: HOSTILE, "</script>": "<!--"}
        ),
    )


def evaluation_of_orders() -> Evaluation:
    """Orders that were worked: no account, no dates, less is better."""
    rng = np.random.default_rng(3)
    seeds = list(range(12))

    def outcome(name: str, level: float) -> PolicyOutcome:
        values = list(rng.normal(level, 3.0, len(seeds)))
        episodes = [
            Episode(seed=seed, rewards=rng.normal(0, 1, 30), equity=np.zeros(0),
                    outcome={"shortfall": values[place]})
            for place, seed in enumerate(seeds)
        ]  # fmt: skip
        return PolicyOutcome(name=name, metrics={"shortfall": rough(values)},
                             by_seed={"shortfall": values}, episodes=episodes)  # fmt: skip

    policies = {name: outcome(name, level) for name, level in
                {"agent": 8.0, "twap": 12.0, "all_at_once": 20.0}.items()}  # fmt: skip
    return replace(
        sample_evaluation("orders"),
        env="OptimalExecution-v0",
        task="execution",
        headline="shortfall",
        higher_is_better=False,
        periods_per_year=float("nan"),
        seeds=seeds,
        policies=policies,
        comparisons=[
            BaselineComparison(baseline="twap", metric="shortfall", p_value=0.01, wins=0.75,
                       difference=Interval(value=4.0, low=1.0, high=7.0, method="seeds")),
            BaselineComparison(baseline="all_at_once", metric="shortfall", p_value=0.001, wins=1.0,
                       difference=Interval(value=12.0, low=9.0, high=15.0, method="seeds")),
        ],
        sensitivity=None,
        flags=[],
        deflated_sharpe=None,
        learning={},
    )  # fmt: skip
