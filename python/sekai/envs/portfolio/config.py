"""Settings of portfolio envs: agents, accounts, costs, rewards and episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from sekai.config.checked import CheckedConfig
from sekai.data import MarketData
from sekai.data.calendar import utc_instant
from sekai.envs.native_env import RewardTerms, reward_terms
from sekai.market import CashAccount, Constraints, Costs, Execution, MarginAccount
from sekai.market.market import to_json

Reward = str | Mapping[str, float] | RewardTerms | Callable[..., Any]


REWARD_TERMS = (
    "return",
    "log_return",
    "profit",
    "mean_variance",
    "differential_sharpe",
    "drawdown_penalty",
    "volatility_penalty",
    "turnover_penalty",
    "cost_penalty",
    "benchmark_relative",
)
"""Reward terms of the Rust core."""

MOST_SLOTS = 10_000
"""Bound on memory: every slot has a column in every row."""

LEAST_KEPT = 32
"""Rows that costs look back on, and some more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig(CheckedConfig):
    """Settings of one agent: account, constraints and reward."""

    initial_cash: float = 100_000.0
    """Cash at the start of an episode."""

    account: CashAccount | MarginAccount = field(default_factory=CashAccount)
    """Cash account, or margin account that may borrow."""

    constraints: Constraints = field(default_factory=Constraints)
    """Constraints on weights."""

    reward: Reward = "log_return"
    """Reward terms with their weights, or a single term: `return`, `log_return`, `profit`,
    `mean_variance`, `differential_sharpe`, `drawdown_penalty`, `volatility_penalty`,
    `turnover_penalty`, `cost_penalty`, `benchmark_relative`. Or a function from the
    `PortfolioState` of all envs after a step to a reward for each."""

    reward_memory: float = 0.01
    """Decay rate of the moving averages of volatility and differential Sharpe ratio, 0 to 1."""

    risk_aversion: float = 1.0
    """Weight of half the squared return in `mean_variance`."""

    ruin: float = 0.0
    """Share of the initial cash at or below which equity is ruin."""

    def __post_init__(self) -> None:
        _require(self, "account", (CashAccount, MarginAccount))
        _require(self, "constraints", (Constraints,))
        if not callable(self.reward):
            # Pairs can be hashed and pickled, and cannot be changed later.
            object.__setattr__(self, "reward", reward_terms(self.reward, REWARD_TERMS))

    def settings(self, data: MarketData) -> dict[str, Any]:
        """Settings for the Rust core."""
        # Reward functions are called by `RewardedBatch`.
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
    """Settings of `Portfolio`: observations, actions, costs, execution and episodes."""

    lookback: int = 30
    """Rows of features in an observation; for windows of a file, the rows that they have."""

    observation: Literal["window", "index"] = "window"
    """Show the window itself, or its index: the row that it ends with, or its index in a file.
    Learners gather windows from `env.windows`, or `vec.batch.windows`:
    `windows.gather(observations["index"][:, 0])`."""

    action: Literal["weights", "tilts"] = "weights"
    """Target weights of the assets and cash, or 0, 1, 2 for each asset: less, equal or more."""

    tilt: float = 0.05
    """Change of a weight by one tilt."""

    execution: Execution = field(default_factory=Execution)
    """Timing, size and limits of fills."""

    costs: Costs = field(default_factory=Costs)
    """Costs of trading and holding."""

    episode_rows: int | None = 252
    """Rows until an episode is truncated; None for the end of the data."""

    starts: Literal["random", "sequential"] | int | str = "random"
    """First row of episodes: random by the seed, sequential after the previous episode, a fixed
    row, or the first row at or after a time."""

    decisions: Literal["every_row", "trading_days", "complete"] = "every_row"
    """Rows of decisions: all; those in which an asset is tradable; those without missing values of
    listed assets. Between decisions positions are held and rewards are summed."""

    benchmark: str = "equal_weight"
    """Benchmark of `benchmark_relative`: the mean of all quoted assets, an asset, or a market
    series that is a level."""

    stream: bool = False
    """Stream rows: the data is history, episodes begin with the last known row, and steps use
    pushed rows."""

    keep_rows: int | None = None
    """Least number of latest rows that a stream keeps, to bound its memory; None keeps all. Row
    numbers do not change."""

    slots: int = 0
    """Free slots for assets that are added later."""

    record: bool = False
    """Log trades and accounts, see `EpisodeLog`."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is a new class, which super() does not know.
        AgentConfig.__post_init__(self)
        _require(self, "execution", (Execution,))
        _require(self, "costs", (Costs,))
        if not isinstance(self.slots, int) or not 0 <= self.slots <= MOST_SLOTS:
            raise ValueError(
                f"slots must be a whole number of at least 0, at most {MOST_SLOTS}, got "
                f"{self.slots!r:.80}"
            )
        if self.keep_rows is not None and not (self.stream and self.keep_rows >= LEAST_KEPT):
            raise ValueError(
                f"keep_rows needs stream=True and at least {LEAST_KEPT}, got {self.keep_rows!r} "
                f"with stream={self.stream}"
            )
        if self.stream and self.starts != "random":
            raise ValueError(
                f"starts must be left out with stream=True, got {self.starts!r}; a stream begins "
                "with the last known row"
            )

    @property
    def members(self) -> Mapping[str, AgentConfig]:
        """Settings of each agent, by name."""
        return {"portfolio": self}

    def by_row(self) -> PortfolioConfig:
        """Settings of the same episodes with the row index as observation."""
        return replace(self, lookback=1, observation="index")

    def core_settings(
        self, data: MarketData, first_row: int | None = None, shown: str | None = None
    ) -> str:
        """Settings for the Rust core as JSON.

        Args:
            data: market data.
            first_row: first row of a decision; None for the one after the warm-up.
            shown: `"window"` or `"index"`, if not as in `observation`.
        """
        settings = {**self.shared_settings(data, first_row), **self._agent_settings(data)}
        return to_json(settings if shown is None else {**settings, "shown": shown})

    def shared_settings(self, data: MarketData, first_row: int | None = None) -> dict[str, Any]:
        """Settings for the Rust core that are common to all agents."""
        return {
            "lookback": self.lookback,
            "shown": self.observation,
            "action": {"tilts": self.tilt} if self.action == "tilts" else self.action,
            **self.execution.settings(data.assets),
            "costs": self.costs.settings("volume" in data.fields, data.assets),
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
        # All known rows of a stream are history.
        return 0 if self.stream else data.warm_up


def _require(config: AgentConfig, name: str, kinds: tuple[type, ...]) -> None:
    value = getattr(config, name)
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} must be a {expected} of sekai.market, got {value!r}")


def _starts(starts: int | str, data: MarketData) -> Any:
    if starts in ("random", "sequential"):
        return starts
    if isinstance(starts, str):
        try:
            time = utc_instant(starts)
        except ValueError as error:
            raise ValueError(
                f"starts must be 'random', 'sequential', a row or a time such as '2020-01-31', got "
                f"{starts!r}"
            ) from error
        return {"fixed": int(np.searchsorted(data.times, time))}
    return {"fixed": starts}


MOST_AGENTS = 10_000
"""Bound on memory: every agent has an account and a config of its own."""

Named = tuple[tuple[str, AgentConfig], ...]
Agents = int | Sequence[str] | Mapping[str, AgentConfig] | Named


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig(AgentConfig):
    """Settings of one of several agents: account, constraints, reward and observation."""

    lookback: int | None = None
    """Rows of its window, at most those of the env; None for all."""

    features: tuple[str, ...] | None = None
    """Names of its features, see `FeaturePanel.names`; None for all."""


REWARD_MODES = ("own", "cooperative", "competitive")
AGENT_FIELDS = tuple(field.name for field in fields(AgentConfig))


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiPortfolioConfig(PortfolioConfig):
    """Settings of `MultiPortfolio`: agents, shared limits and combined rewards.

    Agent fields of a `PortfolioConfig` apply to all agents, unless each has its own config.
    """

    agents: Agents = 3
    """Number of agents, called `agent_0` and so on; their names; or a config of each, by name: an
    `AgentConfig`, or a `MemberConfig` for agents that observe less than the others."""

    shared_leverage: float | None = None
    """Largest gross exposure of all agents together over their equity; None for no limit."""

    reward_mode: Literal["own", "cooperative", "competitive"] = "own"
    """Reward of an agent: its own, the mean of all, or its own less the mean of the others; reward
    functions in Python included. Only agents that took part in the step count."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is a new class, which super() does not know.
        PortfolioConfig.__post_init__(self)
        object.__setattr__(self, "agents", _immutable(self.agents))
        if self.observation not in ("window", "index"):
            raise ValueError(f"observation must be 'window' or 'index', got {self.observation!r}")
        if self.reward_mode not in REWARD_MODES:
            raise ValueError(f"reward_mode must be one of {REWARD_MODES}, got {self.reward_mode!r}")
        self._check_names()
        for name, member in self.members.items():
            self._check_member(name, member)

    @property
    def members(self) -> dict[str, MemberConfig]:
        """Settings of each agent, by name."""
        agents = self.agents
        if isinstance(agents, int):
            agents = [f"agent_{index}" for index in range(agents)]
        shared = _agent_fields(self)
        return {
            entry if isinstance(entry, str) else entry[0]: (
                MemberConfig(**shared) if isinstance(entry, str) else _member(entry[1])
            )
            for entry in agents
        }

    def by_row(self) -> MultiPortfolioConfig:
        """Settings of the same episodes with the row index as observation."""
        members = {name: AgentConfig(**_agent_fields(own)) for name, own in self.members.items()}
        defaults: dict[str, Any] = {name: _default(name) for name in AGENT_FIELDS}
        return replace(self, lookback=1, observation="index", agents=members, **defaults)

    def _agent_settings(self, data: MarketData) -> dict[str, Any]:
        members = self.members.values()
        # Rewards of functions are combined after the functions were called.
        has_function = any(callable(member.reward) for member in members)
        return {
            "agents": [member.settings(data) for member in members],
            "shared_leverage": self.shared_leverage,
            "reward_mode": "own" if has_function else self.reward_mode,
        }

    def _check_names(self) -> None:
        agents = self.agents
        if isinstance(agents, int):
            if isinstance(agents, bool) or not 1 <= agents <= MOST_AGENTS:
                raise ValueError(f"agents must be from 1 to {MOST_AGENTS}, got {agents!r:.80}")
            return
        names = [entry if isinstance(entry, str) else entry[0] for entry in agents]
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"agents must be at least one, each with a name, got {names}")
        if len(set(names)) < len(names):
            raise ValueError(f"agents must have different names, got {names}")
        if all(isinstance(entry, str) for entry in agents):
            return
        unused = [name for name, value in _agent_fields(self).items() if value != _default(name)]
        if unused:
            raise ValueError(
                f"{unused} would not be used because each agent has its own config; set them there"
            )

    def _check_member(self, name: str, member: MemberConfig) -> None:
        rows = self.lookback if member.lookback is None else member.lookback
        if not 1 <= rows <= max(self.lookback, 1):
            raise ValueError(
                f"lookback of {name!r} must be from 1 to the env's {self.lookback}, got {rows}"
            )
        if member.features is not None and not member.features:
            raise ValueError(f"features of {name!r} must be at least one name, or None for all")
        sees_all = member.lookback is None and member.features is None
        if self.observation == "index" and not sees_all:
            raise ValueError(
                f"{name!r} has its own lookback or features, but with observation='index' all "
                "agents observe the same row; leave them out, or use observation='window'"
            )


def _immutable(agents: Agents) -> int | tuple[str, ...] | Named:
    if isinstance(agents, Mapping):
        return tuple(agents.items())
    if isinstance(agents, str):
        raise ValueError(f"agents must be a number, names or configs, got the string {agents!r}")
    return agents if isinstance(agents, int) else tuple(agents)  # type: ignore[return-value]


def _agent_fields(config: AgentConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in AGENT_FIELDS}


def _member(config: AgentConfig) -> MemberConfig:
    if isinstance(config, MemberConfig):
        return config
    if not isinstance(config, AgentConfig):
        raise TypeError(f"the config of an agent must be an AgentConfig, got {config!r}")
    return MemberConfig(**_agent_fields(config))


def _default(name: str) -> Any:
    return getattr(AgentConfig(), name)
