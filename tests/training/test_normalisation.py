"""Moments learnt in parts equal those of everything seen at once."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.policy.observations import Leaf
from sekai.policy.program import CLIP_OBS
from sekai.training.normalizers import ObservationNormalizer, RewardScaler

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_moments_are_those_of_everything_seen(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    batches = [rng.normal(5.0, 3.0, (size, 4)) for size in sizes]
    normalizer = ObservationNormalizer({"seen": Leaf((4,))})

    for batch in batches:
        normalizer.update({"seen": torch.from_numpy(batch)})

    everything = np.concatenate(batches)
    state = normalizer.state_dict()
    assert float(state["count_0"]) == len(everything)
    assert np.allclose(state["mean_0"], everything.mean(0))
    assert np.allclose(state["variance_0"], everything.var(0))


def test_windows_share_their_moments_over_time_and_assets() -> None:
    rng = np.random.default_rng(1)
    windows = rng.normal(2.0, [1.0, 10.0], (30, 5, 3, 2))
    normalizer = ObservationNormalizer({"windows": Leaf((5, 3, 2))})

    normalizer.update({"windows": torch.from_numpy(windows[:10])})
    normalizer.update({"windows": torch.from_numpy(windows[10:])})
    scaled = normalizer("windows", torch.from_numpy(windows).float()).numpy()

    assert np.allclose(normalizer.state_dict()["mean_0"], windows.reshape(-1, 2).mean(0))
    assert np.allclose(scaled.reshape(-1, 2).mean(0), 0.0, atol=1e-5)
    assert np.allclose(scaled.reshape(-1, 2).std(0), 1.0, atol=1e-5)


def test_names_and_masks_are_left_as_they_are() -> None:
    leaves = {
        "pick": Leaf((), (3,)),
        "assets/mask": Leaf((2,)),
        "action_mask": Leaf((2,)),
        "price": Leaf((2,)),
    }
    normalizer = ObservationNormalizer(leaves)

    assert normalizer.names == ["price"]
    assert torch.equal(normalizer("assets/mask", torch.ones(1, 2)), torch.ones(1, 2))


def test_what_was_never_seen_is_no_farther_than_the_limit() -> None:
    normalizer = ObservationNormalizer({"seen": Leaf((1,))})
    normalizer.update({"seen": torch.randn(100, 1)})

    far = normalizer("seen", torch.tensor([[1e9], [-1e9]]))

    assert far.flatten().tolist() == [CLIP_OBS, -CLIP_OBS]


def _returns(rewards: np.ndarray, done: np.ndarray, discount: float) -> np.ndarray:
    running, found = np.zeros(rewards.shape[1]), np.zeros_like(rewards)
    for step in range(len(rewards)):
        running = running * discount + rewards[step]
        found[step] = running
        running = np.where(done[step], 0.0, running)
    return found


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, parts=st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_rewards_are_divided_by_the_size_of_returns(seed: int, parts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    rewards = rng.normal(1.0, 2.0, (sum(parts), 3))
    done = rng.random((sum(parts), 3)) < 0.2
    scaler = RewardScaler(0.9, 3)

    begin = 0
    for part in parts:
        rows = slice(begin, begin + part)
        scaler.update(torch.from_numpy(rewards[rows]), torch.from_numpy(done[rows]))
        begin += part

    returns = _returns(rewards, done, 0.9)
    size = np.sqrt((returns**2).mean())
    assert np.isclose(float(scaler.scale), size)
    scaled = scaler(torch.from_numpy(rewards)).numpy()
    assert np.allclose(scaled, rewards / size, rtol=1e-5)


def test_rewards_that_never_change_keep_their_worth() -> None:
    scaler = RewardScaler(0.9, 2)

    for _ in range(10):
        scaler.update(torch.full((4, 2), 3.0), torch.ones(4, 2, dtype=torch.bool))

    assert np.isclose(float(scaler(torch.tensor(3.0))), 1.0)


def test_a_reward_at_the_very_end_is_not_cut() -> None:
    rewards = torch.zeros(400, 1, dtype=torch.float64)
    rewards[-1] = 5.0
    scaler = RewardScaler(0.99, 1)

    scaler.update(rewards, rewards > 0)

    assert np.isclose(float(scaler(torch.tensor(5.0))), np.sqrt(400.0), rtol=1e-5)


def test_moments_that_are_loaded_are_read_by() -> None:
    leaves = {"observation": Leaf((3,))}
    learnt, loaded = ObservationNormalizer(leaves), ObservationNormalizer(leaves)
    learnt.update({"observation": torch.randn(50, 3) * 4.0 + 2.0})

    loaded.load_state_dict(learnt.state_dict())

    rows = torch.randn(5, 3)
    assert torch.equal(loaded("observation", rows), learnt("observation", rows))
    assert not torch.equal(loaded("observation", rows), rows)
