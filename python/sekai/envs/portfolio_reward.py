"""Rewards of portfolios that are written in Python: one function of all envs at once.

def growth_less_turnover(state: PortfolioState) -> NDArray[np.float64]:
    return np.log(state.equity / state.previous_equity) - 0.01 * state.turnover
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import portfolio_names
from sekai.core.result import ResetResult, StepResult
from sekai.envs.batch_layer import BatchLayer, InnerBatch, Observation
from sekai.error import ResetRequired, StateError

__all__ = ["PortfolioState", "RewardFunction", "RewardedBatch"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_, INFO = portfolio_names()

REWARD = 1
"""Where a logged step has its reward."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PortfolioState:
    """What a step did to the envs that took it, a row for each; nobody can write into it.

    Where the step ended an episode, this is the end of that episode.
    """

    ids: Rows
    """Which envs these are: all of them, unless some begin their next episode in this step."""
    time_index: Rows
    """The row of the data that was reached."""
    equity: Floats
    previous_equity: Floats
    """Equity before the step."""
    cash: Floats
    pnl: Floats
    """The change of equity."""
    cost: Floats
    """All that was paid, in currency; its kinds are below."""
    turnover: Floats
    """Values traded, as shares of equity."""
    gross: Floats
    """Values held, long and short together."""
    net: Floats
    """Values held, long less short."""
    drawdown: Floats
    """How far equity is below its highest, as a share of that."""
    margin_call: Bools
    commission: Floats
    fixed: Floats
    spread: Floats
    impact: Floats
    borrow: Floats
    financing: Floats
    delisting: Floats
    delisted: Floats
    """Value of positions that became cash because their assets were delisted."""
    weights: NDArray[np.float32]
    """What assets, and last cash, are of equity."""
    terminated: Bools
    truncated: Bools

    def __len__(self) -> int:
        """How many envs took the step."""
        return len(self.ids)


RewardFunction = Callable[[PortfolioState], ArrayLike]
"""Gives a reward for each row of a state.

An object that is called so and has a method `reset(ids)` can remember: every batch has a copy of
its own, and tells it which envs begin an episode, at first all of them. To be saved it needs
`state_dict` and `load_state_dict`, and to branch `clone_env(source, target)`.
"""


class RewardedBatch(BatchLayer):
    """A batch of portfolios whose rewards a function in Python says."""

    def __init__(self, batch: InnerBatch, reward: RewardFunction) -> None:
        """Let `reward` say the rewards of `batch`."""
        super().__init__(batch)
        self._everyone = np.arange(batch.num_envs)
        self._remembers = hasattr(reward, "reset")
        self._reward: Any = copy.deepcopy(reward) if self._remembers else reward
        self._name = getattr(reward, "__qualname__", None) or type(reward).__qualname__
        # Envs that have moved in a step that the function gave no reward for.
        self._unrewarded: set[int] = set()
        # Of each env the rewards of steps that are in its log; nothing unless one is kept.
        self._logged: list[list[float]] = []
        self._begin(self._everyone)

    def reset(
        self,
        ids: Rows,
        seeds: NDArray[np.uint64] | None,
        observations: Observation,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Begin an episode in the envs `ids`."""
        self.batch.reset(ids, seeds, observations, options)
        self._begin(ids)
        self._unrewarded.difference_update(ids.tolist())

    def step(
        self,
        actions: NDArray[Any],
        observations: Observation,
        rewards: Floats,
        terminated: Bools,
        truncated: Bools,
        final_observations: Observation | None,
        skip: Bools | None,
    ) -> None:
        """Let every env act once, and reward what came of it."""
        self._check_rewarded()
        self.batch.step(
            actions, observations, rewards, terminated, truncated, final_observations, skip
        )
        acted = self._everyone if skip is None else np.flatnonzero(~skip)
        if not acted.size:
            return
        told, weights = np.array([*self.batch.infos().values()]), observations["weights"].copy()
        begun = acted[:0]
        if final_observations is not None:
            begun = acted[terminated[acted] | truncated[acted]]
        if final_observations is not None and begun.size:
            # Those envs tell of their next episode already.
            told[:, begun] = np.array([*self.batch.final_infos().values()])[:, begun]
            weights[begun] = final_observations["weights"][begun]
        state = _state(acted, told, weights, terminated, truncated)
        rewards[acted] = self._rewards(state, begun)

    def reset_one(self, seed: int | None = None) -> ResetResult[Observation]:
        """Begin an episode of a batch of one."""
        result = self.batch.reset_one(seed)
        self._begin(self._everyone)
        self._unrewarded.clear()
        return result

    def step_one(self, action: Any) -> StepResult[Observation]:
        """Step a batch of one, and reward what came of it."""
        self._check_rewarded()
        result = self.batch.step_one(action)
        told, weights = np.array([[*result.info.values()]]).T, result.observation["weights"][None]
        ends = np.array([result.terminated]), np.array([result.truncated])
        state = _state(self._everyone, told, weights.copy(), *ends)
        reward = float(self._rewards(state, self._everyone[:0])[0])
        return StepResult(
            result.observation, reward, result.terminated, result.truncated, result.info
        )

    def clone_env(self, source: int, target: int) -> None:
        """Let env `target` become exactly what env `source` is."""
        clone = self._method("clone_env", "can branch") if self._remembers else None
        self.batch.clone_env(source, target)
        if self._logged:
            self._logged[target] = [*self._logged[source]]
        if clone is not None:
            clone(source, target)

    def keep_log(self, kept: bool) -> None:
        """Keep a log of every env from now on, or none any more."""
        self.batch.keep_log(kept)
        self._logged = [[] for _ in self._everyone] if kept else []

    def take_log(self) -> list[dict[str, Any]]:
        """The episodes that were logged since this was last asked, with these rewards."""
        logs: list[dict[str, Any]] = self.batch.take_log()
        for log in logs:
            steps, rewards = log["steps"], self._logged[log["env"]]
            steps[:, REWARD] = rewards[: len(steps)]
            del rewards[: len(steps)]
        return logs

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, what the reward remembers included."""
        memory = self._method("state_dict", "can be saved")() if self._remembers else None
        return {"batch": self.batch.state_dict(), "reward": memory}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        if state.keys() != {"batch", "reward"} or (state["reward"] is None) is self._remembers:
            kind = "and its memory" if self._remembers else "without a memory"
            raise StateError(f"the state of a batch that {self._name} {kind} rewards was wanted")
        before = self.batch.state_dict()
        self.batch.load_state_dict(state["batch"])
        try:
            if self._remembers:
                self._method("load_state_dict", "can be saved")(state["reward"])
        except BaseException:
            self.batch.load_state_dict(before)
            raise
        self._unrewarded.clear()

    def _rewards(self, state: PortfolioState, begun: Rows) -> Floats:
        """What the function says of a step, after which the episodes of `begun` have begun."""
        try:
            rewards = self._checked(self._reward(state), state)
            if begun.size:
                self._begin(begun)
        except BaseException:
            self._unrewarded.update(self._everyone.tolist())
            self._note(state.ids, np.full(len(state), np.nan))
            raise
        self._note(state.ids, rewards)
        return rewards

    def _checked(self, given: ArrayLike, state: PortfolioState) -> Floats:
        """The rewards, if they are a finite number for each env."""
        try:
            if np.iscomplexobj(given):
                raise TypeError("complex numbers are no rewards")
            rewards = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise self._misshapen(state, repr(given)) from error
        if rewards.shape != state.ids.shape:
            raise self._misshapen(state, f"shape {rewards.shape}" if rewards.ndim else repr(given))
        finite = np.isfinite(rewards)
        if not finite.all():
            place = int(np.argmin(finite))
            raise ValueError(
                f"reward {self._name}: finite numbers were wanted, found {rewards[place]} for env "
                f"{state.ids[place]} in row {state.time_index[place]}"
            )
        return rewards

    def _misshapen(self, state: PortfolioState, found: str) -> ValueError:
        return ValueError(
            f"reward {self._name}: numbers of shape {state.ids.shape}, one for each env, were "
            f"wanted, found {found}"
        )

    def _note(self, ids: Rows, rewards: Floats) -> None:
        """Remember rewards for the log, if one is kept."""
        if self._logged:
            for env, reward in zip(ids.tolist(), rewards.tolist(), strict=True):
                self._logged[env].append(reward)

    def _begin(self, ids: Rows) -> None:
        if self._remembers:
            self._reward.reset(ids.copy())

    def _check_rewarded(self) -> None:
        if self._unrewarded:
            raise ResetRequired(
                f"reward {self._name} failed after env {min(self._unrewarded)} had moved: reset "
                "all envs, or load a state"
            )

    def _method(self, name: str, purpose: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = getattr(self._reward, name, None)
        if found is None:
            raise StateError(
                f"reward {self._name} remembers, for it has a reset(): it {purpose} when it also "
                f"has {name}()"
            )
        return found


def _state(ids: Rows, told: Floats, weights: NDArray[np.float32], *ends: Bools) -> PortfolioState:
    """The envs `ids` of what is told of all envs, in rows by the names of infos."""
    parts: list[NDArray[Any]] = [weights, *ends]
    if len(ids) != len(weights):
        told, parts = told[:, ids], [part[ids] for part in parts]
    told.setflags(write=False)
    columns: dict[str, Any] = dict(zip(INFO, told, strict=True))
    derived = {
        "ids": ids.copy(),
        "time_index": columns["time_index"].astype(np.int64),
        "previous_equity": columns["equity"] - columns["pnl"],
        "margin_call": columns["margin_call"] != 0.0,
        "weights": parts[0],
        "terminated": parts[1].copy(),
        "truncated": parts[2].copy(),
    }
    for array in derived.values():
        array.setflags(write=False)
    return PortfolioState(**{**columns, **derived})
