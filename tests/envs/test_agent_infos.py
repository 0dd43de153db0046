"""Infos that are made when they are read are read as dicts are."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sekai.envs.portfolio.multi_portfolio import AgentInfos

FULL = {"a": {"x": 1.0, "y": 2.0}, "b": {"x": 3.0, "y": 4.0}}


def infos() -> AgentInfos:
    """Two agents with two numbers each, not read yet."""
    return AgentInfos(["a", "b"], ["x", "y"], np.array([1.0, 2.0, 3.0, 4.0]))


READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda reported: reported["b"],
    "get": lambda reported: reported.get("a"),
    "contains": lambda reported: ("a" in reported, "z" in reported),
    "length": len,
    "truth": bool,
    "list": list,
    "keys": lambda reported: list(reported.keys()),
    "values": lambda reported: list(reported.values()),
    "items": lambda reported: list(reported.items()),
    "dict": dict,
    "unpacked": lambda reported: {**reported},
    "shallow": copy.copy,
    "deep": copy.deepcopy,
    "text": repr,
    "equal": lambda reported: (reported == FULL, reported != FULL, reported == infos()),
    "pop": lambda reported: (reported.pop("a"), dict(reported)),
    "setdefault": lambda reported: reported.setdefault("a", {}),
    "pickled": lambda reported: pickle.loads(pickle.dumps(reported)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_reading_gives_what_a_dict_gives(read: Callable[[Any], Any]) -> None:
    assert read(infos()) == read(copy.deepcopy(FULL))


def test_copies_are_plain_dicts() -> None:
    copies: list[Any] = [copy.deepcopy(infos()), pickle.loads(pickle.dumps(infos()))]

    assert [type(each) for each in copies] == [dict, dict]


def test_what_is_written_stays() -> None:
    reported = infos()
    reported["a"]["note"] = 1
    reported["c"] = {}
    reported.update(d={})
    del reported["b"]

    assert reported == {"a": {"x": 1.0, "y": 2.0, "note": 1}, "c": {}, "d": {}}
    reported.clear()
    assert reported == {}
