"""Critics of actions, and actors that stay within bounds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from sekai.policy.observations import leaves_of
from sekai.policy.settings import PolicySettings
from sekai.spaces import Box, Simplex
from sekai.training.actions import ActionMap
from sekai.training.policies.actor_critic import ActorCritic, Backbone, Features, backbone
from sekai.training.policies.off_policy import DeterministicActor, QNetwork, SquashedGaussianActor
from sekai.training.rng import RandomStream

SETTINGS = PolicySettings(net_arch=(16,))
SEEN = Box(-1.0, 1.0, (3,), np.float32)


class Slots(Backbone):
    """Three assets with two numbers each; the third may be out of use."""

    width, slots = 2, 3

    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        assets, mask = inputs["assets"], inputs["mask"]
        return Features((assets * mask.unsqueeze(-1)).sum(-2), assets, mask)


def _hill(critic: QNetwork, actions: Tensor) -> Tensor:
    inputs = {"observation": torch.zeros(len(actions), 3)}
    value: Tensor = critic(inputs, actions)[:, 0]
    return value


def test_a_hill_is_learnt_in_a_few_hundred_steps() -> None:
    with RandomStream(0):
        body = backbone(leaves_of(SEEN), SETTINGS)
        critic = QNetwork(body, ActionMap(Box(-1.0, 1.0, (1,), np.float32)), SETTINGS)
        optimiser = torch.optim.Adam(critic.parameters(), 3e-3)
        for _ in range(300):
            actions = torch.rand(64, 1) * 2 - 1
            error = _hill(critic, actions) + (actions[:, 0] - 0.4) ** 2
            optimiser.zero_grad()
            (error**2).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    actions = torch.linspace(-1, 1, 201).unsqueeze(-1)
    best = float(actions[_hill(critic, actions).argmax(), 0])
    assert abs(best - 0.4) < 0.1


def test_a_new_critic_is_nearly_indifferent() -> None:
    with RandomStream(1):
        body = backbone(leaves_of(SEEN), SETTINGS)
        critic = QNetwork(body, ActionMap(Box(-1.0, 1.0, (2,), np.float32)), SETTINGS)
        values = _hill(critic, torch.rand(100, 2) * 2 - 1).detach()

    assert float(values.max() - values.min()) < 0.1


def test_the_order_of_assets_makes_no_difference() -> None:
    with RandomStream(2):
        critic = QNetwork(Slots(), ActionMap(Simplex(4)), SETTINGS)
        assets, chosen = torch.randn(5, 3, 2), torch.randn(5, 4)
    order = [2, 0, 1]
    inputs = {"assets": assets, "mask": torch.ones(5, 3)}
    turned = {"assets": assets[:, order], "mask": torch.ones(5, 3)}

    value = critic(inputs, chosen)

    assert torch.allclose(critic(turned, chosen[:, [*order, 3]]), value, atol=1e-5)
    assert not torch.allclose(critic(inputs, chosen[:, [*order, 3]]), value, atol=1e-5)


def test_assets_out_of_use_are_not_read() -> None:
    with RandomStream(3):
        critic = QNetwork(Slots(), ActionMap(Simplex(4)), SETTINGS)
        assets, chosen = torch.randn(5, 3, 2), torch.randn(5, 4)
    mask = torch.tensor([1.0, 1.0, 0.0]).expand(5, 3)
    other, another = assets.clone(), chosen.clone()
    other[:, 2], another[:, 2] = 9.0, -9.0

    value = critic({"assets": assets, "mask": mask}, chosen)

    assert torch.equal(critic({"assets": other, "mask": mask}, another), value)


def test_means_of_bounded_numbers_stay_where_they_make_a_difference() -> None:
    leaves = leaves_of(SEEN)
    for space, stays in ((Box(-3.0, 5.0, (2,)), True), (Box(-np.inf, np.inf, (2,)), False)):
        with RandomStream(4):
            network = ActorCritic(leaves, ActionMap(space), SETTINGS)
            with torch.no_grad():
                network.actor.head.rest.bias.fill_(30.0)  # type: ignore[union-attr, operator]
            means = network.actor.distribution({"observation": torch.randn(8, 3)}).mode

        assert bool((means.abs() <= 1.0).all()) is stays
        assert ActionMap(space).is_bounded is stays


def test_weights_of_a_simplex_are_tried_less_widely_than_other_numbers() -> None:
    leaves = leaves_of(SEEN)
    seen = {"observation": torch.zeros(1, 3)}

    wide, narrow = (
        ActorCritic(leaves, ActionMap(space), PolicySettings(std_init=0.5))
        .actor(seen)[1][0, 0]
        .item()
        for space in (Box(-1.0, 1.0, (2,)), Simplex(2))
    )

    assert np.isclose(wide, 0.5)
    assert np.isclose(narrow, 0.2)


def test_squashed_actors_choose_between_the_bounds() -> None:
    leaves, actions = leaves_of(SEEN), ActionMap(Box(-1.0, 1.0, (2,), np.float32))
    with RandomStream(5), torch.no_grad():
        squashed = SquashedGaussianActor(backbone(leaves, SETTINGS), actions, 3.0)
        precise = DeterministicActor(backbone(leaves, SETTINGS), actions, 3.0)
        inputs = {"observation": 100.0 * torch.randn(200, 3)}
        free = squashed.choose(inputs, deterministic=False)

        assert float(free.abs().max()) <= 1.0
        assert float(free.std()) > 0.5
        assert torch.equal(squashed.choose(inputs, True), squashed.choose(inputs, True))
        assert float(precise(inputs).abs().max()) <= 1.0
