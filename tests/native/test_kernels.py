"""The native kernels against NumPy and against themselves in another batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from quant_gym_rs._core import EpisodeTotals, RewardScale, RunningMoments, StepResult

rows = arrays(
    np.float64,
    st.tuples(st.integers(2, 20), st.integers(1, 5)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@given(values=rows)
@settings(deadline=None)
def test_moments_equal_those_of_numpy(values: NDArray[np.float64]) -> None:
    moments = RunningMoments(values.shape[1])

    moments.update(values)

    scale = 1e-9 * (1.0 + np.abs(values).max())
    assert moments.count == len(values)
    assert np.allclose(moments.mean, values.mean(0), atol=scale)
    assert np.allclose(moments.variance, values.var(0), atol=scale**2 + 1e-9 * values.var(0))


@given(values=rows, cut=st.integers(1, 19))
@settings(deadline=None)
def test_merged_moments_equal_those_of_the_whole(values: NDArray[np.float64], cut: int) -> None:
    left, right, whole = (RunningMoments(values.shape[1]) for _ in range(3))
    left.update(values[:cut])
    right.update(values[cut:])
    whole.update(values)

    left.merge(right)

    scale = 1.0 + np.abs(values).max()
    assert left.count == whole.count
    assert np.allclose(left.mean, whole.mean, atol=1e-9 * scale)
    assert np.allclose(left.variance, whole.variance, atol=1e-9 * scale**2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normalised_values_keep_dtype_and_shape_and_leave_the_input_alone(dtype: Any) -> None:
    values = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(dtype)
    before = values.copy()
    moments = RunningMoments(6)

    shown = moments.normalise(values)

    assert (shown.dtype, shown.shape) == (values.dtype, values.shape)
    assert np.array_equal(values, before)
    expected = (before - before.mean(0)) / np.sqrt(before.var(0) + 1e-8)
    assert np.allclose(shown, expected, atol=1e-5)


def test_an_array_that_is_not_contiguous_gives_the_same_as_its_copy() -> None:
    values = np.random.default_rng(0).normal(size=(6, 8))[::2, ::2]
    left, right = RunningMoments(4), RunningMoments(4)

    assert np.array_equal(left.normalise(values), right.normalise(values.copy()))


def test_the_result_can_be_written_into_a_given_array() -> None:
    values, out = np.ones((2, 3)), np.empty((2, 3))

    assert RunningMoments(3).normalise(values, out=out) is out
    assert np.array_equal(out, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="expected rows of"):
        RunningMoments(3).normalise(values, out=np.empty((1, 3)))


def test_an_array_of_another_kind_is_named() -> None:
    with pytest.raises(TypeError, match="float32 or float64, got ndarray of int64"):
        RunningMoments(2).update(np.ones(2, np.int64))
    with pytest.raises(TypeError, match="got list"):
        RunningMoments(2).update([1.0, 2.0])  # type: ignore[arg-type]


def test_moments_continue_from_their_state() -> None:
    values = np.random.default_rng(0).normal(size=(9, 2))
    whole, first, second = (RunningMoments(2) for _ in range(3))
    whole.update(values)
    first.update(values[:4])

    second.load_state_dict(first.state_dict())
    second.update(values[4:])

    assert np.array_equal(second.mean, whole.mean)
    assert np.array_equal(second.variance, whole.variance)


def test_moments_of_another_width_are_refused() -> None:
    moments = RunningMoments(2)
    with pytest.raises(ValueError, match="2 columns, got 3"):
        moments.load_state_dict(RunningMoments(3).state_dict())
    with pytest.raises(ValueError, match="expected .* got 3"):
        moments.merge(RunningMoments(3))


@given(
    rewards=arrays(np.float64, (12, 3), elements=st.floats(-100, 100)),
    ended=arrays(np.bool_, (12, 3)),
)
@settings(deadline=None)
def test_a_batch_of_episodes_totals_as_each_would_alone(
    rewards: NDArray[np.float64], ended: NDArray[np.bool_]
) -> None:
    batch, singles = EpisodeTotals(3), [EpisodeTotals(1) for _ in range(3)]

    for now in range(12):
        finished = batch.step(rewards[now], ended[now])
        alone = [
            single.step_one(StepResult(0, rewards[now, index], bool(ended[now, index]), False, {}))
            for index, single in enumerate(singles)
        ]
        expected = [[index, *row[:2]] for index, row in enumerate(alone) if row is not None]
        found = [] if finished is None else np.stack(finished[:3], 1).tolist()
        assert found == expected


def test_totals_skip_the_episodes_that_do_not_run() -> None:
    totals = EpisodeTotals(2)

    totals.step(np.ones(2), np.zeros(2, bool), np.array([True, False]))

    assert totals.returns.tolist() == [1.0, 0.0]
    assert totals.lengths.tolist() == [1, 0]


def test_totals_of_a_wrong_number_of_episodes_are_refused() -> None:
    totals = EpisodeTotals(2)
    with pytest.raises(ValueError, match="2 episodes, got 3"):
        totals.step(np.ones(3), np.zeros(3, bool))
    assert totals.lengths.tolist() == [0, 0]


def test_a_scale_of_one_equals_a_batch_of_one() -> None:
    one, batch = RewardScale(1, 0.9), RewardScale(1, 0.9)
    rewards = np.random.default_rng(0).normal(size=20)

    for now, reward in enumerate(rewards):
        ended = now % 7 == 6
        shown = batch.scale(np.array([reward]), np.array([ended]))
        assert one.scale_one(reward, ended) == shown[0]


def test_a_reward_that_is_not_finite_is_refused() -> None:
    scale = RewardScale(2)
    with pytest.raises(ValueError, match="got NaN in row 1"):
        scale.scale(np.array([1.0, np.nan]), np.zeros(2, bool))
    assert scale.count == 0
