"""Reward functions of portfolios in Python: one call for all envs of a batch.

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

from quant_gym_rs._core import PortfolioAgents, combine_rewards
from sekai.core.result import ResetResult, StepResult
from sekai.envs.portfolio.batch import BatchLayer, MarketBatch, Observation
from sekai.envs.portfolio.log import participated
from sekai.envs.portfolio.panel import INFO
from sekai.error import ResetRequired, StateError
from sekai.market.costs import COST_KINDS

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

REWARD = 1
"""Column of a native step with its reward."""

LEAD = 3
"""Numbers of a report before `INFO`: reward, whether the agent was ruined, whether it goes on."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PortfolioState:
    """Result of a step for reward functions: read-only arrays with a row for each env.

    Where the step ended an episode, this is the end of that episode.
    """

    ids: Rows
    """Indices of the envs: all, unless some start their next episode in this step."""
    time_index: Rows
    """Row of the data that was reached."""
    equity: Floats
    previous_equity: Floats
    """Equity before the step."""
    cash: Floats
    pnl: Floats
    """Change of equity."""
    cost: Floats
    """Total cost paid, in currency."""
    costs: Mapping[str, Floats]
    """Costs paid by kind, see `sekai.market.costs.COST_KINDS`; `state.spread` is short for
    `state.costs["spread"]`."""
    turnover: Floats
    """Value traded over equity."""
    gross: Floats
    """Gross exposure: long and short positions together."""
    net: Floats
    """Net exposure: long less short positions."""
    drawdown: Floats
    """Loss from the highest equity, as a share of it."""
    margin_call: Bools
    delisted: Floats
    """Value of positions that became cash because their assets were delisted."""
    dividends: Floats
    """Dividends received, less those paid on short positions."""
    compromise: Rows
    """Constraints relaxed at the decision: bits of `sekai.market.Compromise`."""
    weights: NDArray[np.float32]
    """Weights of the assets, then of cash."""
    terminated: Bools
    truncated: Bools

    def __len__(self) -> int:
        return len(self.ids)

    def __getattr__(self, name: str) -> Floats:
        if name not in COST_KINDS:
            raise AttributeError(
                f"PortfolioState has no field {name!r}; cost kinds are {', '.join(COST_KINDS)}"
            )
        return self.costs[name]


RewardFunction = Callable[[PortfolioState], ArrayLike]
"""Reward of each row of a state.

A callable object with a method `reset(ids)` is stateful: every batch, and in it every agent, has
its own copy and calls `reset` with the envs that start an episode, at first with all. Saving needs
`state_dict` and `load_state_dict`, cloning of envs `clone_env(source, target)`.
"""


class RewardedBatch(BatchLayer):
    """Batch of portfolios whose rewards are computed by functions in Python, one per agent.

    `reward_mode` is applied after the functions.

    Args:
        batch: batch that gives each agent its own reward.
        rewards: function of each agent, in the order of the batch; None keeps the reward of the
            batch.
        mode: `reward_mode` of the agents.
    """

    def __init__(
        self,
        batch: MarketBatch | BatchLayer,
        rewards: Mapping[str, RewardFunction | None],
        mode: str = "own",
    ) -> None:
        super().__init__(batch)
        self._all_envs = np.arange(batch.num_envs)
        self._agents = list(rewards)
        self._mode = mode
        self._functions = {
            name: _AgentReward(reward, f" of {name!r}" if len(rewards) > 1 else "")
            for name, reward in rewards.items()
            if reward is not None
        }
        # Envs whose last step has no reward because a function failed, and that function.
        self._unrewarded: set[int] = set()
        self._failed = ""
        # Rewards of the logged steps of each env; empty unless a log is kept.
        self._logged: list[list[float]] = []
        self._start(self._all_envs)

    def reset(
        self,
        ids: Rows,
        seeds: NDArray[np.uint64] | None,
        observations: Observation,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Start an episode in the envs `ids`."""
        self.batch.reset(ids, seeds, observations, options)
        self._start(ids)
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
        """Step every env, and compute the rewards."""
        self._check_rewarded()
        self.batch.step(
            actions, observations, rewards, terminated, truncated, final_observations, skip
        )
        acted = self._all_envs if skip is None else np.flatnonzero(~skip)
        if not acted.size:
            return
        restarted = acted[:0]
        if final_observations is not None:
            restarted = acted[terminated[acted] | truncated[acted]]
        if len(self._agents) == 1:
            outcome = self._single_outcome(observations, rewards, terminated, truncated)
        else:
            outcome = _multi_outcome(observations, truncated)
        if final_observations is not None and restarted.size:
            # Observations and infos of those envs are of their next episode already.
            self._use_finals(outcome, restarted, final_observations, truncated)
        computed = self._compute(acted, restarted, outcome)
        rewards[acted] = computed.sum(axis=1)
        if len(self._agents) > 1:
            observations["report"][acted, :, 0] = computed
            if final_observations is not None and restarted.size:
                final_observations["report"][restarted, :, 0] = computed[np.isin(acted, restarted)]
                observations["report"][restarted, :, 0] = 0.0

    def reset_one(self, seed: int | None = None) -> ResetResult[Observation]:
        """Start an episode of a batch of one."""
        result = self.batch.reset_one(seed)
        self._start_one()
        return result

    def step_one(self, action: Any) -> StepResult[Observation]:
        """Step a batch of one, and compute its reward."""
        self._check_rewarded()
        result = self.batch.step_one(action)
        outcome = _Outcome(
            infos=np.array([[[*result.info.values()]]]),
            weights=result.observation["weights"][None, None].copy(),
            rewards=np.array([[result.reward]]),
            terminated=np.array([[result.terminated]]),
            truncated=np.array([[result.truncated]]),
            participates=np.ones((1, 1), np.bool_),
        )
        reward = float(self._compute(self._all_envs, self._all_envs[:0], outcome)[0, 0])
        return StepResult(
            result.observation, reward, result.terminated, result.truncated, result.info
        )

    def reset_agents(self, agents: PortfolioAgents, seed: int | None = None) -> Any:
        """Start an episode of a batch of one, for several agents by name."""
        result = self.batch.reset_agents(agents, seed)
        self._start_one()
        return result

    def step_agents(self, agents: PortfolioAgents, actions: Mapping[str, Any]) -> Any:
        """Step a batch of one with actions by agent, and compute the rewards."""
        self._check_rewarded()
        result = self.batch.step_agents(agents, actions)
        observations, rewards, terminated, truncated, infos, left = result
        outcome = self._named_outcome(observations, rewards, terminated, truncated, infos)
        computed = self._compute(self._all_envs, self._all_envs[:0], outcome)
        of_participants = computed[0, outcome.participates[0]].tolist()
        rewards = dict(zip(rewards, of_participants, strict=True))
        return observations, rewards, terminated, truncated, infos, left

    def clone_env(self, source: int, target: int) -> None:
        """Copy env `source` to env `target`, rewards included."""
        stateful = [own for own in self._functions.values() if own.is_stateful]
        clones = [own.method("clone_env", "cloned") for own in stateful]
        self.batch.clone_env(source, target)
        if self._logged:
            self._logged[target] = [*self._logged[source]]
        for clone in clones:
            clone(source, target)

    def keep_log(self, kept: bool) -> None:
        """Start or stop logging every env."""
        self.batch.keep_log(kept)
        self._logged = [[] for _ in self._all_envs] if kept else []

    def take_log(self) -> list[dict[str, Any]]:
        """Episodes logged since the last call, with these rewards."""
        logs = self.batch.take_log()
        for log in logs:
            rewards, rows = self._logged[log["env"]], participated(log["steps"])
            count = int(rows.sum())
            log["steps"][rows, REWARD] = rewards[:count]
            del rewards[:count]
        return logs

    def state_dict(self) -> dict[str, Any]:
        """State from which the batch continues, states of reward functions included."""
        return {"batch": self.batch.state_dict(), "reward": self._reward_states()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rejected one changes nothing."""
        stateful = {name: own for name, own in self._functions.items() if own.is_stateful}
        saved = state.get("reward")
        fits = isinstance(saved, Mapping) and saved.keys() == stateful.keys()
        if state.keys() != {"batch", "reward"} or not fits:
            names = ", ".join(own.name for own in stateful.values()) or "none"
            raise StateError(
                "state does not fit this batch: expected the keys 'batch' and 'reward' with the "
                f"states of its stateful reward functions ({names})"
            )
        before = self.state_dict()
        try:
            self.batch.load_state_dict(state["batch"])
            self._load_rewards(state["reward"])
        except BaseException:
            self.batch.load_state_dict(before["batch"])
            self._load_rewards(before["reward"])
            raise
        self._unrewarded.clear()

    def _single_outcome(
        self, observations: Observation, rewards: Floats, terminated: Bools, truncated: Bools
    ) -> _Outcome:
        """Outcome of the only agent of each env."""
        return _Outcome(
            infos=np.array([*self.batch.infos().values()]).T[:, None],
            weights=observations["weights"][:, None].copy(),
            rewards=rewards[:, None].copy(),
            terminated=terminated[:, None].copy(),
            truncated=truncated[:, None].copy(),
            participates=np.ones((len(rewards), 1), np.bool_),
        )

    def _named_outcome(
        self,
        observations: Mapping[str, Observation],
        rewards: Mapping[str, float],
        terminated: Mapping[str, bool],
        truncated: Mapping[str, bool],
        infos: Floats,
    ) -> _Outcome:
        """Outcome of the agents of one env, those that have left included."""
        indices = [self._agents.index(name) for name in rewards]
        weights = np.array([observation["weights"] for observation in observations.values()])
        outcome = _Outcome.empty(len(self._agents), weights.shape[1])
        outcome.infos[0, indices] = infos.reshape(len(indices), -1)
        outcome.weights[0, indices] = weights
        outcome.rewards[0, indices] = [*rewards.values()]
        outcome.terminated[0, indices] = [*terminated.values()]
        outcome.truncated[0, indices] = [*truncated.values()]
        outcome.participates[0, indices] = True
        return outcome

    def _use_finals(
        self, outcome: _Outcome, ended: Rows, finals: Observation, truncated: Bools
    ) -> None:
        """Replace the rows of envs that started their next episode by the end of the last one."""
        if len(self._agents) == 1:
            infos = np.array([*self.batch.final_infos().values()]).T
            outcome.infos[ended, 0] = infos[ended]
            outcome.weights[ended, 0] = finals["weights"][ended]
            return
        parts = {part: finals[part][ended] for part in ("report", "weights")}
        last = _multi_outcome(parts, truncated[ended])
        for name in _Outcome.__slots__:
            getattr(outcome, name)[ended] = getattr(last, name)

    def _compute(self, acted: Rows, restarted: Rows, outcome: _Outcome) -> Floats:
        """Rewards of the envs `acted`; then start the episodes of `restarted`."""
        function = None
        try:
            for index, name in enumerate(self._agents):
                function = self._functions.get(name)
                ids = acted[outcome.participates[acted, index]]
                if function is not None and ids.size:
                    outcome.rewards[ids, index] = function(outcome.state(ids, index))
            rewards, participates = outcome.rewards[acted], outcome.participates[acted]
            if self._mode != "own":
                combine_rewards(self._mode, rewards, participates)
            if restarted.size:
                self._start(restarted)
        except BaseException:
            self._unrewarded.update(self._all_envs.tolist())
            self._failed = "" if function is None else function.name
            missing = np.full((len(acted), len(self._agents)), np.nan)
            self._log_rewards(acted, missing, outcome.participates)
            raise
        self._log_rewards(acted, rewards, outcome.participates)
        return rewards

    def _log_rewards(self, acted: Rows, rewards: Floats, participates: Bools) -> None:
        if self._logged:
            for env, row in zip(acted.tolist(), rewards, strict=True):
                self._logged[env].extend(row[participates[env]].tolist())

    def _start(self, ids: Rows) -> None:
        for function in self._functions.values():
            function.start(ids)

    def _start_one(self) -> None:
        self._start(self._all_envs)
        self._unrewarded.clear()

    def _check_rewarded(self) -> None:
        if self._unrewarded:
            raise ResetRequired(
                f"reward {self._failed} failed after env {min(self._unrewarded)} had moved: reset "
                "all envs, or load a state"
            )

    def _reward_states(self) -> dict[str, Any]:
        return {
            name: function.method("state_dict", "saved")()
            for name, function in self._functions.items()
            if function.is_stateful
        }

    def _load_rewards(self, states: Mapping[str, Any]) -> None:
        for name, state in states.items():
            self._functions[name].method("load_state_dict", "saved")(state)


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    """Result of a step for all agents of all envs: rows of envs by agents."""

    infos: Floats
    """By the names of `INFO`."""
    weights: NDArray[np.float32]
    rewards: Floats
    terminated: Bools
    truncated: Bools
    participates: Bools

    @classmethod
    def empty(cls, agents: int, width: int) -> _Outcome:
        """One env in which no agent took part."""
        flags = [np.zeros((1, agents), np.bool_) for _ in range(3)]
        weights = np.zeros((1, agents, width), np.float32)
        return cls(np.zeros((1, agents, len(INFO))), weights, np.zeros((1, agents)), *flags)

    def state(self, ids: Rows, agent: int) -> PortfolioState:
        infos = self.infos[ids, agent].T.copy()
        infos.setflags(write=False)
        columns: dict[str, Any] = dict(zip(INFO, infos, strict=True))
        derived = {
            "ids": ids.copy(),
            "time_index": columns["time_index"].astype(np.int64),
            "compromise": columns["compromise"].astype(np.int64),
            "previous_equity": columns["equity"] - columns["pnl"],
            "margin_call": columns["margin_call"] != 0.0,
            "weights": self.weights[ids, agent],
            "terminated": self.terminated[ids, agent],
            "truncated": self.truncated[ids, agent],
        }
        for array in derived.values():
            array.setflags(write=False)
        columns["costs"] = {kind: columns.pop(kind) for kind in COST_KINDS}
        return PortfolioState(**{**columns, **derived})


def _multi_outcome(observations: Mapping[str, NDArray[Any]], truncated: Bools) -> _Outcome:
    """Outcome of several agents of each env, from their reports."""
    report = observations["report"]
    ruined, goes_on = report[:, :, 1] > 0.0, report[:, :, 2] > 0.0
    return _Outcome(
        infos=report[:, :, LEAD:].copy(),
        weights=observations["weights"].copy(),
        rewards=report[:, :, 0].copy(),
        terminated=ruined,
        truncated=truncated[:, None] & goes_on,
        participates=ruined | goes_on,
    )


class _AgentReward:
    """Reward function of one agent; a stateful one is copied."""

    def __init__(self, reward: RewardFunction, owner: str) -> None:
        self.is_stateful = hasattr(reward, "reset")
        self._reward: Any = copy.deepcopy(reward) if self.is_stateful else reward
        self.name = (getattr(reward, "__qualname__", None) or type(reward).__qualname__) + owner

    def start(self, ids: Rows) -> None:
        if self.is_stateful:
            self._reward.reset(ids.copy())

    def __call__(self, state: PortfolioState) -> Floats:
        values = self._reward(state)
        try:
            if np.iscomplexobj(values):
                raise TypeError("rewards must not be complex")
            rewards = np.asarray(values, np.float64)
        except (TypeError, ValueError) as error:
            raise self._shape_error(state, repr(values)) from error
        if rewards.shape != state.ids.shape:
            description = f"shape {rewards.shape}" if rewards.ndim else repr(values)
            raise self._shape_error(state, description)
        finite = np.isfinite(rewards)
        if not finite.all():
            index = int(np.argmin(finite))
            raise ValueError(
                f"reward {self.name} must be finite, got {rewards[index]} for env "
                f"{state.ids[index]} in row {state.time_index[index]}"
            )
        return rewards

    def method(self, name: str, purpose: str) -> Callable[..., Any]:
        """Method that a stateful reward needs to be saved or cloned."""
        method: Callable[..., Any] | None = getattr(self._reward, name, None)
        if method is None:
            raise StateError(
                f"reward {self.name} is stateful (it has reset()) but cannot be {purpose}; add "
                f"{name}() to it"
            )
        return method

    def _shape_error(self, state: PortfolioState, description: str) -> ValueError:
        return ValueError(
            f"reward {self.name} must return numbers of shape {state.ids.shape}, one for each env, "
            f"got {description}"
        )
