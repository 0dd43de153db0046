"""Caps hold at the decision; prices move weights above them afterwards."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.evaluation import evaluate, load_evaluation
from sekai.evaluation.report import write_report
from tests.evaluation.worlds import ASSETS, planted

DATA = planted()


def judged(target: Any, **options: Any) -> Any:
    return evaluate(
        lambda observation: np.asarray(target), "Portfolio-v0", seeds=8, sensitivity=False,
        baselines=["equal_weight"],
        env_options={
            "data": DATA, "features": ["log_return"], "lookback": 2, "episode_rows": 60, **options,
        },
    )  # fmt: skip


def test_weights_drift_above_a_cap_that_holds_at_decisions() -> None:
    limits = sekai.market.Constraints(max_weight=0.25)
    found = judged([1.0, 0, 0, 0, 0, 0], constraints=limits)
    weight, gross = found.caps

    assert weight.measure == "largest_weight"
    assert weight.cap == 0.25
    assert weight.at_decision == pytest.approx(0.25, abs=1e-6)
    assert weight.rows_above_at_decision == 0
    assert weight.after_drift > 0.25
    drifted = np.concatenate([episode.weights[:, :-1] for episode in found.agent.episodes])
    assert weight.after_drift == drifted.max()
    assert weight.rows_above_after_drift == (drifted.max(axis=1) > 0.25 + 1e-6).sum() > 0
    assert weight.rows == len(drifted)
    assert gross.cap == 1.0
    assert gross.rows_above_after_drift == 0


def test_a_tilted_portfolio_is_checked_by_the_same_rule() -> None:
    options = {
        "action": "tilts",
        "tilt": 0.05,
        "constraints": sekai.market.Constraints(max_weight=0.1),
    }
    found = judged(np.full(ASSETS, 2), **options)
    assert found.caps[0].at_decision == pytest.approx(0.1, abs=1e-6)
    assert found.caps[0].rows_above_at_decision == 0


def test_a_cap_without_effect_is_never_exceeded() -> None:
    found = judged([0.2] * ASSETS + [0.0])
    assert [check.rows_above_after_drift for check in found.caps] == [0, 0]


def test_the_report_and_the_file_hold_both(tmp_path: Path) -> None:
    found = judged([1.0, 0, 0, 0, 0, 0], constraints=sekai.market.Constraints(max_weight=0.25))
    assert load_evaluation(found.to_json(tmp_path / "found.json")).caps == found.caps
    text = write_report(found, tmp_path / "found.html").read_text(encoding="utf-8")
    assert "Caps at decisions and after drift" in text
    assert f"{found.caps[0].rows_above_after_drift:,} of {found.caps[0].rows:,}" in text
