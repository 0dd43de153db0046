import dataclasses

import pytest

from sekai.evaluation import Interval
from sekai.evaluation.evaluation import rich_table
from tests.evaluation.samples import sample_evaluation


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
    nothing = Interval(value=float("nan"), low=float("nan"), high=float("nan"))
    agent = dataclasses.replace(evaluation.agent, metrics={"sharpe": nothing})
    changed = dataclasses.replace(evaluation, policies={**evaluation.policies, "agent": agent})
    assert "undefined" in str(changed)
    assert "[unknown]" in str(changed)


def test_columns_stand_under_each_other() -> None:
    lines = str(sample_evaluation()).splitlines()[2:8]
    assert all(len(line) <= len(lines[1]) for line in lines)


def test_a_terminal_gets_the_same_rows() -> None:
    pytest.importorskip("rich")
    table = rich_table(sample_evaluation())
    assert table.row_count == 4
    assert [column.header for column in table.columns][:2] == ["policy", "sharpe"]
