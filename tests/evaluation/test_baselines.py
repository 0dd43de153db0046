from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sekai
from sekai.data import MarketData
from sekai.evaluation import baselines, evaluate
from sekai.evaluation.baselines import baseline, baseline_names, register_baseline
from sekai.evaluation.baselines.portfolio import (
    covariance_of,
    minimum_variance_weights,
    risk_parity_weights,
)
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.evaluation import Episode
from sekai.evaluation.policy import as_multi_agent_policy
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.report.chart import Chart, rolling_beta
from sekai.evaluation.report.elements import ReportContext
from sekai.evaluation.report.performance import performance_section
from sekai.evaluation.tasks import task_of
from sekai.evaluation.tasks.portfolio import PortfolioTask
from sekai.market import project_weights
from tests.evaluation.worlds import ASSETS, market, planted

DATA = planted()
OPTIONS: dict[str, Any] = {
    "data": DATA, "features": ["log_return"], "lookback": 2, "episode_rows": 60, "starts": 300,
}  # fmt: skip


def played(name: str, env: str = "Portfolio-v0", **options: Any) -> Episode:
    task = task_of(as_env_source(env, options))
    policy = baseline(name, task.name)
    if task.source.is_multi_agent:
        policy = as_multi_agent_policy(name, None, lambda name: baseline(name, task.name))
    return run_episodes(policy, task.recording_source(), task, [3])[0]


def covariance(seed: int, assets: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    loadings = rng.normal(0.0, 0.01, (assets, 2))
    found: np.ndarray = loadings @ loadings.T + np.diag(rng.uniform(1e-5, 4e-4, assets))
    return found


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), assets=st.integers(1, 12))
def test_least_variance_is_what_a_solver_finds(seed: int, assets: int) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    matrix = covariance(seed, assets)
    weights = cvxpy.Variable(assets, nonneg=True)
    risk = cvxpy.quad_form(weights, cvxpy.psd_wrap(matrix / matrix.max()))
    cvxpy.Problem(cvxpy.Minimize(risk), [cvxpy.sum(weights) == 1]).solve(solver="CLARABEL")

    np.testing.assert_allclose(minimum_variance_weights(matrix), weights.value, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), assets=st.integers(1, 12))
def test_all_assets_bear_the_same_risk(seed: int, assets: int) -> None:
    matrix = covariance(seed, assets)
    weights = risk_parity_weights(matrix)
    shares = weights * (matrix @ weights)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).all()
    np.testing.assert_allclose(shares / shares.sum(), 1 / assets, rtol=1e-6)


def test_risk_parity_is_what_a_solver_finds() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    matrix = covariance(0, 6)
    free = cvxpy.Variable(6, pos=True)
    unit = matrix / matrix.max()
    goal = cvxpy.quad_form(free, cvxpy.psd_wrap(unit)) / 2 - cvxpy.sum(cvxpy.log(free)) / 6
    cvxpy.Problem(cvxpy.Minimize(goal)).solve(solver="CLARABEL")
    np.testing.assert_allclose(
        risk_parity_weights(matrix), free.value / free.value.sum(), atol=1e-4
    )


def test_a_covariance_of_few_rows_can_be_inverted() -> None:
    returns = np.random.default_rng(0).normal(0.0, 0.01, (5, 20))
    assert np.linalg.eigvalsh(covariance_of(returns)).min() > 0


def test_equal_weights_are_equal_again_after_every_fill() -> None:
    episode = played("equal_weight", **OPTIONS)
    np.testing.assert_allclose(episode.actions[:, :ASSETS], 1 / ASSETS)
    assert episode.turnover is not None
    assert (episode.turnover > 0).all()


@pytest.mark.parametrize("gap", [0.0, 0.02])
def test_who_buys_and_holds_trades_once_whatever_gaps_there_are(gap: float) -> None:
    rng = np.random.default_rng(0)
    data = market(rng.normal(0.0, 0.01, (400, ASSETS)))
    values = data.values.copy()
    values[:, :, 0] *= np.exp(rng.normal(0.0, gap, values.shape[:2]))
    values[:, :, 1] = values.max(axis=2)
    values[:, :, 2] = values.min(axis=2)
    episode = played("buy_and_hold", **OPTIONS | {"data": data.replace(values=values)})
    assert episode.turnover is not None
    assert episode.turnover[0] == pytest.approx(1.0, abs=0.01)
    assert not episode.turnover[1:].any()


def test_who_buys_and_holds_trades_once_where_orders_wait() -> None:
    late = sekai.market.Execution(delay=3)
    episode = played("buy_and_hold", **OPTIONS | {"execution": late})
    assert episode.turnover is not None
    assert np.flatnonzero(episode.turnover).tolist() == [3]


@pytest.mark.parametrize("turnover", [0.5, 0.3, 0.05])
@pytest.mark.parametrize("delay", [0, 2])
def test_who_buys_and_holds_is_invested_in_time_and_stays_so(turnover: float, delay: int) -> None:
    limits = sekai.market.Constraints(turnover=turnover)
    late = sekai.market.Execution(delay=delay)
    episode = played("buy_and_hold", **OPTIONS | {"constraints": limits, "execution": late})
    needed = (delay + 1) * int(np.ceil(1 / turnover)) + 2
    assert episode.weights is not None
    assert episode.turnover is not None
    if needed < len(episode.weights):
        assert episode.weights[needed, -1] < 0.02
        assert not episode.turnover[needed + delay :].any()
    # The limit holds at the decision; prices move until the fill.
    assert (episode.turnover <= turnover * 1.2).all()


@pytest.mark.parametrize("env", ["Portfolio-v0", "MultiPortfolio-v0"])
@pytest.mark.parametrize(
    "limits",
    [
        {"net_exposure": (0.0, 0.2)},
        {"max_weight": 0.01},
        {"leverage": 0.1},
        {"net_exposure": (0.0, 0.2), "turnover": 0.05},
        {"min_cash": 0.9, "max_names": 2},
    ],
)
def test_who_buys_and_holds_buys_the_nearest_weights_that_are_allowed(
    env: str, limits: dict[str, Any]
) -> None:
    constraints = sekai.market.Constraints(**limits)
    settings = constraints.settings(DATA.assets, {}, sekai.market.CashAccount())
    settings["turnover"] = None
    nearest = project_weights(np.append(np.full(ASSETS, 1 / ASSETS), 0.0), **settings).weights

    episode = played("buy_and_hold", env, constraints=constraints, **OPTIONS)

    assert episode.weights is not None
    assert episode.weights[8, :-1].sum() == pytest.approx(nearest[:-1].sum(), rel=0.1)
    assert episode.turnover is not None
    assert not episode.turnover[8:].any()


def traded() -> MarketData:
    """Prices with volumes, which follow neither the names nor the columns."""
    volume = np.tile([3.0, 9.0, 8.0, 1.0, 2.0], (len(DATA), 1)) / DATA.field("close")
    # What trades later is not known at the start.
    volume[310:] = volume[310:, ::-1]
    values = np.concatenate([DATA.values, volume[:, :, None]], axis=2)
    return MarketData(
        times=DATA.times, assets=("E", "C", "B", "D", "A"), fields=(*DATA.fields, "volume"),
        values=values,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["equal_weight", "buy_and_hold"])
@pytest.mark.parametrize(
    ("limits", "names"),
    [
        ({"max_names": 1}, {"C"}),
        ({"max_names": 2}, {"C", "B"}),
        ({"max_names": 3}, {"C", "B", "E"}),
        ({"min_weight": 0.4}, {"C", "B"}),
        ({"max_names": 2, "sector_caps": 0.3}, {"C", "B"}),
    ],
)
def test_few_names_are_those_with_the_largest_traded_value(
    name: str, limits: dict[str, Any], names: set[str]
) -> None:
    data = traded().replace(sectors={"B": "x", "C": "x", "D": "x", "E": "y", "A": "y"})
    options = {**OPTIONS, "data": data, "constraints": sekai.market.Constraints(**limits)}

    weights = played(name, **options).weights

    assert weights is not None
    held = {data.assets[asset] for asset in np.flatnonzero(weights[5, :-1] > 1e-9)}
    assert held == names
    if "sector_caps" not in limits:
        assert weights[0, :-1].sum() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("name", [name for name in PortfolioTask.baselines if name != "random"])
@pytest.mark.parametrize(
    "limits",
    [
        {"max_names": 2},
        {"max_names": 3, "sector_caps": 0.5},
        {"max_names": 2, "sector_caps": 0.3, "max_cash": 0.5},
        {"min_weight": 0.3},
        {},
    ],
)
def test_the_order_of_the_columns_makes_no_difference(name: str, limits: dict[str, Any]) -> None:
    sectors = {"B": "x", "C": "x", "D": "x", "E": "y", "A": "y"}
    data, order = traded().replace(sectors=sectors), [3, 0, 4, 2, 1]
    permuted = data.select([data.assets[asset] for asset in order])
    options = {**OPTIONS, "constraints": sekai.market.Constraints(**limits)}

    weights = played(name, **{**options, "data": data}).weights
    others = played(name, **{**options, "data": permuted}).weights

    assert weights is not None
    assert others is not None
    np.testing.assert_allclose(others, weights[:, [*order, -1]], atol=1e-9)


def test_without_volumes_names_decide() -> None:
    data = traded().select(traded().assets, DATA.fields)
    options = {**OPTIONS, "data": data, "constraints": sekai.market.Constraints(max_names=2)}

    weights = played("equal_weight", **options).weights

    assert weights is not None
    assert {data.assets[asset] for asset in np.flatnonzero(weights[5, :-1])} == {"A", "B"}


def test_the_choice_of_names_is_noted_in_the_evaluation() -> None:
    def flags(**limits: Any) -> dict[str, str]:
        found = evaluate(
            "momentum", "Portfolio-v0", baselines=["equal_weight"], seeds=8, sensitivity=False,
            env_options={
                **OPTIONS, "data": traded(), "starts": "random",
                "constraints": sekai.market.Constraints(**limits),
            },
        )  # fmt: skip
        return {flag.name: flag.message for flag in found.flags}

    noted = flags(max_names=2)["baseline_names"]
    assert "equal_weight" in noted
    assert "largest traded value" in noted
    assert "baseline_names" not in flags(max_names=5)
    assert "baseline_names" not in flags()


def test_estimated_weights_are_reached_within_the_turnover_limit() -> None:
    free = {"costs": sekai.market.Costs()}
    limits = sekai.market.Constraints(turnover=0.1)
    slow = played("minimum_variance", **OPTIONS | free | {"constraints": limits})
    quick = played("minimum_variance", **OPTIONS | free)
    assert slow.weights is not None
    assert quick.weights is not None
    np.testing.assert_allclose(slow.weights[15], quick.weights[15], atol=0.05)


def test_a_cap_on_weights_does_not_make_buy_and_hold_rebalance() -> None:
    limits = sekai.market.Constraints(turnover=0.2, max_weight=0.1)
    episode = played("buy_and_hold", **OPTIONS | {"constraints": limits})
    assert episode.turnover is not None
    # Drift above the cap is cut, but nothing is bought back.
    assert (episode.turnover[4:] < 0.03).all()
    assert np.count_nonzero(episode.turnover[4:]) < 5


def test_tilts_invest_buy_and_hold_completely() -> None:
    options = OPTIONS | {"action": "tilts", "tilt": 0.02, "costs": sekai.market.Costs()}
    episode = played("buy_and_hold", **options)
    assert episode.weights is not None
    np.testing.assert_allclose(episode.weights[-1, :ASSETS], 1 / ASSETS, atol=0.05)


def test_table_and_rolling_beta_have_one_benchmark() -> None:
    found = evaluate(
        "buy_and_hold", "Portfolio-v0", baselines=["equal_weight"], seeds=1, sensitivity=False,
        env_options=OPTIONS | {
            "constraints": sekai.market.Constraints(turnover=0.5), "episode_rows": 300,
            "starts": 100,
        },
    )  # fmt: skip
    episode = found.agent.episodes[0]
    assert found.benchmark == "equal_weight"
    assert episode.benchmark is not None
    rolled = rolling_beta(episode.returns, episode.benchmark, 60)
    assert found.agent.metrics["beta"].value == pytest.approx(1.0, abs=0.05)
    assert rolled[5:].mean() == pytest.approx(found.agent.metrics["beta"].value, abs=0.05)
    section = performance_section(ReportContext(found))
    assert section is not None
    charts = {block.title: block for block in section.blocks if isinstance(block, Chart)}
    view = next(iter(charts["Rolling risk"].views.values()))
    drawn = [trace["y"] for trace in view.traces if trace["yaxis"] == "y3"]
    assert len(drawn) == 2
    np.testing.assert_allclose(drawn[1], rolled, rtol=1e-4)


def test_momentum_holds_what_has_risen_most() -> None:
    moves = np.zeros((400, 6))
    moves[:, 2], moves[:, 4] = 0.002, 0.001
    moves += np.random.default_rng(0).normal(0.0, 1e-5, moves.shape)
    episode = played("momentum", **OPTIONS | {"data": market(moves)})
    np.testing.assert_allclose(episode.actions[0], [0, 0, 0.5, 0, 0.5, 0, 0])


def test_estimates_know_nothing_of_rows_to_come() -> None:
    row = 300
    for name in ("minimum_variance", "risk_parity", "momentum"):
        first = played(name, **OPTIONS).actions[0]
        values = DATA.values.copy()
        values[row + 1 :] *= np.random.default_rng(1).uniform(0.5, 2.0, values[row + 1 :].shape[:2])[..., None]  # fmt: skip  # noqa: E501
        other = played(name, **OPTIONS | {"data": DATA.replace(values=values)})
        assert np.array_equal(other.actions[0], first), name
        values[row - 5] *= 1.2
        changed = played(name, **OPTIONS | {"data": DATA.replace(values=values)})
        assert name == "momentum" or not np.array_equal(changed.actions[0], first), name


def test_tilts_lead_to_the_same_weights() -> None:
    options = OPTIONS | {"action": "tilts", "tilt": 0.02, "costs": sekai.market.Costs()}
    episode = played("equal_weight", **options)
    assert episode.weights is not None
    np.testing.assert_allclose(episode.weights[-1, :ASSETS], 1 / ASSETS, atol=0.03)


def test_schedules_cost_what_their_closed_form_says() -> None:
    from sekai.envs import OptimalExecutionConfig

    config = OptimalExecutionConfig(volatility=1e-12, risk_aversion=0.0)
    steps = config.episode_steps
    schedules = {
        "twap": np.full(steps, config.shares / steps),
        "almgren_chriss": config.model.trades(),
        "all_at_once": np.append(config.shares, np.zeros(steps - 1)),
    }
    for name, trades in schedules.items():
        episode = played(name, "OptimalExecution-v0", config=config)
        wanted = config.model.expected_cost(trades) / config.model.notional * 1e4
        assert episode.outcome["shortfall"] == pytest.approx(wanted, rel=1e-6), name


def test_the_best_quotes_are_better_than_the_same_quotes_always() -> None:
    found = evaluate("optimal_quotes", "MarketMaking-v0", seeds=64, sensitivity=False)
    by_name = {one.baseline: one for one in found.comparisons}
    assert by_name["constant_quotes"].difference.low > 0
    assert by_name["wide_quotes"].difference.low > 0
    env = sekai.make("MarketMaking-v0")
    env.reset(seed=0)
    worth: Any = env.unwrapped
    interval = found.agent.metrics["certainty_equivalent"]
    assert interval.low < worth.certainty_equivalent() < interval.high


def test_rules_of_trading_go_the_way_they_say() -> None:
    long = played("always_long", "Trading-v0", max_ticks=50, action="weights")
    with_it = played("momentum", "Trading-v0", max_ticks=50, action="weights")
    assert (long.actions == 1.0).all()
    assert set(np.unique(with_it.actions)) <= {-1.0, 0.0, 1.0}
    assert not played("hold", "Trading-v0", max_ticks=50).total_cost
    two = played("mean_reversion", "Trading-v0", max_ticks=50, symbols=2)
    assert two.actions.shape == (50, 2)


@pytest.fixture
def own_name() -> Iterator[str]:
    yield "always_first"
    baselines._REGISTERED.pop(("portfolio", "always_first"), None)


def test_a_baseline_of_ones_own_is_known_by_name(own_name: str) -> None:
    first = np.eye(ASSETS + 1)[0]
    register_baseline(own_name, lambda: lambda seen: first, task="portfolio")
    assert own_name in baseline_names("portfolio")
    assert own_name not in baseline_names("trading")
    with pytest.raises(ValueError, match="already"):
        register_baseline(own_name, lambda: lambda seen: first, task="portfolio")
    found = evaluate("equal_weight", "Portfolio-v0", baselines=[own_name], seeds=8,
                     sensitivity=False, env_options=OPTIONS | {"starts": "random"})  # fmt: skip
    assert list(found.policies) == ["equal_weight", own_name]
