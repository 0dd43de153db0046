"""Multi-agent portfolio environment: isolated accounts in one market."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioAgents
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, equal_values
from sekai.data import BarFeed, FeaturePanel, MarketData, Windows
from sekai.envs.native_env import reject_closed, resolve_config
from sekai.envs.portfolio.config import MemberConfig, MultiPortfolioConfig
from sekai.envs.portfolio.log import EpisodeLog
from sekai.envs.portfolio.panel import ACCOUNT, INFO, FeatureSource, action_space
from sekai.envs.portfolio.portfolio import Batch, MarketDataEnv, build_batch, split_feed
from sekai.error import InvalidActionError, ResetRequired
from sekai.spaces import Box, Dict, Space
from sekai.storage.names import unknown_name

Observations = dict[str, dict[str, NDArray[Any]]]
Columns = slice | list[int]
Cuts = dict[str, tuple[int, Columns]]
"""Rows and feature columns of agents that observe less than the others, by name."""


class MultiPortfolio(MarketDataEnv, MultiAgentEnv):
    """Several agents rebalance portfolios to target weights in one market.

    Accounts are isolated. Agents share the volume of a row in proportion to their orders, all pay
    the impact of everything traded in an asset, and a limit on their joint leverage scales the
    purchases of all.

    Observation: as in `Portfolio`: `windows` (or `index`), `weights`, `mask`, `account`. Windows
        and masks are read-only arrays that agents share.
    Action: as in `Portfolio`, one for each agent that is left.
    Reward: each agent's own, the mean of all, or its own less the mean of the others.
    Terminates: for an agent when it is ruined; it leaves, and the others go on.
    Truncates: for all agents left, after `episode_rows` rows and at the end of the data.

    Args:
        data: market data; a simulated market of 20 assets if None. A feed is a stream that begins
            after the feed's history; steps wait for its rows.
        features: a fitted `Pipeline`, a `FeaturePanel`, names of features, or precomputed
            `Windows`.
        config: settings of agents and episodes.
        **settings: fields of the config, instead of it.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "reset_options": (),
        "renderer": "sekai.rendering.multi_portfolio_renderer:MultiPortfolioRenderer",
    }
    state_excludes: ClassVar[tuple[str, ...]] = (
        "_cuts",
        "_native_agents",
    )
    config: MultiPortfolioConfig

    def __init__(
        self,
        data: MarketData | BarFeed | None = None,
        features: FeatureSource | Windows = None,
        config: MultiPortfolioConfig | None = None,
        **settings: Any,
    ) -> None:
        config = resolve_config(MultiPortfolioConfig, config, settings)
        history, feed, self.config = split_feed(data, config)
        # Windows are views that agents share: the core shows the row that they end with.
        self.batch, known, space = build_batch(1, history, features, self.config, shown="index")
        self._set_sources(features, feed)
        self.possible_agents = list(self.config.members)
        self.agents = []
        views = _Views.of(self.config, space, _feature_names(self.batch))
        self.observation_spaces = views.spaces
        self.action_spaces = _action_spaces(self.config, known)
        self._native_agents, self._cuts = _share_windows(self.config, views, self.features)
        # Looked up once; most envs need no wait and no cut.
        self._step_agents: Callable[..., Any] = self.batch.step_agents
        if feed is not None or self._cuts:
            self._step_agents = self._step_when_ready

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode of all agents: the first of `seed`, or the next of the one in use."""
        if self._step_agents is reject_closed:
            reject_closed()
        if options:
            raise ValueError(f"MultiPortfolio takes no options for reset(), got {sorted(options)}")
        observations, infos = self.batch.reset_agents(self._native_agents, seed)
        if seed is not None:
            self._set_rng(int(seed))
        self.agents = list(self.possible_agents)
        _cut(observations, self._cuts)
        return MAResetResult(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Step all agents that are left; a call that raises changes nothing.

        A stream raises `NotReadyError` if the next row was not pushed. A feed is waited for, and
        `FeedEndedError` is raised if it has ended.
        """
        if not self.agents and self._step_agents is not reject_closed:
            raise ResetRequired("no agent is in an episode: call reset() first")
        observations, rewards, terminated, truncated, numbers, left = self._step_agents(
            self._native_agents, actions
        )
        if left is not None:
            self.agents = left
        infos: Any = AgentInfos(rewards, INFO, numbers)
        return MAStepResult(observations, rewards, terminated, truncated, infos)

    async def async_step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Step all agents once the next row of a stream is known.

        Cancelled before, nothing moves.
        """
        if self.feed is None:
            await self.batch.ready()
        elif self.agents and self._step_agents is not reject_closed:
            await self._pull_rows()
        return self.step(actions)

    def orders(self, actions: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
        """Units of each asset that the actions would order now, by agent; NaN is no order.

        Nothing moves. Needs `Execution(sizing="decision")`: otherwise units are known only at the
        fill.
        """
        if not self.agents:
            raise ResetRequired("no agent is in an episode: call reset() first")
        joint = np.concatenate(
            [self._action_of(name, actions) for name in self.possible_agents], dtype=np.float64
        )
        rows = np.atleast_2d(self.batch.orders(joint))
        orders = dict(zip(self.possible_agents, rows, strict=True))
        return {name: orders[name] for name in self.agents}

    def take_log(self) -> dict[str, list[EpisodeLog]]:
        """Logs of each agent since the last call, episode by episode; needs `record=True`."""
        self._check_recorded()
        return EpisodeLog.take_by_agent(self.batch)

    def scene(self, env: int = 0) -> dict[str, Any]:
        """State of all agents for renderers; nothing moves."""
        return self.batch.scene(env)

    def close(self) -> None:
        """Reject all calls from now on. Closing twice is no error."""
        self._step_agents = reject_closed
        self.batch.close()

    def _action_of(self, name: str, actions: Mapping[str, Any]) -> NDArray[np.float64]:
        """Action of one agent; zeros for one that has left."""
        if set(actions) != set(self.agents):
            raise InvalidActionError(
                f"actions must be those of the agents {self.agents}, got those of {list(actions)}"
            )
        shape = self.action_spaces[name].shape or ()
        action = np.asarray(actions.get(name, np.zeros(shape)), np.float64)
        if action.shape != shape:
            raise InvalidActionError(
                f"action of {name!r} must have shape {shape}, got {action.shape}"
            )
        return action

    def _step_when_ready(self, agents: PortfolioAgents, actions: Mapping[str, Any]) -> Any:
        self._wait_for_rows()
        observations, *rest = self.batch.step_agents(agents, actions)
        _cut(observations, self._cuts)
        return observations, *rest

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        data: MarketData | None = None,
        features: FeatureSource | Windows = None,
        config: MultiPortfolioConfig | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Arguments of a `sekai.vector.AgentsBatch` of many envs.

        Batches that show an index, or windows of a file, have the windows as `batch.windows`.
        """
        config = resolve_config(MultiPortfolioConfig, config, settings)
        options = (num_threads, max_episode_steps)
        batch, known, space = build_batch(num_envs, data, features, config, options)
        views = _Views.of(config, space, _feature_names(batch))
        actions = _action_spaces(config, known)
        size = sum(space.shape[0] for space in actions.values() if space.shape)
        return {
            "batch": batch,
            "observation_space": _joint_space(space, len(actions)),
            "action_space": Box(-np.inf, np.inf, (size,), np.float64),
            "observation_spaces": views.spaces,
            "action_spaces": actions,
            "windows": [(rows, _columns(channels)) for rows, channels in views.kinds.values()],
            "info_names": INFO,
        }


class AgentInfos(MutableMapping[str, dict[str, Any]]):
    """Infos of several agents by name: a mapping whose dicts are built when first read.

    Dicts of all agents would cost as much as the rest of a step, and few steps are looked at. A
    copy or pickle is a plain dict.

    Args:
        agents: names of the agents.
        keys: keys of an info.
        numbers: values of all agents one after the other, one for each key.
    """

    __slots__ = ("_agents", "_built", "_keys", "_numbers")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, agents: Iterable[str], keys: Sequence[str], numbers: NDArray[Any]) -> None:
        self._agents = tuple(agents)
        self._keys = keys
        self._numbers = numbers
        self._built: dict[str, dict[str, Any]] | None = None

    def _dicts(self) -> dict[str, dict[str, Any]]:
        if self._built is None:
            rows = self._numbers.reshape(len(self._agents), len(self._keys)).tolist()
            infos = (dict(zip(self._keys, row, strict=True)) for row in rows)
            self._built = dict(zip(self._agents, infos, strict=True))
        return self._built

    def __getitem__(self, agent: str) -> dict[str, Any]:
        return self._dicts()[agent]

    def __setitem__(self, agent: str, info: dict[str, Any]) -> None:
        self._dicts()[agent] = info

    def __delitem__(self, agent: str) -> None:
        del self._dicts()[agent]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dicts())

    def __len__(self) -> int:
        return len(self._dicts())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (dict, AgentInfos)):
            return NotImplemented
        return equal_values(self._dicts(), dict(other))

    def __repr__(self) -> str:
        return repr(self._dicts())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (self._dicts(),)


@dataclass(frozen=True, slots=True)
class _Views:
    """Part of the features that each agent observes, by name."""

    kinds: dict[str, tuple[int, tuple[int, ...]]]
    """Number of rows, and feature channels."""

    spaces: dict[str, Dict]
    full: tuple[int, tuple[int, ...]]
    """All rows, and all channels."""

    @classmethod
    def of(cls, config: MultiPortfolioConfig, space: Dict, names: tuple[str, ...]) -> _Views:
        full = config.lookback, tuple(range(len(names)))
        kinds = {
            name: (
                config.lookback if member.lookback is None else member.lookback,
                _channels(name, member, names),
            )
            for name, member in config.members.items()
        }
        return cls(kinds, {name: _narrow(space, *kind) for name, kind in kinds.items()}, full)


def _feature_names(batch: Batch) -> tuple[str, ...]:
    if batch.features is not None:
        return batch.features.names
    assert batch.windows is not None, "features are computed or windows come from a file"
    return batch.windows.features


def _narrow(space: Dict, rows: int, channels: tuple[int, ...]) -> Dict:
    """Observation space of an agent that observes these rows and channels alone."""
    # Every agent has its own spaces: seeding one of them changes no other.
    parts = copy.deepcopy(dict(space.spaces))
    windows = parts.get("windows")
    if isinstance(windows, Box):
        shape = (rows, windows.shape[1], len(channels))
        parts["windows"] = Box(-np.inf, np.inf, shape, windows.dtype)
    return Dict(parts)


def _action_spaces(config: MultiPortfolioConfig, data: MarketData) -> dict[str, Space[Any]]:
    return {
        name: action_space(config.action, data, member.account)
        for name, member in config.members.items()
    }


def _joint_space(space: Dict, agents: int) -> Dict:
    """Observation space of the batch, for all agents together."""
    width = space.spaces["weights"].shape
    assert width is not None, "weights are an array"
    wide = {
        part: Box(-np.inf, np.inf, (agents, size), np.float32)
        for part, size in {"weights": width[0], "account": len(ACCOUNT)}.items()
    }
    report = Box(-np.inf, np.inf, (agents, 3 + len(INFO)), np.float64)
    return Dict({**space.spaces, **wide, "report": report})


def _share_windows(
    config: MultiPortfolioConfig, views: _Views, features: FeaturePanel | None
) -> tuple[PortfolioAgents, Cuts]:
    """Native agents with their windows; agents with equal views share them.

    Windows that are not in a fixed array are shown to all and then cut for agents that observe
    less: rows of a stream, assets that are added later, and windows of a file.
    """
    names = list(views.kinds)
    if config.observation == "index":
        return PortfolioAgents(names, [], []), {}
    cuts = {
        name: (rows, _columns(channels))
        for name, (rows, channels) in views.kinds.items()
        if (rows, channels) != views.full
    }
    if features is None:
        return PortfolioAgents(names, [], []), cuts
    if config.stream or config.slots:
        return PortfolioAgents(names, [(None, config.lookback)], [0] * len(names)), cuts
    kinds = list(dict.fromkeys(views.kinds.values()))
    # Copied if writable: a later write would change observations that were already shown.
    values = features.values.astype(np.float32, copy=features.values.flags.writeable)
    arrays = {channels: _select_channels(values, channels) for _, channels in kinds}
    windows = [(arrays[channels], rows) for rows, channels in kinds]
    return PortfolioAgents(names, windows, [kinds.index(own) for own in views.kinds.values()]), {}


def _cut(observations: Observations, cuts: Cuts) -> None:
    for name, (rows, columns) in cuts.items():
        if name in observations:
            own = observations[name]
            own["windows"] = own["windows"][-rows:, :, columns]
            own["windows"].flags.writeable = False


def _channels(name: str, member: MemberConfig, names: tuple[str, ...]) -> tuple[int, ...]:
    if member.features is None:
        return tuple(range(len(names)))
    unknown = [feature for feature in member.features if feature not in names]
    if unknown:
        raise ValueError(f"features of {name!r}: {unknown_name('feature', unknown[0], names)}")
    return tuple(names.index(feature) for feature in member.features)


def _columns(channels: tuple[int, ...]) -> Columns:
    """Adjacent channels as a slice, so that nothing is copied."""
    first, last = channels[0], channels[-1]
    is_slice = channels == tuple(range(first, last + 1))
    return slice(first, last + 1) if is_slice else list(channels)


def _select_channels(values: NDArray[np.float32], channels: tuple[int, ...]) -> NDArray[np.float32]:
    """Read-only channels of all rows, of which windows are views that agents share."""
    columns = _columns(channels)
    selected = values[:, :, columns]
    if isinstance(columns, list):
        # A copy, in the order in which windows are read.
        selected = np.ascontiguousarray(selected)
    selected.flags.writeable = False
    return selected
