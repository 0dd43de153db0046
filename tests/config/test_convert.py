from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import pytest

from sekai.config.convert import (
    ConversionError,
    build,
    convert,
    documented_fields,
    mentioned_key,
)
from sekai.envs import PortfolioConfig
from sekai.experiment import preparation  # noqa: F401 - registers the converter of durations
from sekai.market import CashAccount, Costs, MarginAccount


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError(f"rate must be at least 0, got {self.rate}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("hint", "value", "found"),
    [
        (int, 3, 3),
        (float, 3, 3),
        (float | None, 0.5, 0.5),
        (bool, True, True),
        (Literal["a", "b"], "b", "b"),
        (tuple[float, float], [1, 2.5], (1, 2.5)),
        (Sequence[str], ["x"], ("x",)),
        (int | Sequence[str], 5, 5),
        (Mapping[str, float], {"a": 1}, {"a": 1}),
        (str | Mapping[str, float], {"a": 1}, {"a": 1}),
        (timedelta, "1min", timedelta(minutes=1)),
        (Any, {"x": [1]}, {"x": [1]}),
        (Outer, {"inner": {"rate": 1}, "names": ["a"]}, Outer(inner=Inner(rate=1), names=("a",))),
        (CashAccount | MarginAccount, {"leverage": 3.0}, MarginAccount(leverage=3.0)),
    ],
)
def test_plain_values_become_what_a_type_asks_for(hint: Any, value: Any, found: Any) -> None:
    assert convert(hint, value, ("key",)) == found


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (int, 3.5, "key must be a whole number, got 3.5"),
        (int, True, "key must be a whole number, got True"),
        (float, "3", "key must be a number, got '3'"),
        (bool, 1, "key must be true or false, got 1"),
        (str, 1, "key must be text, got 1"),
        (Literal["a", "b"], "c", "key must be 'a' or 'b', got 'c'"),
        (Sequence[str], "abc", "key must be a list, got 'abc'"),
        (tuple[float, float], [1], r"key must be a list of 2 values, got \[1\]"),
        (int | Sequence[str], "abc", "key must be a whole number or a list, got 'abc'"),
        (str | Callable[..., Any], 5, "key must be text or Callable, got 5"),
        (timedelta, "soon", "key must be a time such as '1min', got 'soon'"),
        (Costs, 5, "key must be a table, got 5"),
    ],
)
def test_what_is_not_wanted_is_refused_with_what_is(hint: Any, value: Any, said: str) -> None:
    with pytest.raises(ConversionError, match=f"^{said}$"):
        convert(hint, value, ("key",))


def test_a_key_that_is_not_there_is_named_with_the_nearest_one() -> None:
    with pytest.raises(
        ConversionError, match=r"\[env.costs\] has no key 'half_sprd'; .*'half_spread'"
    ) as e:
        build(PortfolioConfig, {"costs": {"half_sprd": 0.1}}, ("env",))

    assert e.value.path == ("env", "costs", "half_sprd")
    assert e.value.is_key


def test_what_a_dataclass_refuses_is_at_the_key_that_it_names() -> None:
    with pytest.raises(ConversionError, match="rate must be at least 0") as error:
        build(Outer, {"inner": {"rate": -1.0}}, ("x",))

    assert error.value.path == ("x", "inner", "rate")


def test_a_message_is_about_the_name_that_it_has_first() -> None:
    assert mentioned_key("steps must be above rate", ["rate", "steps"]) == ("steps",)
    assert mentioned_key("rates differ", ["rate"]) == ()


def test_how_orders_are_sized_is_a_key_of_experiments() -> None:
    config = build(PortfolioConfig, {"execution": {"sizing": "decision"}}, ("env",))

    assert config.execution.sizing == "decision"
    with pytest.raises(ConversionError, match="sizing"):
        build(PortfolioConfig, {"execution": {"sizing": "never"}}, ("env",))


def test_the_source_of_a_config_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, parse = documented_fields(Costs), ast.parse
    parsed: list[str] = []

    def counted(source: str) -> ast.Module:
        parsed.append(source)
        return parse(source)

    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", counted)
        again = documented_fields(Costs)

    assert parsed == []
    assert again == first
    assert all(field.text for field in first)


def test_fields_of_a_class_in_a_function_are_documented() -> None:
    @dataclass
    class Local:
        size: int = 1
        """Lots."""

    assert [field.text for field in documented_fields(Local)] == ["Lots."]
