from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sekai.evaluation import Flag, StepContext, evaluate
from sekai.evaluation.baselines import baseline
from sekai.evaluation.baselines.portfolio import TargetWeights
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.look_ahead import look_ahead_flags, replace_future
from sekai.evaluation.policy import as_policy
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.tasks import task_of
from sekai.evaluation.tasks.portfolio import PortfolioTask
from tests.evaluation.worlds import ASSETS, planted

DATA = planted()
CLOSE = DATA.field("close")
OPTIONS: dict[str, Any] = {
    "data": DATA, "features": ["log_return"], "lookback": 2, "episode_rows": 150,
    "observation": "index",
}  # fmt: skip
SEEDS = list(range(8))

Scores = np.ndarray


def flags_for(policy: Any, **options: Any) -> list[Flag]:
    task = task_of(as_env_source("Portfolio-v0", OPTIONS | options))
    player = as_policy(policy)
    run_episodes(player, task.recording_source(), task, SEEDS[:1])
    return look_ahead_flags(player, task, SEEDS)


def weights_of(scores: Scores) -> np.ndarray:
    shares = np.exp(scores - scores.max())
    return np.append(shares / shares.sum(), 0.0)


def returns_ahead(row: int, rows: int, wait: int = 1) -> Scores:
    begin = min(row + wait, len(CLOSE) - 1)
    found: Scores = CLOSE[min(begin + rows, len(CLOSE) - 1)] / CLOSE[begin] - 1.0
    return found


def knowing(scores: Callable[[int], Scores]) -> Callable[[Any], np.ndarray]:
    """A policy with a private copy of the data, and the row that it is in."""
    return lambda seen: weights_of(200.0 * scores(int(seen["index"][0])))


def noisy(row: int) -> Scores:
    return returns_ahead(row, 1) + np.random.default_rng(row).normal(0.0, 0.01, ASSETS)


def in_or_out(seen: Any) -> np.ndarray:
    is_rising = returns_ahead(int(seen["index"][0]), 1).mean() > 0
    return np.append(np.full(ASSETS, 0.2), 0.0) if is_rising else np.eye(ASSETS + 1)[-1]


class Peeking(TargetWeights):
    """Reads rows to come from the env that it plays in."""

    name = "peeking"

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def targets(self, moment: StepContext) -> np.ndarray:
        task = self.context.task
        assert isinstance(task, PortfolioTask)
        rows = moment.infos["time_index"].astype(int)
        ahead = task.marks[np.minimum(rows + self.rows, len(task.marks) - 1)]
        return np.stack([weights_of(200.0 * (one - 1.0)) for one in ahead / task.marks[rows]])


LEAKS: dict[str, Any] = {
    "the next return": knowing(lambda row: returns_ahead(row, 1)),
    "the return before the fill": knowing(lambda row: returns_ahead(row, 1, wait=0)),
    "the next week": knowing(lambda row: returns_ahead(row, 5)),
    "the opposite": knowing(lambda row: -returns_ahead(row, 1)),
    "the signs": knowing(lambda row: 0.01 * np.sign(returns_ahead(row, 1))),
    "the winner": knowing(lambda row: 0.05 * (np.argsort(np.argsort(returns_ahead(row, 2))) > 3)),
    "the next return, and noise": knowing(noisy),
    "the next risks": knowing(lambda row: np.abs(returns_ahead(row, 1))),
    "the direction": in_or_out,
    "the env's next row": Peeking(1),
    "the env's next month": Peeking(20),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_who_knows_the_future_is_found_out(leak: str) -> None:
    assert [(one.name, one.level) for one in flags_for(LEAKS[leak])] == [("look_ahead", "error")]


@pytest.mark.parametrize(
    "name",
    ["equal_weight", "buy_and_hold", "minimum_variance", "risk_parity", "momentum", "random"],
)
@pytest.mark.parametrize("data", [DATA, planted(strength=0.0, seed=5)])
def test_no_baseline_knows_the_future(name: str, data: Any) -> None:
    assert flags_for(baseline(name, "portfolio"), data=data) == []


def test_who_answers_what_was_shown_is_not_accused() -> None:
    def follow(seen: Any) -> np.ndarray:
        return weights_of(300.0 * np.asarray(seen["windows"][-1, :, 0], np.float64))

    assert flags_for(follow, observation="window") == []


def test_features_that_know_the_future_are_found_out() -> None:
    def tomorrow(data: Any) -> np.ndarray:
        close = np.asarray(data.field("close"))
        return np.diff(np.log(close), axis=0, append=np.log(close[-1:]))

    def follow(seen: Any) -> np.ndarray:
        return weights_of(300.0 * np.asarray(seen["windows"][-1, :, 0], np.float64))

    flags = flags_for(follow, observation="window", features=[tomorrow])
    assert [one.name for one in flags] == ["look_ahead"]


def test_who_does_not_do_the_same_twice_can_not_be_proven_right() -> None:
    rng = np.random.default_rng(0)
    flags = flags_for(lambda seen: rng.dirichlet(np.ones(ASSETS + 1)))
    assert [one.name for one in flags] == ["look_ahead_unchecked"]


def test_features_that_nobody_can_compute_again_are_said_to_be_unproven() -> None:
    from sekai.data import Pipeline

    panel = Pipeline(["log_return"]).transform(DATA)
    flags = flags_for(baseline("equal_weight", "portfolio"), features=panel)
    assert [one.name for one in flags] == ["look_ahead_unchecked"]


def test_features_that_were_fitted_on_what_is_judged_are_found_out() -> None:
    from sekai.data import Pipeline

    equal = baseline("equal_weight", "portfolio")
    fitted = Pipeline(["log_return"], scaling="zscore").fit(DATA)
    assert [one.name for one in flags_for(equal, features=fitted)] == ["fitted_on_test_data"]
    before = Pipeline(["log_return"], scaling="zscore").fit(DATA.rows(0, 300))
    assert flags_for(equal, features=before) == []


def test_an_evaluation_tells_of_foreknowledge() -> None:
    leak = LEAKS["the return before the fill"]
    found = evaluate(leak, "Portfolio-v0", seeds=8, env_options=OPTIONS, sensitivity=False,
                     baselines=["equal_weight"])  # fmt: skip
    assert "look_ahead" in {one.name for one in found.flags if one.level == "error"}
    assert "implausible" in {one.name for one in found.flags}


@pytest.mark.parametrize("row", [0, 300, 698])
def test_another_future_leaves_the_past_alone(row: int) -> None:
    other = replace_future(DATA, row, np.random.default_rng(0))
    assert np.array_equal(other.values[: row + 1], DATA.values[: row + 1])
    if row < 600:
        moved, was = (np.diff(np.log(one.field("close")[row:]), axis=0) for one in (other, DATA))
        assert abs(np.corrcoef(moved.ravel(), was.ravel())[0, 1]) < 0.1
        assert np.std(moved) == pytest.approx(np.std(was), rel=0.1)
