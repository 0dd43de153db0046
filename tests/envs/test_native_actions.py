"""The forms in which a native task of real numbers takes its actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sekai.envs import MarketMaking, Trading
from sekai.error import InvalidActionError
from tests.envs.native_tasks import native

WHOLE = np.array([[1, 2], [0, 3], [5, -1]])


def step(vec: Any, actions: Any) -> tuple[Any, ...]:
    count, width = vec.num_envs, vec.observation_space.shape[0]
    out = np.zeros((count, width)), np.zeros(count), *np.zeros((2, count), np.bool_)
    vec.batch.step(actions, *out, np.zeros((count, width)), None)
    return out


def begun(**options: Any) -> Any:
    task = "Trading-v0" if "action" in options else "MarketMaking-v0"
    vec = native(task, 3, **options)
    vec.reset(seed=0)
    return vec


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_batch_takes_numbers_of_another_dtype_for_what_they_are(dtype: Any) -> None:
    vec, other = begun(), begun()

    for actions in (WHOLE, WHOLE[::-1].copy(), WHOLE):
        found = step(vec, actions.astype(dtype))
        wanted = step(other, actions.astype(np.float64))
        assert all(map(np.array_equal, found, wanted))
    assert vec.batch.state_dict() == other.batch.state_dict()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_the_axis_of_one_number_may_be_left_out_in_every_dtype(
    dtype: Any, shape: tuple[int, ...]
) -> None:
    vec, other = begun(action="weights"), begun(action="weights")
    shares = np.array([1, 0, -1])

    step(vec, shares.astype(dtype).reshape(shape))
    step(other, shares.astype(np.float64))

    assert vec.batch.state_dict() == other.batch.state_dict()


REFUSED: dict[str, Callable[[NDArray[Any]], Any]] = {
    "truths": lambda actions: actions > 1,
    "another dtype": lambda actions: actions.astype(np.int32),
    "too few": lambda actions: actions[:2].astype(np.float32),
    "too wide": lambda actions: np.repeat(actions, 2, axis=1).astype(np.float32),
    "Fortran's order": lambda actions: np.asfortranarray(actions.astype(np.float32)),
    "strided": lambda actions: np.repeat(actions, 2, axis=0)[::2],
}


@pytest.mark.parametrize("form", sorted(REFUSED))
def test_a_batch_of_another_form_is_refused_and_nothing_moves(form: str) -> None:
    vec = begun()
    before = vec.batch.state_dict()

    wanted = r"^actions needs a C-contiguous array of float64 and shape \[3, 2\], got one of "
    with pytest.raises(InvalidActionError, match=wanted):
        step(vec, REFUSED[form](WHOLE))
    assert vec.batch.state_dict() == before


def test_whole_numbers_are_not_made_of_others() -> None:
    vec = begun(action="discrete")
    with pytest.raises(InvalidActionError, match="array of int64"):
        step(vec, np.ones(3, np.float32))


@pytest.mark.parametrize(
    "action",
    [np.array([1, 2]), np.array([1.0, 2.0], np.float32), [1, np.int64(2)], [np.float32(1), 2]],
)
def test_a_single_env_takes_them_too(action: Any) -> None:
    env, other = MarketMaking(), MarketMaking()
    env.reset(seed=0)
    other.reset(seed=0)

    assert env.step(action) == other.step(np.array([1.0, 2.0]))


@pytest.mark.parametrize("action", [np.array([True, False]), [np.True_, 0.5], [True, 0.5]])
def test_a_truth_is_no_amount(action: Any) -> None:
    env = MarketMaking()
    env.reset(seed=0)
    with pytest.raises(InvalidActionError, match="expected 2 numbers, got "):
        env.step(action)


@pytest.mark.parametrize("action", [True, np.True_, np.array(True), np.array([True])])
@pytest.mark.parametrize("kind", ["weights", "discrete"])
def test_a_truth_is_no_single_number_either(kind: Any, action: Any) -> None:
    env = Trading(action=kind)
    env.reset(seed=0)
    with pytest.raises(InvalidActionError, match="expected 1 "):
        env.step(action)
