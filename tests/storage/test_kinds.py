"""Kinds: what files may name is a closed list, and it covers what envs are made with."""

from __future__ import annotations

import dataclasses
import enum
import json
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import sekai
from sekai.config.convert import type_hints
from sekai.core.result import equal_values
from sekai.data import Pipeline, simulate_gbm
from sekai.experiment.env_kind import EnvKind
from sekai.market import Constraints, Costs, MarginAccount
from sekai.registry import all_specs, isolated, register_kind
from sekai.storage.codec import from_text, to_text
from sekai.storage.kinds import BUILT_IN, kind_named, name_of_kind


def configs() -> Iterator[type]:
    """Every dataclass and enum that options of registered envs can hold, and their configs."""
    seen: set[Any] = set()
    pending: list[Any] = []
    for spec in all_specs():
        if spec.namespace is None:
            kind = EnvKind(spec)
            pending += [kind.config, *(kind.options or {}).values()]
    while pending:
        hint = pending.pop()
        pending += typing.get_args(hint)
        found = typing.get_origin(hint) or hint
        if not isinstance(found, type) or found in seen:
            continue
        seen.add(found)
        if dataclasses.is_dataclass(found):
            pending += type_hints(found).values()
        if dataclasses.is_dataclass(found) or issubclass(found, enum.Enum):
            yield found


STATEFUL = [spec.id for spec in all_specs() if spec.namespace is None]
CONFIGS = sorted(configs(), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_every_config_of_a_registered_env_is_a_kind(kind: type) -> None:
    assert name_of_kind(kind) == kind.__name__


def test_the_walk_over_configs_finds_those_of_portfolios() -> None:
    assert {"Costs", "MarketConfig", "OrderDir"} <= {kind.__name__ for kind in CONFIGS}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_kind_can_be_imported(name: str) -> None:
    kind = kind_named(name)

    assert isinstance(kind, type)
    assert BUILT_IN[name] == f"{kind.__module__}:{kind.__qualname__}"
    assert name_of_kind(kind) == name


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_a_default_config_survives(kind: type) -> None:
    try:
        made = kind()
    except TypeError:
        pytest.skip("the class has required arguments and no default instance")

    assert from_text(to_text(made)) == made


def test_a_config_with_everything_in_it_survives() -> None:
    given = {
        "costs": Costs(proportional=0.001),
        "constraints": Constraints(max_weight=0.4),
        "account": MarginAccount(),
        "starts": "sequential",
    }

    assert from_text(to_text(given)) == given


def test_a_fitted_pipeline_survives() -> None:
    data = simulate_gbm(assets=3, rows=80)
    pipeline = Pipeline(["log_return", "momentum(5)"], scaling="zscore").fit(data)

    again = from_text(to_text({"features": pipeline}))["features"]

    assert equal_values(again.transform(data).values, pipeline.transform(data).values)


@pytest.mark.parametrize("id", STATEFUL)
def test_the_state_of_every_registered_env_survives(id: str) -> None:
    env: Any = sekai.make(id)
    env.reset(seed=3)
    state = env.state_dict()

    again = from_text(to_text(state, "state"))

    assert equal_values(again, state)
    env.load_state_dict(again)


class Side(enum.Enum):
    BUY = 1


class Point(NamedTuple):
    x: int


class Label:
    def __init__(self, text: str) -> None:
        self.text = text

    def to_jsonable(self) -> dict[str, Any]:
        return {"text": self.text}

    @classmethod
    def from_jsonable(cls, described: dict[str, Any]) -> Label:
        return cls(described["text"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Label) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def double(number: float) -> float:
    return 2 * number


@pytest.mark.parametrize("value", [Side.BUY, Point(2), Label("a"), double, Label])
def test_kinds_of_the_user_survive_once_they_are_registered(value: Any) -> None:
    with pytest.raises(ValueError, match="register_kind"):
        to_text(value)

    with isolated():
        for kind in (Side, Point, Label, double):
            register_kind(f"tests.{kind.__name__}", kind)
        text = to_text(value)
        assert from_text(text) == value

    assert "tests.storage" not in text, "no import path is written"
    with pytest.raises(ValueError, match="unknown kind 'tests"):
        from_text(text)


def test_register_kind_is_a_decorator() -> None:
    with isolated():

        @register_kind("tests.Fee")
        @dataclasses.dataclass(frozen=True)
        class Fee:
            rate: float = 0.1

        assert from_text(to_text(Fee(0.2))) == Fee(0.2)


def test_a_name_is_registered_once() -> None:
    with isolated():
        register_kind("tests.Label", Label)
        register_kind("tests.Label", Label)
        with pytest.raises(ValueError, match="already registered"):
            register_kind("tests.Label", Point)
        with pytest.raises(ValueError, match="already registered"):
            register_kind("Costs", Label)


@pytest.mark.parametrize("name", ["", "os:system", "a b", "$x", 7, "x" * 200])
def test_a_malformed_name_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="malformed kind name"):
        register_kind(name, Label)


def test_only_classes_and_functions_are_kinds() -> None:
    with pytest.raises(TypeError, match="must be a class or a function"):
        register_kind("tests.seven", 7)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "described",
    [
        ["MultiPortfolioConfig", {"agents": 2**30}],
        ["PortfolioConfig", {"slots": 2**40}],
        ["MarketConfig", {"symbols": 2**40}],
    ],
)
def test_a_config_that_would_exhaust_memory_is_refused(described: list[Any]) -> None:
    with pytest.raises(ValueError, match="10000"):
        from_text(json.dumps({"$object": described}))
