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
    "item": lambda told: told["b"],
    "get": lambda told: told.get("a"),
    "contains": lambda told: ("a" in told, "z" in told),
    "length": len,
    "truth": bool,
    "list": list,
    "keys": lambda told: list(told.keys()),
    "values": lambda told: list(told.values()),
    "items": lambda told: list(told.items()),
    "dict": dict,
    "unpacked": lambda told: {**told},
    "shallow": copy.copy,
    "deep": copy.deepcopy,
    "text": repr,
    "equal": lambda told: (told == FULL, told != FULL, told == infos()),
    "pop": lambda told: (told.pop("a"), dict(told)),
    "setdefault": lambda told: told.setdefault("a", {}),
    "pickled": lambda told: pickle.loads(pickle.dumps(told)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_reading_gives_what_a_dict_gives(read: Callable[[Any], Any]) -> None:
    assert read(infos()) == read(copy.deepcopy(FULL))


def test_copies_are_plain_dicts() -> None:
    copies: list[Any] = [copy.deepcopy(infos()), pickle.loads(pickle.dumps(infos()))]

    assert [type(each) for each in copies] == [dict, dict]


def test_what_is_written_stays() -> None:
    told = infos()
    told["a"]["note"] = 1
    told["c"] = {}
    told.update(d={})
    del told["b"]

    assert told == {"a": {"x": 1.0, "y": 2.0, "note": 1}, "c": {}, "d": {}}
    told.clear()
    assert told == {}
