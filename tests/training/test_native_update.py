"""Native gradient steps: equal to those of torch, and to themselves with any number of threads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from sekai import Env
from sekai.core import ResetResult, StepResult
from sekai.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from sekai.training import A2C, PPO, DivergedError
from sekai.training.gradient_step import GradientStep, total_loss
from sekai.training.learner import Batch, Learner
from sekai.training.on_policy import OnPolicyAgent

SPACES: dict[str, Space[Any]] = {
    "bounded": Box(-1.0, 2.0, (3,), np.float64),
    "unbounded": Box(-np.inf, np.inf, (2,), np.float64),
    "choice": Discrete(5),
    "choices": MultiDiscrete([3, 2, 4]),
}


class Noise(Env[Any, Any]):
    """Env of random observations, rewards and action masks."""

    def __init__(self, actions: Space[Any], masks: int = 0) -> None:
        self.action_space = actions
        seen = Box(-np.inf, np.inf, (7,), np.float32)
        self.masks = masks
        self.observation_space = seen
        if masks:
            mask = Box(0, 1, (masks,), np.int8)
            self.observation_space = Dict({"seen": seen, "action_mask": mask})

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        if seed is not None:
            self.draws = np.random.default_rng(seed)
        return ResetResult(self._observe(), {})

    def step(self, action: Any) -> StepResult[Any]:
        terminated, truncated = (self.draws.random(2) < 0.1).tolist()
        reward = float(self.draws.normal())
        return StepResult(self._observe(), reward, terminated, truncated, {})

    def _observe(self) -> Any:
        seen = self.draws.normal(size=7).astype(np.float32)
        if not self.masks:
            return seen
        mask = (self.draws.random(self.masks) < 0.6).astype(np.int8)
        # One option of each choice is always allowed.
        mask[[0, 3] if self.masks == 9 else [0]] = 1
        mask[-1] = 1
        return {"seen": seen, "action_mask": mask}


def agent_of(kind: type[PPO | A2C], name: str, **settings: Any) -> PPO | A2C:
    masks = settings.pop("masks", 0)
    policy = {"backbone": "mlp", **settings.pop("policy", {})}
    defaults = {"n_envs": 4, "n_steps": 40, "seed": 5, "ent_coef": 0.01}
    return kind(lambda: Noise(SPACES[name], masks), policy=policy, **{**defaults, **settings})


def collected(agent: OnPolicyAgent) -> tuple[Learner, Batch]:
    """Batch of a first rollout."""
    learner = agent.learners[""]
    with agent.randomness:
        agent._start(3)
        agent._collect()
    return learner, learner.batch()


CASES = [
    (PPO, "bounded", {}),
    (PPO, "unbounded", {"policy": {"activation": "relu", "net_arch": (33, 17, 5)}}),
    (PPO, "choice", {"masks": 5}),
    (PPO, "choices", {"masks": 9, "policy": {"activation": "silu"}}),
    (A2C, "bounded", {"normalize_advantage": True, "policy": {"net_arch": ()}}),
    (A2C, "choices", {"policy": {"net_arch": (100,)}}),
]


@pytest.mark.parametrize(("kind", "name", "settings"), CASES)
def test_gradients_are_those_of_autograd(
    kind: type[PPO | A2C], name: str, settings: dict[str, Any]
) -> None:
    agent = agent_of(kind, name, **settings)
    learner, batch = collected(agent)
    native = learner.native_update
    assert native is not None
    old = learner.log_probs(batch) + 0.3 * torch.randn(len(batch))
    batch = Batch(**{**vars(batch), "log_probs": old})

    total_loss(agent._loss(learner, batch)).backward()  # type: ignore[no-untyped-call]
    samples = native.samples(batch.observations, batch.actions, batch.advantages, batch.returns)
    loss = agent.native_loss()
    assert loss is not None
    gradient = native.gradient(samples, old.numpy() if kind is PPO else None, loss)

    for weight, own in zip(native.weights, gradient, strict=True):
        assert weight.grad is not None
        scale = float(weight.grad.abs().max()) + 1e-6
        assert float((own - weight.grad).abs().max()) < 1e-5 * scale


@pytest.mark.parametrize(("kind", "name", "settings"), CASES)
def test_an_update_agrees_with_that_of_torch(
    kind: type[PPO | A2C], name: str, settings: dict[str, Any]
) -> None:
    agents = [agent_of(kind, name, update=mode, **settings) for mode in ("native", "torch")]
    batches = [collected(agent) for agent in agents]
    for agent in agents:
        agent.network.load_state_dict(agents[0].network.state_dict())

    metrics = []
    for agent, (learner, batch) in zip(agents, batches, strict=True):
        torch.manual_seed(0)
        metrics.append(agent._update(learner, batch))

    native, by_torch = (dict(agent.network.state_dict()) for agent in agents)
    for weight, other in zip(native.values(), by_torch.values(), strict=True):
        assert torch.allclose(weight, other, rtol=1e-4, atol=2e-5)
    assert metrics[0].keys() == metrics[1].keys()
    for metric, value in metrics[0].items():
        assert value == pytest.approx(metrics[1][metric], rel=2e-3, abs=2e-5), metric


def test_an_update_is_the_same_with_any_number_of_threads() -> None:
    weights = []
    first = agent_of(PPO, "bounded", n_steps=400)
    _, batch = collected(first)
    for threads in (1, 2, 3):
        agent = agent_of(PPO, "bounded", n_steps=400, batch_size=900, threads=threads)
        agent.network.load_state_dict(first.network.state_dict())
        learner = agent.learners[""]
        torch.manual_seed(0)
        agent._update(learner, batch)
        weights.append([weight.detach().numpy().tobytes() for weight in agent.network.parameters()])

    assert weights[0] == weights[1] == weights[2]


def test_a_batch_that_diverges_leaves_the_weights_unchanged() -> None:
    agent = agent_of(PPO, "bounded")
    learner, batch = collected(agent)
    before = [weight.clone() for weight in agent.network.parameters()]
    batch.returns[3] = torch.inf

    with pytest.raises(DivergedError):
        agent._update(learner, Batch(**{**vars(batch)}))

    steps = next(iter(learner.gradient_step.optimizer.state.values()))["step"]
    unchanged = [
        torch.equal(*pair) for pair in zip(before, agent.network.parameters(), strict=True)
    ]
    # The first minibatches may not hold the infinite return.
    assert all(unchanged) or int(steps) > 0
    assert all(torch.isfinite(weight).all() for weight in agent.network.parameters())


def test_values_are_those_of_torch() -> None:
    agent = agent_of(PPO, "bounded")
    learner, batch = collected(agent)
    assert learner.native_update is not None

    values = learner.native_update.values(batch.observations)

    expected = agent.network.critic(batch.observations, True).squeeze(-1)
    assert torch.allclose(values, expected, atol=1e-5)


def test_updates_stop_at_the_kl_limit() -> None:
    counts = []
    for mode in ("native", "torch"):
        agent = agent_of(
            PPO, "choice", update=mode, n_epochs=50, learning_rate=1e-2, target_kl=0.01
        )
        learner, batch = collected(agent)
        torch.manual_seed(0)
        agent._update(learner, batch)
        state = next(iter(learner.gradient_step.optimizer.state.values()))
        counts.append(int(state["step"]))

    assert counts[0] == counts[1] < 200


def test_torch_continues_what_native_updates_began() -> None:
    agent = agent_of(PPO, "bounded").fit(320)
    learner = agent.learners[""]
    begun = int(next(iter(learner.gradient_step.optimizer.state.values()))["step"])
    state = {name: tensor.clone() for name, tensor in agent.network.state_dict().items()}
    optimizer = learner.gradient_step.optimizer.state_dict()

    other = agent_of(PPO, "bounded", update="torch")
    other.network.load_state_dict(state)
    step: GradientStep = other.learners[""].gradient_step
    step.optimizer.load_state_dict(optimizer)
    _, batch = collected(other)

    other._update(other.learners[""], batch)

    assert int(next(iter(step.optimizer.state.values()))["step"]) == begun + 30


def test_a_native_update_that_is_impossible_names_the_reason() -> None:
    policy = {"share_features_extractor": True}

    with pytest.raises(ValueError, match="update cannot be 'native': .*share the backbone"):
        agent_of(PPO, "bounded", update="native", policy=policy)


def test_a_subclass_with_another_loss_is_trained_by_torch() -> None:
    class Other(PPO):
        def _loss(self, learner: Learner, batch: Batch) -> dict[str, torch.Tensor]:
            return {name: 2 * value for name, value in super()._loss(learner, batch).items()}

    agent = agent_of(Other, "bounded")

    assert agent.learners[""].native_update is None


def test_native_updates_are_repeatable() -> None:
    agents = [agent_of(PPO, "bounded").fit(320) for _ in range(2)]

    pairs = itertools.zip_longest(*(agent.network.parameters() for agent in agents))
    assert all(torch.equal(*pair) for pair in pairs)


def test_large_networks_are_trained_by_torch_unless_asked_for() -> None:
    policy = {"net_arch": (512, 256)}

    large = agent_of(PPO, "bounded", policy=policy)

    assert large.learners[""].native_update is None
    assert agent_of(PPO, "bounded", policy=policy, update="native").learners[""].native_update
    assert agent_of(PPO, "bounded").learners[""].native_update
