"""What is masked is never chosen, and never counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Categorical, Independent, Normal

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError
from sekai.policy.actions import flat_mask
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Simplex, Space, Tuple
from sekai.spaces.masks import allows
from sekai.training import PPO
from sekai.training.actions import ActionMap
from sekai.training.policies.actor_critic import DiagGaussian
from sekai.wrappers import ActionMask
from tests.training.policies.universe import network, observations

SLOTS = 4
MASKS: dict[type, Any] = {Discrete: [1, 0, 1], MultiDiscrete: ([0, 1], [1, 0, 1])}


class Picky(Env[Any, Any]):
    """Allows some picks by turns, and pays for the last that is allowed."""

    def __init__(self, action_space: Space[Any], shown: bool = False, parts: bool = False) -> None:
        self.action_space, self._parts = action_space, parts
        self.counts = list(ActionMap(action_space).choices)
        seen: Space[Any] = Box(-1.0, 1.0, (2,), np.float32)
        flat: Space[Any] = MultiBinary(sum(self.counts))
        mask = Tuple([MultiBinary(count) for count in self.counts]) if parts else flat
        self.shown = shown
        self.observation_space = Dict({"action_mask": mask, "seen": seen}) if shown else seen
        self.time = 0
        self.taken: list[Any] = []

    def masks(self) -> list[Any]:
        return [
            np.array([(at + self.time) % count != 0 for at in range(count)], np.int8)
            for count in self.counts
        ]

    def action_mask(self) -> Any:
        masks = self.masks()
        return masks[0] if isinstance(self.action_space, Discrete) else tuple(masks)

    def observe(self) -> Any:
        seen = np.array([self.time % 2, self.time / 10], np.float32)
        flat = tuple(self.masks()) if self._parts else np.concatenate(self.masks())
        return {"action_mask": flat, "seen": seen} if self.shown else seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self.time = 0
        return ResetResult(self.observe(), {})

    def step(self, action: Any) -> StepResult[Any]:
        for mask, pick in zip(self.masks(), np.ravel(action), strict=True):
            assert mask[pick], f"{pick} was forbidden by {mask}"
        self.taken.append(np.array(action))
        self.time += 1
        return StepResult(self.observe(), float(np.sum(action)), False, self.time == 5, {})


SPACES = [Discrete(3), MultiDiscrete([2, 3])]
QUICK: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("parts", [False, True])
def test_masks_in_observations_are_kept_to_while_learning(space: Space[Any], parts: bool) -> None:
    agent = PPO(lambda: Picky(space, shown=True, parts=parts), **QUICK)

    agent.fit(64)

    env = Picky(space, shown=True, parts=parts)
    seen = env.reset(seed=0).observation
    for _ in range(5):
        seen = env.step(agent.predict(seen, deterministic=False)).observation


@pytest.mark.parametrize("space", SPACES)
def test_masks_in_infos_are_kept_to_while_learning(space: Space[Any]) -> None:
    agent = PPO(lambda: ActionMask(Picky(space)), **QUICK).fit(64)

    stored = agent.rollout.observations()["action_mask"]

    assert not stored.bool().all()
    chosen, counts = agent.rollout.chosen, list(agent.actions.choices)
    for pick, mask in zip(chosen.unbind(-1), torch.split(stored[:-1], counts, dim=-1), strict=True):
        assert mask.gather(-1, pick.unsqueeze(-1)).bool().all()


def test_masks_in_infos_and_in_observations_teach_the_same() -> None:
    told = PPO(lambda: ActionMask(Picky(Discrete(3))), **QUICK).fit(96)
    shown = PPO(lambda: Picky(Discrete(3), shown=True), **QUICK).fit(96)

    weights = shown.network.state_dict().values()
    for one, same in zip(told.network.state_dict().values(), weights, strict=True):
        assert torch.equal(one, same)


@pytest.mark.parametrize("space", SPACES)
def test_predict_keeps_to_the_mask_that_it_is_given(space: Space[Any]) -> None:
    agent = PPO(lambda: ActionMask(Picky(space)), **QUICK)
    mask = MASKS[type(space)]
    seen = np.zeros(2, np.float32)

    for _ in range(30):
        pick = agent.predict(seen, deterministic=False, action_mask=mask)
        assert space.contains(pick)
        assert allows(space, mask, pick)
    batch = agent.predict_batch(np.zeros((3, 2), np.float32), action_mask=[mask, None, mask])
    assert len(batch) == 3
    assert space.contains(agent.predict(seen)), "without a mask everything is allowed"


def test_a_mask_of_another_size_is_refused() -> None:
    agent = PPO(lambda: ActionMask(Picky(Discrete(3))), **QUICK)

    with pytest.raises(SpaceError, match="action_mask needs 3 numbers.*got 2"):
        agent.predict(np.zeros(2, np.float32), action_mask=[1, 0])
    with pytest.raises(SpaceError, match="Discrete and MultiDiscrete"):
        flat_mask(Simplex(3), [1, 0, 1])


def test_an_observed_mask_of_another_size_is_refused() -> None:
    class Odd(Picky):
        def __init__(self) -> None:
            super().__init__(Discrete(3), shown=True)
            self.observation_space = Dict({"action_mask": MultiBinary(4), "seen": MultiBinary(2)})

    with pytest.raises(SpaceError, match="action_mask needs 3 numbers.*got 4"):
        PPO(Odd, **QUICK)


@settings(max_examples=20, deadline=None)
@given(used=st.lists(st.booleans(), min_size=4, max_size=4), seed=st.integers(0, 2**31))
def test_numbers_that_do_not_count_are_left_out(used: list[bool], seed: int) -> None:
    stream = torch.Generator().manual_seed(seed)
    loc, scale = torch.randn(3, 4, generator=stream), torch.rand(3, 4, generator=stream) + 0.1
    mask = torch.tensor(used)
    chances = DiagGaussian(loc, scale, mask.expand(3, 4))
    oracle: Any = Independent(Normal(loc[:, mask], scale[:, mask]), 1)
    value = chances.sample()

    torch.testing.assert_close(chances.log_prob(value), oracle.log_prob(value[:, mask]))
    torch.testing.assert_close(chances.entropy(), oracle.entropy())
    assert torch.equal(value[:, ~mask], loc[:, ~mask])


@pytest.mark.parametrize("backbone", ["mean", "attention"])
def test_losses_see_which_numbers_count(backbone: str) -> None:
    policy, seen = network(SLOTS, backbone=backbone), observations(6, SLOTS)

    chances = policy.actor.distribution(seen)
    value = chances.sample()

    used = policy.used(seen)
    assert used is not None
    loc, scale, _ = policy.actor(seen)
    oracle: Any = Normal(loc, scale)
    each = oracle.log_prob(value)
    torch.testing.assert_close(chances.log_prob(value), (each * used).sum(-1))
    torch.testing.assert_close(chances.entropy(), (oracle.entropy() * used).sum(-1))
    assert (value[~used] == 0).all()


@pytest.mark.parametrize("space", [Simplex(SLOTS + 1), Box(-2.0, 2.0, (SLOTS + 1,), np.float64)])
def test_the_weight_of_an_empty_slot_is_exactly_zero(space: Space[Any]) -> None:
    policy, seen = network(SLOTS, space, backbone="mean"), observations(50, SLOTS)

    actions = ActionMap(space).to_env(policy.choose(seen, False), policy.used(seen))

    empty = seen["mask"].numpy() == 0
    assert (actions[:, :SLOTS][empty] == 0.0).all()
    assert (actions[:, :SLOTS][~empty] != 0.0).all()
    assert all(space.contains(action) for action in actions)


def test_a_number_that_does_not_count_is_as_near_zero_as_its_bounds_allow() -> None:
    actions = ActionMap(Box(np.array([1.0, -3.0]), np.array([2.0, 3.0]), dtype=np.float64))

    acted = actions.to_env(torch.tensor([[0.5, 0.5]]), torch.zeros(1, 2, dtype=torch.bool))

    assert acted.tolist() == [[1.0, 0.0]]


def test_tilts_of_empty_slots_are_always_the_middle_and_count_for_nothing() -> None:
    policy, seen = (
        network(SLOTS, MultiDiscrete([3] * SLOTS), backbone="mean"),
        observations(40, SLOTS),
    )
    empty = seen["mask"] == 0

    chances = policy.actor.distribution(seen)
    picks = chances.sample()

    assert (picks[empty] == 1).all()
    (logits,) = policy.actor(seen)
    oracle: Any = Categorical(logits=logits.reshape(40, SLOTS, 3))
    torch.testing.assert_close(chances.log_prob(picks), (oracle.log_prob(picks) * ~empty).sum(-1))
    torch.testing.assert_close(chances.entropy(), (oracle.entropy() * ~empty).sum(-1))
    assert len(set(picks[~empty].tolist())) == 3


def test_an_action_mask_goes_before_the_middle_of_an_empty_slot() -> None:
    policy, seen = network(2, MultiDiscrete([3, 3]), backbone="mean"), observations(8, 2)
    seen["mask"][:, 0] = 0
    seen["action_mask"] = torch.tensor([[1, 0, 0, 0, 1, 1]]).expand(8, 6)

    picks = policy.actor.distribution(seen).sample()

    assert (picks[:, 0] == 0).all()
    assert (picks[:, 1] > 0).all()
