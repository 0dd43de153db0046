import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import MarketData, Pipeline
from sekai.data.splits import Fold
from sekai.evaluation import TrialLedger, walk_forward
from tests.evaluation.worlds import ASSETS, planted

DATA = planted()
OPTIONS: dict[str, Any] = {"lookback": 2}


def stay(train: MarketData, fold: Fold) -> Any:
    return lambda seen: np.eye(ASSETS + 1)[0]


def judged(train_fn: Any = stay, **options: Any) -> Any:
    given: dict[str, Any] = {
        "folds": 3, "train_rows": 200, "test_rows": 120, "embargo": 5, "warm_up": 20,
        "features": ["log_return"], "env_options": OPTIONS, "baselines": ["equal_weight"],
    }  # fmt: skip
    return walk_forward(train_fn, DATA, **given | options)


def test_tests_come_after_training_and_follow_each_other() -> None:
    seen: list[tuple[Any, Any]] = []

    def train(data: MarketData, fold: Fold) -> Any:
        seen.append((data.times[-1], fold.test.times[fold.test.warm_up]))
        return stay(data, fold)

    found = judged(train)
    day = np.timedelta64(1, "D")
    assert len(found.folds) == 3
    assert found.rows == [(200, 120)] * 3
    for last, first in seen:
        assert (first - last) // day == 6
    begins = [one.agent.episodes[0].times for one in found.folds]
    for before, after in itertools.pairwise(begins):
        assert 0 < (after[0] - before[-1]) // day <= 1


def test_all_folds_are_one_account() -> None:
    found = judged()
    for name in ("agent", "equal_weight"):
        parts = [one.policies[name].episodes[0].returns for one in found.folds]
        whole = found.joined.policies[name].episodes[0]
        np.testing.assert_allclose(whole.returns, np.concatenate(parts), rtol=1e-9)
        assert len(whole.equity) == len(whole.times)
        assert (np.diff(whole.times) > np.timedelta64(0, "D")).all()
        assert len(whole.rewards) == len(whole.actions) == len(whole.turnover)
    assert found.joined.agent.metrics["sharpe"].method == "bootstrap"
    assert found.joined.deflated_sharpe is not None
    assert found.joined.deflated_sharpe.observations == sum(len(part) for part in parts)
    assert found.joined.provenance.data_digest == DATA.digest


def test_what_is_fitted_knows_the_training_rows_alone() -> None:
    given = Pipeline(["log_return"], scaling="zscore")
    shown: list[np.ndarray] = []

    def train(data: MarketData, fold: Fold) -> Any:
        first = True

        def act(seen: Any) -> Any:
            nonlocal first
            if first:
                shown.append(np.array(seen["windows"]))
            first = False
            return np.eye(ASSETS + 1)[0]

        return act

    judged(train, folds=1, features=given)
    later = DATA.values.copy()
    later[-60:] *= 1.5
    walk_forward(
        train, DATA.replace(values=later), folds=1, train_rows=200, test_rows=120, embargo=5,
        warm_up=20, features=given, env_options=OPTIONS, baselines=["equal_weight"],
    )  # fmt: skip
    assert np.array_equal(shown[0], shown[1])


def test_all_folds_are_one_trial(tmp_path: Path) -> None:
    ledger = TrialLedger(tmp_path / "trials.jsonl")
    judged(ledger=ledger)
    again = judged(ledger=ledger)
    assert again.joined.deflated_sharpe is not None
    assert again.joined.deflated_sharpe.trials == 2
    assert len(ledger.trials(again.joined.provenance.judged_digest)) == 2
    judged(ledger=ledger, warm_up=40, features=["momentum"])
    assert len(ledger.trials(again.joined.provenance.judged_digest)) == 3


def test_folds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="room for .* folds.*got folds=9"):
        judged(folds=9)
    with pytest.raises(ValueError, match="folds must be at least 1"):
        judged(folds=0)


def test_sizes_follow_from_the_data_if_nobody_says() -> None:
    found = judged(folds=2, train_rows=None, test_rows=None)
    trained, tested = found.rows[0]
    assert trained == 3 * tested
    assert len(found.folds) == 2


def test_folds_without_a_confidence_interval_are_refused_before_training() -> None:
    def train(data: MarketData, fold: Fold) -> Any:
        raise AssertionError("trained in vain")

    with pytest.raises(ValueError, match="60 test rows .* at least 101 .* fewer folds"):
        judged(train, test_rows=60)
