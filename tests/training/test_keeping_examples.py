"""Agents on envs that are written as the documents show can be saved, and resume bit for bit."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sekai
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult
from sekai.training import PPO, Checkpoint, latest_checkpoint

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRICES = 100 + np.random.default_rng(0).normal(size=60).cumsum()

DOCUMENTED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "Reversion": ("README.md", ()),
    "Coin": ("docs/state.md", ()),
    "Inventory": ("docs/environments.md", ()),
    "Feed": ("docs/environments.md", ()),
    "Auction": ("docs/environments.md", ()),
    "Replay": ("docs/checking.md", (PRICES, False)),
    "Basket": ("docs/registry.md", ()),
    "Drift": ("docs/vector.md", ()),
    "Dice": ("docs/watching.md", ()),
    "Guess": ("docs/compatibility.md", ()),
    "Walk": ("docs/wrappers.md", ()),
}
"""Example envs by the document they are in, and what they are made with."""


def _documented(name: str) -> Callable[[], Any]:
    """The class of that name, out of the blocks of its document."""
    document, arguments = DOCUMENTED[name]
    text = (ROOT / document).read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "documented"}
    for block in BLOCK.findall(text):
        for node in ast.parse(block).body:
            is_wanted = isinstance(node, ast.ClassDef) and node.name == name
            if is_wanted or isinstance(node, (ast.Import, ast.ImportFrom)):
                exec(compile(ast.Module([node], []), document, "exec"), names)
    return lambda: names[name](*arguments)


class CartPole(sekai.Env[Any, Any]):
    """The start of the specification: a state that is an array, in spaces of its own."""

    def __init__(self) -> None:
        self.observation_space = sekai.Box(-4.0, 4.0, shape=(4,), dtype=np.float32)
        self.action_space = sekai.Discrete(2)
        self._state = np.zeros(4, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._set_rng(seed)
        self._state = self.rng.uniform(-0.05, 0.05, size=(4,)).astype(np.float32)
        return sekai.ResetResult(observation=self._state.copy(), info={})

    def step(self, action: Any) -> Any:
        self._state = self._state + np.float32(0.2 * (2 * int(action) - 1))
        over = bool(np.any(np.abs(self._state) > 3.0))
        return sekai.StepResult(self._state.copy(), 1.0, over, truncated=False, info={})


class Portfolio(sekai.Env[Any, Any]):
    """The financial example of the specification: nested observations, prices that are drawn."""

    def __init__(self, n_assets: int = 3, lookback: int = 4, episode_length: int = 6) -> None:
        self.n_assets, self.lookback, self.episode_length = n_assets, lookback, episode_length
        prices = sekai.Box(-np.inf, np.inf, shape=(lookback, n_assets, 5), dtype=np.float32)
        holdings = sekai.Box(-1.0, 1.0, shape=(n_assets,), dtype=np.float32)
        self.observation_space = sekai.Dict({"prices": prices, "holdings": holdings})
        self.action_space = sekai.Box(-1.0, 1.0, shape=(n_assets,), dtype=np.float32)
        self._holdings = np.zeros(n_assets, dtype=np.float32)
        self._step_count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._set_rng(seed)
        self._holdings = np.zeros(self.n_assets, dtype=np.float32)
        self._step_count = 0
        shape = (self.episode_length + self.lookback, self.n_assets, 5)
        self._prices = self.rng.standard_normal(shape).astype(np.float32)
        return sekai.ResetResult(observation=self._observation(), info={})

    def step(self, action: Any) -> Any:
        self._holdings = np.asarray(action, np.float32)
        self._step_count += 1
        reward = float(self._holdings @ self._prices[self._step_count, :, 0])
        over = self._step_count >= self.episode_length
        return sekai.StepResult(self._observation(), reward, False, over, {"pnl": reward})

    def _observation(self) -> dict[str, Any]:
        now = self._step_count
        return {"prices": self._prices[now : now + self.lookback], "holdings": self._holdings}


class Microstructure(MultiAgentEnv):
    """The multi-agent example of the specification, which draws from its own spaces."""

    def __init__(self) -> None:
        self.possible_agents = ["market_maker", "trader"]
        self.agents = list(self.possible_agents)
        book = {
            "order_book": sekai.Box(0, np.inf, shape=(40,)),
            "inventory": sekai.Box(-100, 100, shape=(1,)),
        }
        self.observation_spaces = {
            "market_maker": sekai.Dict(book),
            "trader": sekai.Box(-np.inf, np.inf, shape=(20,)),
        }
        self.action_spaces = {
            "market_maker": sekai.Box(-1.0, 1.0, shape=(4,)),
            "trader": sekai.Discrete(3),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return MAResetResult(self._seen(), info={a: {} for a in self.agents})

    def step(self, actions: Any) -> Any:
        rewards = {"market_maker": 0.01, "trader": -0.005}
        nobody = dict.fromkeys(self.agents, False)
        return MAStepResult(self._seen(), rewards, nobody, nobody, {a: {} for a in self.agents})

    def _seen(self) -> dict[str, Any]:
        return {agent: self.observation_spaces[agent].sample() for agent in self.agents}


ENVS: dict[str, Callable[[], Any]] = {
    **{name: _documented(name) for name in DOCUMENTED},
    "CartPole": CartPole,
    "Portfolio": Portfolio,
    "Microstructure": Microstructure,
}


def _agent(make: Callable[[], Any]) -> PPO:
    return PPO(
        make, n_envs=2, n_steps=4, batch_size=8, n_epochs=1, seed=3, policy={"net_arch": (8,)}
    )


def _assert_alike(one: PPO, other: PPO) -> None:
    weights = other.network.state_dict()
    for name, own in one.network.state_dict().items():
        assert torch.equal(own, weights[name]), name


@pytest.mark.parametrize("name", ENVS)
def test_an_agent_on_a_documented_env_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    agent = _agent(ENVS[name]).fit(16)
    path = agent.save(tmp_path / "agent.safetensors")

    resumed = PPO.resume(path, 16, env=ENVS[name])
    agent.fit(16)

    assert resumed.steps == agent.steps == 32
    _assert_alike(agent, resumed)


def test_a_checkpoint_of_several_agents_resumes_bit_for_bit(tmp_path: Path) -> None:
    agent = _agent(ENVS["Auction"]).fit(16, [Checkpoint(tmp_path, every=1)])
    path = latest_checkpoint(tmp_path)
    assert path is not None

    resumed = PPO.resume(path, 16, env=ENVS["Auction"])

    _assert_alike(agent.fit(16), resumed)
