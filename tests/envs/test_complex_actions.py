"""Complex actions are refused: a conversion to real numbers would lose their imaginary part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quant_gym_rs._core as core
import sekai
from sekai.data import simulate_gbm
from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Box, stack_samples
from sekai.wrappers import ClipAction, RescaleAction

DATA = simulate_gbm(assets=3, rows=60, seed=1)
ENVS: dict[str, tuple[dict[str, Any], Any]] = {
    "Trading-v0": ({}, 1),
    "MarketMaking-v0": ({}, [0.5, 0.5]),
    "OptimalExecution-v0": ({}, [0.5]),
    "Portfolio-v0": ({"data": DATA}, [0.25] * 4),
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "an array": lambda action: np.asarray(action) * (1 + 1j),
    "single precision": lambda action: (np.asarray(action) * (1 + 1j)).astype(np.complex64),
    "numbers of NumPy": lambda action: [np.complex128(one, 1) for one in np.atleast_1d(action)],
    "numbers of Python": lambda action: [complex(one, 1) for one in np.atleast_1d(action)],
    "without an imaginary part": lambda action: np.asarray(action, np.complex128),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ENVS)
def test_a_complex_action_is_refused_by_single_envs(name: str, form: str) -> None:
    arguments, action = ENVS[name]
    env: Any = sekai.make(name, **arguments)
    env.reset(seed=0)

    with pytest.raises(InvalidActionError):
        env.step(FORMS[form](action))

    env.step(np.asarray(action)[()])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ENVS)
def test_complex_actions_are_refused_by_native_vectors(name: str, form: str) -> None:
    arguments, action = ENVS[name]
    with sekai.make_vec(name, num_envs=2, **arguments) as vec:
        vec.reset(seed=0)

        with pytest.raises(InvalidActionError):
            vec.step([FORMS[form](action)] * 2)


@pytest.mark.parametrize("wrap", [ClipAction, lambda env: RescaleAction(env, -1.0, 1.0)])
def test_wrappers_that_convert_actions_refuse_complex_ones(wrap: Callable[[Any], Any]) -> None:
    env = wrap(sekai.make("MarketMaking-v0"))
    env.reset(seed=0)

    with pytest.raises(InvalidActionError, match="complex"):
        env.step(np.array([0.5 + 1j, 0.5]))


def test_an_order_is_not_worked_by_a_complex_amount() -> None:
    prices = np.linspace(10, 11, 60)
    order = core.OrderMatcher(prices, 100 * prices, True, 500.0, 5, 55)

    for amount in (np.complex128(5 + 1j), 5 + 1j, np.array(5 + 1j)):
        with pytest.raises(InvalidActionError, match="real number"):
            order.step(amount)  # type: ignore[arg-type]

    assert order.steps == 0


def test_a_batch_of_tensors_is_not_made_of_complex_samples() -> None:
    pytest.importorskip("torch")
    space = Box(-1.0, 1.0, shape=(2,), backend="torch")

    with pytest.raises(SpaceError, match="complex"):
        stack_samples(space, [np.array([1j, 0.0])])
