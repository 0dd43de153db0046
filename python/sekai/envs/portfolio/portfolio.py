"""Portfolio environment: target weights over assets and cash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioAgents
from sekai.core.result import ResetResult, StepResult
from sekai.core.sync_async import run_coroutine
from sekai.data import (
    Bar,
    BarFeed,
    DataSignature,
    MarketData,
    RollingWindows,
    Windows,
    simulate_regimes,
)
from sekai.envs.native_env import NativeEnv, resolve_config
from sekai.envs.portfolio.batch import AccountReport, BatchLayer, MarketBatch, Observation
from sekai.envs.portfolio.config import PortfolioConfig
from sekai.envs.portfolio.log import EpisodeLog
from sekai.envs.portfolio.panel import (
    FeatureSource,
    FileWindows,
    WindowSource,
    action_space,
    check_windows,
    compute_features,
    decision_rows,
    needs_rolling_windows,
    observation_space,
    panel_windows,
    window_indices,
    with_slots,
)
from sekai.envs.portfolio.reward import RewardedBatch
from sekai.spaces import Dict, Space

Batch = MarketBatch | BatchLayer
BatchOptions = tuple[int | None, int | None]
Config = TypeVar("Config", bound=PortfolioConfig)
Rows = NDArray[np.int64]


class MarketDataEnv:
    """Market data, feed and universe of a portfolio env, for one agent or several."""

    # Not state: the batch's own state records how much of the data it has used.
    state_excludes: ClassVar[tuple[str, ...]] = (
        "features",
        "pipeline",
        "windows",
        "window_file",
        "feed",
        "metadata",
    )
    metadata: ClassVar[dict[str, Any]]
    config: PortfolioConfig
    batch: Batch
    feed: BarFeed | None
    """Source of streamed rows, if not `push` alone."""

    def _set_sources(self, features: FeatureSource | Windows, feed: BarFeed | None) -> None:
        self.feed = feed
        self.features: Any = self.batch.features
        """Features computed from the data; None where windows are in a file."""
        self.pipeline = self.batch.pipeline
        self.window_file = features if isinstance(features, Windows) else None
        """Precomputed windows, if they are shown."""
        self.windows = _shown_windows(self.batch, self.config)
        """Windows that `index` refers to: `env.windows.gather(indices)`."""
        # Seeds choose where episodes start, and nothing else.
        is_drawn = not self.batch.has_one_start
        vars(self)["metadata"] = {**self.metadata, "stochastic": is_drawn}

    @property
    def data(self) -> MarketData:
        """All known rows; free slots are assets that are never listed."""
        return self.batch.data

    @property
    def assets(self) -> tuple[str, ...]:
        """Names of the assets, without free slots."""
        return self.batch.assets

    @property
    def data_signature(self) -> DataSignature:
        """Bar length, calendar, features and assets, which policies trained here require."""
        return self.batch.data_signature

    def push(self, bar: Bar) -> None:
        """Append the next row of a stream. A rejected one changes nothing. Thread-safe."""
        self.batch.push(bar)

    def report(self, report: AccountReport) -> None:
        """Set the account after the next row without a report, as a broker reported it.

        In that row the env itself pays, delists and fills nothing: cash and units are those of the
        report, and are marked and rewarded as always. A rejected report changes nothing. With
        several agents reports are rejected.
        """
        self.batch.report(report)

    def remove_asset(self, name: str) -> None:
        """Remove an asset from the universe until the next episode: it is sold and not bought."""
        self.batch.remove_asset(name)

    def add_asset(self, name: str, data: MarketData | None = None) -> None:
        """Add a removed asset again, or with its data a new one into a free slot."""
        self.batch.add_asset(name, data)

    def _check_recorded(self) -> None:
        if not self.config.record:
            raise ValueError("nothing was recorded: make the env with record=True")

    async def _pull_rows(self) -> None:
        """Push rows of the feed until the next step can be taken.

        If the wait is cancelled, rows received before are pushed and the rest stays in the feed.
        """
        while self.feed is not None and self.batch.waits():
            self.batch.push(await self.feed.next_bar())

    def _wait_for_rows(self) -> None:
        if self.feed is not None and self.batch.waits():
            run_coroutine(self._pull_rows())


class Portfolio(MarketDataEnv, NativeEnv[Observation, Any]):
    """Rebalance a portfolio to target weights, pay the costs and earn the returns.

    Observation: `windows`, the last rows of features of each asset (or `index`, the row that they
        end with); `weights` of assets and cash; `mask` of the tradable assets; `account`: growth,
        drawdown, gross, net, margin call.
    Action: target weights of the assets and cash, projected onto the constraints; or for each
        asset 0, 1 or 2 for less, equal or more.
    Reward: log return of equity after all costs, unless other terms are configured.
    Terminates: when the portfolio is ruined.
    Truncates: after `episode_rows` rows, and at the end of the data.

    Args:
        data: market data; a simulated market of 20 assets if None. A feed is a stream that begins
            after the feed's history; steps wait for its rows.
        features: a fitted `Pipeline`, a `FeaturePanel`, names of features, or precomputed
            `Windows`, which go on after the rows of their file if they were opened with their
            pipeline.
        config: settings of episodes.
        **settings: fields of the config, instead of it.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.portfolio_renderer:PortfolioRenderer",
    }
    batch: Batch

    def __init__(
        self,
        data: MarketData | BarFeed | None = None,
        features: FeatureSource | Windows = None,
        config: PortfolioConfig | None = None,
        **settings: Any,
    ) -> None:
        config = resolve_config(PortfolioConfig, config, settings)
        history, feed, self.config = split_feed(data, config)
        super().__init__(*self.make_batch(1, data=history, features=features, config=self.config))
        if feed is not None:
            self._step_one = self._step_when_ready
        self._set_sources(features, feed)

    def step(self, action: Any) -> StepResult[Observation]:
        """Step the env; a stream raises `NotReadyError` if the next row was not pushed.

        A feed is waited for, and `FeedEndedError` is raised if it has ended.
        """
        return self._step_one(action)

    async def async_step(self, action: Any) -> StepResult[Observation]:
        """Step the env once the next row of a stream is known; cancelled before, nothing moves."""
        if self.feed is None:
            await self.batch.ready()
        elif self._step_one == self._step_when_ready:  # and not closed
            await self._pull_rows()
        return self._step_one(action)

    def orders(self, action: Any) -> NDArray[np.float64]:
        """Units of each asset that an action would order now; NaN is no order. Nothing moves.

        Needs `Execution(sizing="decision")`: otherwise units are known only at the fill.
        """
        return self.batch.orders(action)

    def take_log(self) -> list[EpisodeLog]:
        """Logs of the episodes since the last call; needs `record=True`."""
        self._check_recorded()
        return EpisodeLog.take(self.batch)

    def close(self) -> None:
        """Reject all calls from now on. Closing twice is no error."""
        super().close()
        self.batch.close()

    def _step_when_ready(self, action: Any) -> StepResult[Observation]:
        self._wait_for_rows()
        return self.batch.step_one(action)

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        data: MarketData | None = None,
        features: FeatureSource | Windows = None,
        config: PortfolioConfig | None = None,
        **settings: Any,
    ) -> tuple[Batch, Dict, Space[Any]]:
        """Batch of many envs, with the observation and action space of one.

        Batches that show an index, or windows of a file, have the windows as `batch.windows`.
        """
        config = resolve_config(PortfolioConfig, config, settings)
        options = (num_threads, max_episode_steps)
        batch, data, space = build_batch(num_envs, data, features, config, options)
        return batch, space, action_space(config.action, data, config.account)


class FileWindowsBatch(BatchLayer):
    """Batch that shows the windows of a file, or their indices.

    All windows of a step are gathered at once, straight into the caller's array.

    Args:
        batch: batch that shows the index of a row.
        windows: windows of the file, and those of rows after it.
        indices: window of each row of the data; rows pushed later have the windows that come with
            them.
        shown: show the windows themselves, or their indices.
    """

    windows: FileWindows

    def __init__(
        self,
        batch: MarketBatch,
        windows: FileWindows,
        indices: Rows,
        shown: Literal["window", "index"],
    ) -> None:
        super().__init__(batch)
        self.windows = windows
        self._indices = indices
        self._pushed_offset = len(windows) - len(indices)
        self._part = "windows" if shown == "window" else "index"
        self._all_envs = np.arange(batch.num_envs)
        self._rows = np.zeros((batch.num_envs, 1), np.int64)
        self._final_rows = np.zeros_like(self._rows)
        shape = (windows.lookback, len(windows.assets), len(windows.features))
        self._shape = (batch.num_envs, *(shape if shown == "window" else (1,)))
        self._dtype = windows.dtype if shown == "window" else np.dtype(np.int64)

    def reset(
        self,
        ids: Rows,
        seeds: NDArray[np.uint64] | None,
        observations: Observation,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Start an episode in the envs `ids`."""
        inner = self._inner("observations", observations, self._rows)
        self.batch.reset(ids, seeds, inner, options)
        self._show(ids, self._rows, observations)

    def step(
        self,
        actions: NDArray[Any],
        observations: Observation,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: Observation | None,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        """Step every env, except where `skip` is true."""
        inner, finals = self._inner("observations", observations, self._rows), None
        if final_observations is not None:
            finals = self._inner("final_observations", final_observations, self._final_rows)
        self.batch.step(actions, inner, rewards, terminated, truncated, finals, skip)
        acted = self._all_envs if skip is None else np.flatnonzero(~skip)
        self._show(acted, self._rows, observations)
        if final_observations is not None:
            ended = acted[terminated[acted] | truncated[acted]]
            self._show(ended, self._final_rows, final_observations)

    def reset_one(self, seed: int | None = None) -> ResetResult[Observation]:
        """Start an episode of a batch of one."""
        result = self.batch.reset_one(seed)
        return ResetResult(self._with_window(result.observation), result.info)

    def step_one(self, action: Any) -> StepResult[Observation]:
        """Step a batch of one."""
        result = self.batch.step_one(action)
        shown = self._with_window(result.observation)
        return StepResult(shown, result.reward, result.terminated, result.truncated, result.info)

    def reset_agents(self, agents: PortfolioAgents, seed: int | None = None) -> Any:
        """Start an episode of a batch of one, for several agents by name."""
        observations, infos = self.batch.reset_agents(agents, seed)
        return self._with_shared_window(observations), infos

    def step_agents(self, agents: PortfolioAgents, actions: Mapping[str, Any]) -> Any:
        """Step a batch of one with the actions of several agents by name."""
        observations, *rest = self.batch.step_agents(agents, actions)
        return self._with_shared_window(observations), *rest

    def _with_shared_window(
        self, observations: Mapping[str, Observation]
    ) -> dict[str, Observation]:
        """Observations of all agents, which share one read-only window."""
        first = next(iter(observations.values()))
        window = self._with_window(first)[self._part]
        if self._part == "windows":
            window.flags.writeable = False
        return {
            name: {
                self._part: window if self._part == "windows" else window.copy(),
                **{part: value for part, value in own.items() if part != "index"},
            }
            for name, own in observations.items()
        }

    def _with_window(self, observation: Observation) -> Observation:
        rest = dict(observation)
        index = self._window_index(rest.pop("index"))
        window = index if self._part == "index" else self.windows.gather(index)[0]
        return {self._part: window, **rest}

    def _window_index(self, rows: Rows) -> Rows:
        known = len(self._indices)
        if rows.size and rows.max() >= known:
            indices = self._indices[np.minimum(rows, known - 1)]
            return np.where(rows < known, indices, rows + self._pushed_offset)
        return self._indices[rows]

    def _inner(self, name: str, observations: Observation, rows: Rows) -> Observation:
        """Buffers of the inner batch; arrays that do not fit are rejected before a step."""
        array = observations.get(self._part)
        fits = isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable
        if array is None or not fits or (array.shape, array.dtype) != (self._shape, self._dtype):
            description = "none" if array is None else f"{array.dtype} of shape {array.shape}"
            raise ValueError(
                f"{name}[{self._part!r}] must be a writable C-contiguous array of {self._dtype} "
                f"and shape {self._shape}, got {description}"
            )
        rest = {key: value for key, value in observations.items() if key != self._part}
        return {**rest, "index": rows}

    def _show(self, ids: Rows, rows: Rows, observations: Observation) -> None:
        """Write the windows of the rows that the envs `ids` are in."""
        target, indices = observations[self._part], self._window_index(rows[ids, 0])
        if self._part == "index":
            target[ids, 0] = indices
        elif np.array_equal(ids, self._all_envs):
            self.windows.gather(indices, out=target)
        elif ids.size:
            target[ids] = self.windows.gather(indices)


def split_feed(
    data: MarketData | BarFeed | None, config: Config
) -> tuple[MarketData | None, BarFeed | None, Config]:
    """Known rows, the feed of later rows, and the config of both together."""
    if isinstance(data, MarketData) or not isinstance(data, BarFeed):
        return data, None, config
    if data.history is None:
        raise ValueError(
            f"feed {data!r} has no history, which the first observation needs; make the feed with "
            "history=MarketData(...)"
        )
    return data.history, data, replace(config, stream=True)


def build_batch(
    num_envs: int,
    data: MarketData | None,
    features: FeatureSource | Windows,
    config: PortfolioConfig,
    options: BatchOptions = (None, None),
    shown: str | None = None,
) -> tuple[Batch, MarketData, Dict]:
    """Build a batch of portfolios in layers, for one agent or several.

    Args:
        num_envs: number of envs.
        data: market data; a simulated market if None.
        features: features or windows shown.
        config: settings of episodes and agents.
        options: number of threads, and decisions after which episodes are truncated.
        shown: observation of the core, if not that of the config; see `MarketBatch`.

    Returns:
        The batch, the data with free slots, and the observation space of an agent that sees all.
    """
    data = with_slots(simulate_regimes() if data is None else data, config.slots)
    batch: Batch
    if isinstance(features, Windows):
        batch, space = _file_windows_batch(num_envs, data, features, config, options)
    else:
        batch, space = _features_batch(num_envs, data, features, config, options, shown)
    rewards = {
        name: member.reward if callable(member.reward) else None
        for name, member in config.members.items()
    }
    if any(reward is not None for reward in rewards.values()):
        batch = RewardedBatch(batch, rewards, getattr(config, "reward_mode", "own"))
    if config.record:
        batch.keep_log(True)
    return batch, data, space


def _features_batch(
    num_envs: int,
    data: MarketData,
    features: FeatureSource,
    config: PortfolioConfig,
    options: BatchOptions,
    shown: str | None,
) -> tuple[MarketBatch, Dict]:
    if config.stream and config.observation == "index":
        raise ValueError(
            "observation must be 'window' with stream=True, got 'index'; for indices of streamed "
            "rows pass Windows of a file, opened with a pipeline"
        )
    panel, pipeline = compute_features(data, features)
    is_index = config.observation == "index"
    windows = panel_windows(panel, config.lookback) if is_index else None
    batch = MarketBatch(
        num_envs, data, panel, pipeline, config, *options, windows=windows, shown=shown
    )
    if is_index:
        return batch, observation_space(data, rows=len(data))
    channels = panel.values.shape[2]
    return batch, observation_space(data, lookback=config.lookback, channels=channels)


def _file_windows_batch(
    num_envs: int,
    data: MarketData,
    windows: Windows,
    config: PortfolioConfig,
    options: BatchOptions,
) -> tuple[FileWindowsBatch, Dict]:
    check_windows(data, windows, config.lookback)
    is_rolling = needs_rolling_windows(data, windows, config.stream)
    rolling = RollingWindows(windows, data) if is_rolling else None
    known = windows if rolling is None else rolling
    indices, first = window_indices(data, known, decision_rows(data, None, config.decisions))
    # The core shows row indices; their history is in the file.
    market = MarketBatch(
        num_envs,
        data,
        None,
        windows.pipeline,
        config.by_row(),
        *options,
        first_row=first,
        rolling=rolling,
    )
    batch = FileWindowsBatch(market, known, indices, config.observation)
    if config.observation == "index":
        rows = np.iinfo(np.int64).max if config.stream else len(known)
        return batch, observation_space(data, rows=rows)
    return batch, observation_space(
        data, lookback=windows.lookback, channels=len(windows.features), dtype=windows.dtype
    )


def _shown_windows(batch: Batch, config: PortfolioConfig) -> WindowSource:
    if batch.windows is not None:
        return batch.windows
    assert batch.features is not None, "features are computed or windows come from a file"
    return panel_windows(batch.features, config.lookback)
