"""Whoever lets the envs act, what is learnt is the same, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.core.result import ResetResult, StepResult
from sekai.error import StateError, WorkerError
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
    Callback,
    RecurrentPPO,
)
from sekai.training.checkpoint import read_file
from sekai.training.ray import remote_rollouts
from sekai.training.ray.workers import PaddedNetwork, ParityProbe, take_weights
from sekai.training.rng import EnvSlice
from tests.training.distributed.in_process import InProcess
from tests.training.distributed.sameness import assert_same
from tests.training.distributed.walks import Walk, picking_walk, walk
from tests.training.multi.worlds import Coming

SMALL: dict[str, Any] = {"policy": {"net_arch": (8,)}, "n_steps": 16, "seed": 3}
REMEMBERING = {
    "policy": SMALL["policy"],
    "seed": 3,
    "steps_per_iteration": 16,
    "train_freq": 8,
    "learning_starts": 64,
    "batch_size": 16,
    "buffer_size": 256,
}

Make = Callable[[], Agent]


def numbers() -> Coming:
    return Coming(numbers=True)


def mixed() -> Coming:
    return Coming(mixed=True)


WORLDS = (numbers, mixed, Coming)
"""Whose states no file can hold."""

WAYS: dict[str, Make] = {
    "native": lambda: PPO("MarketMaking-v0", n_envs=7, **SMALL),
    "native_slots": lambda: A2C("Portfolio-v0", n_envs=3, **{**SMALL, "n_steps": 8}),
    "native_agents": lambda: PPO("MultiPortfolio-v0", n_envs=3, **{**SMALL, "n_steps": 4}),
    "python": lambda: PPO(walk, n_envs=5, **SMALL),
    "masked": lambda: PPO(picking_walk, n_envs=5, **SMALL),
    "watched": lambda: PPO(walk, n_envs=5, learn_where="is_high", **SMALL),
    "several": lambda: PPO(mixed, n_envs=4, **SMALL),
    "central": lambda: A2C(numbers, n_envs=4, critic="central", **SMALL),
    "recurrent": lambda: RecurrentPPO(picking_walk, n_envs=5, lstm_hidden_size=8, **SMALL),
    "ddpg": lambda: DDPG(walk, n_envs=5, noise_autocorrelation=0.5, **REMEMBERING),
    "td3": lambda: TD3(walk, n_envs=5, **REMEMBERING),
    "sac": lambda: SAC("MarketMaking-v0", n_envs=5, **REMEMBERING),
    "dqn": lambda: DQN(picking_walk, n_envs=5, n_quantiles=4, **REMEMBERING),
    "maddpg": lambda: MADDPG(mixed, n_envs=4, **REMEMBERING),
    "qmix": lambda: QMIX(Coming, n_envs=4, **REMEMBERING),
}
ITERATIONS = 3


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """Workers in this process."""
    found = InProcess()
    monkeypatch.setattr(remote_rollouts, "connected", found.connected)
    return found


def steps(agent: Agent, iterations: int = ITERATIONS) -> int:
    return iterations * agent.iteration_steps


def everything(agent: Agent, folder: Path) -> dict[str, Any]:
    """All that is kept of an agent, down to where its envs are if they can tell."""
    agent.save(folder, envs=agent.env_argument not in WORLDS)
    return read_file(folder)


def both(way: str, ray: InProcess, folder: Path, workers: int = 2, **options: Any) -> None:
    """Train with and without workers, and see that nothing tells which was which."""
    alone, spread = WAYS[way](), WAYS[way]()

    alone.fit(steps(alone))
    spread.fit(steps(spread), engine="ray", workers=workers, **options)

    assert_same(everything(alone, folder / "a"), everything(spread, folder / "b"))


@pytest.mark.parametrize("way", WAYS)
def test_workers_change_nothing(
    way: str, ray: InProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both(way, ray, tmp_path)

    assert len(ray.hired) == 2
    assert not caplog.records


@pytest.mark.parametrize("workers", [1, 7])
def test_any_number_of_workers_changes_nothing(
    workers: int, ray: InProcess, tmp_path: Path
) -> None:
    both("native", ray, tmp_path, workers)

    assert len(ray.hired) == workers


@pytest.mark.parametrize("way", ["native", "python", "ddpg"])
def test_a_worker_that_is_lost_changes_nothing(way: str, ray: InProcess, tmp_path: Path) -> None:
    # Each with its second answer.
    ray.is_lost = lambda handle, name: name == "play" and handle.calls.count("play") == 2

    both(way, ray, tmp_path)

    assert len(ray.hired) >= 6


def test_workers_that_are_always_lost_end_in_an_error(ray: InProcess) -> None:
    ray.is_lost = lambda handle, name: name == "play"
    agent = WAYS["python"]()

    with pytest.raises(WorkerError, match="worker 0 of 2 was lost 4 times in a row"):
        agent.fit(steps(agent), engine="ray", workers=2)

    assert all(handle.is_dead for handle in ray.hired)


class Untold(Walk):
    """Cannot tell its state."""

    def state_dict(self) -> dict[str, Any]:
        raise StateError("this env cannot tell its state")


def test_envs_without_a_state_act_but_cannot_be_replaced(ray: InProcess, tmp_path: Path) -> None:
    alone, spread = (PPO(Untold, n_envs=3, **SMALL) for _ in range(2))
    alone.fit(steps(alone, 2))
    spread.fit(steps(spread, 2), engine="ray", workers=2)
    for agent in (alone, spread):
        agent.save(tmp_path / str(agent is alone), envs=False)
    assert_same(alone.network.state_dict(), spread.network.state_dict())

    ray.is_lost = lambda handle, name: name == "play" and handle.calls.count("play") == 2
    with pytest.raises(WorkerError, match="cannot save their state"):
        PPO(Untold, n_envs=3, **SMALL).fit(steps(spread), engine="ray", workers=2)


@pytest.mark.parametrize("way", ["native", "python", "masked", "ddpg", "native_agents"])
def test_training_goes_on_with_workers_or_without(way: str, ray: InProcess, tmp_path: Path) -> None:
    alone = WAYS[way]()
    size = steps(alone, 1)
    alone.fit(size).fit(size).fit(size).fit(size)

    agent = WAYS[way]().fit(size)
    agent.fit(size, engine="ray", workers=3)
    agent.fit(size)
    agent.save(tmp_path / "kept")
    resumed = type(agent).resume(tmp_path / "kept", env=agent.env_argument)
    resumed.fit(size, engine="ray", workers=2)

    assert_same(everything(alone, tmp_path / "a"), everything(resumed, tmp_path / "b"))


class Keeping(Callback):
    """Keeps the agent in the midst of training."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def after_iteration(self, agent: Agent, metrics: Any) -> None:
        if agent.iterations == 2:
            agent.save(self.path)


def test_what_is_kept_on_the_way_is_what_is_kept_without_workers(
    ray: InProcess, tmp_path: Path
) -> None:
    alone, spread = WAYS["native"](), WAYS["native"]()

    alone.fit(steps(alone), [Keeping(tmp_path / "a")])
    spread.fit(steps(spread), [Keeping(tmp_path / "b")], engine="ray", workers=2)

    assert_same(read_file(tmp_path / "a"), read_file(tmp_path / "b"))


class Breaking(Walk):
    """Breaks down at its first step."""

    def step(self, action: Any) -> StepResult[Any]:
        raise ZeroDivisionError("nothing to divide by")


def test_what_envs_raise_in_workers_is_raised_here(ray: InProcess) -> None:
    with pytest.raises(WorkerError, match="ZeroDivisionError: nothing to divide by"):
        PPO(Breaking, n_envs=2, **SMALL).fit(32, engine="ray", workers=2)

    assert all(handle.is_dead for handle in ray.hired)


class Counted(Walk):
    """Begins otherwise each time one is made."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Counted.made += 1
        self.number = Counted.made

    def reset(self, **given: Any) -> ResetResult[Any]:
        result = super().reset(**given)
        return ResetResult(result.observation + np.float32(self.number), result.info)


def test_envs_that_depend_on_more_than_their_seed_are_refused(ray: InProcess) -> None:
    with pytest.raises(StateError, match="start differently in workers"):
        PPO(Counted, n_envs=2, **SMALL).fit(32, engine="ray", workers=2)


def test_what_cannot_be_spread_is_refused(ray: InProcess) -> None:
    with pytest.raises(TypeError, match="an id, a spec or a function"):
        PPO(walk(), **SMALL).fit(32, engine="ray", workers=1)
    with pytest.raises(ValueError, match="train_freq of at least 8"):
        SAC(walk, **{**REMEMBERING, "train_freq": 4}).fit(32, engine="ray", workers=1)
    agent = PPO(walk, n_envs=2, **SMALL)
    with pytest.raises(ValueError, match="workers must be at most the 2 envs, got 3"):
        agent.fit(32, engine="ray", workers=3)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        agent.fit(32, engine="ray", workers=0)
    with pytest.raises(ValueError, match="workers needs engine='ray'"):
        agent.fit(32, workers=2)
    with pytest.raises(ValueError, match="address needs engine='ray'"):
        agent.fit(32, address="auto")
    with pytest.raises(ValueError, match="engine must be one of"):
        agent.fit(32, engine="spark")  # type: ignore[arg-type]

    assert not ray.hired
    assert agent.steps == 0


def test_without_a_number_there_is_a_worker_for_each_core(ray: InProcess) -> None:
    agent = WAYS["python"]()

    agent.fit(steps(agent, 1), engine="ray")

    assert len(ray.hired) == 2


@pytest.mark.parametrize("way", ["native", "several", "maddpg"])
def test_rows_that_must_be_computed_among_all_change_nothing(
    way: str, ray: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_padded(probe: ParityProbe, action_parameters: Any) -> bool:
        return isinstance(action_parameters.__self__, PaddedNetwork)

    monkeypatch.setattr(ParityProbe, "is_met", is_padded)

    both(way, ray, tmp_path)

    assert all(
        isinstance(one.worker.agent.network.choose.__self__, PaddedNetwork) for one in ray.hired
    )


def test_workers_that_compute_otherwise_are_told_of(
    ray: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ParityProbe, "is_met", lambda probe, action_parameters: False)
    agent = WAYS["python"]()

    agent.fit(steps(agent, 1), engine="ray", workers=2)

    assert "workers compute other bits than this process" in caplog.text


def test_a_probe_sees_a_difference_of_one_bit_and_leaves_the_network_as_it_was() -> None:
    network: Any = WAYS["python"]().network
    before = {name: value.clone() for name, value in network.state_dict().items()}

    probe = ParityProbe.of(network, {"observation": torch.zeros(4, 3)})

    assert_same(before, dict(network.state_dict()))
    take_weights(network, probe.weights)
    assert probe.is_met(network.action_parameters)
    first = EnvSlice(0, 2, 4)
    probe.expected[-1][2, 0] = np.nextafter(probe.expected[-1][2, 0], np.float32(9))
    assert not probe.is_met(network.action_parameters)
    assert probe.cut(first).is_met(PaddedNetwork(network, first).action_parameters), (
        "others' rows do not count"
    )
