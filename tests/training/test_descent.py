"""Steps against a gradient are those of torch and TorchRL, in less time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.objectives import ClipPPOLoss

from sekai.training import A2C, PPO, DivergedError
from sekai.training.descent import adam, mean_of, taken
from sekai.training.learner import Learner
from sekai.training.torchrl_modules import sum_of_losses
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain
from tests.training.optima.kelly import Kelly


def learner_of(**changes: Any) -> Learner:
    agent: Any = PPO(vector(Kelly(6, (0.5, 0.9))), seed=1, rollout_steps=16, **changes)
    agent.fit(6 * 16)
    learner: Learner = agent.learners[""]
    return learner


def samples_of(learner: Learner) -> TensorDict:
    samples = learner.batch()
    # As if the policy had moved: some ratios are clipped, others are not.
    moved = torch.linspace(-0.5, 0.5, len(samples))
    samples["action_log_prob"] = learner.log_probs(samples) + moved
    return samples


def gradients(loss: Any, learner: Learner, samples: TensorDict) -> tuple[Any, list[torch.Tensor]]:
    found = loss(samples.clone())
    weights = learner.descent.weights
    return found, list(torch.autograd.grad(sum_of_losses(found), weights))


@pytest.mark.parametrize("entropy", [0.0, 0.01])
def test_the_loss_is_that_of_torchrl(entropy: float) -> None:
    learner = learner_of(entropy_weight=entropy)
    own: Any = learner.descent.loss
    theirs = ClipPPOLoss(
        own.actor_network, own.critic_network, clip_epsilon=0.2, entropy_bonus=entropy > 0,
        entropy_coeff=entropy, critic_coeff=0.5, loss_critic_type="l2", normalize_advantage=True,
        functional=False,
    )  # fmt: skip
    samples = samples_of(learner)

    found, slopes = gradients(own, learner, samples)
    wanted, oracles = gradients(theirs, learner, samples)

    assert 0.0 < float(found["clip_fraction"]) < 1.0
    assert set(found.keys()) <= set(wanted.keys())
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], msg=name)
    for slope, oracle in zip(slopes, oracles, strict=True):
        torch.testing.assert_close(slope, oracle)


@pytest.mark.parametrize("norm", [1e-3, 1e3])
def test_gradients_are_cut_as_torch_cuts_them(norm: float) -> None:
    learner = learner_of()
    descent = learner.descent
    descent.norm = norm
    weights = descent.weights
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    given = [weight.grad.clone() for weight in weights if weight.grad is not None]

    length = descent._cut()

    cut = [weight.grad for weight in weights]
    for weight, gradient in zip(weights, given, strict=True):
        weight.grad = gradient
    wanted = torch.nn.utils.clip_grad_norm_(weights, norm)
    torch.testing.assert_close(length, wanted)
    for shortened, weight in zip(cut, weights, strict=True):
        torch.testing.assert_close(shortened, weight.grad)


def test_samples_are_taken_in_the_order_asked_for() -> None:
    samples = learner_of().batch()
    places = torch.randperm(len(samples))[:7]

    found, wanted = taken(samples, places), samples[places]

    assert found.batch_size == wanted.batch_size
    for name in wanted.keys(include_nested=True, leaves_only=True):
        assert torch.equal(found[name], wanted[name])


def test_the_optimiser_changes_weights_as_plain_adam_does() -> None:
    own, plain = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    plain.load_state_dict(own.state_dict())
    optimisers = adam(own, 1e-2), torch.optim.Adam(plain.parameters(), 1e-2, eps=1e-5)
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
@pytest.mark.parametrize("changes", [{"trace": 0.0}, {"discount": 0.0}], ids=str)
def test_advantages_may_look_one_step_ahead(kind: type[Any], changes: dict[str, float]) -> None:
    agent = kind(vector(Chain(3, False, episode_steps=4)), seed=2, rollout_steps=6, **changes)
    agent.fit(36)
    learner = agent.learners[""]

    batch = learner.batch()

    values = learner._values(7 * 3).detach().reshape(7, 3)
    after = agent.rollout.next_values(values, agent.network.critic)
    rewards = torch.from_numpy(agent.rollout.rewards) / learner.scaler.scale
    wanted = rewards + agent.settings.discount * after - values[:-1]
    np.testing.assert_allclose(batch["advantage"].reshape(6, 3), wanted.detach(), atol=1e-5)


def test_rewards_that_are_no_numbers_are_an_error_and_change_no_weight() -> None:
    agent = PPO(
        vector(Kelly(4)), seed=1, rollout_steps=8, normalise_rewards=False,
        reward_transform=lambda steps: steps.rewards,
    )  # fmt: skip
    agent.fit(32)
    before = {name: part.clone() for name, part in agent.network.named_parameters()}
    learner = agent.learners[""]
    samples = learner.batch()
    samples["action_log_prob"] = learner.log_probs(samples)
    samples["advantage"][3] = float("nan")

    with pytest.raises(DivergedError, match="the gradient is not finite.*learning_rate is too"):
        learner.descend(samples)

    for name, part in agent.network.named_parameters():
        assert torch.equal(part, before[name])


def test_choices_that_have_become_certain_leave_losses_finite() -> None:
    learner = learner_of()
    samples = samples_of(learner)
    samples["action_log_prob"] = samples["action_log_prob"] - 200.0

    told = learner.descend(samples)

    assert all(bool(value.isfinite()) for value in told.values())
