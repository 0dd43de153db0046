"""Hold portfolios next to each other: agents with accounts of their own in one market."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioAgents
from sekai.core.aio import run
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult
from sekai.data import Bar, BarFeed, FeaturePanel, MarketData, Windows
from sekai.envs.account_report import AccountReport
from sekai.envs.agent_infos import AgentInfos
from sekai.envs.multi_portfolio_config import MemberConfig, MultiPortfolioConfig
from sekai.envs.portfolio import Batch, batch_of, windows_of
from sekai.envs.portfolio_feed import begun_with, take_rows
from sekai.envs.portfolio_log import EpisodeLog
from sekai.envs.portfolio_panel import FeatureSource
from sekai.envs.portfolio_spaces import ACCOUNT, INFO, action_space
from sekai.error import ClosedError, InvalidActionError, ResetRequired
from sekai.spaces import Box, Dict, Space

__all__ = ["MultiPortfolio"]

Observations = dict[str, dict[str, NDArray[Any]]]
Columns = slice | list[int]


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
        "features",
        "pipeline",
        "windows",
        "window_file",
        "feed",
        "_cuts",
        "_named",
    )
    config: MultiPortfolioConfig

    def __init__(
        self,
        data: MarketData | BarFeed | None = None,
        features: FeatureSource | Windows = None,
        config: MultiPortfolioConfig | None = None,
        **settings: Any,
    ) -> None:
        """Build from data and a config, or the fields of `MultiPortfolioConfig` by name.

        Args:
            data: what is traded on; a simulated market of 20 assets if not given. A feed is a
                stream that begins after the feed's history, and steps wait for its rows.
            features: what is shown: a fitted `Pipeline`, a `FeaturePanel`, names of features, or
                `Windows` that were computed before.
            config: who trades, and how episodes are cut, shown, traded and rewarded.
            **settings: fields of the config, instead of it.
        """
        known, feed, self.config = begun_with(data, _config(config, settings))
        # Windows are views that agents share: the core says which row they end with.
        self.batch, known, seen = batch_of(1, known, features, self.config, shown="index")
        self.feed = feed
        """Where rows come from, if not from `push` alone."""
        self.features: Any = self.batch.features
        """What is shown, computed from the data; None where windows are in a file."""
        self.pipeline = self.batch.pipeline
        self.window_file = features if isinstance(features, Windows) else None
        """The windows that were computed before, if that is what is shown."""
        self.windows = windows_of(self.batch, self.config)
        """What `index` is an index of: `env.windows.gather(indices)` are the windows."""
        self.possible_agents = list(self.config.members)
        self.agents = []
        shown = _Shown.of(self.config, seen, _names(self.batch))
        self.observation_spaces, self.action_spaces = shown.spaces, _actions(self.config, known)
        self._named, self._cuts = _named_agents(self.config, shown, self.features)
        # Looked up once, and without a look at what most envs do not have.
        self._step_agents: Callable[..., Any] = self.batch.step_agents
        if feed is not None or self._cuts:
            self._step_agents = self._step_when_ready

    @property
    def data(self) -> MarketData:
        """All rows that are known; places that are still free are assets that never were."""
        known: MarketData = self.batch.data
        return known

    @property
    def assets(self) -> tuple[str, ...]:
        """The names of the assets, without places that are still free."""
        names: tuple[str, ...] = self.batch.assets
        return names

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
        _cut(observations, self._cuts)
        return MAResetResult(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent that is left act once; a call that raises has moved nothing.

        In a stream the next row has to be there, or `NotReadyError` is raised. On a feed it is
        waited for, and `FeedEndedError` is raised if there will be none.
        """
        if not self.agents and self._step_agents is not _refuse:
            raise ResetRequired("no agent is in an episode: call reset() to begin one")
        observations, rewards, terminated, truncated, told, left = self._step_agents(
            self._named, actions
        )
        if left is not None:
            self.agents = left
        infos: Any = AgentInfos(rewards, INFO, told)
        return MAStepResult(observations, rewards, terminated, truncated, infos)

    async def async_step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent act once; in a stream, when the next row is there.

        Cancelled before, nothing moves.
        """
        if self.feed is None:
            await self.batch.ready()
        elif self.agents and self._step_agents is not _refuse:
            await take_rows(self.batch, self.feed)
        return self.step(actions)

    def push(self, bar: Bar) -> None:
        """Take in the next row of a stream. A refused one changes nothing; threads may push."""
        self.batch.push(bar)

    def orders(self, actions: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
        """The units of each asset that the actions of all agents that are left would order now.

        NaN is no order. Nothing moves. Needs `Execution(sizing="decision")`: otherwise units are
        known only at the fill.
        """
        if not self.agents:
            raise ResetRequired("no agent is in an episode: call reset() to begin one")
        joint = np.concatenate(
            [self._choice(name, actions) for name in self.possible_agents], dtype=np.float64
        )
        rows = np.atleast_2d(self.batch.orders(joint))
        orders = dict(zip(self.possible_agents, rows, strict=True))
        return {name: orders[name] for name in self.agents}

    def report(self, report: AccountReport) -> None:
        """Say what the account is after the next row that has no report yet, see `Portfolio`.

        Reports are of one account: where there are several agents they are refused.
        """
        self.batch.report(report)

    def remove_asset(self, name: str) -> None:
        """Take an asset out of the universe until the next episode: all sell it, nobody buys."""
        self.batch.remove_asset(name)

    def add_asset(self, name: str, data: MarketData | None = None) -> None:
        """Let an asset in again, or with its data a new one into a free place."""
        self.batch.add_asset(name, data)

    def take_log(self) -> dict[str, list[EpisodeLog]]:
        """What was recorded of each agent since this was last asked, episode by episode."""
        if not self.config.record:
            raise ValueError("nothing was recorded: make the env with record=True")
        return EpisodeLog.take_by_agent(self.batch)

    def scene(self, env: int = 0) -> dict[str, Any]:
        """What all agents are like now, for pictures of them; nothing moves."""
        scene: dict[str, Any] = self.batch.scene(env)
        return scene

    def close(self) -> None:
        """Refuse everything from now on. Closing twice is no error."""
        self._step_agents = _refuse
        self.batch.close()

    def _choice(self, name: str, actions: Mapping[str, Any]) -> NDArray[np.float64]:
        """The action of one agent; of one that is gone, nothing."""
        if set(actions) != set(self.agents):
            raise InvalidActionError(
                f"actions of the agents {self.agents} were wanted, found those of {list(actions)}"
            )
        shape = self.action_spaces[name].shape or ()
        choice = np.asarray(actions.get(name, np.zeros(shape)), np.float64)
        if choice.shape != shape:
            raise InvalidActionError(
                f"the action of {name!r} needs the shape {shape}, found {choice.shape}"
            )
        return choice

    def _step_when_ready(self, agents: PortfolioAgents, actions: Mapping[str, Any]) -> Any:
        """Act once; what has not come yet of the feed is waited for, wherever this is called.

        Agents that are shown less are shown less of it.
        """
        if self.feed is not None and self.batch.waits():
            run(take_rows(self.batch, self.feed))
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
        """Many of these envs: what a `sekai.vector.AgentsBatch` is made of.

        Batches that show an index, or windows from a file, have these as `batch.windows`.
        """
        config = _config(config, settings)
        options = (num_threads, max_episode_steps)
        batch, known, seen = batch_of(num_envs, data, features, config, options)
        shown = _Shown.of(config, seen, _names(batch))
        actions = _actions(config, known)
        choices = sum(space.shape[0] for space in actions.values() if space.shape)
        return {
            "batch": batch,
            "observation_space": _joint_space(seen, len(actions)),
            "action_space": Box(-np.inf, np.inf, (choices,), np.float64),
            "observation_spaces": shown.spaces,
            "action_spaces": actions,
            "windows": [(rows, _columns(channels)) for rows, channels in shown.kinds.values()],
            "info_names": INFO,
        }


@dataclass(frozen=True, slots=True)
class _Shown:
    """What each agent is shown of the features, by name."""

    kinds: dict[str, tuple[int, tuple[int, ...]]]
    """How many rows, and which channels."""

    spaces: dict[str, Dict]
    whole: tuple[int, tuple[int, ...]]
    """All rows, and all channels."""

    @classmethod
    def of(cls, config: MultiPortfolioConfig, seen: Dict, names: tuple[str, ...]) -> _Shown:
        """Find what agents are shown of what there is.

        Args:
            config: who they are.
            seen: what an agent sees that is shown everything.
            names: the names of all channels.
        """
        whole = config.lookback, tuple(range(len(names)))
        kinds = {
            name: (
                config.lookback if member.lookback is None else member.lookback,
                _channels(name, member, names),
            )
            for name, member in config.members.items()
        }
        return cls(kinds, {name: _part(seen, *kind) for name, kind in kinds.items()}, whole)


def _names(batch: Batch) -> tuple[str, ...]:
    """The names of all channels, of features or of windows in a file."""
    names: tuple[str, ...] = (
        batch.windows.features if batch.features is None else batch.features.names
    )
    return names


def _part(seen: Dict, rows: int, channels: tuple[int, ...]) -> Dict:
    """What an agent sees that is shown so many rows and channels alone."""
    # Every agent has spaces of its own: to seed one of them changes no other.
    own = copy.deepcopy(dict(seen.spaces))
    windows = own.get("windows")
    if isinstance(windows, Box):
        shape = (rows, windows.shape[1], len(channels))
        own["windows"] = Box(-np.inf, np.inf, shape, windows.dtype)
    return Dict(own)


def _actions(config: MultiPortfolioConfig, data: MarketData) -> dict[str, Space[Any]]:
    return {
        name: action_space(config.action, data, member.account)
        for name, member in config.members.items()
    }


def _joint_space(seen: Dict, agents: int) -> Dict:
    """What the batch shows of all agents together."""
    width = seen.spaces["weights"].shape
    assert width is not None, "weights are an array"
    wide = {
        part: Box(-np.inf, np.inf, (agents, size), np.float32)
        for part, size in {"weights": width[0], "account": len(ACCOUNT)}.items()
    }
    report = Box(-np.inf, np.inf, (agents, 3 + len(INFO)), np.float64)
    return Dict({**seen.spaces, **wide, "report": report})


Cuts = dict[str, tuple[int, Columns]]


def _named_agents(
    config: MultiPortfolioConfig, shown: _Shown, features: FeaturePanel | None
) -> tuple[PortfolioAgents, Cuts]:
    """What agents are called and shown; those who are shown the same share their windows.

    What is not in an array that stays as it is, is shown to all and then cut for those who are
    shown less: rows of a stream, assets that come later, and windows from a file.
    """
    names = list(shown.kinds)
    if config.observation == "index":
        return PortfolioAgents(names, [], []), {}
    cuts = {
        name: (rows, _columns(channels))
        for name, (rows, channels) in shown.kinds.items()
        if (rows, channels) != shown.whole
    }
    if features is None:
        return PortfolioAgents(names, [], []), cuts
    if config.stream or config.slots:
        return PortfolioAgents(names, [(None, config.lookback)], [0] * len(names)), cuts
    kinds = list(dict.fromkeys(shown.kinds.values()))
    # Whoever can write into the features could change what was shown already.
    is_loose = features.values.flags.writeable
    values = features.values.astype(np.float32, copy=is_loose)
    arrays = {channels: _seen(values, channels) for _, channels in kinds}
    windows = [(arrays[channels], rows) for rows, channels in kinds]
    return PortfolioAgents(names, windows, [kinds.index(own) for own in shown.kinds.values()]), {}


def _cut(observations: Observations, cuts: Cuts) -> None:
    """Take from those who are shown less what they are not shown."""
    for name, (rows, columns) in cuts.items():
        if name in observations:
            own = observations[name]
            own["windows"] = own["windows"][-rows:, :, columns]
            own["windows"].flags.writeable = False


def _config(config: MultiPortfolioConfig | None, settings: dict[str, Any]) -> MultiPortfolioConfig:
    if config is None:
        return MultiPortfolioConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config


def _channels(name: str, member: MemberConfig, names: tuple[str, ...]) -> tuple[int, ...]:
    if member.features is None:
        return tuple(range(len(names)))
    strange = [wanted for wanted in member.features if wanted not in names]
    if strange:
        raise ValueError(f"features of {name!r} must be among {', '.join(names)}, found {strange}")
    return tuple(names.index(wanted) for wanted in member.features)


def _columns(channels: tuple[int, ...]) -> Columns:
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
