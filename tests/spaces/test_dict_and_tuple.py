"""Spaces made of spaces: their order, their masks, and where a value disagrees."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from sekai.error import SpaceError
from sekai.spaces import Box, Dict, Discrete, MultiBinary, Tuple


@pytest.fixture
def market() -> Dict:
    return Dict(
        {
            "prices": Box(-np.inf, np.inf, shape=(100, 8)),
            "regime": Discrete(4),
            "signals": Tuple([MultiBinary(3), Box(0, 1, (2,))]),
        }
    )


def test_the_order_given_is_kept_and_counts() -> None:
    one, other = Dict(b=Discrete(2), a=Discrete(3)), Dict(a=Discrete(3), b=Discrete(2))

    assert list(one) == list(one.sample()) == ["b", "a"]
    assert isinstance(one.spaces, OrderedDict)
    assert one != other
    assert {"a": 2, "b": 1} in one


def test_a_dict_reads_like_a_mapping_of_spaces(market: Dict) -> None:
    assert market["regime"] == Discrete(4)
    assert list(market.keys()) == ["prices", "regime", "signals"]
    assert list(market.values())[1] is market["regime"]
    assert dict(market.items())["regime"] is market["regime"]
    assert len(market) == 3
    assert (market.shape, market.dtype) == (None, None)


def test_in_asks_for_values_not_for_names(market: Dict) -> None:
    assert "prices" not in market
    assert market.sample() in market


def test_names_may_be_given_as_keywords_after_a_mapping() -> None:
    assert list(Dict({"b": Discrete(2)}, a=Discrete(3))) == ["b", "a"]


def test_a_tuple_reads_like_a_sequence_of_spaces(market: Dict) -> None:
    signals = market["signals"]

    assert isinstance(signals, Tuple)
    assert signals[0] == MultiBinary(3)
    assert (len(signals), list(signals)) == (2, list(signals.spaces))
    assert isinstance(signals.sample(), tuple)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prices": np.zeros(3, np.float32)}, "at ['prices']: expected shape (100, 8), got (3,)"),
        ({"regime": 4}, "at ['regime']: expected a value from 0 to 3, got 4"),
        ({"signals": (np.zeros(3, int),)}, "at ['signals']: expected 2 values, got 1"),
        ({"signals": [1, 2]}, "at ['signals']: expected a tuple, got list"),
        (
            {"signals": (np.zeros(3, int), np.full(2, 2, np.float32))},
            "at ['signals'][1]: expected a value from 0.0 to 1.0 at index [0], got 2.0",
        ),
        ({"volume": 1}, "expected the keys ['prices', 'regime', 'signals'], got ['prices',"),
    ],
)
def test_the_sentence_says_where_a_value_disagrees(
    market: Dict, change: dict[str, Any], words: str
) -> None:
    value = {**market.sample(), **change}

    assert value not in market
    assert words in str(market.mismatch(value))


def test_a_missing_key_does_not_belong(market: Dict) -> None:
    value = market.sample()
    del value["regime"]

    assert "got ['prices', 'signals']" in str(market.mismatch(value))
    assert market.mismatch([]) == "expected a dict, got list"


def test_masks_follow_the_structure() -> None:
    space = Dict(a=Discrete(3), b=Tuple([Discrete(2), Box(0, 1)]))

    value = space.sample(mask={"a": [0, 0, 1], "b": ([0, 1], None)})

    assert (value["a"], value["b"][0]) == (2, 1)
    assert space.sample(mask={"a": [0, 1, 0]})["a"] == 1


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ({"c": [1, 1, 1]}, r"mask must be a dict with keys of \['a', 'b'\], got \['c'\]"),
        ([1, 1], "mask must be a dict with keys .* got list"),
        ({"b": ([1, 1],)}, "mask must be a tuple of 2 masks, got 1"),
        ({"b": {}}, "mask must be a tuple of 2 masks, got dict"),
    ],
)
def test_a_mask_of_another_structure_is_refused(mask: Any, words: str) -> None:
    space = Dict(a=Discrete(3), b=Tuple([Discrete(2), Box(0, 1)]))

    with pytest.raises(SpaceError, match=words):
        space.sample(mask=mask)


def test_a_space_used_twice_becomes_two() -> None:
    box = Box(0, 1, (3,))
    space = Dict(a=box, b=Tuple([Discrete(2), box]))
    twin = Dict(a=Box(0, 1, (3,)), b=Tuple([Discrete(2), Box(0, 1, (3,))]))

    space.seed(3)
    twin.seed(3)

    assert space["a"] is box
    assert np.array_equal(space.sample()["b"][1], twin.sample()["b"][1])


def test_a_backend_given_reaches_the_children_and_leaves_the_originals_alone() -> None:
    box = Box(0, 1)
    space = Dict({"a": box, "b": Tuple([Discrete(2)])}, backend="torch")

    assert type(space.sample()["b"][0]).__name__ == "Tensor"
    assert isinstance(box.sample(), np.ndarray)
    assert Tuple([Box(0, 1, backend="torch")]).backend == space.backend


def test_children_with_different_backends_are_refused() -> None:
    with pytest.raises(SpaceError, match="must share one backend"):
        Tuple([Box(0, 1), Box(0, 1, backend="torch")])


@pytest.mark.parametrize(
    ("make", "spaces", "words"),
    [
        (Dict, {"a": 3}, r"\['a'\] must be a space, got 3"),
        (Dict, {1: Discrete(2)}, "names of spaces must be strings, got 1"),
        (Dict, [("a", Discrete(2))], "must be a mapping"),
        (Dict, None, "at least one nested space, got none"),
        (Tuple, [], "at least one nested space, got none"),
        (Tuple, [Discrete], r"\[0\] must be a space"),
        (Tuple, 3, "must be an iterable of spaces"),
    ],
)
def test_bad_arguments_are_refused(make: Any, spaces: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(spaces)


def test_they_print_as_they_are_written() -> None:
    space = Dict(a=Discrete(2), b=Tuple([MultiBinary(3)]))

    assert repr(space) == "Dict({'a': Discrete(2), 'b': Tuple([MultiBinary(3)])})"
