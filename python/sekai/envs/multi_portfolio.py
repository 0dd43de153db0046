"""Hold portfolios next to each other: agents with accounts of their own in one market."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioAgents, PortfolioBatch
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult
from sekai.data import FeaturePanel, MarketData, simulate_regimes
from sekai.envs.agent_infos import AgentInfos
from sekai.envs.multi_portfolio_config import MemberConfig, MultiPortfolioConfig
from sekai.envs.portfolio_benchmark import Benchmark
from sekai.envs.portfolio_panel import FeatureSource, features_of, panel_of
from sekai.envs.portfolio_scene import holdings, portfolio_scene
from sekai.envs.portfolio_spaces import ACCOUNT, INFO, action_space, observation_space
from sekai.envs.portfolio_universe import with_slots
from sekai.error import ClosedError, ResetRequired
from sekai.spaces import Box, Dict

__all__ = ["MultiPortfolio"]


class MultiPortfolio(MultiAgentEnv):
    """Agents decide what assets and cash shall be of their portfolios, in one market.

    Accounts are isolated. Agents meet in the market alone: they share the volume of a row in
    proportion to what they want of it, everybody pays the impact of all that is traded in an
    asset, and a limit on what all hold together cuts everybody's purchases alike.

    Observation: as in `Portfolio`: `windows` (or `index`), `weights`, `mask`, `account`. Windows
        and masks are arrays that agents share and nobody can write into.
    Action: as in `Portfolio`, one for each agent that is left.
    Reward: each agent's own, the mean of all, or what is above the mean of the others.
    Terminates: for an agent when it is ruined; it leaves, and the others go on.
    Truncates: for all that are left, after `episode_rows` rows and at the end of the data.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "reset_options": (),
        "renderer": "sekai.rendering.multi_portfolio_renderer:MultiPortfolioRenderer",
    }
    # What was read or computed is not state: the batch's own state knows what it has seen of it.
    state_excludes: ClassVar[tuple[str, ...]] = (
        "data",
        "features",
        "pipeline",
        "_levels",
        "_named",
        "_panel",
        "_reader",
    )

    def __init__(
        self,
        data: MarketData | None = None,
        features: FeatureSource = None,
        config: MultiPortfolioConfig | None = None,
        **settings: Any,
    ) -> None:
        """Build from data and a config, or the fields of `MultiPortfolioConfig` by name.

        Args:
            data: what is traded on; a simulated market of 20 assets if not given.
            features: what is shown: a fitted `Pipeline`, a `FeaturePanel`, or names of features.
            config: who trades, and how episodes are cut, shown, traded and rewarded.
            **settings: fields of the config, instead of it.
        """
        if config is not None and settings:
            raise TypeError(
                f"either a config or its fields were wanted, found both: {sorted(settings)}"
            )
        self.config = MultiPortfolioConfig(**settings) if config is None else config
        self.data = with_slots(simulate_regimes() if data is None else data, 0)
        self.features, self.pipeline = features_of(self.data, features)
        members = self.config.members
        self.possible_agents = list(members)
        self.agents = []
        self._named = _named_agents(self.config, members, self.features)
        self._panel = panel_of(
            self.data,
            self.features,
            self.config.decisions,
            self.config.benchmark,
            open_ended=False,
        )
        self.batch = self._batch()
        self._reader: PortfolioBatch | None = None
        self._levels: NDArray[np.float64] = np.empty(0)
        self._step_agents = self.batch.step_agents
        self.observation_spaces = {
            name: observation_space(
                self.data,
                rows=len(self.data) if self.config.observation == "index" else None,
                lookback=_lookback(self.config, member),
                channels=len(_channels(name, member, self.features)),
            )
            for name, member in members.items()
        }
        self.action_spaces = {
            name: action_space(self.config.action, self.data, member.account)
            for name, member in members.items()
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode of all agents: the first of `seed`, or the next of the one in use."""
        if self._step_agents is _refuse:
            _refuse()
        if options:
            raise ValueError(
                f"MultiPortfolio takes no options for reset(), found {sorted(options)}"
            )
        observations, infos = self.batch.reset_agents(self._named, seed)
        if seed is not None:
            self._set_rng(int(seed))
        self.agents = list(self.possible_agents)
        return MAResetResult(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent that is left act once; a call that raises has moved nothing."""
        if not self.agents and self._step_agents is not _refuse:
            raise ResetRequired("no agent is in an episode: call reset() to begin one")
        observations, rewards, terminated, truncated, told, left = self._step_agents(
            self._named, actions
        )
        if left is not None:
            self.agents = left
        infos: Any = AgentInfos(rewards, INFO, told)
        return MAStepResult(observations, rewards, terminated, truncated, infos)

    def scene(self, env: int = 0) -> dict[str, Any]:
        """What all agents are like now, for pictures of them; nothing moves."""
        if self._reader is None:
            self._reader = self._batch()
            self._levels = Benchmark(self.config.benchmark, self.data).levels(self.data)
        held = holdings(self._reader, self.batch.state_dict(), env)
        begun = {name: member.initial_cash for name, member in self.config.members.items()}
        return portfolio_scene(held, self.data, begun, self._levels)

    def close(self) -> None:
        """Refuse everything from now on. Closing twice is no error."""
        self._step_agents = _refuse

    def _batch(self) -> PortfolioBatch:
        # Windows are views that agents share: the core says which row they end with.
        shown = dataclasses.replace(self.config, observation="index")
        return PortfolioBatch(self._panel, shown.core_settings(self.data))

    def make_batch(
        self, num_envs: int, *, num_threads: int | None = None, max_episode_steps: int | None = None
    ) -> dict[str, Any]:
        """Many envs like this one: what a `sekai.vector.AgentsBatch` is made of."""
        config, members = self.config, self.config.members
        settings = config.core_settings(self.data)
        batch = PortfolioBatch(self._panel, settings, num_envs, num_threads, max_episode_steps)
        choices = sum(space.shape[0] for space in self.action_spaces.values() if space.shape)
        return {
            "batch": batch,
            "observation_space": self._joint_space(),
            "action_space": Box(-np.inf, np.inf, (choices,), np.float64),
            "observation_spaces": self.observation_spaces,
            "action_spaces": self.action_spaces,
            "windows": [
                (_lookback(config, member), _columns(_channels(name, member, self.features)))
                for name, member in members.items()
            ],
            "info_names": INFO,
        }

    def _joint_space(self) -> Dict:
        """What the batch shows of all agents together."""
        config, agents = self.config, len(self.possible_agents)
        channels = self.features.values.shape[2]
        rows = len(self.data) if config.observation == "index" else None
        seen = observation_space(self.data, rows=rows, lookback=config.lookback, channels=channels)
        widths = {"weights": len(self.data.assets) + 1, "account": len(ACCOUNT)}
        wide = {
            part: Box(-np.inf, np.inf, (agents, width), np.float32)
            for part, width in widths.items()
        }
        report = Box(-np.inf, np.inf, (agents, 3 + len(INFO)), np.float64)
        return Dict({**seen.spaces, **wide, "report": report})


def _named_agents(
    config: MultiPortfolioConfig, members: Mapping[str, MemberConfig], features: FeaturePanel
) -> PortfolioAgents:
    """What agents are called and shown; those who are shown the same share their windows."""
    if config.observation == "index":
        return PortfolioAgents(list(members), [], [])
    kinds: dict[tuple[tuple[int, ...], int], int] = {}
    shown = []
    for name, member in members.items():
        kind = (_channels(name, member, features), _lookback(config, member))
        shown.append(kinds.setdefault(kind, len(kinds)))
    # Whoever can write into the features could change what was shown already.
    is_loose = features.values.flags.writeable
    values = features.values.astype(np.float32, copy=is_loose)
    arrays = {channels: _seen(values, channels) for channels, _ in kinds}
    windows = [(arrays[channels], lookback) for channels, lookback in kinds]
    return PortfolioAgents(list(members), windows, shown)


def _lookback(config: MultiPortfolioConfig, member: MemberConfig) -> int:
    return config.lookback if member.lookback is None else member.lookback


def _channels(name: str, member: MemberConfig, features: FeaturePanel) -> tuple[int, ...]:
    if member.features is None:
        return tuple(range(len(features.names)))
    strange = [wanted for wanted in member.features if wanted not in features.names]
    if strange:
        raise ValueError(
            f"features of {name!r} must be among {', '.join(features.names)}, found {strange}"
        )
    return tuple(features.names.index(wanted) for wanted in member.features)


def _columns(channels: tuple[int, ...]) -> slice | list[int]:
    """Channels that lie next to each other as a slice, so that nothing is copied."""
    first, last = channels[0], channels[-1]
    is_slice = channels == tuple(range(first, last + 1))
    return slice(first, last + 1) if is_slice else list(channels)


def _seen(values: NDArray[np.float32], channels: tuple[int, ...]) -> NDArray[np.float32]:
    """Some channels of all rows, of which windows are views that agents share."""
    columns = _columns(channels)
    seen = values[:, :, columns]
    if isinstance(columns, list):
        # A copy; in the order that windows are read in.
        seen = np.ascontiguousarray(seen)
    seen.flags.writeable = False
    return seen


def _refuse(agents: Any = None, actions: Any = None) -> NoReturn:
    raise ClosedError("the env is closed: make a new one")
