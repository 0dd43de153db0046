"""Who trades in a market together, and what they have to do with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from sekai.data import MarketData
from sekai.envs.portfolio_config import AgentConfig, PortfolioConfig

__all__ = ["MemberConfig", "MultiPortfolioConfig"]

MOST_AGENTS = 10_000
"""Bound on memory: every agent has an account and a config of its own."""

Named = tuple[tuple[str, AgentConfig], ...]
Agents = int | Sequence[str] | Mapping[str, AgentConfig] | Named


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig(AgentConfig):
    """One of several agents: its account, its mandate, its reward, and what it is shown."""

    lookback: int | None = None
    """Rows of the window that it is shown, at most those of the env; None is all of them."""

    features: tuple[str, ...] | None = None
    """Names of the channels that it is shown, see `FeaturePanel.names`; None is all of them."""


REWARD_MODES = ("own", "cooperative", "competitive")
AGENT_FIELDS = tuple(field.name for field in fields(AgentConfig))


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiPortfolioConfig(PortfolioConfig):
    """How an episode of `MultiPortfolio` is cut, shown, traded and rewarded.

    What a `PortfolioConfig` says of its agent goes for all agents here, unless each has a config
    of its own.
    """

    agents: Agents = 3
    """How many agents there are, called `agent_0` and so on; their names; or a config of each, by
    name: an `AgentConfig`, or a `MemberConfig` for those who are shown less than the others."""

    shared_leverage: float | None = None
    """What all agents may hold together, as a multiple of their equity; None is no limit."""

    reward_mode: Literal["own", "cooperative", "competitive"] = "own"
    """Whether agents are given their own reward, the mean of all, or how much more than the mean
    of the others they have earned, functions in Python included. Only those count who took part in
    the step."""

    def __post_init__(self) -> None:
        # By name: a class with slots is made twice, and `super()` knows the first one only.
        PortfolioConfig.__post_init__(self)
        object.__setattr__(self, "agents", _fixed(self.agents))
        if self.observation not in ("window", "index"):
            raise ValueError(f"observation must be 'window' or 'index', was {self.observation!r}")
        if self.reward_mode not in REWARD_MODES:
            raise ValueError(f"reward_mode must be one of {REWARD_MODES}, was {self.reward_mode!r}")
        self._check_names()
        for name, member in self.members.items():
            self._check_member(name, member)

    @property
    def members(self) -> dict[str, MemberConfig]:
        """The config of each agent, by name."""
        given = self.agents
        if isinstance(given, int):
            given = [f"agent_{place}" for place in range(given)]
        own = _agent_fields(self)
        return {
            entry if isinstance(entry, str) else entry[0]: (
                MemberConfig(**own) if isinstance(entry, str) else _member(entry[1])
            )
            for entry in given
        }

    def by_row(self) -> MultiPortfolioConfig:
        """The same episodes, of which the core shows the row alone."""
        members = {name: AgentConfig(**_agent_fields(own)) for name, own in self.members.items()}
        usual: dict[str, Any] = {name: _usual(name) for name in AGENT_FIELDS}
        return replace(self, lookback=1, observation="index", agents=members, **usual)

    def _agent_settings(self, data: MarketData) -> dict[str, Any]:
        members = self.members.values()
        # Rewards that functions say are combined after those have said them.
        is_said = any(callable(member.reward) for member in members)
        return {
            "agents": [member.settings(data) for member in members],
            "shared_leverage": self.shared_leverage,
            "reward_mode": "own" if is_said else self.reward_mode,
        }

    def _check_names(self) -> None:
        given = self.agents
        if isinstance(given, int):
            if isinstance(given, bool) or not 1 <= given <= MOST_AGENTS:
                raise ValueError(
                    f"agents must be at least 1, at most {MOST_AGENTS}, was {given!r:.80}"
                )
            return
        names = [entry if isinstance(entry, str) else entry[0] for entry in given]
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"agents must have a name each, at least one, was {names}")
        if len(set(names)) < len(names):
            raise ValueError(f"agents must have different names, was {names}")
        if all(isinstance(entry, str) for entry in given):
            return
        idle = [name for name, value in _agent_fields(self).items() if value != _usual(name)]
        if idle:
            raise ValueError(
                f"each agent has a config of its own, so nobody would use {idle}: put them there"
            )

    def _check_member(self, name: str, member: MemberConfig) -> None:
        rows = self.lookback if member.lookback is None else member.lookback
        if not 1 <= rows <= max(self.lookback, 1):
            raise ValueError(
                f"the lookback of {name!r} must be from 1 to the env's {self.lookback}, was {rows}"
            )
        if member.features is not None and not member.features:
            raise ValueError(f"the features of {name!r} must be at least one, or None for all")
        is_whole = member.lookback is None and member.features is None
        if self.observation == "index" and not is_whole:
            raise ValueError(
                f"{name!r} is shown less than the others, and with observation='index' all are "
                "shown the same row: leave out its lookback and features, or use "
                "observation='window'"
            )


def _fixed(agents: Agents) -> int | tuple[str, ...] | Named:
    """Nobody can change it later."""
    if isinstance(agents, Mapping):
        return tuple(agents.items())
    if isinstance(agents, str):
        raise ValueError(f"agents must be a number, names or configs, was the text {agents!r}")
    return agents if isinstance(agents, int) else tuple(agents)  # type: ignore[return-value]


def _agent_fields(config: AgentConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in AGENT_FIELDS}


def _member(config: AgentConfig) -> MemberConfig:
    if isinstance(config, MemberConfig):
        return config
    if not isinstance(config, AgentConfig):
        raise TypeError(f"the config of an agent must be an AgentConfig, was {config!r}")
    return MemberConfig(**_agent_fields(config))


def _usual(name: str) -> Any:
    return getattr(AgentConfig(), name)
