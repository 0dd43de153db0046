"""Constraints of portfolios hold in envs, single and native, as `project_weights` states them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.config import ConversionError, build
from sekai.data import MarketData
from sekai.envs import AgentConfig, EpisodeLog
from sekai.envs.portfolio.log_files import read_jsonl, read_parquet
from sekai.market import CashAccount, Compromise, Constraints, MarginAccount, project_weights
from tests.envs.portfolio_worlds import FREE, Floats, env_of, market_of


def held_weights(data: MarketData, wanted: list[float], **given: Any) -> Floats:
    """Weights after one step towards `wanted`."""
    env = env_of(data, **given)
    env.reset(seed=0)
    weights: Floats = env.step(np.array(wanted)).observation["weights"]
    return weights


def test_a_margin_account_uses_its_leverage_in_one_asset() -> None:
    data = market_of(np.full((4, 1), 10.0))

    held = held_weights(data, [2.0, -1.0], account=MarginAccount(leverage=2.0))

    assert held == pytest.approx([2.0, -1.0])


def test_short_positions_use_the_leverage_of_the_account() -> None:
    data = market_of(np.full((4, 1), 10.0))
    constraints = Constraints(long_short=True)

    held = held_weights(
        data, [-3.0, 4.0], account=MarginAccount(leverage=1.5), constraints=constraints
    )

    assert held == pytest.approx([-1.5, 2.5])


@pytest.mark.parametrize("account", [CashAccount(), MarginAccount(leverage=2.0)])
@pytest.mark.parametrize("cap", [0.5, 1.0, {"A0": 0.5}])
def test_an_explicit_cap_binds(account: CashAccount | MarginAccount, cap: Any) -> None:
    data = market_of(np.full((4, 2), 10.0))
    constraints = Constraints(max_weight=cap)

    held = held_weights(data, [2.0, 0.0, -1.0], account=account, constraints=constraints)

    assert held[0] == pytest.approx(0.5 if isinstance(cap, dict) else cap)


def test_assets_without_a_cap_of_their_own_have_that_of_the_account() -> None:
    data = market_of(np.full((4, 2), 10.0))
    constraints = Constraints(max_weight={"A0": 0.5})

    held = held_weights(
        data, [0.0, 2.0, -1.0], account=MarginAccount(leverage=2.0), constraints=constraints
    )

    assert held == pytest.approx([0.0, 2.0, -1.0])


def absent(kind: str) -> MarketData:
    """Two assets at a constant price, the first of which cannot be traded."""
    rows = 5
    mask = np.ones((rows, 2), np.bool_)
    if kind == "removed":
        return market_of(np.full((rows, 2), 10.0))
    mask[:, 0] = False
    masks: dict[str, Any] = {
        "halted": {"tradable": mask},
        "unlisted": {"listed": mask, "quoted": mask},
    }[kind]
    return market_of(np.where(masks.get("quoted", np.ones_like(mask)), 10.0, np.nan), **masks)


@pytest.mark.parametrize("env_id", ["Portfolio-v0", "MultiPortfolio-v0", "native"])
@pytest.mark.parametrize("kind", ["halted", "unlisted", "removed"])
@pytest.mark.parametrize(("untradable", "expected"), [(None, 0.3), ("cash", 0.3), ("assets", 0.6)])
def test_the_wish_for_what_cannot_be_traded_goes_to_cash_or_to_the_others(
    env_id: str, kind: str, untradable: Any, expected: float
) -> None:
    constraints = Constraints() if untradable is None else Constraints(untradable=untradable)

    held = after_one_step(env_id, absent(kind), [0.6, 0.3, 0.1], kind == "removed", constraints)

    assert held == pytest.approx([0.0, expected, 1.0 - expected], abs=1e-6)


def after_one_step(
    env_id: str, data: MarketData, wanted: list[float], is_removed: bool, constraints: Constraints
) -> Floats:
    """Weights of the first agent after one step, made through the registry."""
    options: dict[str, Any] = {
        "data": data, "features": ["log_return"], "lookback": 1, "starts": 0, "costs": FREE,
        "constraints": constraints,
    }  # fmt: skip
    action: Any = np.array(wanted)
    if env_id == "native":
        vec: Any = sekai.make_vec("Portfolio-v0", num_envs=2, **options)
        vec.reset(seed=0)
        if is_removed:
            vec.batch.remove_asset("A0", env=0)
        weights: Floats = vec.step(np.tile(action, (2, 1))).observations["weights"][0]
        vec.close()
        return weights
    env: Any = sekai.make(env_id, **options).unwrapped
    env.reset(seed=0)
    if is_removed:
        env.remove_asset("A0")
    if env_id == "Portfolio-v0":
        weights = env.step(action).observation["weights"]
    else:
        result = env.step(dict.fromkeys(env.agents, action))
        weights = result.observations["agent_0"]["weights"]
    return weights


def test_a_position_that_cannot_be_sold_keeps_its_weight_and_cash_pays_for_it() -> None:
    projected = project_weights([0.0, 0.5, 0.5], [0.3, 0.0, 0.7], [False, True])

    assert projected.weights == pytest.approx([0.3, 0.5, 0.2], abs=1e-15)
    assert projected.exact


def test_exposure_bounds_hold_in_an_episode() -> None:
    rng = np.random.default_rng(0)
    data = market_of(10.0 * np.exp(rng.normal(0, 0.02, (30, 4)).cumsum(axis=0)))
    betas = {"A0": 0.5, "A1": 1.5, "A3": -0.2}
    constraints = Constraints(
        long_short=True, net_exposure=0.0, betas=betas, beta_exposure=(-0.05, 0.05), min_cash=0.9
    )
    env = env_of(data, account=MarginAccount(), constraints=constraints, record=True)
    env.reset(seed=0)

    while not env.step(rng.normal(size=5)).done:
        pass

    ordered = env.take_log()[0].steps.ordered_weights
    assert np.abs(ordered[:, :-1].sum(axis=1)).max() <= 1e-12
    assert np.abs(ordered[:, :-1] @ [0.5, 1.5, 1.0, -0.2]).max() <= 0.05 + 1e-12
    assert np.abs(ordered[:, :-1]).sum(axis=1).mean() > 1.0


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (
            {"betas": {"A00": 1.0}, "beta_exposure": 0.1},
            "betas: unknown asset 'A00'; did you mean 'A0'",
        ),
        ({"max_weight": {"B": 1.0}}, r"max_weight: unknown asset 'B'; expected one of \['A0', "),
        ({"max_weight": {"a1": 1.0}}, "max_weight: unknown asset 'a1'; did you mean 'A1'"),
        ({"betas": {"A0": 1.0}}, "betas needs beta_exposure"),
        ({"beta_exposure": 0.1}, "beta_exposure needs betas"),
        ({"betas": {"A0": np.nan}, "beta_exposure": 0.1}, r"betas\[0\]"),
        ({"betas": {}, "beta_exposure": (2.0, 3.0)}, "beta exposure only from 0 to 1"),
        ({"beta_exposure": (0.3, 0.1), "betas": {}}, "beta_exposure needs finite bounds"),
        ({"net_exposure": (0.3, 0.1)}, "net_exposure needs finite bounds, lower <= upper"),
        ({"net_exposure": (0.1, 0.2, 0.3)}, "net_exposure must be a number, or a lower"),
        ({"net_exposure": (0.5, 0.6), "min_cash": 0.6}, "leaves no weight of cash"),
        ({"min_cash": -0.1}, "min_cash must be at least 0 with a CashAccount"),
        ({"min_weight": -0.1}, "min_weight must be at least 0"),
        ({"min_weight": 0.3, "max_weight": 0.2}, "min_weight 0.3 exceeds the caps of all assets"),
        ({"max_names": 0}, "max_names must be at least 1"),
        (
            {"max_names": 1, "max_weight": 0.3, "max_cash": 0.6},
            "max_names 1 allows no weights with cash from 0 to 0.6",
        ),
        ({"tolerance": -0.1}, "tolerance must be at least 0"),
        ({"untradable": "nothing"}, "untradable|`cash` or `assets`"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(
    constraints: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        env_of(market_of(np.full((4, 2), 10.0)), constraints=Constraints(**constraints))


HALTED: dict[str, Any] = {
    "data": market_of(
        np.array([[10.0, 10.0, 1.0, 1.0, 1.0, 1.0], [10.0] * 6]).T,
        tradable=np.array([[True, True, False, False, True, True], [True] * 6]).T,
    ),
    "features": ["log_return"], "lookback": 1, "starts": 0, "costs": FREE, "record": True,
    "constraints": Constraints(max_names=1, max_cash=0.5),
}  # fmt: skip
"""A position is halted after it fell to less than the mandate needs in one name."""
SWITCH = [[0.6, 0.0, 0.4], [0.6, 0.0, 0.4], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
RELAXED = [0, 0, Compromise.POSITIONS, Compromise.POSITIONS, 0]


def compromises(env_id: str) -> list[float]:
    """Compromise of each step after the reset."""
    if env_id == "native":
        vec = sekai.make_vec("Portfolio-v0", num_envs=2, **HALTED)
        vec.reset(seed=0)
        return [vec.step(np.array([w, w])).infos[1]["compromise"] for w in SWITCH]
    if env_id == "MultiPortfolio-v0":
        team: Any = sekai.make(env_id, agents=["one", "two"], **HALTED)
        team.reset(seed=0)
        actions = [{"one": np.array(w), "two": np.array([0.0, 1.0, 0.0])} for w in SWITCH]
        infos = [team.step(action).info for action in actions]
        assert [info["two"]["compromise"] for info in infos] == [0] * 5
        return [info["one"]["compromise"] for info in infos]
    env: Any = sekai.make(env_id, **HALTED)
    assert env.reset(seed=0).info["compromise"] == 0.0
    return [env.step(np.array(w)).info["compromise"] for w in SWITCH]


@pytest.mark.parametrize("env_id", ["Portfolio-v0", "MultiPortfolio-v0", "native"])
def test_relaxed_constraints_are_in_the_info(env_id: str) -> None:
    assert compromises(env_id) == RELAXED


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_relaxed_constraints_are_in_the_log_and_its_file(kind: str, tmp_path: Path) -> None:
    env: Any = sekai.make("Portfolio-v0", **HALTED)
    env.reset(seed=0)
    for weights in SWITCH:
        env.step(np.array(weights))
    (log,) = env.take_log()
    getattr(log, f"to_{kind}")(tmp_path / f"log.{kind}")
    (read,) = (read_jsonl if kind == "jsonl" else read_parquet)(tmp_path / f"log.{kind}")

    assert log.steps.compromise.tolist() == read.steps.compromise.tolist() == RELAXED
    assert log.to_frame()["compromise"].tolist() == RELAXED


def test_relaxed_constraints_are_in_the_state_of_rewards() -> None:
    vec = sekai.make_vec(
        "Portfolio-v0", num_envs=2, reward=lambda state: state.compromise, **HALTED
    )
    vec.reset(seed=0)

    assert [vec.step(np.array([w, w])).rewards.tolist() for w in SWITCH] == [
        [bits, bits] for bits in RELAXED
    ]


def drifting(tolerance: float, steps: int = 3, **given: Any) -> EpisodeLog:
    """Log of an episode that wants more of a rising asset than it may hold."""
    data = market_of(
        np.array([[10.0, 10.0], [10.4, 10.0], [10.8, 10.0], [11.2, 10.0], [11.6, 10.0]]),
        open_=np.array([[10.0, 10.0], [10.0, 10.0], [10.4, 10.0], [10.8, 10.0], [11.2, 10.0]]),
        sectors={"A0": "S0"},
    )
    constraints = Constraints(tolerance=tolerance, **given)
    env = env_of(data, constraints=constraints, record=True)
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.array([1.5, -1.0, 0.5]))
    (log,) = env.take_log()
    return log


@pytest.mark.parametrize(
    "caps",
    [{"max_weight": {"A0": 0.5}}, {"sector_caps": 0.5}, {"leverage": 0.5}],
    ids=["asset", "sector", "leverage"],
)
def test_what_drifted_within_the_tolerance_is_not_traded_back(caps: dict[str, Any]) -> None:
    strict, lenient = drifting(0.0, **caps), drifting(0.02, steps=2, **caps)

    assert len(strict.trades) == 3
    assert strict.steps.ordered_weights[:, 0] == pytest.approx(0.5)
    assert lenient.trades.row.tolist() == [1]
    assert lenient.steps.ordered_weights[1, 0] == pytest.approx(lenient.steps.weights[0, 0])


def test_drift_beyond_the_tolerance_is_traded_back_to_it() -> None:
    log = drifting(0.015, max_weight={"A0": 0.5})

    drifted = log.steps.weights[:, 0]
    assert drifted[1] > 0.515
    assert log.steps.ordered_weights[:, 0] == pytest.approx([0.5, drifted[0], 0.515])


def test_exposures_are_counted_at_decisions_and_after_drift() -> None:
    log = drifting(0.015, max_weight={"A0": 0.5}, leverage=0.51)

    exposures = log.exposures()

    decided, drifted = exposures.at_decision, exposures.after_drift
    assert decided.weight == pytest.approx(log.steps.ordered_weights[:, 0])
    assert drifted.gross == pytest.approx(log.steps.gross_exposure)
    assert drifted.sector == pytest.approx(log.sector_exposure()["S0"])
    assert decided.rows_above_cap == {"weight": 2, "sector": 0, "gross": 1}
    assert decided.rows_above_tolerance == {"weight": 0, "sector": 0, "gross": 0}
    assert drifted.rows_above_cap == {"weight": 3, "sector": 0, "gross": 2}
    assert drifted.rows_above_tolerance == {"weight": 2, "sector": 0, "gross": 0}


def test_exposures_of_several_agents_have_their_own_caps() -> None:
    data = market_of(np.full((5, 2), 10.0), sectors={"A0": "S0", "A1": "S1"})
    agents = {
        "low": AgentConfig(constraints=Constraints(max_weight=0.2, sector_caps={"S0": 0.1})),
        "high": AgentConfig(account=MarginAccount(leverage=1.5), constraints=Constraints()),
    }
    env: Any = sekai.make(
        "MultiPortfolio-v0", data=data, features=["log_return"], lookback=1, starts=0, costs=FREE,
        agents=agents, record=True,
    ).unwrapped  # fmt: skip
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, np.array([1.0, 0.5, -0.5])))

    logs = {name: log for name, (log,) in env.take_log().items()}
    low, high = (logs[name].exposures().at_decision for name in ("low", "high"))

    assert low.weight == pytest.approx([0.2])
    assert low.weight_excess == pytest.approx([0.0], abs=1e-12)
    assert low.sector_excess == pytest.approx([0.0], abs=1e-12)
    assert high.gross == pytest.approx([1.5])
    assert high.gross_excess == pytest.approx([0.0], abs=1e-12)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_exposures_survive_a_file(kind: str, tmp_path: Path) -> None:
    log = drifting(0.015, max_weight={"A0": 0.5})
    path = tmp_path / f"log.{kind}"

    (log.to_jsonl if kind == "jsonl" else log.to_parquet)(path)
    (again,) = (read_jsonl if kind == "jsonl" else read_parquet)(path)

    assert again.limits == log.limits
    before, after = log.exposures(), again.exposures()
    assert np.array_equal(before.at_decision.weight_excess, after.at_decision.weight_excess)
    assert before.after_drift.rows_above_cap == after.after_drift.rows_above_cap


CASH_RULES: dict[str, Any] = {
    "max_weight": 0.6, "turnover": 0.8, "min_cash": 0.05, "betas": {"A0": 0.5},
    "beta_exposure": (0.0, 0.7), "min_weight": 0.1, "max_names": 2, "tolerance": 0.02,
}  # fmt: skip


def test_a_state_with_all_constraints_continues_with_the_same_bytes() -> None:
    rng = np.random.default_rng(1)
    data = market_of(10.0 * np.exp(rng.normal(0, 0.02, (20, 4)).cumsum(axis=0)))
    env, other = (env_of(data, constraints=Constraints(**CASH_RULES)) for _ in range(2))
    for each in (env, other):
        each.reset(seed=0)
    for _ in range(5):
        env.step(rng.dirichlet(np.ones(5)))

    other.load_state_dict(env.state_dict())

    action = rng.dirichlet(np.ones(5))
    one, two = (each.step(action).observation["weights"] for each in (env, other))
    assert one.tobytes() == two.tobytes()


def test_constraints_come_from_a_table_of_toml() -> None:
    table = {
        "max_weight": 0.6, "min_cash": 0.05, "net_exposure": [0.0, 0.9], "betas": {"A0": 0.5},
        "beta_exposure": 0.7, "untradable": "assets", "min_weight": 0.1, "max_names": 2,
        "tolerance": 0.02,
    }  # fmt: skip

    constraints = build(Constraints, table)

    assert constraints.net_exposure == (0.0, 0.9)
    env_of(market_of(np.full((4, 2), 10.0)), constraints=constraints)
    with pytest.raises(ConversionError, match="untradable must be 'cash' or 'assets'"):
        build(Constraints, {"untradable": "nothing"})
