import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from sekai.cli.summary import interval_text
from sekai.evaluation import Interval
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.evaluation import rich_table
from sekai.evaluation.scorer import Scorer
from sekai.evaluation.statistics import bootstrap_interval, seed_interval
from sekai.evaluation.tasks import task_of
from tests.evaluation.samples import sample_evaluation


def spread(values: NDArray[np.float64]) -> float:
    return float(values.max() - values.min())


def reciprocal(values: NDArray[np.float64]) -> float:
    return 1.0 / values.mean() if values.any() else float("nan")


def test_a_summary_names_every_policy_its_interval_and_every_flag() -> None:
    evaluation = sample_evaluation()
    text = str(evaluation)
    assert text == evaluation.summary()
    for name in evaluation.policies:
        assert name in text
    assert "[-0.2, 1.9]" in text
    assert "0.3 [-0.1, 0.7]" in text
    assert "warning: few_seeds: three seeds say little" in text
    assert "higher is better" in text


def test_what_is_undefined_is_said_to_be() -> None:
    evaluation = sample_evaluation()
    nothing = seed_interval([float("nan"), 1.0])
    agent = dataclasses.replace(evaluation.agent, metrics={"sharpe": nothing})
    changed = dataclasses.replace(evaluation, policies={**evaluation.policies, "agent": agent})
    assert "undefined" in str(changed)
    assert "[undefined]" in str(changed)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (seed_interval([0.5]), "0.5 [one episode]"),
        (seed_interval([0.5, 0.5]), "0.5 [equal values]"),
        (bootstrap_interval(np.arange(5.0), spread), "4 [too few returns]"),
        (bootstrap_interval(np.zeros(50), spread, resamples=9), "0 [equal values]"),
        (
            bootstrap_interval(np.eye(1, 50)[0], reciprocal, resamples=99, block=1),
            "50 [undefined in resamples]",
        ),
        (seed_interval([]), "undefined [undefined]"),
    ],
)
def test_an_interval_without_bounds_states_why(interval: Interval, text: str) -> None:
    assert str(interval) == text
    assert text.partition(" ")[2] in interval_text(interval) or interval_text(interval) == "-"


@pytest.mark.parametrize(
    ("metric", "values", "bounds"),
    [
        ("fulfilled", [0.1, 1.0, 1.0], (0.0, 1.0)),
        ("hit_rate", [0.1, 0.9, 1.0], (0.0, 1.0)),
        ("max_drawdown", [-0.9, -0.1, 0.0], (None, 0.0)),
    ],
)
def test_no_bound_lies_beyond_the_values_of_a_metric(
    metric: str, values: list[float], bounds: tuple[float | None, float]
) -> None:
    scorer = Scorer(task_of(as_env_source("OrderExecution-v0")), 252.0, 0.95, bootstraps=False)

    interval = scorer._interval(metric, values, [])

    low, high = bounds
    assert interval.high == high < seed_interval(values).high
    assert low is None or interval.low == low > seed_interval(values).low


def test_columns_stand_under_each_other() -> None:
    lines = str(sample_evaluation()).splitlines()[2:8]
    assert all(len(line) <= len(lines[1]) for line in lines)


def test_a_terminal_gets_the_same_rows() -> None:
    pytest.importorskip("rich")
    table = rich_table(sample_evaluation())
    assert table.row_count == 4
    assert [column.header for column in table.columns][:2] == ["policy", "sharpe"]
