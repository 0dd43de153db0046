"""Laws that hold for every space, nested in any way."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sekai.error import SpaceError, StateError
from sekai.spaces import (
    Box,
    Dict,
    Discrete,
    Space,
    Tuple,
    batch_space,
    copy_sample,
    empty_batch,
    flatdim,
    flatten,
    flatten_space,
    stack_samples,
    unflatten,
    unstack,
)
from tests.spaces.equality import identical, in_numpy
from tests.spaces.strategies import law, leaves, seeds, spaces


@law
@given(spaces(), seeds())
def test_a_sample_belongs_to_its_space(space: Space[Any], seed: int) -> None:
    space.seed(seed)

    for _ in range(3):
        value = space.sample()
        assert space.mismatch(value) is None
        assert value in space


@law
@given(spaces(), seeds())
def test_the_same_seed_gives_the_same_samples(space: Space[Any], seed: int) -> None:
    assert space.seed(seed) == seed
    first = [space.sample() for _ in range(2)]

    space.seed(seed)

    assert identical([space.sample() for _ in range(2)], first)


@law
@given(spaces())
def test_an_unseeded_seed_is_returned_and_can_be_used_again(space: Space[Any]) -> None:
    used = space.seed()
    first = space.sample()

    space.seed(used)

    assert identical(space.sample(), first)


@law
@given(leaves(), seeds())
def test_equal_spaces_side_by_side_draw_from_different_streams(leaf: Space[Any], seed: int) -> None:
    for pair in (Tuple([leaf, leaf]), Dict(a=leaf, b=copy.deepcopy(leaf))):
        pair.seed(seed)
        one, other = pair.children().values()

        assert one == other
        assert one.rng.bit_generator.state != other.rng.bit_generator.state


@law
@given(spaces(), seeds())
def test_a_flattened_value_is_restored_to_the_last_bit(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    value = space.sample()

    flat = flatten(space, value, dtype=np.float64)

    assert space.is_flattenable
    assert flat.shape == (flatdim(space),)
    assert identical(unflatten(space, flat), value)


@law
@given(leaves(), seeds())
def test_flattening_what_a_row_restores_gives_the_row_again(leaf: Space[Any], seed: int) -> None:
    leaf.seed(seed)
    flat = flatten(leaf, leaf.sample())
    assume(not isinstance(leaf, Box) or leaf.exact_float is not None)

    again = flatten(leaf, unflatten(leaf, flat))

    assert flat.dtype == np.float32
    assert _bytes(again) == _bytes(flat)


@law
@given(spaces(), seeds())
def test_a_flattened_value_belongs_to_the_flattened_space(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    value = space.sample()

    for dtype in (np.float32, np.float64):
        flat, box = flatten(space, value, dtype=dtype), flatten_space(space, dtype=dtype)
        assert flat.dtype == box.dtype == dtype
        assert box.mismatch(flat) is None


@law
@given(spaces(), st.integers(-1, 1).filter(bool))
def test_unflatten_refuses_a_row_of_another_length(space: Space[Any], off: int) -> None:
    with pytest.raises(SpaceError, match=f"row of {flatdim(space)} floats"):
        unflatten(space, np.zeros(flatdim(space) + off))


@law
@given(spaces(), seeds())
def test_json_is_strict_and_rebuilds_an_equal_space(space: Space[Any], seed: int) -> None:
    text = json.dumps(space.to_jsonable(), allow_nan=False, sort_keys=True)
    rebuilt: Space[Any] = Space.from_jsonable(json.loads(text))

    space.seed(seed)
    rebuilt.seed(seed)

    assert rebuilt == space
    assert type(space).from_jsonable(json.loads(text)) == space
    assert hash(rebuilt) == hash(space)
    assert repr(rebuilt) == repr(space)
    assert identical(rebuilt.sample(), space.sample())


@law
@given(spaces(), seeds())
def test_a_copy_is_equal_and_continues_the_stream(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    space.sample()

    copies = [pickle.loads(pickle.dumps(space)), copy.deepcopy(space)]
    following = space.sample()

    for copied in copies:
        assert copied == space
        assert hash(copied) == hash(space)
        assert identical(copied.sample(), following)


@law
@given(spaces(), seeds())
def test_a_loaded_state_continues_the_stream(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    space.sample()
    state = json.loads(json.dumps(space.state_dict()))
    following = [space.sample() for _ in range(2)]
    other: Space[Any] = Space.from_jsonable(space.to_jsonable())

    other.load_state_dict(state)

    assert identical([other.sample() for _ in range(2)], following)


@law
@given(spaces(), seeds())
def test_a_spoilt_state_is_refused_and_changes_nothing(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    spoilt = space.state_dict()
    space.seed(seed + 1)
    before = space.state_dict()
    deepest = spoilt
    while deepest["spaces"]:
        deepest = deepest["spaces"][list(deepest["spaces"])[-1]]
    deepest["rng"]["state"]["state"] = "?"

    with pytest.raises(StateError):
        space.load_state_dict(spoilt)

    assert space.state_dict() == before


@law
@given(spaces(), seeds(), st.integers(1, 4))
def test_a_batch_belongs_and_gives_its_samples_back(space: Space[Any], seed: int, n: int) -> None:
    space.seed(seed)
    samples = [space.sample() for _ in range(n)]

    batch = stack_samples(space, samples)
    written = stack_samples(space, samples, out=empty_batch(space, n))

    assert batch_space(space, n).mismatch(batch) is None
    assert identical(written, batch)
    assert identical(unstack(space, batch), samples)
    assert identical(unstack(space, batch, copy=False), samples)


@law
@given(spaces(), seeds())
def test_torch_samples_hold_the_same_numbers(space: Space[Any], seed: int) -> None:
    tensors = space.with_backend("torch")
    space.seed(seed)
    tensors.seed(seed)
    value, tensor = space.sample(), tensors.sample()

    assert tensors.mismatch(tensor) is None
    assert tensors.mismatch(value) is None
    assert _bytes(in_numpy(tensor)) == _bytes(value)
    assert _bytes(in_numpy(flatten(tensors, tensor))) == _bytes(flatten(space, value))
    exact = flatten(tensors, tensor, dtype=np.float64)
    assert _bytes(in_numpy(unflatten(tensors, exact))) == _bytes(value)


@law
@given(spaces(), seeds(), st.integers(1, 3))
def test_torch_batches_hold_the_same_numbers(space: Space[Any], seed: int, n: int) -> None:
    tensors = space.with_backend("torch")
    space.seed(seed)
    values = [space.sample() for _ in range(n)]
    tensors.seed(seed)
    samples = [tensors.sample() for _ in range(n)]

    batch = stack_samples(tensors, samples)

    assert batch_space(tensors, n).mismatch(batch) is None
    assert _bytes(in_numpy(batch)) == _bytes(stack_samples(space, values))
    assert identical(stack_samples(space, samples, backend="numpy"), stack_samples(space, values))
    assert [_bytes(in_numpy(row)) for row in unstack(tensors, batch)] == list(map(_bytes, values))


@law
@given(spaces(), seeds())
def test_a_copied_sample_shares_no_memory(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    value = space.sample()
    before = pickle.dumps(value)

    copied = copy_sample(space, value)

    assert identical(copied, value)
    _spoil(copied)
    assert pickle.dumps(value) == before


@law
@given(spaces())
def test_strangers_do_not_belong_and_the_sentence_says_so(space: Space[Any]) -> None:
    for stranger in (None, "prices", object(), [], np.array("text"), np.array([None]), 1 + 2j):
        assert stranger not in space
        assert "expected" in str(space.mismatch(stranger))


@law
@given(spaces(), spaces())
def test_equal_spaces_have_equal_descriptions(one: Space[Any], other: Space[Any]) -> None:
    assert (one == other) == (one.to_jsonable() == other.to_jsonable())
    assert one != Tuple([one])


def test_a_new_sibling_leaves_the_streams_of_the_others_alone() -> None:
    alone, together = Dict(a=Box(0, 1)), Dict(b=Discrete(3), a=Box(0, 1))

    alone.seed(5)
    together.seed(5)

    assert alone.sample()["a"] == together.sample()["a"]


def _bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bytes(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_bytes, value))
    return value.dtype, value.shape, value.tobytes()


def _spoil(value: Any) -> None:
    if isinstance(value, np.ndarray):
        value[...] = ~value if value.dtype.kind == "b" else value + 1
    elif isinstance(value, (dict, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            _spoil(item)
