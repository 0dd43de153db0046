"""Heads act inside their spaces, at random, and as likely as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Categorical, Independent, Normal

from sekai.policy.observations import leaves_of
from sekai.policy.settings import PolicySettings
from sekai.spaces import Box, Discrete, MultiDiscrete, Simplex, Space
from sekai.training.actions import ActionMap
from sekai.training.policies.actor_critic import ActorCritic, DiagGaussian, MultiCategorical
from sekai.vector.batching import Batcher
from tests.training.policies.universe import network, observations

SEEN = Box(-1.0, 1.0, (3,), np.float32)
HALF_BOUNDED = Box(np.array([0.0, -np.inf]), np.array([np.inf, 2.0]), dtype=np.float64)
SPACES: list[Space[Any]] = [
    Box(-2.0, 3.0, (2,), np.float32),
    Box(0, 9, (2, 2), np.int64),
    Box(-np.inf, np.inf, (2,), np.float64),
    HALF_BOUNDED,
    Simplex(4),
    Discrete(3, start=-1),
    MultiDiscrete([2, 4], start=[3, -1]),
]


def policy_for(space: Space[Any], seed: int, size: float = 1.0) -> ActorCritic:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = ActorCritic(leaves_of(SEEN), ActionMap(space), PolicySettings(net_arch=(8,)))
        for weights in made.actor.parameters():
            weights.data.normal_(std=size)
    return made


@pytest.mark.parametrize("space", SPACES, ids=str)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.floats(0.01, 30.0), deterministic=st.booleans())
def test_every_head_acts_inside_its_space(
    space: Space[Any], seed: int, size: float, deterministic: bool
) -> None:
    policy = policy_for(space, seed, size)
    seen = {"observation": torch.rand(5, 3) * 2 - 1}

    chosen = policy.choose(seen, deterministic)
    actions = policy.actor.actions.to_env(chosen, policy.used(seen))

    why = [space.mismatch(action) for action in actions]
    assert why == [None] * 5


def test_whole_numbers_are_the_nearest() -> None:
    actions = ActionMap(Box(0, 4, (1,), np.int64))

    acted = actions.to_env(torch.tensor([[-1.0], [-0.3], [0.3], [0.8]]))

    assert acted.ravel().tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_what_was_done_tells_what_was_chosen(space: Space[Any]) -> None:
    actions = ActionMap(space)
    space.seed(0)
    done = Batcher(space).stack([space.sample() for _ in range(5)])

    again = actions.to_env(actions.from_env(done))

    np.testing.assert_allclose(again, done, atol=1e-4 if isinstance(space, Box) else 0.03)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_two_samples_differ(space: Space[Any]) -> None:
    distribution = policy_for(space, 0, 0.1).actor.distribution({"observation": torch.rand(64, 3)})

    first, second = distribution.sample(), distribution.sample()

    assert not torch.equal(first, second)
    assert distribution.log_prob(first).shape == (64,)


@settings(max_examples=20, deadline=None)
@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=4), seed=st.integers(0, 2**31))
def test_choices_are_as_likely_as_categories(counts: list[int], seed: int) -> None:
    logits = torch.randn(6, sum(counts), generator=torch.Generator().manual_seed(seed))
    chances = MultiCategorical(logits, tuple(counts))
    picks = chances.sample()
    parts = torch.split(logits, counts, dim=-1)
    oracles: list[Any] = [Categorical(logits=part) for part in parts]

    log_prob = sum(one.log_prob(pick) for one, pick in zip(oracles, picks.unbind(-1), strict=True))
    torch.testing.assert_close(chances.log_prob(picks), log_prob)
    torch.testing.assert_close(chances.entropy(), sum(one.entropy() for one in oracles))
    assert torch.equal(chances.mode[:, 0], oracles[0].probs.argmax(-1))


def test_choices_come_as_often_as_they_are_likely() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, -1e9])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        picks = MultiCategorical(logits.expand(40_000, 4)).sample()

    shares = torch.bincount(picks.flatten(), minlength=4) / 40_000

    torch.testing.assert_close(shares, torch.softmax(logits, 0), atol=0.01, rtol=0)
    assert shares[3] == 0


@settings(max_examples=20, deadline=None)
@given(width=st.integers(1, 5), seed=st.integers(0, 2**31))
def test_numbers_are_as_likely_as_normal_ones(width: int, seed: int) -> None:
    stream = torch.Generator().manual_seed(seed)
    loc = torch.randn(6, width, generator=stream)
    scale = torch.rand(width, generator=stream).add(0.1).expand(6, width)
    chances = DiagGaussian(loc, scale)
    oracle: Any = Independent(Normal(loc, scale), 1)
    value = chances.sample()

    torch.testing.assert_close(chances.log_prob(value), oracle.log_prob(value))
    torch.testing.assert_close(chances.entropy(), oracle.entropy())
    assert torch.equal(chances.mode, loc)


def test_numbers_let_gradients_through() -> None:
    loc = torch.zeros(3, 2, requires_grad=True)

    (gradient,) = torch.autograd.grad(DiagGaussian(loc, torch.ones(3, 2)).rsample().sum(), loc)

    assert torch.equal(gradient, torch.ones(3, 2))


def test_a_size_that_is_not_of_the_slots_is_decided_by_all_together() -> None:
    space = Box(-1.0, 1.0, (7,), np.float32)
    policy, seen = network(4, space, backbone="mean"), observations(5, 4)

    assert policy.used(seen) is None
    assert not policy.actor.head.is_masked
    assert policy.actor(seen)[0].shape == (5, 7)


def test_tilts_follow_the_order_of_assets() -> None:
    policy, seen = network(3, MultiDiscrete([3, 3, 3]), backbone="mean"), observations(5, 3)
    order = [2, 0, 1]
    other = {
        **seen,
        "windows": seen["windows"][:, :, order],
        "weights": seen["weights"][:, [*order, 3]],
        "mask": seen["mask"][:, order],
    }

    (logits,), (turned,) = policy.actor(seen), policy.actor(other)

    torch.testing.assert_close(turned.reshape(5, 3, 3), logits.reshape(5, 3, 3)[:, order])
