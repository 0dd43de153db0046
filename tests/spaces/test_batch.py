"""Batches: their spaces, their buffers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sekai.error import SpaceError
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
    batch_space,
    empty_batch,
    stack_samples,
    unstack,
)

OBSERVATION = Dict(prices=Box(-1, 1, (4,)), regime=Discrete(3))


@pytest.mark.parametrize(
    ("space", "batched"),
    [
        (Box([0, 1], [2, 3]), Box([[0, 1]] * 5, [[2, 3]] * 5)),
        (Box(0, 1, (), np.int8), Box(0, 1, (5,), np.int8)),
        (Discrete(3, start=1), MultiDiscrete([3] * 5, [1] * 5)),
        (MultiDiscrete([2, 3], [0, 1]), MultiDiscrete([[2, 3]] * 5, [[0, 1]] * 5)),
        (MultiBinary((2, 2)), MultiBinary((5, 2, 2))),
        (Tuple([Discrete(2)]), Tuple([MultiDiscrete([2] * 5)])),
        (
            MaskedBox(1, 2, (3, 2)),
            Dict(values=Box(0, 2, (5, 3, 2)), mask=Box(False, True, (5, 3), np.bool_)),
        ),
    ],
)
def test_arrays_get_a_leading_axis(space: Space[Any], batched: Space[Any]) -> None:
    assert batch_space(space, 5) == batched


def test_a_batch_of_weights_need_not_sum_to_one_as_a_box() -> None:
    space = Simplex(3)

    assert stack_samples(space, [space.sample()] * 5) in batch_space(space, 5)
    assert batch_space(space, 5).shape == (5, 3)


def test_buffers_have_the_structure_of_the_space() -> None:
    buffers = empty_batch(OBSERVATION, 6)

    assert (buffers["prices"].shape, buffers["prices"].dtype) == ((6, 4), np.float32)
    assert (buffers["regime"].shape, buffers["regime"].dtype) == ((6,), np.intp)
    assert isinstance(empty_batch(Tuple([Discrete(2)]), 6), tuple)


def test_samples_are_written_into_the_buffers_given() -> None:
    buffers = empty_batch(OBSERVATION, 2)
    samples = [OBSERVATION.sample() for _ in range(2)]

    batch = stack_samples(OBSERVATION, samples, out=buffers)

    assert batch["prices"] is buffers["prices"]
    assert batch["regime"] is buffers["regime"]
    assert np.array_equal(buffers["prices"][1], samples[1]["prices"])


def test_buffers_may_be_slices_of_larger_ones() -> None:
    space = Box(-1, 1, (4, 2))
    large = np.zeros((3, 4, 4), np.float32)
    samples = [space.sample() for _ in range(3)]

    stack_samples(space, samples, out=large[:, :, ::2])

    assert np.array_equal(large[:, :, ::2], np.stack(samples))
    assert not large[:, :, 1::2].any()


def test_samples_of_a_dtype_that_loses_nothing_in_kind_are_cast() -> None:
    space = Box(-1, 1, (2,))

    assert stack_samples(space, [np.zeros(2), np.ones(2)]).dtype == np.float32
    assert stack_samples(Discrete(3), [1, np.int8(2)]).tolist() == [1, 2]
    assert type(unstack(Discrete(3), np.array([1, 2], np.int8))[0]) is np.intp


def test_unstacked_samples_are_copies_unless_asked_otherwise() -> None:
    space, batch = Box(-1, 1, (2,)), np.zeros((3, 2), np.float32)

    assert not np.shares_memory(unstack(space, batch)[0], batch)
    assert np.shares_memory(unstack(space, batch, copy=False)[0], batch)


@pytest.mark.parametrize(
    ("space", "samples", "words"),
    [
        (Box(0, 1, (2,)), [], "expected at least one sample, got none"),
        (Box(0, 1, (2,)), [np.zeros(1), np.zeros(3)], r"shape \(2,\), got \(1,\)"),
        (Box(0, 1, (2,)), [[0, 0]], r"expected samples of shape \(2,\)"),
        (Box(0, 1, (2,), np.int8), [np.zeros(2)], "expected samples of dtype int8"),
        (Discrete(2), [1.0], "expected samples of dtype int64"),
        (Discrete(2), [np.array([1])], r"expected samples of shape \(\), got \(1,\)"),
        (OBSERVATION, [{"prices": 1}], r"expected the keys \['prices', 'regime'\]"),
        (OBSERVATION, [OBSERVATION.sample(), None], "expected a dict, got NoneType"),
        (Tuple([Discrete(2)]), [(1, 2)], "expected 1 values, got 2"),
        (MaskedBox(0, 1, (2,)), [np.zeros(2)], "expected a dict, got ndarray"),
    ],
)
def test_samples_of_another_structure_are_refused(
    space: Space[Any], samples: list[Any], words: str
) -> None:
    with pytest.raises(SpaceError, match=words):
        stack_samples(space, samples)


def test_buffers_of_another_length_are_refused() -> None:
    with pytest.raises(SpaceError, match=r"expected a buffer of shape \(1, 4\), got \(2, 4\)"):
        stack_samples(OBSERVATION, [OBSERVATION.sample()], out=empty_batch(OBSERVATION, 2))


@pytest.mark.parametrize(
    ("space", "batch", "words"),
    [
        (Box(0, 1, (2,)), np.zeros((4, 3), np.float32), r"shape \(n, \*\(2,\)\), got \(4, 3\)"),
        (Box(0, 1, ()), np.array(0.5), r"got \(\)"),
        (Box(0, 1, (2,)), [[0, 0]], "got list"),
        (Discrete(2), np.array([0.0, 1.0]), "expected a batch of dtype int64"),
        (OBSERVATION, {"prices": np.zeros((2, 4))}, "expected the keys"),
        (
            OBSERVATION,
            {"prices": np.zeros((2, 4), np.float32), "regime": np.zeros(3, int)},
            "the same number of samples under every key, got {'prices': 2, 'regime': 3}",
        ),
    ],
)
def test_batches_of_another_structure_are_refused(
    space: Space[Any], batch: Any, words: str
) -> None:
    with pytest.raises(SpaceError, match=words):
        unstack(space, batch)


@pytest.mark.parametrize("n", [0, -1, 1.5, None])
def test_a_batch_holds_at_least_one_sample(n: Any) -> None:
    for function in (batch_space, empty_batch):
        with pytest.raises(ValueError, match="n must be an integer of at least 1"):
            function(OBSERVATION, n)


def test_another_backend_can_be_asked_to_make_the_batch() -> None:
    samples = [OBSERVATION.sample() for _ in range(2)]
    buffers = empty_batch(OBSERVATION, 2)

    batch = stack_samples(OBSERVATION, samples, out=buffers, backend="torch")
    buffers["prices"][...] = 9

    assert batch["prices"].dtype == torch.float32
    assert batch["regime"].dtype == torch.int64
    assert np.array_equal(batch["prices"][1].numpy(), samples[1]["prices"])


def test_a_torch_space_unstacks_numpy_batches_into_tensors() -> None:
    space = OBSERVATION.with_backend("torch")
    batch = {"prices": np.zeros((2, 4), np.float32), "regime": np.zeros(2, int)}

    rows = unstack(space, batch)

    assert [type(row["regime"]) for row in rows] == [torch.Tensor] * 2
    assert all(row in space for row in rows)
