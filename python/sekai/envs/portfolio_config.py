"""How episodes of portfolios are cut, shown, traded and rewarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from sekai.data import MarketData
from sekai.data.calendar import utc_instant
from sekai.market import CashAccount, Constraints, Costs, Execution, MarginAccount
from sekai.market.settings import to_json

__all__ = ["AgentConfig", "PortfolioConfig"]

Terms = tuple[tuple[str, float], ...]
Reward = str | Mapping[str, float] | Terms | Callable[..., Any]


MOST_SLOTS = 10_000
"""Bound on memory: every slot has a column in every row."""

LEAST_KEPT = 32
"""Rows that costs look back on, and some more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """One agent: its account, its mandate and its reward."""

    initial_cash: float = 100_000.0
    """Cash that an episode begins with."""

    account: CashAccount | MarginAccount = field(default_factory=CashAccount)
    """Whether it may borrow."""

    constraints: Constraints = field(default_factory=Constraints)
    """What its weights may be."""

    reward: Reward = "log_return"
    """Terms of the reward with their weights, or a single one: `return`, `log_return`, `profit`,
    `mean_variance`, `differential_sharpe`, `drawdown_penalty`, `volatility_penalty`,
    `turnover_penalty`, `cost_penalty`, `benchmark_relative`. Or a function that is given the
    `PortfolioState` of all envs after each step and returns a number for each."""

    reward_memory: float = 0.01
    """How fast the volatility and the differential Sharpe ratio forget, from 0 to 1."""

    risk_aversion: float = 1.0
    """What `mean_variance` weighs half the square of a return with."""

    ruin: float = 0.0
    """The share of the initial cash at or below which the agent is ruined."""

    def __post_init__(self) -> None:
        _require(self, "account", (CashAccount, MarginAccount))
        _require(self, "constraints", (Constraints,))
        if not callable(self.reward):
            # Pairs can be hashed and pickled, and nobody can change them later.
            object.__setattr__(self, "reward", _terms(self.reward))

    def settings(self, data: MarketData) -> dict[str, Any]:
        """What the Rust core is given."""
        # What a function says instead, `RewardedBatch` asks it for.
        terms = (("return", 1.0),) if callable(self.reward) else self.reward
        return {
            "initial_cash": self.initial_cash,
            "account": self.account.settings(),
            "constraints": self.constraints.settings(data.assets, data.sectors, self.account),
            "reward": {
                "terms": terms,
                "memory": self.reward_memory,
                "risk_aversion": self.risk_aversion,
            },
            "ruin": self.ruin,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PortfolioConfig(AgentConfig):
    """How an episode of `Portfolio` is cut, shown, traded and rewarded."""

    lookback: int = 30
    """Rows of features in the window that is shown; of windows in a file, as many as they have."""

    observation: Literal["window", "index"] = "window"
    """Whether the window itself is shown, or its number: the row that it ends with, or its place
    in a file. Learners gather from `env.windows`, or `vec.batch.windows`, what they need:
    `windows.gather(observations["index"][:, 0])`."""

    action: Literal["weights", "tilts"] = "weights"
    """Weights of the assets and cash, or for each asset less, as much or more of it."""

    tilt: float = 0.05
    """The change of a weight that a tilt asks for."""

    execution: Execution = field(default_factory=Execution)
    """When and how far orders are filled."""

    costs: Costs = field(default_factory=Costs)
    """What trading and holding costs."""

    episode_rows: int | None = 252
    """Rows until an episode is truncated; None is to the end of the data."""

    starts: Literal["random", "sequential"] | int | str = "random"
    """Where episodes begin: anywhere that the seed says, where the one before ended, always with
    this row, or with the first row at or after this time."""

    decisions: Literal["every_row", "trading_days", "complete"] = "every_row"
    """On which rows decisions fall: all of them; those in which something can be traded; those in
    which nothing is missing of the assets that are listed. Rows between are gone through with
    what is held, and their rewards are added up."""

    benchmark: str = "equal_weight"
    """What `benchmark_relative` compares with: the mean of all quoted assets, an asset, or a
    series of the market that is a level."""

    stream: bool = False
    """Whether rows are still to come: the data is history, episodes begin with the last row that
    is known, and steps use rows as they are pushed."""

    keep_rows: int | None = None
    """How many of the last rows a stream keeps at least, so that its memory does not grow; None
    keeps all. Numbers of rows stay what they are."""

    slots: int = 0
    """Places that are kept free for assets that come later."""

    record: bool = False
    """Whether trades and accounts are logged, see `EpisodeLog`."""

    def __post_init__(self) -> None:
        # Not super(): the class is made anew with slots, and is not the one that this is in.
        AgentConfig.__post_init__(self)
        _require(self, "execution", (Execution,))
        _require(self, "costs", (Costs,))
        if not isinstance(self.slots, int) or not 0 <= self.slots <= MOST_SLOTS:
            raise ValueError(
                f"slots must be a whole number of at least 0, at most {MOST_SLOTS}, "
                f"was {self.slots!r:.80}"
            )
        if self.keep_rows is not None and not (self.stream and self.keep_rows >= LEAST_KEPT):
            raise ValueError(
                f"keep_rows is for streams, and at least {LEAST_KEPT}: was {self.keep_rows!r} with "
                f"stream={self.stream}"
            )
        if self.stream and self.starts != "random":
            raise ValueError(
                f"a stream begins with the last row that is known: starts can not be given, was "
                f"{self.starts!r}"
            )

    @property
    def members(self) -> Mapping[str, AgentConfig]:
        """The config of each agent, by name."""
        return {"portfolio": self}

    def by_row(self) -> PortfolioConfig:
        """The same episodes, of which the core shows the row alone."""
        return replace(self, lookback=1, observation="index")

    def core_settings(
        self, data: MarketData, first_row: int | None = None, shown: str | None = None
    ) -> str:
        """Settings of the Rust core as JSON.

        Args:
            data: what is traded on.
            first_row: the first row for a decision; the one after the warm-up if not given.
            shown: `"window"` or `"index"`, if not as in `observation`.
        """
        settings = {**self.shared_settings(data, first_row), **self._agent_settings(data)}
        return to_json(settings if shown is None else {**settings, "shown": shown})

    def shared_settings(self, data: MarketData, first_row: int | None = None) -> dict[str, Any]:
        """What the Rust core is given of all that is no agent's own."""
        return {
            "lookback": self.lookback,
            "shown": self.observation,
            "action": {"tilts": self.tilt} if self.action == "tilts" else self.action,
            **self.execution.settings(),
            "costs": self.costs.settings("volume" in data.fields),
            "episode_rows": self.episode_rows,
            "starts": _starts(self.starts, data),
            "first_row": self._first_row(data) if first_row is None else first_row,
        }

    def _agent_settings(self, data: MarketData) -> dict[str, Any]:
        return {
            "agents": [member.settings(data) for member in self.members.values()],
            "shared_leverage": None,
            "reward_mode": "own",
        }

    def _first_row(self, data: MarketData) -> int:
        # All that is known of a stream is history, however much of it there is.
        return 0 if self.stream else data.warm_up


def _require(config: AgentConfig, name: str, kinds: tuple[type, ...]) -> None:
    value = getattr(config, name)
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} must be a {wanted} of sekai.market, was {value!r}")


def _terms(reward: str | Mapping[str, float] | Terms) -> Terms:
    if isinstance(reward, str):
        return ((reward, 1.0),)
    pairs = reward.items() if isinstance(reward, Mapping) else reward
    return tuple((term, weight) for term, weight in pairs)


def _starts(starts: int | str, data: MarketData) -> Any:
    if starts in ("random", "sequential"):
        return starts
    if isinstance(starts, str):
        try:
            time = utc_instant(starts)
        except ValueError as error:
            raise ValueError(
                f"starts must be 'random', 'sequential', a row or a time such as '2020-01-31', was "
                f"{starts!r}"
            ) from error
        return {"fixed": int(np.searchsorted(data.times, time))}
    return {"fixed": starts}
