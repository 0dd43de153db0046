"""Damaged input of every kind: a refusal in words, never another error."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sekai.error import StateError
from sekai.spaces import Space
from tests.spaces.strategies import law, seeds, spaces

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.just(2**70),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(-2, 2), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 2), max_size=2),
)


@st.composite
def damaged(draw: st.DrawFn, whole: Any) -> Any:
    """`whole` with one thing inside it replaced, removed or added."""
    whole = copy.deepcopy(whole)
    places = list(_places(whole))
    holder, key = draw(st.sampled_from(places))
    if draw(st.booleans()):
        holder[key] = draw(plain)
    elif isinstance(holder, dict):
        holder[key + "x"] = holder.pop(key)
    else:
        del holder[key]
    return whole


@law
@given(spaces(), st.data())
def test_a_damaged_description_is_a_space_or_a_value_error(
    space: Space[Any], data: st.DataObject
) -> None:
    description = data.draw(damaged(space.to_jsonable()))

    try:
        rebuilt: Space[Any] = Space.from_jsonable(description)
    except ValueError:
        return
    assert rebuilt.sample() in rebuilt


@law
@given(spaces(), seeds(), st.data())
def test_a_damaged_state_is_loaded_whole_or_refused(
    space: Space[Any], seed: int, data: st.DataObject
) -> None:
    space.seed(seed)
    state = data.draw(damaged(space.state_dict()))
    space.seed(seed + 1)
    before = space.state_dict()

    try:
        space.load_state_dict(state)
    except StateError:
        assert space.state_dict() == before
    else:
        assert space.state_dict() == state


@law
@given(spaces(), seeds(), st.data())
def test_any_value_is_judged_without_an_error(
    space: Space[Any], seed: int, data: st.DataObject
) -> None:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    arrays = hnp.arrays(hnp.scalar_dtypes(), shapes)
    space.seed(seed)
    value = {"whole": space.sample()}
    for holder, key in list(_places(value)):
        if data.draw(st.booleans()):
            holder[key] = data.draw(plain | arrays | st.binary(max_size=2))

    sentence = space.mismatch(value["whole"])

    assert sentence is None or "expected" in sentence
    assert (value["whole"] in space) == (sentence is None)


def _places(whole: Any) -> Any:
    """All items inside dicts and lists, with their containers."""
    keys = list(whole) if isinstance(whole, dict) else range(len(whole))
    for key in keys:
        yield whole, key
        if isinstance(whole[key], (dict, list)) and not isinstance(whole[key], np.ndarray):
            yield from _places(whole[key])
