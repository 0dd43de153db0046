"""Hold a portfolio: decide what assets and cash shall be of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch
from sekai.data import FeaturePanel, MarketData, Pipeline, Windows, simulate_regimes
from sekai.envs.batch_layer import BatchLayer
from sekai.envs.native_env import NativeEnv
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_panel import FeatureSource, decision_rows, features_of, panel_of
from sekai.envs.portfolio_reward import RewardedBatch
from sekai.envs.portfolio_spaces import action_space, observation_space
from sekai.envs.portfolio_windows import (
    FileWindowsBatch,
    IndexedBatch,
    WindowSource,
    check_windows,
    panel_windows,
    window_places,
)
from sekai.spaces import Dict, Space

__all__ = ["Portfolio"]

Observation = dict[str, NDArray[Any]]


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

    metadata = {"stochastic": True}  # noqa: RUF012 - as the base class types it
    # What was read or computed is not state: the batch's own state knows what it has seen of it.
    state_excludes: ClassVar[tuple[str, ...]] = ("data", "features", "pipeline", "windows")
    batch: PortfolioBatch | BatchLayer
    windows: WindowSource
    """What `index` is an index of: `env.windows.gather(indices)` are the windows."""

    def __init__(
        self,
        data: MarketData | None = None,
        features: FeatureSource | Windows = None,
        config: PortfolioConfig | None = None,
        **settings: Any,
    ) -> None:
        """Build from data and a config, or the fields of `PortfolioConfig` by name.

        Args:
            data: what is traded on; a simulated market of 20 assets if not given.
            features: what is shown: a fitted `Pipeline`, a `FeaturePanel`, names of features, or
                precomputed `Windows` with the times of the data's rows.
            config: how episodes are cut, shown, traded and rewarded.
            **settings: fields of the config, instead of it.
        """
        self.config = _config(config, settings)
        self.data = simulate_regimes() if data is None else data
        self.features, self.pipeline = _shown(self.data, features)
        self.windows = _windows(self.features, self.config)
        super().__init__(
            *self.make_batch(1, data=self.data, features=self.features, config=self.config)
        )

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
    ) -> tuple[PortfolioBatch | BatchLayer, Dict, Space[Any]]:
        """Many of these envs, the space of their observations and that of their actions.

        Batches that show an index, or windows from a file, have these as `batch.windows`.
        """
        config = _config(config, settings)
        data = simulate_regimes() if data is None else data
        shown, _ = _shown(data, features)
        options = (num_envs, num_threads, max_episode_steps)
        batch: PortfolioBatch | BatchLayer
        if isinstance(shown, Windows):
            batch = _file_batch(config, data, shown, options)
        else:
            panel = panel_of(data, shown, config.decisions, config.benchmark, open_ended=False)
            batch = PortfolioBatch(panel, config.core_settings(data), *options)
            if config.observation == "index":
                batch = IndexedBatch(batch, _windows(shown, config))
        if callable(config.reward):
            batch = RewardedBatch(batch, config.reward)
        return batch, _seen(config, data, shown), action_space(config.action, data, config.account)


def _shown(
    data: MarketData, features: FeatureSource | Windows
) -> tuple[FeaturePanel | Windows, Pipeline | None]:
    return (features, None) if isinstance(features, Windows) else features_of(data, features)


def _windows(shown: FeaturePanel | Windows, config: PortfolioConfig) -> WindowSource:
    return shown if isinstance(shown, Windows) else panel_windows(shown, config.lookback)


def _file_batch(
    config: PortfolioConfig,
    data: MarketData,
    windows: Windows,
    options: tuple[int, int | None, int | None],
) -> FileWindowsBatch:
    check_windows(data, windows, config.lookback)
    everything = np.ones(data.listed.shape, np.bool_)
    decides = decision_rows(data, everything, config.decisions)
    places, first = window_places(data, windows, decides)
    panel = panel_of(data, None, config.decisions, config.benchmark, open_ended=False)
    # The core shows rows, and their history is in the file.
    core = replace(config, lookback=1, observation="index").core_settings(data, first)
    return FileWindowsBatch(
        PortfolioBatch(panel, core, *options), windows, places, config.observation
    )


def _seen(config: PortfolioConfig, data: MarketData, shown: FeaturePanel | Windows) -> Dict:
    if config.observation == "index":
        return observation_space(data, rows=len(shown))
    windows = _windows(shown, config)
    return observation_space(
        data, lookback=windows.lookback, channels=len(windows.features), dtype=windows.dtype
    )


def _config(config: PortfolioConfig | None, settings: dict[str, Any]) -> PortfolioConfig:
    if config is None:
        return PortfolioConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config
