"""Hold a portfolio: decide what assets and cash shall be of it."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch
from sekai.data import MarketData, simulate_regimes
from sekai.envs.native_env import NativeEnv
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_panel import FeatureSource, features_of, panel_of
from sekai.envs.portfolio_spaces import action_space, observation_space
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
    state_excludes: ClassVar[tuple[str, ...]] = ("data", "features", "pipeline")
    batch: PortfolioBatch

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
        self.data = simulate_regimes() if data is None else data
        self.features, self.pipeline = features_of(self.data, features)
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
        features: FeatureSource = None,
        config: PortfolioConfig | None = None,
        **settings: Any,
    ) -> tuple[PortfolioBatch, Dict, Space[Any]]:
        """Many of these envs, the space of their observations and that of their actions."""
        config = _config(config, settings)
        data = simulate_regimes() if data is None else data
        shown, _ = features_of(data, features)
        panel = panel_of(data, shown, config.decisions, config.benchmark, open_ended=False)
        batch = PortfolioBatch(
            panel, config.core_settings(data), num_envs, num_threads, max_episode_steps
        )
        channels = shown.values.shape[2]
        seen = observation_space(config.observation, data, config.lookback, channels)
        return batch, seen, action_space(config.action, data, config.account)


def _config(config: PortfolioConfig | None, settings: dict[str, Any]) -> PortfolioConfig:
    if config is None:
        return PortfolioConfig(**settings)
    if settings:
        raise TypeError(
            f"either a config or its fields were wanted, found both: {sorted(settings)}"
        )
    return config
