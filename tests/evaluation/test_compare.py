from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.evaluation import compare, evaluate, load_evaluation, walk_forward
from tests.evaluation.worlds import ASSETS, planted

DATA = planted()
TEST = {"episode_rows": None, "starts": "sequential"}


def hold(index: int) -> Any:
    target = np.eye(ASSETS + 1)[index]
    return lambda observation: target


def judged(policy: Any, warm_up: int = 30, first: int = 300, **options: Any) -> Any:
    given: dict[str, Any] = {
        "data": DATA.rows(first - warm_up, len(DATA), warm_up=warm_up), "lookback": 2,
        "features": ["log_return"], **TEST,
    }  # fmt: skip
    return evaluate(
        policy, "Portfolio-v0", seeds=1, baselines=["equal_weight"], sensitivity=False,
        env_options=given | options,
    )  # fmt: skip


def follow(observation: Any) -> np.ndarray:
    moves = np.asarray(observation["windows"][-1, :, 0], np.float64)
    weights: np.ndarray = np.eye(ASSETS + 1)[int(np.argmax(moves))]
    return weights


def test_the_difference_is_that_of_the_metrics() -> None:
    first, second = judged(hold(0)), judged(hold(1))
    found = compare(first, second)
    values = [each.agent.metrics["sharpe"].value for each in (first, second)]

    assert found.difference == pytest.approx(values[0] - values[1])
    assert found.interval.low < found.difference < found.interval.high
    assert (found.first, found.paired_by) == (first.name, "dates")
    assert found.pairs == len(first.agent.episodes[0].returns)
    back = compare(second, first)
    assert back.difference == pytest.approx(-found.difference)
    assert back.p_value == pytest.approx(found.p_value, abs=0.1)


def test_an_agent_equals_itself_across_warm_up_and_features() -> None:
    found = compare(judged(hold(0)), judged(hold(0), 60, features=["momentum", "log_return"]))

    assert found.difference == 0.0
    assert found.p_value == 1.0
    assert found.standing == "inconclusive"


def test_a_real_edge_is_significant() -> None:
    free = sekai.market.Costs(proportional=0.0, half_spread=0.0, impact=0.0)
    found = compare(judged(follow, costs=free), judged(hold(0), costs=free))

    assert found.standing == "first"
    assert found.interval.low > 0


def test_wins_are_counted_by_episode_although_dates_are_shared() -> None:
    options = {"data": DATA, "lookback": 2, "features": ["log_return"], "episode_rows": 60}
    first, second = (
        evaluate(
            hold(index), "Portfolio-v0", seeds=6, baselines=["equal_weight"], sensitivity=False,
            env_options=options,
        )
        for index in (0, 1)
    )  # fmt: skip
    found = compare(first, second)
    better = np.greater(first.agent.by_seed["sharpe"], second.agent.by_seed["sharpe"])

    assert found.paired_by == "dates"
    assert 0.0 < better.mean() < 1.0
    assert found.wins == better.mean()


def test_wins_against_a_baseline_are_counted_by_episode_although_dates_are_shared() -> None:
    options = {"data": DATA, "lookback": 2, "features": ["log_return"], "episode_rows": 60}
    found = evaluate(
        hold(0), "Portfolio-v0", seeds=6, baselines=["equal_weight"], sensitivity=False,
        env_options=options,
    )  # fmt: skip
    baseline = found.baselines["equal_weight"].by_seed["sharpe"]
    better = np.greater(found.agent.by_seed["sharpe"], baseline)

    assert "overlapping_episodes" in {flag.name for flag in found.flags}
    assert 0.0 < better.mean() < 1.0
    assert found.comparisons[0].wins == better.mean()


def test_a_lower_drawdown_is_better() -> None:
    calm, wild = judged(hold(ASSETS)), judged(hold(0))
    assert compare(calm, wild, metric="max_drawdown").difference > 0


def test_other_dates_are_refused() -> None:
    with pytest.raises(ValueError, match="judged on different dates: .* rows from"):
        compare(judged(hold(0)), judged(hold(0), first=310))


def test_other_prices_on_the_same_dates_are_refused() -> None:
    other = planted(seed=1)
    with pytest.raises(ValueError, match="same dates of different data"):
        compare(judged(hold(0)), judged(hold(0), data=other.rows(270, len(other), warm_up=30)))


def test_simulated_envs_are_paired_by_seed() -> None:
    def market_making(seeds: Any) -> Any:
        return evaluate("optimal_quotes", "MarketMaking-v0", seeds=seeds, sensitivity=False)

    one, other = (
        market_making(16),
        evaluate("wide_quotes", "MarketMaking-v0", seeds=16, sensitivity=False),
    )
    found = compare(one, other, metric="certainty_equivalent")
    assert (found.pairs, found.paired_by, found.standing) == (16, "seeds", "first")
    with pytest.raises(ValueError, match="evaluate both on the same env and seeds"):
        compare(one, market_making(range(16)), metric="certainty_equivalent")
    with pytest.raises(ValueError, match="12 episodes; evaluate both with the same seeds"):
        compare(one, market_making(12), metric="certainty_equivalent")


def test_a_metric_that_one_lacks_is_refused_with_those_of_both() -> None:
    with pytest.raises(ValueError, match=r"unknown metric .*'sharp'; did you mean 'sharpe'"):
        compare(judged(hold(0)), judged(hold(1)), metric="sharp")
    with pytest.raises(TypeError, match="not an evaluation"):
        compare(judged(hold(0)), "evaluation.json")  # type: ignore[arg-type]


def test_walk_forward_results_are_compared_by_their_joined_rows() -> None:
    def run(index: int, features: list[str]) -> Any:
        return walk_forward(
            lambda train, fold: hold(index), DATA, folds=2, train_rows=200, test_rows=120,
            warm_up=40, features=features, env_options={"lookback": 2}, baselines=["equal_weight"],
        )  # fmt: skip

    first, second = run(0, ["log_return"]), run(1, ["momentum"])
    found = compare(first, second)
    assert found.difference == compare(first.joined, second.joined).difference
    assert found.pairs == len(first.joined.agent.episodes[0].returns)


def test_files_compare_as_memory_does(tmp_path: Path) -> None:
    first, second = judged(hold(0)), judged(hold(1))
    paths = [each.to_json(tmp_path / f"{index}.json") for index, each in enumerate([first, second])]
    assert compare(*map(load_evaluation, paths)) == compare(first, second)


def test_a_comparison_is_one_row_and_one_line() -> None:
    found = compare(judged(hold(0)), replace(judged(hold(1)), name="other"))
    for backend in ("pandas", "polars"):
        frame = found.to_frame(backend)
        assert frame.shape[0] == 1
        assert list(frame["second"]) == ["other"]
        assert list(frame["difference"]) == [found.difference]
    assert len(repr(found)) < 200
    assert "other" in repr(found)
