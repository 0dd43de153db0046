"""Whoever lets the envs act, what is learnt is the same, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.training import A2C, DDPG, MADDPG, PPO, QMIX, SAC, Agent
from sekai.training.distributed import crew as crews
from sekai.training.kept_file import read_file
from tests.training.distributed.in_process import InProcess
from tests.training.distributed.walks import picking_walk, walk
from tests.training.multi.worlds import Coming

SMALL: dict[str, Any] = {"policy": {"hidden": (8,)}, "rollout_steps": 16, "seed": 3}
REMEMBERING = {**SMALL, "steps_per_update": 8, "warm_up": 64, "batch_size": 16, "memory": 256}

Make = Callable[[], Agent]


def numbers() -> Coming:
    return Coming(numbers=True)


def mixed() -> Coming:
    return Coming(mixed=True)


WORLDS = (numbers, mixed, Coming)
"""Whose states no file can hold."""

WAYS: dict[str, Make] = {
    "native": lambda: PPO("MarketMaking-v0", num_envs=7, **SMALL),
    "native_slots": lambda: A2C("Portfolio-v0", num_envs=5, **SMALL),
    "native_agents": lambda: PPO("MultiPortfolio-v0", num_envs=5, **SMALL),
    "python": lambda: PPO(walk, num_envs=5, **SMALL),
    "masked": lambda: PPO(picking_walk, num_envs=5, **SMALL),
    "watched": lambda: PPO(walk, num_envs=5, learn_where="is_high", **SMALL),
    "several": lambda: PPO(mixed, num_envs=4, **SMALL),
    "central": lambda: A2C(numbers, num_envs=4, critic="central", **SMALL),
    "ddpg": lambda: DDPG(walk, num_envs=5, exploration_persistence=0.5, **REMEMBERING),
    "sac": lambda: SAC("MarketMaking-v0", num_envs=5, **REMEMBERING),
    "maddpg": lambda: MADDPG(mixed, num_envs=4, **REMEMBERING),
    "qmix": lambda: QMIX(Coming, num_envs=4, **REMEMBERING),
}
ITERATIONS = 4


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """Workers in this process."""
    found = InProcess()
    monkeypatch.setattr(crews, "connected", found.connected)
    return found


def steps(agent: Agent, iterations: int = ITERATIONS) -> int:
    return iterations * agent.iteration_steps


def everything(agent: Agent, folder: Path) -> dict[str, Any]:
    """All that is kept of an agent, down to where its envs are if they can tell."""
    agent.save(folder, envs=agent.env_given not in WORLDS)
    return read_file(folder)


def assert_same(one: Any, other: Any, where: str = "") -> None:
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for name in one:
            assert_same(one[name], other[name], f"{where}/{name}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for place, (first, second) in enumerate(zip(one, other, strict=True)):
            assert_same(first, second, f"{where}/{place}")
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, np.ndarray):
        assert one.tobytes() == other.tobytes(), where
    else:
        assert one == other, where


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_workers_change_nothing(way: str, workers: int, ray: InProcess, tmp_path: Path) -> None:
    alone, spread = WAYS[way](), WAYS[way]()

    alone.fit(steps(alone))
    spread.fit(steps(spread), engine="ray", workers=workers)

    assert len(ray.hired) == workers
    assert_same(everything(alone, tmp_path / "a"), everything(spread, tmp_path / "b"))
