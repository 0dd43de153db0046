"""One policy reads every asset alike, wherever it stands and whoever is beside it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.policies.universe import (
    AGGREGATORS,
    ENCODERS,
    network,
    observations,
    permuted,
)

SLOTS = 5
PARTS = [("mlp", name) for name in AGGREGATORS] + [(name, "mean") for name in ENCODERS[1:]]
NETWORKS = {parts: network(SLOTS, encoder=parts[0], backbone=parts[1]) for parts in PARTS}
anything = st.floats(-1e6, 1e6) | st.just(float("nan")) | st.just(float("inf"))
few = settings(max_examples=15, deadline=None)


@pytest.mark.parametrize("parts", PARTS)
@few
@given(order=st.permutations(range(SLOTS)), seed=st.integers(0, 2**31))
def test_who_changes_the_order_of_assets_changes_the_order_of_weights(
    parts: tuple[str, str], order: list[int], seed: int
) -> None:
    policy, seen = NETWORKS[parts], observations(4, SLOTS, seed)
    other = permuted(seen, order)
    with torch.no_grad():
        loc, scale, used = policy.actor(seen)
        other_loc, other_scale, other_used = policy.actor(other)

        numbers = [*order, SLOTS]
        torch.testing.assert_close(other_loc, loc[:, numbers], atol=2e-5, rtol=2e-5)
        torch.testing.assert_close(other_scale, scale[:, numbers])
        assert torch.equal(other_used, used[:, numbers])
        torch.testing.assert_close(policy.critic(other), policy.critic(seen), atol=2e-5, rtol=2e-5)
        weights = policy.actor.actions.to_env(loc, used)
        torch.testing.assert_close(
            policy.actor.actions.to_env(other_loc, other_used),
            weights[:, numbers],
            atol=1e-4,
            rtol=1e-4,
        )


@pytest.mark.parametrize("parts", PARTS)
@few
@given(junk=anything, held=anything, seed=st.integers(0, 2**31))
def test_what_stands_in_an_empty_slot_changes_nothing(
    parts: tuple[str, str], junk: float, held: float, seed: int
) -> None:
    policy, seen = NETWORKS[parts], observations(4, SLOTS, seed)
    empty = seen["mask"] == 0
    other = {name: rows.clone() for name, rows in seen.items()}
    other["windows"].transpose(1, 2)[empty] = junk
    other["weights"][:, :SLOTS][empty] = held

    for one, same in zip(policy.actor(seen), policy.actor(other), strict=True):
        assert torch.equal(one, same)
    assert torch.equal(policy.critic(seen), policy.critic(other))


@pytest.mark.parametrize("parts", PARTS)
def test_junk_in_empty_slots_leaves_gradients_finite(parts: tuple[str, str]) -> None:
    policy, seen = network(SLOTS, encoder=parts[0], backbone=parts[1]), observations(4, SLOTS)
    seen["windows"].transpose(1, 2)[seen["mask"] == 0] = float("nan")
    seen["weights"][:, :SLOTS][seen["mask"] == 0] = float("nan")

    (policy.actor(seen)[0].sum() + policy.critic(seen).sum()).backward()

    assert all(
        weights.grad is None or bool(weights.grad.isfinite().all())
        for weights in policy.parameters()
    )


@pytest.mark.parametrize("parts", PARTS)
@few
@given(more=st.integers(1, 4), seed=st.integers(0, 2**31))
def test_free_slots_beside_the_assets_change_nothing(
    parts: tuple[str, str], more: int, seed: int
) -> None:
    small, large = NETWORKS[parts], network(SLOTS + more, encoder=parts[0], backbone=parts[1])
    large.load_state_dict(small.state_dict())
    seen, wide = observations(4, SLOTS, seed), observations(4, SLOTS + more, seed)
    wide["windows"][:, :, :SLOTS] = seen["windows"]
    wide["weights"][:, [*range(SLOTS), -1]] = seen["weights"]
    wide["mask"] = torch.nn.functional.pad(seen["mask"], (0, more))
    wide["account"] = seen["account"]
    with torch.no_grad():
        loc, wide_loc = small.actor(seen)[0], large.actor(wide)[0]
        values, wide_values = small.critic(seen), large.critic(wide)

    torch.testing.assert_close(wide_loc[:, [*range(SLOTS), -1]], loc, atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(wide_values, values, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("parts", PARTS)
def test_a_new_asset_in_a_free_slot_is_read_like_the_others(parts: tuple[str, str]) -> None:
    policy, seen = NETWORKS[parts], observations(1, SLOTS)
    seen["mask"][:] = torch.tensor([1, 1, 1, 0, 1])
    seen["windows"][:, :, 3], seen["weights"][:, 3] = 0.0, 0.0
    before = policy.actor(seen)[0][0]
    seen["mask"][:, 3] = 1
    seen["windows"][:, :, 3] = seen["windows"][:, :, 0]
    seen["weights"][:, 3] = seen["weights"][:, 0]

    after = policy.actor(seen)[0][0]

    torch.testing.assert_close(after[3], after[0], atol=2e-5, rtol=2e-5)
    assert before[3] == 0.0
    others = [1, 2, 4]
    assert (after[others] != before[others]).any(), "the others know that it came"


@pytest.mark.parametrize("parts", PARTS)
def test_a_universe_without_assets_is_all_cash(parts: tuple[str, str]) -> None:
    policy, seen = NETWORKS[parts], observations(3, SLOTS)
    seen["mask"][:] = 0
    chosen = policy.choose(seen, deterministic=False)

    weights = policy.actor.actions.to_env(chosen, policy.used(seen))

    assert (weights == [[0.0] * SLOTS + [1.0]] * 3).all()
    assert policy.critic(seen).isfinite().all()


def test_moments_are_of_the_assets_that_are_there_alone() -> None:
    seen, policy = observations(32, SLOTS), network(SLOTS, backbone="mean")
    other = {name: rows.clone() for name, rows in seen.items()}
    other["windows"].transpose(1, 2)[seen["mask"] == 0] = 1e6
    again = network(SLOTS, backbone="mean")

    policy.inputs.update(seen)
    again.inputs.update(other)

    for one, same in zip(policy.buffers(), again.buffers(), strict=True):
        assert torch.equal(one, same)


def test_moments_are_those_of_all_that_was_learnt_from() -> None:
    policy = network(SLOTS, backbone="mean")
    first, second = observations(64, SLOTS, seed=1), observations(2000, SLOTS, seed=5)
    used = [seen["windows"].transpose(1, 2)[seen["mask"] != 0] for seen in (first, second)]
    everything = torch.cat(used).double().reshape(-1, 3)

    policy.inputs.update(second)
    normalizer = policy.inputs.normalizer
    assert normalizer is not None
    count, mean, variance = normalizer._moments(normalizer.names.index("windows"))

    # Before anything was seen, the variance counts as one, with no weight.
    assert count == len(everything)
    torch.testing.assert_close(mean, everything.mean(0))
    torch.testing.assert_close(variance, everything.var(0, unbiased=False))
