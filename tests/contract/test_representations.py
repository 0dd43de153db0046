"""Representations stay short, however large the object: they are shown in notebooks and logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import DataQueue
from sekai.core import MAStepResult, VecStepResult
from sekai.data import Bar, MarketData, PanelWindows, simulate_gbm
from sekai.evaluation import TrialLedger
from sekai.live import (
    BrokerAccount,
    CheckedFeed,
    Journal,
    KillSwitch,
    PaperBroker,
    ReplayFeed,
    RiskGate,
    SessionFolder,
)

LONGEST = 1_200
"""Characters: about ten lines."""

ASSETS = [f"A{number:04d}" for number in range(2_000)]


@pytest.fixture(scope="module")
def data() -> MarketData:
    return simulate_gbm(ASSETS, rows=40, seed=1)


@pytest.fixture(scope="module")
def env(data: MarketData) -> sekai.Env[Any, Any]:
    return sekai.make("Portfolio-v0", data=data, lookback=2)


def vec_step() -> VecStepResult[Any]:
    vec = sekai.make_vec("Trading-v0", num_envs=512)
    vec.reset(seed=0)
    return vec.step(np.zeros(512, np.int64))


def test_objects_of_thousands_of_assets_are_short(
    data: MarketData, env: sekai.Env[Any, Any], tmp_path: Path
) -> None:
    first = env.reset(seed=0)
    step = env.step(env.action_space.sample())
    account = BrokerAccount(cash=1.0, units=dict.fromkeys(ASSETS, 1.0))
    with Journal(tmp_path / "journal.jsonl") as journal:
        shown = [
            data, data.calendar, next(iter(Bar.each(data, 5, 6))), env, env.observation_space,
            env.action_space, first, step, account, ReplayFeed(data, 5),
            CheckedFeed(ReplayFeed(data, 5)), RiskGate(), KillSwitch(tmp_path / "KILL"),
            SessionFolder(tmp_path), journal, TrialLedger(tmp_path / "trials.jsonl"),
            DataQueue(ASSETS), PaperBroker.like(env), PanelWindows(data, 3),
        ]  # fmt: skip
        lengths = {type(each).__name__: len(repr(each)) for each in shown}

        assert {name: length for name, length in lengths.items() if length > LONGEST} == {}
        assert [each for each in shown if " object at 0x" in repr(each)] == []


@pytest.mark.parametrize("make", [vec_step, lambda: vec_step().infos], ids=["step", "infos"])
def test_results_of_hundreds_of_envs_are_short(make: Callable[[], Any]) -> None:
    assert len(repr(make())) <= LONGEST


def test_results_show_small_values_and_shapes_of_large_ones() -> None:
    small = sekai.StepResult(np.array([1.0, 2.0]), 0.5, False, False, {"price": np.float64(3.5)})
    large = MAStepResult({f"agent_{number}": np.zeros(100) for number in range(20)}, {}, {}, {}, {})

    assert repr(small) == (
        "StepResult(observation=[1.0, 2.0], reward=0.5, terminated=False, truncated=False, "
        "info={'price': 3.5})"
    )
    assert "'agent_0': float64[100]" in repr(large)
    assert "... 12 more}" in repr(large)
