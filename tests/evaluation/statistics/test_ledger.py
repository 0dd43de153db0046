"""A ledger of trials that loses nothing."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.evaluation import evaluate
from sekai.evaluation.report import write_report
from sekai.evaluation.report.summary import verdict_of
from sekai.evaluation.scorer import returns_by_date
from sekai.evaluation.statistics import TornLineWarning, TrialLedger, deflated_sharpe_of
from sekai.evaluation.tasks.portfolio import digest_of_judged_rows
from tests.evaluation.worlds import ASSETS, planted

RETURNS = np.random.default_rng(0).normal(0.001, 0.01, 500)
WRITER = """
import sys
from sekai.evaluation.statistics import TrialLedger
ledger = TrialLedger(sys.argv[1])
for number in range(int(sys.argv[3])):
    ledger.record("data", f"{sys.argv[2]}-{number}" + "x" * 300, number / 100)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> TrialLedger:
    return TrialLedger(tmp_path / "trials.jsonl")


def test_trials_are_found_by_their_data(ledger: TrialLedger) -> None:
    recorded = ledger.record("a", "first", 0.1)
    ledger.record("b", "other", 0.2)
    ledger.record("a", "second", -0.3, model="digest")

    assert ledger.trials("a")[0] == recorded
    assert [(one.name, one.sharpe, one.model) for one in ledger.trials("a")] == [
        ("first", 0.1, ""),
        ("second", -0.3, "digest"),
    ]
    assert ledger.sharpes("b") == [0.2]
    assert ledger.trials("c") == []


def test_a_ledger_that_is_not_there_has_no_trials(ledger: TrialLedger) -> None:
    assert ledger.trials("a") == []
    assert not ledger.path.exists()


def test_an_invalid_trial_counts_and_its_ratio_is_not_used(ledger: TrialLedger) -> None:
    for sharpe in (0.01, 0.02, 0.03):
        ledger.record("a", "honest", sharpe)
    honest = deflated_sharpe_of(RETURNS, ledger.sharpes("a"))
    ledger.record("a", "seer", 5.0, invalid=["look_ahead"])

    assert [trial.invalid for trial in ledger.trials("a")] == [(), (), (), ("look_ahead",)]
    sharpes = ledger.sharpes("a")
    assert sharpes[:3] == [0.01, 0.02, 0.03]
    assert math.isnan(sharpes[3])
    later = deflated_sharpe_of(RETURNS, sharpes)
    assert later.trials == 4
    assert honest.expected_best < later.expected_best < 2 * honest.expected_best


def test_lines_without_a_mark_are_valid_trials(ledger: TrialLedger) -> None:
    line = {"data_digest": "a", "name": "old", "sharpe": 0.1, "model": "", "recorded": ""}
    ledger.path.write_text(json.dumps(line) + "\n")

    assert [trial.invalid for trial in ledger.trials("a")] == [()]


def test_an_agent_that_knows_the_future_is_marked_and_has_no_skill(
    ledger: TrialLedger, tmp_path: Path
) -> None:
    data = planted()
    close = data.field("close")

    def seer(observation: Any) -> Any:
        row = int(observation["index"][0])
        later = close[min(row + 2, len(close) - 1)] / close[min(row + 1, len(close) - 1)]
        return np.append(np.eye(ASSETS)[np.argmax(later)], 0.0)

    options = {
        "data": data, "features": ["log_return"], "lookback": 2, "episode_rows": 150,
        "observation": "index",
    }  # fmt: skip
    found = evaluate(
        seer, "Portfolio-v0", seeds=8, env_options=options, sensitivity=False, ledger=ledger,
        name="seer",
    )  # fmt: skip

    (trial,) = ledger.trials(found.provenance.judged_digest)
    assert trial.invalid == ("look_ahead",)
    assert not found.is_valid
    returns = returns_by_date(found.agent.episodes)
    assert deflated_sharpe_of(returns, 1).deflated > 0.99  # what nobody should read
    assert found.deflated_sharpe is not None
    assert found.deflated_sharpe.trials == 1
    assert math.isnan(found.deflated_sharpe.deflated)
    assert math.isnan(found.deflated_sharpe.probabilistic)
    sentences = " ".join(verdict_of(found).sentences)
    assert "no probability of skill is stated, because the results are invalid" in sentences
    page = write_report(found, tmp_path / "found.html").read_text(encoding="utf-8")
    metrics = page[page.index("Metrics of all policies") :].partition("</table>")[0]
    cells = [re.findall("<td[^>]*>", row) for row in metrics.split("<tr")[2:]]
    assert not any("best" in row[0] for row in cells)
    assert any("best" in cell for row in cells for cell in row[1:])

    honest = evaluate(
        "momentum", "Portfolio-v0", seeds=8, env_options=options, sensitivity=False,
        ledger=ledger,
    )  # fmt: skip
    assert honest.is_valid
    assert honest.deflated_sharpe is not None
    assert honest.deflated_sharpe.trials == 2
    assert not math.isnan(honest.deflated_sharpe.deflated)


def test_the_same_agent_counts_once_by_what_was_told_last(ledger: TrialLedger) -> None:
    for sharpe in (0.1, 0.2, 0.3):
        ledger.record("a", f"agent at {sharpe}", sharpe, model="digest")
    ledger.record("b", "agent", 0.9, model="digest")

    assert ledger.sharpes("a") == [0.3]


def test_agents_that_nothing_identifies_all_count(ledger: TrialLedger) -> None:
    for _ in range(3):
        ledger.record("a", "agent", 0.1)

    assert ledger.sharpes("a") == [0.1] * 3


def test_a_line_is_never_changed(ledger: TrialLedger) -> None:
    ledger.record("a", "first", 0.1, model="digest")
    before = ledger.path.read_bytes()
    ledger.record("a", "again", 0.2, model="digest")

    assert ledger.path.read_bytes().startswith(before)


def test_a_ratio_that_is_undefined_is_kept_as_strict_json(ledger: TrialLedger) -> None:
    ledger.record("a", "still", math.nan)
    words = json.loads(ledger.path.read_text(), parse_constant=pytest.fail)

    assert words["sharpe"] is None
    assert math.isnan(ledger.sharpes("a")[0])


def test_names_of_any_kind_stay_on_their_line(ledger: TrialLedger) -> None:
    ledger.record("a", 'two\nlines "quoted" \u2028 代理', 0.1)
    ledger.record("a", "next", 0.2)

    assert [one.name for one in ledger.trials("a")] == ['two\nlines "quoted" \u2028 代理', "next"]


def test_a_torn_last_line_is_told_and_costs_no_other(ledger: TrialLedger) -> None:
    ledger.record("a", "first", 0.1)
    ledger.record("a", "torn", 0.2)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-20])

    with pytest.warns(TornLineWarning, match="line 2 of .*trials.jsonl"):
        assert ledger.sharpes("a") == [0.1]

    ledger.record("a", "after", 0.3)
    with pytest.warns(TornLineWarning):
        assert ledger.sharpes("a") == [0.1, 0.3]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "3",
        '{"sharpe": 1}',
        '{"data_digest": 1, "name": "", "model": "", "recorded": "", "sharpe": 1}',
        '"text"',
        "null",
    ],
)
def test_a_line_that_is_no_trial_is_told(ledger: TrialLedger, line: str) -> None:
    ledger.path.write_text(f"{line}\n")

    with pytest.warns(TornLineWarning, match="malformed line .* skipped"):
        assert ledger.trials("a") == []


def test_processes_that_write_at_once_lose_nothing(ledger: TrialLedger) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(ledger.path), str(number), "50"])
        for number in range(4)
    ]

    assert [writer.wait(50) for writer in writers] == [0] * 4
    names = {one.name.rstrip("x") for one in ledger.trials("data")}
    assert names == {f"{writer}-{number}" for writer in range(4) for number in range(50)}


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        TrialLedger(tmp_path / "nowhere" / "trials.jsonl").record("a", "agent", 0.1)


def test_warm_up_and_features_are_no_new_data_and_other_dates_are(ledger: TrialLedger) -> None:
    data = planted()
    target = np.eye(ASSETS + 1)[0]

    def trials(first: int, warm_up: int, features: list[str]) -> int:
        found = evaluate(
            lambda observation: target, "Portfolio-v0", seeds=1, baselines=["equal_weight"],
            sensitivity=False, ledger=ledger,
            env_options={
                "data": data.rows(first - warm_up, len(data), warm_up=warm_up), "lookback": 2,
                "features": features, "episode_rows": None, "starts": "sequential",
            },
        )  # fmt: skip
        assert found.deflated_sharpe is not None
        recorded = ledger.trials(found.provenance.judged_digest)
        assert len(recorded) == found.deflated_sharpe.trials
        return found.deflated_sharpe.trials

    assert trials(300, 30, ["log_return"]) == 1
    assert trials(300, 60, ["momentum", "log_return"]) == 2
    assert trials(310, 30, ["log_return"]) == 1
    assert trials(300, 90, ["log_return"]) == 3


def test_fields_and_order_of_assets_are_no_new_data() -> None:
    data = planted()
    fewer = data.select(assets=data.assets[::-1], fields=["open", "close"])
    other = data.select(assets=data.assets[:-1])

    assert digest_of_judged_rows([fewer]) == digest_of_judged_rows([data])
    assert digest_of_judged_rows([other]) != digest_of_judged_rows([data])
    halves = [data.rows(0, 300), data.rows(250, len(data), warm_up=50)]
    assert digest_of_judged_rows(halves) == digest_of_judged_rows([data])
