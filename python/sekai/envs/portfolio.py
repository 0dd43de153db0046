"""Hold a portfolio: decide what assets and cash shall be of it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.core.aio import run
from sekai.core.result import StepResult
from sekai.data import Bar, BarFeed, MarketData, RollingWindows, Windows, simulate_regimes
from sekai.envs.account_report import AccountReport
from sekai.envs.batch_layer import BatchLayer
from sekai.envs.market_batch import MarketBatch
from sekai.envs.native_env import NativeEnv
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_feed import begun_with, take_rows
from sekai.envs.portfolio_log import EpisodeLog
from sekai.envs.portfolio_panel import FeatureSource, decision_rows, features_of
from sekai.envs.portfolio_reward import RewardedBatch
from sekai.envs.portfolio_spaces import action_space, observation_space
from sekai.envs.portfolio_universe import with_slots
from sekai.envs.portfolio_windows import (
    FileWindowsBatch,
    IndexedBatch,
    WindowSource,
    check_windows,
    goes_on,
    panel_windows,
    window_places,
)
from sekai.spaces import Dict, Space

__all__ = ["Batch", "Portfolio", "batch_of", "windows_of"]

Observation = dict[str, NDArray[Any]]
Batch = MarketBatch | BatchLayer
Options = tuple[int | None, int | None]


class Portfolio(NativeEnv[Observation, Any]):
    """Decide what assets and cash shall be of a portfolio, pay for the change, take what comes.

    Observation: `windows`, the last rows of features of each asset (or `index`, the row that they
        end with); `weights` of assets and cash; `mask` of the assets that can be traded; `account`:
        growth, drawdown, gross, net, margin call.
    Action: weights of the assets, then that of cash, brought to the nearest that the mandate
        allows; or for each asset 0, 1 or 2 for less, as much or more of it.
    Reward: log return of equity over the step after all costs, unless other terms are asked for.
    Terminates: when the portfolio is ruined.
    Truncates: after `episode_rows` rows, and at the end of the data.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.portfolio_renderer:PortfolioRenderer",
    }
    batch: Batch

    # What was read or computed is not state: the batch's own state knows what it has seen of it.
    state_excludes: ClassVar[tuple[str, ...]] = (
        "features",
        "pipeline",
        "windows",
        "window_file",
        "feed",
    )

    def __init__(
        self,
        data: MarketData | BarFeed | None = None,
        features: FeatureSource | Windows = None,
        config: PortfolioConfig | None = None,
        **settings: Any,
    ) -> None:
        """Build from data and a config, or the fields of `PortfolioConfig` by name.

        Args:
            data: what is traded on; a simulated market of 20 assets if not given. A feed is a
                stream that begins after the feed's history, and steps wait for its rows.
            features: what is shown: a fitted `Pipeline`, a `FeaturePanel`, names of features, or
                `Windows` that were computed before, which go on with rows after those of the
                file if they were opened with the pipeline that made them.
            config: how episodes are cut, shown, traded and rewarded.
            **settings: fields of the config, instead of it.
        """
        known, feed, self.config = begun_with(data, _config(config, settings))
        super().__init__(*self.make_batch(1, data=known, features=features, config=self.config))
        self.feed = feed
        """Where rows come from, if not from `push` alone."""
        if feed is not None:
            self._step_one = self._step_when_ready
        self.features, self.pipeline = self.batch.features, self.batch.pipeline
        self.window_file = features if isinstance(features, Windows) else None
        """The windows that were computed before, if that is what is shown."""
        self.windows = windows_of(self.batch, self.config)
        """What `index` is an index of: `env.windows.gather(indices)` are the windows."""

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

    def step(self, action: Any) -> StepResult[Observation]:
        """Act once; in a stream the next row has to be there, or `NotReadyError` is raised.

        On a feed it is waited for, and `FeedEndedError` is raised if there will be none.
        """
        return self._step_one(action)

    async def async_step(self, action: Any) -> StepResult[Observation]:
        """Act once; in a stream, when the next row is there. Cancelled before, nothing moves."""
        if self.feed is None:
            await self.batch.ready()
        elif self._step_one == self._step_when_ready:  # and not closed
            await take_rows(self.batch, self.feed)
        return self._step_one(action)

    def push(self, bar: Bar) -> None:
        """Take in the next row of a stream. A refused one changes nothing; threads may push."""
        self.batch.push(bar)

    def orders(self, action: Any) -> NDArray[np.float64]:
        """The units of each asset that an action would order now; NaN is no order. Nothing moves.

        Needs `Execution(sizing="decision")`: otherwise units are known only at the fill.
        """
        units: NDArray[np.float64] = self.batch.orders(action)
        return units

    def report(self, report: AccountReport) -> None:
        """Say what the account is after the next row that has no report yet.

        In that row nothing is paid, delisted or filled by the env itself: cash and units are what
        was reported, and are marked and rewarded as always. A refused report changes nothing.
        """
        self.batch.report(report)

    def remove_asset(self, name: str) -> None:
        """Take an asset out of the universe until the next episode: sold, and not bought."""
        self.batch.remove_asset(name)

    def add_asset(self, name: str, data: MarketData | None = None) -> None:
        """Let an asset in again, or with its data a new one into a free place."""
        self.batch.add_asset(name, data)

    def take_log(self) -> list[EpisodeLog]:
        """What was recorded since this was last asked, episode by episode."""
        if not self.config.record:
            raise ValueError("nothing was recorded: make the env with record=True")
        return EpisodeLog.take(self.batch)

    def close(self) -> None:
        """Refuse everything from now on. Closing twice is no error."""
        super().close()
        self.batch.close()

    def _step_when_ready(self, action: Any) -> StepResult[Observation]:
        """Act once; what has not come yet of the feed is waited for, wherever this is called."""
        if self.feed is not None and self.batch.waits():
            run(take_rows(self.batch, self.feed))
        result: StepResult[Observation] = self.batch.step_one(action)
        return result

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
        """Many of these envs, the space of their observations and that of their actions.

        Batches that show an index, or windows from a file, have these as `batch.windows`.
        """
        config = _config(config, settings)
        options = (num_threads, max_episode_steps)
        batch, data, seen = batch_of(num_envs, data, features, config, options)
        return batch, seen, action_space(config.action, data, config.account)


def batch_of(
    num_envs: int,
    data: MarketData | None,
    features: FeatureSource | Windows,
    config: PortfolioConfig,
    options: Options = (None, None),
    shown: str | None = None,
) -> tuple[Batch, MarketData, Dict]:
    """Build a batch of portfolios in layers, for one agent or several.

    Args:
        num_envs: how many envs there are.
        data: what is traded on; a simulated market if not given.
        features: what is shown.
        config: how episodes are cut, shown, traded and rewarded, and who trades.
        options: the number of threads, and the decisions after which episodes are truncated.
        shown: what the core shows, if not what the config says; see `MarketBatch`.

    Returns:
        The batch, the data with free places, and what one agent sees of all features.
    """
    data = with_slots(simulate_regimes() if data is None else data, config.slots)
    if isinstance(features, Windows):
        batch, seen = _batch_of_file(num_envs, data, features, config, options)
    else:
        batch, seen = _batch_of_features(num_envs, data, features, config, options, shown)
    rewards = {
        name: member.reward if callable(member.reward) else None
        for name, member in config.members.items()
    }
    if any(reward is not None for reward in rewards.values()):
        batch = RewardedBatch(batch, rewards, getattr(config, "reward_mode", "own"))
    if config.record:
        batch.keep_log(True)
    return batch, data, seen


def _batch_of_features(
    num_envs: int,
    data: MarketData,
    features: FeatureSource,
    config: PortfolioConfig,
    options: Options,
    shown: str | None,
) -> tuple[Batch, Dict]:
    if config.stream and config.observation == "index":
        raise ValueError(
            "a stream shows windows, since rows to come are in no array yet: observation must "
            "be 'window', was 'index'; Windows of a file, opened with a pipeline, show both"
        )
    panel, pipeline = features_of(data, features)
    batch = MarketBatch(num_envs, data, panel, pipeline, config, *options, shown=shown)
    if config.observation == "index":
        windows = panel_windows(panel, config.lookback)
        return IndexedBatch(batch, windows), observation_space(data, rows=len(data))
    channels = panel.values.shape[2]
    return batch, observation_space(data, lookback=config.lookback, channels=channels)


def _batch_of_file(
    num_envs: int, data: MarketData, windows: Windows, config: PortfolioConfig, options: Options
) -> tuple[Batch, Dict]:
    check_windows(data, windows, config.lookback)
    rolling = RollingWindows(windows, data) if goes_on(data, windows, config.stream) else None
    known = windows if rolling is None else rolling
    places, first = window_places(data, known, decision_rows(data, None, config.decisions))
    # The core shows rows, and their history is in the file.
    core = config.by_row()
    batch = MarketBatch(
        num_envs, data, None, windows.pipeline, core, *options, first_row=first, windows=rolling
    )
    shown = FileWindowsBatch(batch, known, places, config.observation)
    if config.observation == "index":
        rows = np.iinfo(np.int64).max if config.stream else len(known)
        return shown, observation_space(data, rows=rows)
    channels = len(windows.features)
    return shown, observation_space(
        data, lookback=windows.lookback, channels=channels, dtype=windows.dtype
    )


def windows_of(batch: Batch, config: PortfolioConfig) -> WindowSource:
    """The windows that an index is an index of."""
    kept: WindowSource | None = getattr(batch, "windows", None)
    if kept is None:
        assert batch.features is not None, "what is shown is computed or comes from a file"
        return panel_windows(batch.features, config.lookback)
    return kept


def _config(config: PortfolioConfig | None, settings: dict[str, Any]) -> PortfolioConfig:
    if config is None:
        return PortfolioConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config
