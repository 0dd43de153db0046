"""Every backend does the same with the same numbers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from sekai.backend import BackendOps, NumpyOps, TorchOps, as_numpy, get_backend
from sekai.error import MissingExtraError
from sekai.spaces import Box, Dict, Discrete

OPERATIONS = {
    "zeros",
    "ones",
    "concatenate",
    "stack",
    "clip",
    "astype",
    "random_uniform",
    "random_integers",
    "is_array",
    "array_equal",
}
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


@pytest.fixture(params=["numpy", "torch"])
def ops(request: pytest.FixtureRequest) -> BackendOps:
    return get_backend(request.param)


def test_the_protocol_has_exactly_the_operations_of_the_design() -> None:
    assert {name for name in vars(BackendOps) if not name.startswith("_")} == OPERATIONS


def test_a_backend_follows_the_protocol(ops: BackendOps) -> None:
    assert isinstance(ops, BackendOps)
    assert pickle.loads(pickle.dumps(ops)) == ops


@pytest.mark.parametrize("dtype", DTYPES + FLOATS)
def test_arrays_keep_their_dtype_and_values_both_ways(ops: BackendOps, dtype: str) -> None:
    values = np.array([[0, 1], [1, 0]], dtype)

    array = ops.astype(values, dtype)

    assert ops.is_array(array)
    assert as_numpy(ops, array).dtype == np.dtype(dtype)
    assert np.array_equal(as_numpy(ops, array), values)
    assert ops.array_equal(array, ops.astype(array, dtype))
    assert as_numpy(ops, ops.zeros((2, 3), dtype)).tolist() == np.zeros((2, 3), dtype).tolist()
    assert as_numpy(ops, ops.ones([2], dtype)).tolist() == np.ones(2, dtype).tolist()


def test_astype_never_shares_memory(ops: BackendOps) -> None:
    values = np.zeros(3, np.float32)
    array = ops.astype(values, np.float32)
    again = ops.astype(array, np.float32)

    values[0] = 1
    array[1] = 2

    assert as_numpy(ops, array).tolist() == [0, 2, 0]
    assert as_numpy(ops, again).tolist() == [0, 0, 0]


def test_arrays_are_joined_and_stacked_along_any_axis(ops: BackendOps) -> None:
    one, other = (ops.astype(np.full((2, 2), number), np.float32) for number in (1, 2))

    assert as_numpy(ops, ops.concatenate([one, other])).shape == (4, 2)
    assert as_numpy(ops, ops.concatenate([one, other], axis=1)).tolist() == [[1, 1, 2, 2]] * 2
    assert as_numpy(ops, ops.stack([one, other])).shape == (2, 2, 2)
    assert as_numpy(ops, ops.stack([one, other], axis=2)).tolist() == [[[1, 2]] * 2] * 2


def test_clip_takes_numbers_and_arrays(ops: BackendOps) -> None:
    array = ops.astype(np.array([-2.0, 0.5, 2.0]), np.float32)

    assert as_numpy(ops, ops.clip(array, -1, 1)).tolist() == [-1, 0.5, 1]
    assert as_numpy(ops, ops.clip(array, np.zeros(3), np.ones(3))).tolist() == [0, 0.5, 1]


def test_arrays_are_equal_when_shape_and_values_are(ops: BackendOps) -> None:
    array = ops.astype(np.arange(3), np.int64)

    assert ops.array_equal(array, ops.astype(np.arange(3), np.float32))
    assert not ops.array_equal(array, ops.astype(np.arange(4), np.int64))
    assert not ops.array_equal(array, ops.astype(np.arange(1, 4), np.int64))
    assert not ops.is_array([0, 1, 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_backend_draws_the_same_uniform_numbers(ops: BackendOps, dtype: Any) -> None:
    drawn = ops.random_uniform(np.random.default_rng(3), -1.0, 2.0, (50,), dtype)
    wanted = NumpyOps().random_uniform(np.random.default_rng(3), -1.0, 2.0, (50,), dtype)

    assert as_numpy(ops, drawn).tolist() == wanted.tolist()
    assert as_numpy(ops, drawn).dtype == dtype
    assert wanted.min() >= -1
    assert wanted.max() <= 2


def test_every_backend_draws_the_same_whole_numbers(ops: BackendOps) -> None:
    drawn = ops.random_integers(np.random.default_rng(3), 2, 5, (4, 10))
    wanted = NumpyOps().random_integers(np.random.default_rng(3), 2, 5, (4, 10))

    assert as_numpy(ops, drawn).tolist() == wanted.tolist()
    assert as_numpy(ops, drawn).dtype == np.int64
    assert set(wanted.ravel()) == {2, 3, 4}


def test_tensors_with_gradients_and_bfloat16_can_be_judged() -> None:
    space = Box(-1, 1, (2,), backend="torch")

    assert torch.zeros(2, requires_grad=True) in space
    assert torch.zeros(2, dtype=torch.bfloat16) in space
    assert torch.full((2,), 2.0) not in space
    assert torch.zeros(2, dtype=torch.float64) not in space
    assert torch.tensor(2) in Discrete(3, backend="torch")
    assert torch.tensor([2]) not in Discrete(3, backend="torch")


def test_a_device_is_where_tensors_are_made() -> None:
    space = Dict(a=Box(-1, 1, (2,)), b=Discrete(3)).with_backend(TorchOps(device="cpu"))

    assert space.sample()["a"].device == torch.device("cpu")
    assert TorchOps(device="meta").zeros((2,)).device == torch.device("meta")


def test_get_backend_takes_names_and_objects() -> None:
    class Mine(NumpyOps):
        """User-defined backend."""

    mine = Mine()

    assert get_backend("numpy") == NumpyOps()
    assert get_backend("torch") == TorchOps()
    assert get_backend(mine) is mine
    assert Box(0, 1, backend=mine).backend is mine


def test_a_backend_of_ones_own_makes_the_samples() -> None:
    class Tagged(np.ndarray[Any, Any]):
        """Array tagged with the backend that created it."""

    class Tagging:
        """NumPy functions whose results are tagged arrays."""

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

        def astype(self, x: Any, dtype: Any) -> Any:
            return np.array(x, dtype).view(Tagged)

        def is_array(self, x: object) -> bool:
            return isinstance(x, Tagged)

    for name in OPERATIONS - {"astype", "is_array"}:
        setattr(Tagging, name, getattr(NumpyOps, name))
    space = Dict(a=Box(0, 1, (2,)), b=Discrete(3)).with_backend(Tagging())

    assert type(space.sample()["a"]) is Tagged
    assert space.sample() in space


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nunpy", "unknown backend 'nunpy'; did you mean 'numpy'?"),
        ("Torch", "did you mean 'torch'?"),
        ("jax", "unknown backend 'jax'; expected one of numpy, torch"),
        (3, "or an object with all methods of BackendOps, got 3"),
        (NumpyOps, "got <class"),
        (object(), "got <object"),
    ],
)
def test_an_unknown_backend_is_refused_with_the_names_there_are(name: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        get_backend(name)
    with pytest.raises(ValueError, match=words):
        Box(0, 1, backend=name)


def test_without_torch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(MissingExtraError, match=r"pip install '\.\[torch\]'"):
        get_backend("torch")
    with pytest.raises(MissingExtraError, match="the torch backend needs"):
        TorchOps().zeros((2,))


def test_importing_spaces_and_naming_torch_does_not_import_it() -> None:
    code = (
        "import sys; from sekai.spaces import Box; from sekai.backend import TorchOps;"
        "Box(0, 1, (2,), backend='torch'); Box(0, 1, (2,)).sample();"
        "heavy = {'torch', 'asyncio', 'multiprocessing', 'logging', 'difflib'};"
        "print(heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
