"""Caps hold at the decision; prices move weights above them afterwards."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs import AgentConfig, EpisodeLog
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


def test_sectors_are_checked_where_they_have_a_cap() -> None:
    sectors = dict(zip(DATA.assets, ["x", "x", "x", "y", "y"], strict=True))
    limits = sekai.market.Constraints(sector_caps={"x": 0.4})
    found = judged(
        [0.3, 0.3, 0.3, 0.0, 0.0, 0.1], constraints=limits, data=DATA.replace(sectors=sectors)
    )

    sector = found.caps[1]
    assert [check.measure for check in found.caps] == [
        "largest_weight", "sector_exposure", "gross_exposure",
    ]  # fmt: skip
    assert sector.cap == 0.4
    assert sector.rows_above_at_decision == 0 < sector.rows_above_after_drift


def test_caps_are_those_of_the_log() -> None:
    """The report counts what `EpisodeLog.exposures` counts, orders that come later included."""
    options: dict[str, Any] = {
        "data": DATA, "features": ["log_return"], "lookback": 2, "episode_rows": 60,
        "constraints": sekai.market.Constraints(max_weight=0.25), "record": True,
        "execution": sekai.market.Execution(delay=2),
    }  # fmt: skip
    found = judged([1.0, 0, 0, 0, 0, 0], **options)
    vec: Any = sekai.make_vec("Portfolio-v0", num_envs=1, **options)
    exposures = []
    for seed in found.seeds:
        vec.reset(seed=[seed])
        EpisodeLog.take(vec.batch)
        while not vec.step(np.array([[1.0, 0, 0, 0, 0, 0]])).truncated.any():
            pass
        exposures.append(EpisodeLog.take(vec.batch)[0].exposures())

    weight = found.caps[0]
    assert weight.at_decision == max(rows.at_decision.weight.max() for rows in exposures)
    assert weight.after_drift == max(rows.after_drift.weight.max() for rows in exposures)
    assert weight.rows_above_after_drift == sum(
        rows.after_drift.rows_above_cap["weight"] for rows in exposures
    )


def test_each_agent_of_a_team_is_checked_against_its_own_caps(tmp_path: Path) -> None:
    caps = {"narrow": 0.1, "wide": 0.4}
    members = {
        name: AgentConfig(constraints=sekai.market.Constraints(max_weight=cap))
        for name, cap in caps.items()
    }
    target = np.array([1.0, 0, 0, 0, 0, 0])
    found = evaluate(
        {name: lambda observation: target for name in caps}, "MultiPortfolio-v0", seeds=8,
        sensitivity=False, baselines=["equal_weight"],
        env_options={
            "data": DATA, "features": ["log_return"], "lookback": 2, "episode_rows": 60,
            "agents": members,
        },
    )  # fmt: skip

    largest = {c.agent: c for c in found.caps if c.measure == "largest_weight"}
    assert {name: check.cap for name, check in largest.items()} == caps
    for name, check in largest.items():
        assert check.at_decision == pytest.approx(caps[name], abs=1e-6)
        assert check.rows_above_at_decision == 0 < check.rows_above_after_drift
    assert load_evaluation(found.to_json(tmp_path / "found.json")).caps == found.caps
    text = write_report(found, tmp_path / "found.html").read_text(encoding="utf-8")
    assert "Caps at decisions and after drift" in text
    assert "largest weight of narrow" in text.lower()


def test_relaxed_constraints_are_flagged_and_counted() -> None:
    tradable = np.ones((len(DATA), ASSETS), np.bool_)
    tradable[300:330] = False
    found = judged(
        [0.0, 0, 0, 0, 0, 1.0], data=DATA.replace(tradable=tradable), starts=295,
        episode_rows=150,
        constraints=sekai.market.Constraints(max_cash=0.2, turnover=0.05),
    )  # fmt: skip

    (flag,) = (flag for flag in found.flags if flag.name == "constraints_relaxed")
    assert flag.level == "warning"
    relaxed = found.agent.episodes[0].compromise
    assert f"{np.count_nonzero(relaxed)} of {len(relaxed)} decisions" in flag.message
    assert "cash" in flag.message
    assert "constraints_relaxed" not in {flag.name for flag in judged([0.2] * 5 + [0.0]).flags}


def test_a_cap_without_effect_is_never_exceeded() -> None:
    found = judged([0.2] * ASSETS + [0.0])
    assert [check.rows_above_after_drift for check in found.caps] == [0, 0]


def test_the_report_and_the_file_hold_both(tmp_path: Path) -> None:
    found = judged([1.0, 0, 0, 0, 0, 0], constraints=sekai.market.Constraints(max_weight=0.25))
    assert load_evaluation(found.to_json(tmp_path / "found.json")).caps == found.caps
    text = write_report(found, tmp_path / "found.html").read_text(encoding="utf-8")
    assert "Caps at decisions and after drift" in text
    assert f"{found.caps[0].rows_above_after_drift:,} of {found.caps[0].rows:,}" in text
