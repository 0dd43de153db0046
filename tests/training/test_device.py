"""Devices of networks: names, errors, and tensors that follow the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sekai.policy.observations import leaves_of
from sekai.spaces import Box, Dict, Discrete, MultiDiscrete, Simplex, Space
from sekai.training import (
    A2C,
    DDPG,
    DQN,
    MADDPG,
    PPO,
    QMIX,
    SAC,
    TD3,
    Agent,
    RecurrentPPO,
    load_policy,
)
from sekai.training.actions import ActionMap
from sekai.training.device import resolve_device
from sekai.training.learner import Batch
from sekai.training.off_policy import Transitions
from tests.training.barred import PICKS, Barred
from tests.worlds import RandomWalk

SEEN = Dict({"numbers": Box(-1.0, 1.0, (3,), np.float32), "kind": Discrete(4, start=1)})
CUDA = torch.device("cuda")


@pytest.mark.parametrize("kind", [PPO, RecurrentPPO, A2C, DDPG, TD3, SAC])
def test_the_cpu_is_the_default_and_changes_nothing(kind: type[Agent]) -> None:
    small: dict[str, Any] = {"n_envs": 2, "seed": 3}
    if kind in (DDPG, TD3, SAC):
        small |= {"learning_starts": 8, "batch_size": 8, "steps_per_iteration": 8}
    named: dict[str, Any] = {"device": "cpu"}
    agents = [kind(RandomWalk, **small, **more).fit(32) for more in ({}, named)]

    pairs = zip(*(agent.network.parameters() for agent in agents), strict=True)
    assert all(torch.equal(own, other) for own, other in pairs)
    assert agents[0].device == torch.device("cpu")


@pytest.mark.parametrize("kind", [PPO, RecurrentPPO, A2C, DDPG, TD3, SAC, DQN, MADDPG, QMIX])
def test_unknown_and_missing_devices_are_refused_with_the_choices(kind: type[Agent]) -> None:
    with pytest.raises(ValueError, match="expected 'cpu', 'cuda', 'cuda:N', 'mps' or 'auto'"):
        kind(RandomWalk, device="gpu")
    with pytest.raises(ValueError, match="unsupported device 'meta'"):
        kind(RandomWalk, device="meta")
    with pytest.raises(ValueError, match=r"'cuda:99' is not available; .* 'auto'"):
        kind(RandomWalk, device="cuda:99")


def test_auto_takes_the_best_device_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, expected in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=cuda: found)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda found=mps: found)
        assert resolve_device("auto").type == expected


def test_saved_agents_load_on_a_named_device(tmp_path: Path) -> None:
    agent = PPO(RandomWalk, n_envs=2, n_steps=4, device=torch.device("cpu")).fit(8)
    path = agent.save(tmp_path)

    policy: Any = load_policy(path, device="cpu", backend="torch")
    loaded = PPO.resume(path, env=RandomWalk, device="auto")
    seen = np.zeros(2, np.float32)
    assert np.array_equal(policy.predict(seen), agent.predict(seen))
    assert loaded.device == resolve_device("auto")
    with pytest.raises(ValueError, match="is not available"):
        load_policy(path, device="cuda:99")


def _network(kind: type[Agent], space: Space[Any]) -> Any:
    """Network on a simulated GPU, whose tensors have devices and shapes without values."""
    actions = ActionMap(space)
    with CUDA:
        network: Any = kind.make_network(leaves_of(SEEN), actions, kind.settings_type())
        if kind in (DDPG, TD3, SAC):
            network.add_critics(kind.critic_count)
    # Built by an agent, moments stay on the CPU; here they were made on the device.
    network.inputs.normalizer = None
    return network, actions


def _observed(rows: int = 5) -> dict[str, torch.Tensor]:
    return {"numbers": torch.zeros(rows, 3), "kind": torch.ones(rows, dtype=torch.int64)}


@pytest.mark.parametrize(
    "space",
    [Discrete(3), MultiDiscrete([2, 3]), Box(-1.0, 1.0, (2,), np.float32), Simplex(3)],
    ids=["discrete", "multi-discrete", "box", "simplex"],
)
def test_actors_and_critics_work_on_the_device_of_the_network(space: Space[Any]) -> None:
    with FakeTensorMode():
        network, _ = _network(PPO, space)
        masked = _observed()
        if isinstance(space, (Discrete, MultiDiscrete)):
            masked["action_mask"] = torch.ones(5, sum(ActionMap(space).choices))
        for is_mode in (True, False):
            assert network.choose(masked, is_mode).device.type == "cuda"
        distribution = network.actor.distribution(masked)
        log_probs = distribution.log_prob(distribution.sample())
        assert log_probs.device.type == network.critic(masked).device.type == "cuda"


@pytest.mark.parametrize("kind", [DDPG, TD3, SAC])
def test_losses_of_replayed_steps_work_on_the_device_of_the_network(kind: Any) -> None:
    agent = kind(RandomWalk, n_envs=2)
    with FakeTensorMode():
        network, actions = _network(kind, Box(-1.0, 1.0, (2,), np.float32))
        agent.network, agent.device, agent.actions = network, CUDA, actions
        # Simulated tensors cannot be copied: the networks are their own targets.
        agent.target_actor, agent.target_critics = network.actor, network.critics
        network.log_temperature = torch.zeros((), device=CUDA)
        seen = network.inputs(_observed())
        parts = (torch.zeros(5, 2), torch.zeros(5, 1), torch.zeros(5, 1, dtype=torch.bool))
        moves, rewards, ended = (part.to(CUDA) for part in parts)
        losses = agent._loss(Transitions(seen, moves, seen, rewards, ended))
        assert {value.device.type for value in losses.values()} == {"cuda"}
        assert network.choose(_observed(), deterministic=False).cpu().device.type == "cpu"


@pytest.mark.parametrize("changes", [{}, {"dueling": True, "n_quantiles": 4}], ids=str)
def test_losses_of_dqn_work_on_the_device_of_the_network(changes: dict[str, Any]) -> None:
    agent = DQN(Barred, n_envs=2, **changes)
    with FakeTensorMode():
        with CUDA:
            network = DQN.make_network(leaves_of(SEEN), ActionMap(PICKS), agent.settings)
        network.inputs.normalizer = None
        agent.network, agent.device, agent.target_values = network, CUDA, network.values
        observed = {**_observed(), "action_mask": torch.ones(5, 4)}
        seen = agent._inputs(observed)
        parts = (torch.zeros(5, 1), torch.zeros(5, 1), torch.zeros(5, 1, dtype=torch.bool))
        moves, rewards, ended = (part.to(CUDA) for part in parts)
        losses = agent._loss(Transitions(seen, moves, seen, rewards, ended))
        assert {value.device.type for value in losses.values()} == {"cuda"}
        for is_mode in (True, False):
            assert network.choose(observed, is_mode).device.type == "cuda"


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_losses_of_rollouts_work_on_the_device_of_the_network(kind: Any) -> None:
    agent = kind(RandomWalk, n_envs=2)
    learner = agent.learners[""]
    with FakeTensorMode():
        network, _ = _network(kind, Box(-1.0, 1.0, (2,), np.float32))
        learner.network = network
        observations = network.inputs(_observed())
        numbers = [torch.zeros(5) for _ in range(3)]
        batch = Batch(observations, torch.zeros(5, 2), numbers[0], numbers[1]).on(CUDA)
        batch = batch.select(torch.randperm(5))
        if kind is PPO:
            batch = Batch(**{**vars(batch), "log_probs": learner.log_probs(batch)})
        losses = agent._loss(learner, batch)
        assert {value.device.type for value in losses.values()} == {"cuda"}


def test_workers_of_a_cluster_need_the_cpu() -> None:
    agent = PPO(RandomWalk, n_envs=2, n_steps=4)
    agent.device = CUDA

    with pytest.raises(ValueError, match="use device='cpu' or engine='local'"):
        agent.fit(8, engine="ray")
