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

from quant_gym_rs._core import PortfolioAgents, combine_rewards, portfolio_names
from sekai.core.result import ResetResult, StepResult
from sekai.envs.batch_layer import BatchLayer, InnerBatch, Observation
from sekai.envs.portfolio_log import taken_part
from sekai.error import ResetRequired, StateError

__all__ = ["PortfolioState", "RewardFunction", "RewardedBatch"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_, INFO = portfolio_names()

REWARD = 1
"""Where a logged step has its reward."""

LEAD = 3
"""A report begins with a reward, whether the step ruined the agent, and whether it goes on."""


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

An object that is called so and has a method `reset(ids)` can remember: every batch, and in it every
agent, has a copy of its own, and tells it which envs begin an episode, at first all of them. To be
saved it needs `state_dict` and `load_state_dict`, and to branch `clone_env(source, target)`.
"""


class RewardedBatch(BatchLayer):
    """A batch of portfolios whose rewards functions in Python say, one of each agent.

    What rewards of several agents have to do with each other comes after the functions.
    """

    def __init__(
        self,
        batch: InnerBatch,
        rewards: Mapping[str, RewardFunction | None],
        mode: str = "own",
    ) -> None:
        """Let functions say the rewards of `batch`.

        Args:
            batch: the batch, with rewards that have nothing to do with each other.
            rewards: the function of each agent, in the order of the batch; None leaves the
                reward that the batch gives.
            mode: the `reward_mode` of the agents.
        """
        super().__init__(batch)
        self._everyone = np.arange(batch.num_envs)
        self._agents = list(rewards)
        self._mode = mode
        self._functions = {
            name: _Function(reward, f" of {name!r}" if len(rewards) > 1 else "")
            for name, reward in rewards.items()
            if reward is not None
        }
        # Envs that have moved in a step that a function gave no reward for, and which it was.
        self._unrewarded: set[int] = set()
        self._failed = ""
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
        begun = acted[:0]
        if final_observations is not None:
            begun = acted[terminated[acted] | truncated[acted]]
        if len(self._agents) == 1:
            taken = self._taken_by_one(observations, rewards, terminated, truncated)
        else:
            taken = _taken_by_several(observations, truncated)
        if final_observations is not None and begun.size:
            # Those envs tell of their next episode already.
            self._end(taken, begun, final_observations, truncated)
        given = self._given(acted, begun, taken)
        rewards[acted] = given.sum(axis=1)
        if len(self._agents) > 1:
            observations["report"][acted, :, 0] = given
            if final_observations is not None and begun.size:
                final_observations["report"][begun, :, 0] = given[np.isin(acted, begun)]
                observations["report"][begun, :, 0] = 0.0

    def reset_one(self, seed: int | None = None) -> ResetResult[Observation]:
        """Begin an episode of a batch of one."""
        result = self.batch.reset_one(seed)
        self._begin_one()
        return result

    def step_one(self, action: Any) -> StepResult[Observation]:
        """Step a batch of one, and reward what came of it."""
        self._check_rewarded()
        result = self.batch.step_one(action)
        taken = _Taken(
            told=np.array([[[*result.info.values()]]]),
            weights=result.observation["weights"][None, None].copy(),
            rewards=np.array([[result.reward]]),
            terminated=np.array([[result.terminated]]),
            truncated=np.array([[result.truncated]]),
            took_part=np.ones((1, 1), np.bool_),
        )
        reward = float(self._given(self._everyone, self._everyone[:0], taken)[0, 0])
        return StepResult(
            result.observation, reward, result.terminated, result.truncated, result.info
        )

    def reset_agents(self, agents: PortfolioAgents, seed: int | None = None) -> Any:
        """Begin an episode of a batch of one, for agents that have names."""
        result = self.batch.reset_agents(agents, seed)
        self._begin_one()
        return result

    def step_agents(self, agents: PortfolioAgents, actions: Mapping[str, Any]) -> Any:
        """Step a batch of one with the actions of agents by name, and reward what came of it."""
        self._check_rewarded()
        result = self.batch.step_agents(agents, actions)
        observations, rewards, terminated, truncated, told, left = result
        taken = self._taken_by_named(observations, rewards, terminated, truncated, told)
        given = self._given(self._everyone, self._everyone[:0], taken)[0, taken.took_part[0]]
        rewards = dict(zip(rewards, given.tolist(), strict=True))
        return observations, rewards, terminated, truncated, told, left

    def clone_env(self, source: int, target: int) -> None:
        """Let env `target` become exactly what env `source` is."""
        remembering = [own for own in self._functions.values() if own.remembers]
        clones = [own.method("clone_env", "can branch") for own in remembering]
        self.batch.clone_env(source, target)
        if self._logged:
            self._logged[target] = [*self._logged[source]]
        for clone in clones:
            clone(source, target)

    def keep_log(self, kept: bool) -> None:
        """Keep a log of every env from now on, or none any more."""
        self.batch.keep_log(kept)
        self._logged = [[] for _ in self._everyone] if kept else []

    def take_log(self) -> list[dict[str, Any]]:
        """The episodes that were logged since this was last asked, with these rewards."""
        logs: list[dict[str, Any]] = self.batch.take_log()
        for log in logs:
            rewards, took_part = self._logged[log["env"]], taken_part(log["steps"])
            count = int(took_part.sum())
            log["steps"][took_part, REWARD] = rewards[:count]
            del rewards[:count]
        return logs

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, what the rewards remember included."""
        return {"batch": self.batch.state_dict(), "reward": self._memories()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        remembering = {name: own for name, own in self._functions.items() if own.remembers}
        saved = state.get("reward")
        is_alike = isinstance(saved, Mapping) and saved.keys() == remembering.keys()
        if state.keys() != {"batch", "reward"} or not is_alike:
            raise StateError(
                "the state of a batch with these rewards was wanted, of which "
                f"{', '.join(own.name for own in remembering.values()) or 'none'} remembers, "
                "found another"
            )
        before = self.state_dict()
        try:
            self.batch.load_state_dict(state["batch"])
            self._remember(state["reward"])
        except BaseException:
            self.batch.load_state_dict(before["batch"])
            self._remember(before["reward"])
            raise
        self._unrewarded.clear()

    def _taken_by_one(
        self, observations: Observation, rewards: Floats, terminated: Bools, truncated: Bools
    ) -> _Taken:
        """What a step did to the only agent of each env."""
        return _Taken(
            told=np.array([*self.batch.infos().values()]).T[:, None],
            weights=observations["weights"][:, None].copy(),
            rewards=rewards[:, None].copy(),
            terminated=terminated[:, None].copy(),
            truncated=truncated[:, None].copy(),
            took_part=np.ones((len(rewards), 1), np.bool_),
        )

    def _taken_by_named(
        self,
        observations: Mapping[str, Observation],
        rewards: Mapping[str, float],
        terminated: Mapping[str, bool],
        truncated: Mapping[str, bool],
        told: Floats,
    ) -> _Taken:
        """What a step did to the agents of one env, those that are gone included."""
        places = [self._agents.index(name) for name in rewards]
        shown = np.array([seen["weights"] for seen in observations.values()])
        taken = _Taken.nothing(len(self._agents), shown.shape[1])
        taken.told[0, places] = told.reshape(len(places), -1)
        taken.weights[0, places] = shown
        taken.rewards[0, places] = [*rewards.values()]
        taken.terminated[0, places] = [*terminated.values()]
        taken.truncated[0, places] = [*truncated.values()]
        taken.took_part[0, places] = True
        return taken

    def _end(self, taken: _Taken, ended: Rows, finals: Observation, truncated: Bools) -> None:
        """Let envs whose next episode has begun tell of the end of the one before."""
        if len(self._agents) == 1:
            told = np.array([*self.batch.final_infos().values()]).T
            taken.told[ended, 0] = told[ended]
            taken.weights[ended, 0] = finals["weights"][ended]
            return
        last = _taken_by_several({part: finals[part][ended] for part in ("report", "weights")},
                                 truncated[ended])  # fmt: skip
        for name in _Taken.__slots__:
            getattr(taken, name)[ended] = getattr(last, name)

    def _given(self, acted: Rows, begun: Rows, taken: _Taken) -> Floats:
        """The rewards of the envs `acted`, after which the episodes of `begun` have begun."""
        function = None
        try:
            for place, name in enumerate(self._agents):
                function = self._functions.get(name)
                ids = acted[taken.took_part[acted, place]]
                if function is not None and ids.size:
                    taken.rewards[ids, place] = function(taken.state(ids, place))
            given, took_part = taken.rewards[acted], taken.took_part[acted]
            if self._mode != "own":
                combine_rewards(self._mode, given, took_part)
            if begun.size:
                self._begin(begun)
        except BaseException:
            self._unrewarded.update(self._everyone.tolist())
            self._failed = "" if function is None else function.name
            self._note(acted, np.full((len(acted), len(self._agents)), np.nan), taken.took_part)
            raise
        self._note(acted, given, taken.took_part)
        return given

    def _note(self, acted: Rows, given: Floats, took_part: Bools) -> None:
        """Remember rewards for the log, if one is kept: those of agents that took part."""
        if self._logged:
            for env, rewards in zip(acted.tolist(), given, strict=True):
                self._logged[env].extend(rewards[took_part[env]].tolist())

    def _begin(self, ids: Rows) -> None:
        for function in self._functions.values():
            function.begin(ids)

    def _begin_one(self) -> None:
        self._begin(self._everyone)
        self._unrewarded.clear()

    def _check_rewarded(self) -> None:
        if self._unrewarded:
            raise ResetRequired(
                f"reward {self._failed} failed after env {min(self._unrewarded)} had moved: reset "
                "all envs, or load a state"
            )

    def _memories(self) -> dict[str, Any]:
        return {
            name: function.method("state_dict", "can be saved")()
            for name, function in self._functions.items()
            if function.remembers
        }

    def _remember(self, memories: Mapping[str, Any]) -> None:
        for name, memory in memories.items():
            self._functions[name].method("load_state_dict", "can be saved")(memory)


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """What a step did to all agents of all envs: rows of envs by agents."""

    told: Floats
    """By the names of infos."""
    weights: NDArray[np.float32]
    rewards: Floats
    terminated: Bools
    truncated: Bools
    took_part: Bools

    @classmethod
    def nothing(cls, agents: int, width: int) -> _Taken:
        """One env in which nobody took part."""
        flags = [np.zeros((1, agents), np.bool_) for _ in range(3)]
        weights = np.zeros((1, agents, width), np.float32)
        return cls(np.zeros((1, agents, len(INFO))), weights, np.zeros((1, agents)), *flags)

    def state(self, ids: Rows, agent: int) -> PortfolioState:
        """What a function is told of one agent in the envs `ids`; nobody can write into it."""
        told = self.told[ids, agent].T.copy()
        told.setflags(write=False)
        columns: dict[str, Any] = dict(zip(INFO, told, strict=True))
        derived = {
            "ids": ids.copy(),
            "time_index": columns["time_index"].astype(np.int64),
            "previous_equity": columns["equity"] - columns["pnl"],
            "margin_call": columns["margin_call"] != 0.0,
            "weights": self.weights[ids, agent],
            "terminated": self.terminated[ids, agent],
            "truncated": self.truncated[ids, agent],
        }
        for array in derived.values():
            array.setflags(write=False)
        return PortfolioState(**{**columns, **derived})


def _taken_by_several(observations: Mapping[str, NDArray[Any]], truncated: Bools) -> _Taken:
    """What a step did to several agents of each env, by their reports."""
    report = observations["report"]
    ruined, goes_on = report[:, :, 1] > 0.0, report[:, :, 2] > 0.0
    return _Taken(
        told=report[:, :, LEAD:].copy(),
        weights=observations["weights"].copy(),
        rewards=report[:, :, 0].copy(),
        terminated=ruined,
        truncated=truncated[:, None] & goes_on,
        took_part=ruined | goes_on,
    )


class _Function:
    """A reward function with its own memory, if it remembers."""

    def __init__(self, reward: RewardFunction, whose: str) -> None:
        self.remembers = hasattr(reward, "reset")
        self._reward: Any = copy.deepcopy(reward) if self.remembers else reward
        self.name = (getattr(reward, "__qualname__", None) or type(reward).__qualname__) + whose

    def begin(self, ids: Rows) -> None:
        """Say which envs begin an episode."""
        if self.remembers:
            self._reward.reset(ids.copy())

    def __call__(self, state: PortfolioState) -> Floats:
        """The rewards, if they are a finite number for each env."""
        given = self._reward(state)
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
                f"reward {self.name}: finite numbers were wanted, found {rewards[place]} for env "
                f"{state.ids[place]} in row {state.time_index[place]}"
            )
        return rewards

    def method(self, name: str, purpose: str) -> Callable[..., Any]:
        """What a reward that remembers needs to be saved or to branch."""
        found: Callable[..., Any] | None = getattr(self._reward, name, None)
        if found is None:
            raise StateError(
                f"reward {self.name} remembers, for it has a reset(): it {purpose} when it also "
                f"has {name}()"
            )
        return found

    def _misshapen(self, state: PortfolioState, found: str) -> ValueError:
        return ValueError(
            f"reward {self.name}: numbers of shape {state.ids.shape}, one for each env, were "
            f"wanted, found {found}"
        )
