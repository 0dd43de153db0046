"""The native policy is the torch policy: same numbers within rounding, same choices."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sekai.error import SpaceError
from sekai.policy import NativePolicy
from sekai.policy.observations import is_action_mask
from sekai.spaces import Simplex
from sekai.training.dqn import DQNPolicyNetwork
from sekai.training.observations import observed_mask, tensors_of
from sekai.training.policies.actor_critic import ActorCritic
from sekai.training.trained_policy import TrainedPolicy
from tests.policy.cases import CASES, observations, policies, portfolio_space, trained_on

TYPICAL, BOUND = 2e-5, 2e-4
"""Largest difference from torch of 99 in 100 numbers, and of all, relative to the largest of a
batch. Torch differs as much from the same network in double precision: see `EXCESS`."""

EXCESS = 4.0
"""Largest error of the native policy, in errors of torch, against double precision."""


@torch.no_grad()
def parameters(policy: TrainedPolicy, batch: Any, double: bool = False) -> tuple[NDArray[Any], ...]:
    """Action parameters of the torch network, and values if it has some."""
    network: Any = policy.network
    inputs = network.inputs(tensors_of(batch))
    mask = observed_mask(tensors_of(batch))
    if double:
        network = copy.deepcopy(network).double()
        inputs = {name: part.double() for name, part in inputs.items()}
    if isinstance(network, DQNPolicyNetwork):
        values = network.values(inputs).mean(-1)
        values = values if mask is None else values.masked_fill(~mask, -torch.inf)
        return (values.numpy(),)
    if not isinstance(network, ActorCritic):
        outputs = network.actor(inputs)
        return tuple(p.numpy() for p in (outputs if isinstance(outputs, tuple) else (outputs,)))
    masks = {name: part for name, part in tensors_of(batch).items() if is_action_mask(name)}
    outputs = network.actor({**inputs, **masks}, preprocessed=True)[:2]
    values = network.critic(inputs, preprocessed=True)
    return tuple(part.numpy() for part in (*outputs, values))


def native_parameters(policy: NativePolicy, batch: Any) -> tuple[NDArray[Any], ...]:
    """Action parameters of the native policy, and values if it has some."""
    outputs = policy.action_parameters(batch)
    if policy.network.critic is None:
        return outputs
    return (*outputs, policy.values(batch)[:, None])


def differences(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Differences, relative to the largest number that is not a masked logit."""
    is_masked = right < -1e8
    assert np.array_equal(left[is_masked], right[is_masked])
    size = max(1.0, float(np.abs(right[~is_masked]).max(initial=0.0)))
    relative: NDArray[Any] = np.abs(left[~is_masked] - right[~is_masked]) / size
    return relative


def assert_same_choices(
    logits: NDArray[Any], actions: Any, expected: Any, counts: tuple[int, ...]
) -> None:
    """Choices are equal, except where two logits are."""
    rows = np.nonzero(np.atleast_2d((actions != expected).T).any(0))[0]
    for row in rows:
        gaps = []
        for part in np.split(logits[row], np.cumsum(counts)[:-1]):
            best = np.sort(part)[::-1]
            gaps.append(best[0] - best[1])
        size = max(1.0, float(np.abs(logits[row][logits[row] > -1e8]).max()))
        assert min(gaps) < 2 * BOUND * size, "choices differ although no two logits are equal"


def assert_alike(name: str, count: int, seed: int) -> None:
    """Compare all outputs of a case."""
    case = CASES[name]
    native, trained = policies(case, seed)
    batch = observations(case.observation_space, count, np.random.default_rng(seed))

    ours, theirs = native_parameters(native, batch), parameters(trained, batch)
    exact = parameters(trained, batch, double=True)
    for own, other, double in zip(ours, theirs, exact, strict=True):
        apart = differences(own, other)
        assert apart.max(initial=0.0) < BOUND
        assert np.quantile(apart, 0.99) < TYPICAL
        error = differences(other, double).max(initial=0.0)
        assert differences(own, double).max(initial=0.0) < EXCESS * max(error, 1e-6)

    actions, expected = native.predict_batch(batch), trained.predict_batch(batch)
    assert actions.dtype == expected.dtype
    assert actions.shape == expected.shape
    if native.actions.is_choice:
        assert_same_choices(theirs[0], actions, expected, native.actions.choices)
    else:
        assert differences(actions, expected).max() < BOUND


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_torch_within_rounding(name: str) -> None:
    for seed in range(3):
        assert_alike(name, 1000, seed)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASES)
def test_a_million_observations_are_within_rounding(name: str) -> None:
    for seed in range(200):
        assert_alike(name, 5000, seed)


@pytest.mark.parametrize("name", CASES)
def test_a_batch_gives_the_bits_of_single_observations(name: str) -> None:
    case = CASES[name]
    native, _ = policies(case)
    batch = observations(case.observation_space, 131, np.random.default_rng(5))

    whole = native.action_parameters(batch)

    for row in range(131):
        single = native.action_parameters(_row(batch, row))
        for part, own in zip(whole, single, strict=True):
            assert part[row].tobytes() == own[0].tobytes()


def _row(batch: Any, row: int) -> Any:
    if isinstance(batch, dict):
        return {name: _row(part, row) for name, part in batch.items()}
    return batch[row : row + 1]


def test_passed_masks_take_precedence_and_must_allow_something() -> None:
    native, trained = policies(CASES["mlp with action masks"])
    batch = observations(native.observation_space, 50, np.random.default_rng(1))
    masks = np.zeros((50, 7), np.int8)
    masks[:, 3] = 1

    assert (native.predict_batch(batch, action_mask=masks) == 5).all()
    assert (native.predict_batch(batch, False, action_mask=masks) == 5).all()
    with pytest.raises(SpaceError, match="allows nothing"):
        native.predict_batch(batch, action_mask=np.zeros((50, 7)))
    assert np.array_equal(native.predict_batch(batch), trained.predict_batch(batch))


@pytest.mark.parametrize(
    "name", ["mlp tanh", "mlp with action masks", "mean of mlp", "SAC mean", "DQN mlp"]
)
def test_samples_follow_the_distribution_of_torch(name: str) -> None:
    native, trained = policies(CASES[name])
    single = observations(native.observation_space, 3, np.random.default_rng(2))
    batch = _repeated(_row(single, 2), 4000)

    ours = np.float64(native.predict_batch(batch, deterministic=False)).reshape(4000, -1)
    theirs = np.float64(trained.predict_batch(batch, deterministic=False)).reshape(4000, -1)

    spread = np.sqrt(ours.var(0) + theirs.var(0)) / np.sqrt(4000)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) <= 5 * spread + 1e-6).all()
    assert (np.abs(ours.std(0) - theirs.std(0)) <= 0.1 * theirs.std(0) + 1e-6).all()


@pytest.mark.parametrize("name", CASES)
def test_predict_is_a_batch_of_one(name: str) -> None:
    native, trained = policies(CASES[name])
    native.observation_space.seed(3)
    for _ in range(5):
        observation = native.observation_space.sample()
        action, expected = native.predict(observation), trained.predict(observation)

        assert native.action_space.contains(action)
        assert type(action) is type(expected)
        batch = native.predict_batch(native._batch_of_one(observation))
        assert np.asarray(action).tobytes() == np.asarray(batch)[0].tobytes()
        assert np.allclose(action, expected, atol=1e-4)
    with pytest.raises(SpaceError, match="does not match"):
        native.predict("nonsense")


def test_another_number_of_assets_fits_backbones_that_share_weights() -> None:
    native, trained = policies(CASES["attention of gru"])
    spaces = portfolio_space(9), Simplex(10)

    other, expected = native.on_spaces(*spaces), trained_on(trained, *spaces)
    batch = observations(spaces[0], 100, np.random.default_rng(4))

    assert np.allclose(other.predict_batch(batch), expected.predict_batch(batch), atol=1e-5)
    with pytest.raises(SpaceError, match="shares weights"):
        policies(CASES["mlp of a portfolio"])[0].on_spaces(*spaces)


def test_arrays_of_any_layout_and_type_are_read() -> None:
    native, _ = policies(CASES["mlp tanh"])
    batch = observations(native.observation_space, 20, np.random.default_rng(4))
    expected = native.predict_batch(batch)

    assert np.array_equal(native.predict_batch(np.asfortranarray(batch)), expected)
    assert np.array_equal(native.predict_batch(batch.astype(np.float64)), expected)
    whole = np.round(batch * 10)
    for kind in (np.int16, np.int32, np.int64, np.float16):
        assert np.array_equal(native.predict_batch(whole.astype(kind)), native.predict_batch(whole))


def _repeated(row: Any, count: int) -> Any:
    if isinstance(row, dict):
        return {name: _repeated(part, count) for name, part in row.items()}
    return np.repeat(row, count, axis=0)


@pytest.mark.parametrize("name", ["mlp tanh", "mlp with masks of two picks", "mean of mlp"])
def test_observations_that_are_not_plain_raise_or_act_as_before(name: str) -> None:
    native, _ = policies(CASES[name])
    native.observation_space.seed(1)
    observation = native.observation_space.sample()
    expected = native.predict(observation)
    is_dict = isinstance(observation, dict)
    key = next(iter(observation)) if is_dict else None
    array = observation[key] if is_dict else observation

    def act(changed: Any) -> Any:
        return native.predict({**observation, key: changed} if is_dict else changed)

    assert np.array_equal(act(np.asfortranarray(array)), expected)
    assert np.array_equal(act(np.repeat(array, 2, axis=-1)[..., ::2]), expected)
    with pytest.raises(SpaceError, match="expected dtype float32, got float64"):
        act(array.astype(np.float64))
    with pytest.raises(SpaceError, match="expected shape"):
        act(array[None])
    for number in (np.nan, np.inf) if "picks" in name else (np.nan,):
        broken = array.copy()
        broken[(0,) * array.ndim] = number
        with pytest.raises(SpaceError, match="expected a value from"):
            act(broken)
    if is_dict:
        with pytest.raises(SpaceError, match="expected the keys"):
            native.predict({**observation, "more": array})
        with pytest.raises(SpaceError, match="expected the keys"):
            native.predict({k: v for k, v in observation.items() if k != key})


def test_plain_observations_are_read_in_one_native_call() -> None:
    slow = {
        name
        for name, case in CASES.items()
        if (native := policies(case)[0])._native.predict(native.observation_space.sample()) is None
    }

    assert slow == {"mlp of one-hot inputs", "mean of a MaskedBox"}
