"""Small games of several agents with known optima, played in many copies at once in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from sekai.vector.infos import DictInfos
from sekai.vector.multi_agent import (
    MultiAgentVecEnv,
    MultiAgentVecResetResult,
    MultiAgentVecStepResult,
)

Array = NDArray[Any]


class Game(MultiAgentVecEnv):
    """Copies of a game that all agents play from its beginning to its end."""

    steps: int
    """Moves in an episode."""

    is_cut = False
    """Whether episodes are cut off after their last move, rather than over."""

    def __init__(self, num_envs: int, agents: int, seen: Space[Any], acts: Space[Any]) -> None:
        self.num_envs = num_envs
        self.possible_agents = [f"agent_{place}" for place in range(agents)]
        self.observation_spaces = dict.fromkeys(self.possible_agents, seen)
        self.action_spaces = dict.fromkeys(self.possible_agents, acts)
        self.vec: Any = SimpleNamespace(autoreset="same_step")
        self.rng = np.random.default_rng(0)
        self.move = np.zeros(num_envs, np.int64)
        self.board: Array = np.zeros((num_envs, 0))

    def deal(self, count: int) -> Array:
        """Boards that episodes begin with."""
        raise NotImplementedError

    def play(self, actions: list[Array]) -> Array:
        """Change the board and tell what each env pays."""
        raise NotImplementedError

    def show(self, board: Array, move: Array, agent: int) -> Any:
        """What an agent sees."""
        raise NotImplementedError

    def reset(self, *, seed: Any = None, options: Any = None, ids: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.move[:] = 0
        self.board = self.deal(self.num_envs)
        return MultiAgentVecResetResult(self._shown(), self._all(True), DictInfos(self._nothing()))

    def step(self, actions: Mapping[str, Any]) -> MultiAgentVecStepResult:
        paid = self.play([np.asarray(actions[name]) for name in self.possible_agents])
        self.move += 1
        over = self.move >= self.steps
        infos = self._nothing()
        if over.any():
            last = self._shown()
            for index in np.flatnonzero(over).tolist():
                infos[index]["final_observation"] = {
                    name: _row(seen, index) for name, seen in last.items()
                }
            self.board[over] = self.deal(int(over.sum()))
            self.move[over] = 0
        rewards = {name: paid.copy() for name in self.possible_agents}
        flags = {name: over.copy() for name in self.possible_agents}
        ended, cut = (self._all(False), flags) if self.is_cut else (flags, self._all(False))
        return MultiAgentVecStepResult(
            self._shown(), rewards, ended, cut, self._all(True), over, DictInfos(infos)
        )

    def state_dict(self) -> dict[str, Any]:
        rng = self.rng.bit_generator.state
        return {"rng": rng, "move": self.move.copy(), "board": self.board.copy()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.rng.bit_generator.state = state_dict["rng"]
        self.move, self.board = state_dict["move"].copy(), state_dict["board"].copy()

    def close(self) -> None:
        pass

    def _shown(self) -> dict[str, Any]:
        return {
            name: self.show(self.board, self.move, place)
            for place, name in enumerate(self.possible_agents)
        }

    def _all(self, value: bool) -> dict[str, Array]:
        return {name: np.full(self.num_envs, value) for name in self.possible_agents}

    def _nothing(self) -> list[dict[str, Any]]:
        return [{} for _ in range(self.num_envs)]


class TwoStep(Game):
    """The first agent picks a matrix, then both pick a payoff: 7 for sure, or 8 if both dare."""

    steps = 2
    optimum = 8.0
    payoffs = np.array([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, 2, Box(0.0, 1.0, (3,), np.float32), Discrete(2))

    def deal(self, count: int) -> Array:
        return np.zeros((count, 1), np.int64)

    def play(self, actions: list[Array]) -> Array:
        one, other = actions
        is_second = self.move == 1
        paid = self.payoffs[np.maximum(self.board[:, 0] - 1, 0), one, other]
        self.board[:, 0] = np.where(is_second, self.board[:, 0], one + 1)
        return np.where(is_second, paid, 0.0)

    def show(self, board: Array, move: Array, agent: int) -> Any:
        return np.eye(3, dtype=np.float32)[board[:, 0]]


class Climbing(Game):
    """One move; the best pair of picks lies next to the worst."""

    steps = 1
    optimum = 11.0
    payoffs = np.array([[11.0, -30.0, 0.0], [-30.0, 7.0, 6.0], [0.0, 0.0, 5.0]])

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, 2, Box(0.0, 1.0, (1,), np.float32), Discrete(3))

    def deal(self, count: int) -> Array:
        return np.ones((count, 1))

    def play(self, actions: list[Array]) -> Array:
        return self.payoffs[actions[0], actions[1]]

    def show(self, board: Array, move: Array, agent: int) -> Any:
        return np.ones((len(board), 1), np.float32)


class Spread(Game):
    """Two agents on a line of cells are paid for each of two landmarks that one stands on."""

    steps = 3
    cells = 3

    def __init__(self, num_envs: int, masked: bool = False) -> None:
        self.masked = masked
        seen: Space[Any] = MultiDiscrete([self.cells] * 4 + [self.steps + 1])
        if masked:
            seen = Dict({"places": seen, "action_mask": MultiBinary(3)})
        super().__init__(num_envs, 2, seen, Discrete(3))

    def deal(self, count: int) -> Array:
        marks = self.rng.integers(0, self.cells, (count, 1))
        other = (marks + self.rng.integers(1, self.cells, (count, 1))) % self.cells
        return np.concatenate([self.rng.integers(0, self.cells, (count, 2)), marks, other], axis=1)

    def play(self, actions: list[Array]) -> Array:
        moved = self.board[:, :2] + np.stack(actions, axis=1) - 1
        if self.masked and ((moved < 0) | (moved >= self.cells)).any():
            raise ValueError("a move that the mask forbids was made")
        self.board[:, :2] = moved.clip(0, self.cells - 1)
        stands = self.board[:, :2, None] == self.board[:, None, 2:]
        return np.asarray(stands.any(axis=1).sum(axis=1) / 2.0)

    def show(self, board: Array, move: Array, agent: int) -> Any:
        order = [0, 1, 2, 3] if agent == 0 else [1, 0, 2, 3]
        places = np.concatenate([board[:, order], move[:, None]], axis=1)
        if not self.masked:
            return places
        own = board[:, agent]
        free = [own > 0, np.ones_like(own, np.bool_), own < self.cells - 1]
        return {"places": places, "action_mask": np.stack(free, axis=1).astype(np.int8)}

    @cached_property
    def best(self) -> Array:
        """What the best play is worth: by place of both agents and of both landmarks."""
        cells = np.arange(self.cells)
        one, other, mark, second = np.meshgrid(cells, cells, cells, cells, indexing="ij")
        covered = ((one == mark) | (other == mark)) + 0.0 + ((one == second) | (other == second))
        worth: Array = np.zeros_like(covered)
        for _ in range(self.steps):
            paid = covered / 2.0 + worth
            reach = [(cells + step).clip(0, self.cells - 1) for step in (-1, 0, 1)]
            worth = np.max([paid[own][:, its] for own in reach for its in reach], axis=0)
        return worth


class Chain(Game):
    """Every step pays one, whatever is done; after three it is over, or cut off."""

    steps = 3

    def __init__(self, num_envs: int, is_cut: bool, discrete: bool = True) -> None:
        acts: Space[Any] = Discrete(2) if discrete else Box(-1.0, 1.0, (1,), np.float32)
        super().__init__(num_envs, 2, Box(0.0, 1.0, (1,), np.float32), acts)
        self.is_cut = is_cut

    def deal(self, count: int) -> Array:
        return np.zeros((count, 1))

    def play(self, actions: list[Array]) -> Array:
        return np.ones(self.num_envs)

    def show(self, board: Array, move: Array, agent: int) -> Any:
        # What is seen last is seen first too, so that nothing is judged that was never learnt.
        return (move[:, None] % self.steps / self.steps).astype(np.float32)


def played(agent: Any, game: Game, episodes: int = 1) -> Array:
    """What the agent's own play pays in each copy, without chance, of so many episodes."""
    seen = game.reset(seed=1).observations
    total = np.zeros(game.num_envs)
    for _ in range(game.steps * episodes):
        result = game.step(agent.predict_batch(seen))
        total += result.rewards[game.possible_agents[0]]
        seen = result.observations
    return total


def share_of_optimum(agent: Any, copies: int = 500) -> float:
    """How much of what is to be had in `Spread` the agent gets."""
    game = Spread(copies, masked=agent.vec.inner.masked)
    game.reset(seed=1)
    best = game.best[tuple(game.board.T)].sum()
    return float(played(agent, game).sum() / best)


def _row(batch: Any, index: int) -> Any:
    if isinstance(batch, dict):
        return {name: rows[index] for name, rows in batch.items()}
    return batch[index]
