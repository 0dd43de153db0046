"""The examples of the framework's document, as they are written there."""

from __future__ import annotations

import numpy as np

from sekai.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Tuple,
    flatdim,
    flatten,
    flatten_space,
    unflatten,
)


def test_boxes() -> None:
    price_space = Box(low=0.0, high=1000.0, shape=(8,), dtype=np.float32)
    returns_space = Box(low=-np.inf, high=np.inf, shape=(50,), dtype=np.float64)
    depth_space = Box(low=0, high=10_000, shape=(10, 2), dtype=np.int32)
    sample = price_space.sample()

    assert sample.shape == (8,)
    assert sample in price_space
    assert price_space.is_bounded == (True, True)
    assert returns_space.sample().dtype == np.float64
    assert depth_space.sample().dtype == np.int32


def test_discrete_actions_under_a_mask() -> None:
    action_space = Discrete(n=5)
    mask = np.array([1, 0, 1, 0, 1], dtype=np.int8)

    assert {int(action_space.sample(mask=mask)) for _ in range(60)} == {0, 2, 4}
    assert {int(Discrete(n=5, start=-2).sample()) for _ in range(90)} == {-2, -1, 0, 1, 2}


def test_orders_of_three_assets() -> None:
    order_space = MultiDiscrete(nvec=[3, 3, 3], start=[-1, -1, -1])

    assert order_space.sample().dtype == np.intp
    assert np.abs(order_space.sample()).max() <= 1


def test_a_rich_observation_and_its_flat_form() -> None:
    obs_space = Dict(
        {
            "prices": Box(-np.inf, np.inf, shape=(100, 8)),
            "portfolio": Box(-1.0, 1.0, shape=(10,)),
            "order_book": Box(0, np.inf, shape=(20, 2)),
            "regime": Discrete(4),
        }
    )
    sample = obs_space.sample()
    dim = flatdim(obs_space)
    flat = flatten(obs_space, sample)
    restored = unflatten(obs_space, flat)
    box = flatten_space(obs_space)

    assert sample["prices"].shape == (100, 8)
    assert type(sample["regime"]) is np.intp
    assert dim == 800 + 10 + 40 + 4
    assert flat.shape == (dim,)
    assert flat.dtype == np.float32
    assert np.array_equal(restored["order_book"], sample["order_book"])
    assert restored["regime"] == sample["regime"]
    assert isinstance(box, Box)
    assert box.shape == (dim,)
    assert flat in box


def test_a_tuple_of_features_and_signals() -> None:
    obs_space = Tuple([Box(-np.inf, np.inf, shape=(50,)), MultiBinary(10)])
    features, signals = obs_space.sample()

    assert (features.shape, signals.dtype) == ((50,), np.int8)
    assert all(space.is_flattenable for space in (obs_space, *obs_space.spaces))
