"""Hold a portfolio: decide what assets and cash shall be of it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import portfolio_names
from sekai.core.result import StepResult
from sekai.data import Bar, MarketData, simulate_regimes
from sekai.envs.market_batch import MarketBatch
from sekai.envs.native_env import NativeEnv
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_log import EpisodeLog
from sekai.envs.portfolio_panel import FeatureSource, features_of
from sekai.envs.portfolio_universe import with_slots
from sekai.market import CashAccount
from sekai.spaces import Box, Dict, MultiBinary, MultiDiscrete, Simplex, Space

__all__ = ["Portfolio"]

Observation = dict[str, NDArray[Any]]

ACCOUNT, INFO = portfolio_names()


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
    state_excludes: ClassVar[tuple[str, ...]] = ("features", "pipeline")
    batch: MarketBatch

    def __init__(
        self,
        data: MarketData | None = None,
        features: FeatureSource = None,
        config: PortfolioConfig | None = None,
        **settings: Any,
    ) -> None:
        """Build from data and a config, or the fields of `PortfolioConfig` by name.

        Args:
            data: what is traded on; a simulated market of 20 assets if not given.
            features: what is shown: a fitted `Pipeline`, a `FeaturePanel`, or names of features.
            config: how episodes are cut, shown, traded and rewarded.
            **settings: fields of the config, instead of it.
        """
        self.config = _config(config, settings)
        super().__init__(*self.make_batch(1, data=data, features=features, config=self.config))
        self.features, self.pipeline = self.batch.features, self.batch.pipeline

    @property
    def data(self) -> MarketData:
        """All rows that are known; places that are still free are assets that never were."""
        return self.batch.data

    @property
    def assets(self) -> tuple[str, ...]:
        """The names of the assets, without places that are still free."""
        return self.batch.assets

    def step(self, action: Any) -> StepResult[Observation]:
        """Act once; in a stream the next row has to be there, or `NotReadyError` is raised."""
        return self._step_one(action)

    async def async_step(self, action: Any) -> StepResult[Observation]:
        """Act once; in a stream, when the next row is there. Cancelled before, nothing moves."""
        await self.batch.ready()
        return self._step_one(action)

    def push(self, bar: Bar) -> None:
        """Take in the next row of a stream. A refused one changes nothing; threads may push."""
        self.batch.push(bar)

    def remove_asset(self, name: str) -> None:
        """Take an asset out of the universe until the next episode: sold, and not bought."""
        self.batch.remove_asset(name)

    def add_asset(self, name: str, data: MarketData | None = None) -> None:
        """Let an asset in again, or with its data a new one into a free place."""
        self.batch.add_asset(name, data)

    def take_log(self) -> list[EpisodeLog]:
        """What was recorded since this was last asked, episode by episode."""
        return self.batch.take_log()

    def close(self) -> None:
        """Refuse everything from now on. Closing twice is no error."""
        super().close()
        self.batch.close()

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        data: MarketData | None = None,
        features: FeatureSource = None,
        config: PortfolioConfig | None = None,
        **settings: Any,
    ) -> tuple[MarketBatch, Dict, Space[Any]]:
        """Many of these envs, the space of their observations and that of their actions."""
        config = _config(config, settings)
        data = with_slots(simulate_regimes() if data is None else data, config.slots)
        shown, pipeline = features_of(data, features)
        batch = MarketBatch(num_envs, data, shown, pipeline, config, num_threads, max_episode_steps)
        channels = shown.values.shape[2]
        return batch, _observation_space(config, data, channels), _action_space(config, data)


def _observation_space(config: PortfolioConfig, data: MarketData, channels: int) -> Dict:
    assets = len(data.assets)
    if config.observation == "index":
        last = np.iinfo(np.int64).max if config.stream else len(data) - 1
        seen = {"index": Box(0, last, (1,), np.int64)}
    else:
        shape = (config.lookback, assets, channels)
        seen = {"windows": Box(-np.inf, np.inf, shape, np.float32)}
    return Dict(
        {
            **seen,
            "weights": Box(-np.inf, np.inf, (assets + 1,), np.float32),
            "mask": MultiBinary(assets),
            "account": Box(-np.inf, np.inf, (len(ACCOUNT),), np.float32),
        }
    )


def _action_space(config: PortfolioConfig, data: MarketData) -> Space[Any]:
    assets = len(data.assets)
    if config.action == "tilts":
        return MultiDiscrete([3] * assets)
    if isinstance(config.account, CashAccount):
        return Simplex(assets + 1)
    most = config.account.leverage
    return Box(-most, most, (assets + 1,), np.float64)


def _config(config: PortfolioConfig | None, settings: dict[str, Any]) -> PortfolioConfig:
    if config is None:
        return PortfolioConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config
