"""Losses and gradient steps are those of torch and TorchRL, in less time."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torchrl.objectives import ClipPPOLoss

from sekai.training import A2C, PPO, DivergedError
from sekai.training.gradient_step import GradientStep, mean_of, total_loss
from sekai.training.learner import Batch, Learner, next_values
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain
from tests.training.optima.kelly import Kelly


def agent_of(**changes: Any) -> Any:
    agent: Any = PPO(vector(Kelly(6, (0.5, 0.9))), seed=1, n_steps=16, **changes)
    return agent.fit(6 * 16)


def learner_of(**changes: Any) -> Learner:
    learner: Learner = agent_of(**changes).learners[""]
    return learner


def samples_of(learner: Learner) -> Batch:
    batch = learner.batch()
    # As if the policy had moved: some ratios are clipped, others are not.
    moved = torch.linspace(-0.5, 0.5, len(batch))
    return dataclasses.replace(batch, log_probs=learner.log_probs(batch) + moved)


class TorchRLActor(ProbabilisticTensorDictSequential):  # type: ignore[misc]
    """The actor of a learner, as losses of TorchRL read it."""

    def __init__(self, learner: Learner) -> None:
        names = learner.network.inputs.names
        network = TensorDictModule(
            torch.nn.Identity(), in_keys=[("observation", name) for name in names], out_keys=["loc"]
        )
        chooser = ProbabilisticTensorDictModule(
            in_keys=["loc"], out_keys=["action"], log_prob_key="action_log_prob"
        )
        super().__init__(network, chooser)
        self.learner, self.actor = learner, learner.network.actor

    def get_dist(self, tensordict: Any, **_: Any) -> Any:
        return self.actor.distribution(dict(tensordict["observation"].items()), True)


class TorchRLCritic(TensorDictModuleBase):  # type: ignore[misc]
    """The critic of a learner, as losses of TorchRL read it."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.critic = learner.network.critic
        self.in_keys = [("observation", name) for name in learner.network.inputs.names]
        self.out_keys = ["state_value"]

    def forward(self, tensordict: Any) -> Any:
        seen = dict(tensordict["observation"].items())
        return tensordict.set("state_value", self.critic(seen, True))


@pytest.mark.parametrize("entropy", [0.0, 0.01])
def test_the_loss_is_that_of_torchrl(entropy: float) -> None:
    agent = agent_of(ent_coef=entropy)
    learner = agent.learners[""]
    theirs = ClipPPOLoss(
        TorchRLActor(learner),
        TorchRLCritic(learner),
        clip_epsilon=0.2,
        entropy_bonus=entropy > 0,
        entropy_coeff=entropy,
        critic_coeff=0.5,
        loss_critic_type="l2",
        normalize_advantage=True,
        functional=False,
    )
    batch = samples_of(learner)
    samples = TensorDict(
        {
            "observation": batch.observations,
            "action": batch.actions,
            "advantage": batch.advantages.unsqueeze(-1),
            "value_target": batch.returns.unsqueeze(-1),
            "action_log_prob": batch.log_probs,
        },
        batch_size=[len(batch)],
    )
    weights = learner.gradient_step.weights

    losses, expected = agent._loss(learner, batch), theirs(samples)

    assert 0.0 < float(losses["clip_fraction"]) < 1.0
    assert set(losses) <= set(expected.keys())
    for name, value in losses.items():
        torch.testing.assert_close(value, expected[name], msg=name)
    slopes = torch.autograd.grad(total_loss(losses), weights)
    oracles = torch.autograd.grad(total_loss(dict(expected.items())), weights)
    for slope, oracle in zip(slopes, oracles, strict=True):
        torch.testing.assert_close(slope, oracle)


@pytest.mark.parametrize("norm", [1e-3, 1e3])
def test_gradients_are_cut_as_torch_cuts_them(norm: float) -> None:
    learner = learner_of()
    step = learner.gradient_step
    step.max_grad_norm = norm
    weights = step.weights
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    given = [weight.grad.clone() for weight in weights if weight.grad is not None]

    length = step._clip()

    cut = [weight.grad for weight in weights]
    for weight, gradient in zip(weights, given, strict=True):
        weight.grad = gradient
    wanted = torch.nn.utils.clip_grad_norm_(weights, norm)
    torch.testing.assert_close(length, wanted)
    for shortened, weight in zip(cut, weights, strict=True):
        torch.testing.assert_close(shortened, weight.grad)


def test_samples_are_taken_in_the_order_asked_for() -> None:
    batch = learner_of().batch()
    indices = torch.randperm(len(batch))[:7]

    selected = batch.select(indices)

    assert len(selected) == 7
    assert torch.equal(selected.actions, batch.actions[indices])
    assert torch.equal(selected.returns, batch.returns[indices])
    for name, rows in batch.observations.items():
        assert torch.equal(selected.observations[name], rows[indices])


def test_the_optimiser_changes_weights_as_plain_adam_does() -> None:
    own, plain = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    plain.load_state_dict(own.state_dict())
    settings = PPO.settings_type(learning_rate=1e-2)
    optimisers = (
        GradientStep(own, settings).optimizer,
        torch.optim.Adam(plain.parameters(), 1e-2, eps=1e-5),
    )
    rows = torch.randn(20, 5)

    for network, optimiser in zip((own, plain), optimisers, strict=True):
        for _ in range(5):
            optimiser.zero_grad()
            network(rows).square().mean().backward()
            optimiser.step()

    torch.testing.assert_close(own.weight, plain.weight)


def test_means_are_of_those_who_told() -> None:
    told = [{"loss": torch.tensor(1.0)}, {"loss": torch.tensor(2.0), "other": torch.tensor(5.0)}]

    assert mean_of(told) == {"loss": 1.5, "other": 5.0}


@pytest.mark.parametrize("kind", [PPO, A2C])
@pytest.mark.parametrize("changes", [{"gae_lambda": 0.0}, {"gamma": 0.0}], ids=str)
def test_advantages_may_look_one_step_ahead(kind: type[Any], changes: dict[str, float]) -> None:
    agent = kind(vector(Chain(3, False, episode_steps=4)), seed=2, n_steps=6, **changes)
    agent.fit(36)
    learner = agent.learners[""]

    batch = learner.batch()

    values = learner._values(7 * 3).detach().reshape(7, 3)
    after = next_values(agent.rollout.cuts, values, agent.network.critic)
    rewards = torch.from_numpy(agent.rollout.rewards) / learner.scaler.scale
    wanted = rewards + agent.settings.gamma * after - values[:-1]
    np.testing.assert_allclose(batch.advantages.reshape(6, 3), wanted.detach(), atol=1e-5)


def test_rewards_that_are_no_numbers_are_an_error_and_change_no_weight() -> None:
    agent = PPO(
        vector(Kelly(4)),
        seed=1,
        n_steps=8,
        norm_reward=False,
        reward_transform=lambda steps: steps.rewards,
    )
    agent.fit(32)
    before = {name: part.clone() for name, part in agent.network.named_parameters()}
    learner = agent.learners[""]
    batch = learner.batch()
    batch = dataclasses.replace(batch, log_probs=learner.log_probs(batch))
    batch.advantages[3] = float("nan")

    with pytest.raises(DivergedError, match="the gradient is not finite.*learning_rate is too"):
        learner.gradient_step(agent._loss(learner, batch))

    for name, part in agent.network.named_parameters():
        assert torch.equal(part, before[name])


def test_choices_that_have_become_certain_leave_losses_finite() -> None:
    agent = agent_of()
    learner = agent.learners[""]
    batch = samples_of(learner)
    assert batch.log_probs is not None
    batch = dataclasses.replace(batch, log_probs=batch.log_probs - 200.0)

    told = learner.gradient_step(agent._loss(learner, batch))

    assert all(bool(value.isfinite()) for value in told.values())
