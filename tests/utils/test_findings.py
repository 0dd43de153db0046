"""Two values are the same when every bit is, except for what measures real time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.stats import EpisodeStats
from sekai.utils.findings import field_differences, first_difference


class Opaque:
    """Object without equality."""

    def __repr__(self) -> str:
        return "Opaque()"  # without its address: names of tests are the same in every process


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.array([1.0, np.nan]), np.array([1.0, np.nan])),
        (float("nan"), float("nan")),
        (2**70, 2**70),
        (np.array([{"a": 1}], object), np.array([{"a": 1}], object)),
        ({"a": (1, [2.0])}, {"a": (1, [2.0])}),
        (np.float64(1.0), 1.0),
        (Opaque(), Opaque()),
        ({"elapsed_time": 1.0}, {"elapsed_time": 2.0}),
        ({"episode": {"r": 1.0, "t": 1.0}}, {"episode": {"r": 1.0, "t": 2.0}}),
        (EpisodeStats(1.0, 2, 0.1, True), EpisodeStats(1.0, 2, 0.9, True)),
    ],
    ids=str,
)
def test_equal_values_have_no_difference(left: Any, right: Any) -> None:
    assert first_difference(left, right) is None


@pytest.mark.parametrize(
    ("left", "right", "sentence"),
    [
        (np.zeros((2, 2)), np.eye(2), "x[0, 0] was 0.0, then 1.0"),
        (np.array([np.nan, 1.0]), np.array([np.nan, 2.0]), "x[1] was 1.0, then 2.0"),
        (np.array([0.0]), np.array([-0.0]), "x[0] was 0.0, then -0.0"),
        (np.zeros(2), np.zeros(3), "x was an array of shape (2,) and dtype float64, then"),
        (np.zeros(2), np.zeros(2, np.float32), "x was an array of shape (2,) and dtype float64"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "x['a']['b'] was 1, then 2"),
        ({"a": 1}, {"b": 1}, "x was a dict with the keys ['a'], then a dict with the keys ['b']"),
        ([1, 2], [1], "x was [1, 2], then [1]"),
        (2**70, 2**70 + 1, f"x was {2**70}, then {2**70 + 1}"),
        ("a", 1, "x was 'a', then 1"),
        (EpisodeStats(1.0, 2, 0.1, True), EpisodeStats(1.5, 2, 0.1, True), "x['episode_return']"),
    ],
)
def test_a_difference_is_told_with_its_place(left: Any, right: Any, sentence: str) -> None:
    found = first_difference(left, right, ("x",))

    assert found is not None
    assert found.sentence().startswith(sentence)


def test_every_field_and_every_entry_of_an_info_is_compared() -> None:
    left = {"reward": 1.0, "info": {"a": {"deep": 1}, "b": 2, "c": 3}}
    right = {"reward": 2.0, "info": {"a": {"deep": 0}, "b": 2}}

    paths = [difference.path_text for difference in field_differences(left, right)]

    assert paths == ["reward", "info['a']['deep']", "info['c']"]
