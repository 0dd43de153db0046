"""Columns of step results: the arrays a vector env hands out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from quant_gym_rs._core import split_steps


def test_columns_hold_what_each_result_holds() -> None:
    shown = [np.zeros(2, np.float32), np.ones(2, np.float32)]
    infos: list[dict[str, Any]] = [{"a": 1}, {}]
    results = [
        sekai.StepResult(shown[0], np.float32(0.5), np.True_, False, infos[0]),  # type: ignore[arg-type]
        sekai.StepResult(shown[1], 2, False, 1, infos[1]),  # type: ignore[arg-type]
    ]

    observations, rewards, terminated, truncated, dicts = split_steps(results)

    assert [one is other for one, other in zip(observations, shown, strict=True)] == [True, True]
    assert [one is other for one, other in zip(dicts, infos, strict=True)] == [True, True]
    assert rewards.dtype == np.float64
    assert rewards.tolist() == [0.5, 2.0]
    assert terminated.dtype == np.bool_
    assert terminated.tolist() == [True, False]
    assert truncated.dtype == np.bool_
    assert truncated.tolist() == [False, True]


def test_no_results_have_empty_columns() -> None:
    observations, rewards, terminated, truncated, infos = split_steps([])

    assert (observations, infos) == ([], [])
    assert [len(rewards), len(terminated), len(truncated)] == [0, 0, 0]


def test_a_tuple_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"must return a sekai.StepResult, got <class 'tuple'>"):
        split_steps([(np.zeros(2), 1.0, False, False, {})])  # type: ignore[list-item]


def test_a_reward_that_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="real number"):
        split_steps([sekai.StepResult(None, "1.0", False, False, {})])  # type: ignore[arg-type]
