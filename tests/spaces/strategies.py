"""Random spaces for property tests, as deep as asked."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from sekai.spaces import (
    Box,
    Dict,
    Discrete,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    Simplex,
    Space,
    Tuple,
)

law = settings(max_examples=50, deadline=None, derandomize=True, database=None)
"""Settings of properties over spaces: the same examples every time."""

FLOATS = (np.float16, np.float32, np.float64)
WHOLE = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_)
INTP = np.iinfo(np.intp)


def shapes(min_dims: int = 0, max_dims: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of few elements."""
    return st.lists(st.integers(1, 3), min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def bounds(draw: st.DrawFn, dtype: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Low and high for a box: numbers or arrays, finite or not."""
    size = () if draw(st.booleans()) else shape
    pairs = [
        sorted((draw(numbers(dtype)), draw(numbers(dtype)))) for _ in range(int(np.prod(size)))
    ]
    low, high = (np.array([pair[side] for pair in pairs], dtype).reshape(size) for side in (0, 1))
    return (low, high) if size else (low.item(), high.item())


def numbers(dtype: Any) -> st.SearchStrategy[Any]:
    """Numbers that fit the dtype, its limits and infinities among them."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return st.booleans()
    if kind.kind == "f":
        limits = np.finfo(kind)
        small = st.floats(-10, 10, width=16)
        ends = [-np.inf, float(limits.min), 0.0, float(limits.max), np.inf]
        return small | st.sampled_from(ends)
    whole = np.iinfo(kind)
    return st.integers(0, 100) | st.integers(int(whole.min), int(whole.max))


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Boxes of every dtype."""
    dtype, shape = draw(st.sampled_from(FLOATS + WHOLE)), draw(shapes())
    low, high = draw(bounds(dtype, shape).filter(_is_box))
    return Box(low, high, shape, dtype)


@st.composite
def masked_boxes(draw: st.DrawFn) -> MaskedBox:
    """Padded sets of every dtype."""
    dtype, shape = draw(st.sampled_from(FLOATS + WHOLE)), draw(shapes(1))
    low, high = draw(bounds(dtype, shape).filter(_is_box))
    return MaskedBox(low, high, shape, dtype)


@st.composite
def simplexes(draw: st.DrawFn) -> Simplex:
    """Simplexes without caps, with loose ones and with tight ones."""
    n, dtype = draw(st.integers(1, 12)), draw(st.sampled_from([np.float32, np.float64]))
    slack = draw(st.none() | st.sampled_from([1.0, 1.2, 2.0, 5.0]))
    if slack is None:
        return Simplex(n, dtype=dtype)
    shares = np.array(draw(st.lists(st.floats(0.125, 1), min_size=n, max_size=n)))
    # A cap is cut at one, so a large share leaves the others a little more.
    return Simplex(n, np.maximum(slack * shares / shares.sum(), slack / n), dtype)


@st.composite
def multi_discretes(draw: st.DrawFn) -> MultiDiscrete:
    """Few values or very many, from anywhere."""
    shape = draw(shapes())
    size = int(np.prod(shape))
    nvec = draw(st.lists(st.integers(1, 6), min_size=size, max_size=size))
    start = draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size))
    return MultiDiscrete(np.array(nvec, int).reshape(shape), np.array(start, int).reshape(shape))


def leaves() -> st.SearchStrategy[Space[Any]]:
    """Any space that is not made of spaces."""
    starts = st.integers(-9, 9) | st.sampled_from([INTP.min, INTP.max - 6])
    return st.one_of(
        boxes(),
        st.builds(Discrete, st.integers(1, 6), starts),
        multi_discretes(),
        st.builds(MultiBinary, st.integers(1, 5) | shapes()),
        simplexes(),
        masked_boxes(),
    )


def spaces(max_leaves: int = 5) -> st.SearchStrategy[Space[Any]]:
    """Any space, nested in dicts and tuples."""
    names = st.text("abcXYZ_ é世.0", min_size=0, max_size=4)
    return st.recursive(
        leaves(),
        lambda inner: (
            st.dictionaries(names, inner, min_size=1, max_size=3).map(Dict)
            | st.lists(inner, min_size=1, max_size=3).map(Tuple)
        ),
        max_leaves=max_leaves,
    )


def seeds() -> st.SearchStrategy[int]:
    """Seeds, small and large."""
    return st.integers(0, 2**70)


def _is_box(pair: tuple[Any, Any]) -> bool:
    low, high = pair
    return bool(np.all(np.asarray(low) < np.inf) and np.all(np.asarray(high) > -np.inf))
