"""Portfolios of a batch and what they are traded on: rows and assets may still come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch, PortfolioPanel
from sekai.data import Bar, FeaturePanel, MarketData, Pipeline, RollingWindows
from sekai.data.features.stream import FeatureStream
from sekai.envs.account_report import AccountReport
from sekai.envs.portfolio_benchmark import Benchmark
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_panel import columns_of, panel_of
from sekai.envs.portfolio_scene import continued, holdings, portfolio_scene
from sekai.envs.portfolio_universe import asset_alone, padded, with_asset

__all__ = ["MarketBatch"]

Result = TypeVar("Result")


class MarketBatch:
    """A native batch of portfolios whose market can go on and whose universe can change.

    What is not here is asked of the native batch.
    """

    def __init__(
        self,
        num_envs: int,
        data: MarketData,
        features: FeaturePanel | None,
        pipeline: Pipeline | None,
        config: PortfolioConfig,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        first_row: int | None = None,
        windows: RollingWindows | None = None,
        shown: str | None = None,
    ) -> None:
        """Begin with data whose last `config.slots` assets are places that are still free.

        Args:
            num_envs: how many portfolios there are.
            data: what is traded on.
            features: what is shown; None where that is shown from elsewhere.
            pipeline: what computes features of rows that are still to come.
            config: how episodes are cut, shown, traded and rewarded.
            num_threads: how many threads step them at most; None for one per core.
            max_episode_steps: decisions after which episodes are truncated.
            first_row: the first row for a decision, if not the one after the warm-up.
            windows: what is shown from elsewhere of rows that are still to come.
            shown: what the native batch shows, if not what the config says: `"index"` where
                windows are shown from elsewhere.
        """
        self.config = config
        self.features = features
        self.pipeline = pipeline
        self._rolling = windows
        self._data = data
        self._free = config.slots
        self._benchmark = Benchmark(config.benchmark, data)
        self._known: NDArray[np.float64] | None = None
        self._stream = _stream(data, pipeline, config) if config.stream else None
        panel = panel_of(data, features, config.decisions, self._benchmark, config.stream)
        self._core: dict[str, Any] = {"first_row": first_row, "shown": shown}
        settings = config.core_settings(data, **self._core)
        self.native = PortfolioBatch(panel, settings, num_envs, num_threads, max_episode_steps)
        self._levels: NDArray[np.float64] = np.empty(0)
        self._is_logged, self._logged = False, list[dict[str, Any]]()
        self._waiters: list[asyncio.Future[None]] = []
        self._is_closed = False
        self._has_forgotten = False
        # Another thread may bring rows. Where none can come, nothing stands before a step.
        self._lock = threading.RLock()
        for name in ("reset", "step", "reset_one", "step_one", "reset_agents", "step_agents"):
            method = getattr(self.native, name)
            setattr(self, name, self._in_turn(method) if config.stream else method)

    def __getattr__(self, name: str) -> Any:
        """What the native batch has."""
        if name == "native":
            raise AttributeError("the batch is not there yet")
        return getattr(self.native, name)

    @property
    def data(self) -> MarketData:
        """All rows that are known; places that are still free are assets that never were."""
        return self._data if self._stream is None else self._stream.panel()

    @property
    def assets(self) -> tuple[str, ...]:
        """The names of the assets, without places that are still free."""
        return self._data.assets[: len(self._data.assets) - self._free]

    def push(self, bar: Bar) -> None:
        """Take in the next row. A refused one changes nothing. Any thread may call this."""
        if self._stream is None:
            raise ValueError("rows can be pushed to an env made with stream=True, found another")
        with self._lock:
            self._check_shape(bar)
            bar = padded(bar, self._free)
            shown = self._stream.push(bar.time, bar.values, market=bar.market, **bar.masks())
            try:
                self._known = self._taken(self._stream, shown)
            except Exception:
                self._stream.take_back()
                raise
            if self._rolling is not None:
                self._rolling.push(self._stream.latest.times[0], shown)
            self._forget()
            self._wake()

    async def ready(self, env: int = 0) -> None:
        """Wait until the next step of an env needs no row that has not come yet."""
        while True:
            with self._lock:
                if self._is_closed or not self.native.waits(env):
                    return
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
            try:
                await waiter
            finally:
                with self._lock:
                    self._waiters.remove(waiter)

    def remove_asset(self, name: str, env: int | None = None) -> None:
        """Take an asset out of the universe of an env, or of all, until its next episode.

        What is held of it is sold at the next chance, and nothing of it is bought.
        """
        self._set_removed(name, env, True)

    def add_asset(self, name: str, data: MarketData | None = None, env: int | None = None) -> None:
        """Let an asset in again, or a new one into a free place, for all envs.

        Args:
            name: the asset.
            data: if it is new, its rows: as many, and with the same times, as are known of the
                others. Features of the others stay what they were in these rows.
            env: where to let it in again; everywhere if not given.
        """
        if data is None:
            self._set_removed(name, env, False)
        elif name in self.assets:
            raise ValueError(f"a new asset was wanted with data, found {name!r}, which is there")
        else:
            with self._lock:
                self._fill(asset_alone(name, data, self.data))

    def orders(self, action: Any, env: int = 0) -> NDArray[np.float64]:
        """The units of each asset that an action of an env means now; NaN is no order.

        Where there are several agents, those of one after the other, in a row each.
        """
        with self._lock:
            units = self.native.orders(env, action)
        agents = len(self.config.members)
        rows = units.reshape(agents, -1)[:, : len(self.assets)]
        return rows[0] if agents == 1 else rows

    def report(self, report: AccountReport, env: int = 0) -> None:
        """Say what the account of an env is after the next row that has no report yet."""
        with self._lock:
            self.native.report(env, *report.columns(self.assets, self._free))

    def keep_log(self, kept: bool) -> None:
        """Keep a log of every env from now on, or none any more."""
        with self._lock:
            self.native.keep_log(kept)
            self._is_logged, self._logged = kept, []

    def take_log(self) -> list[dict[str, Any]]:
        """The episodes that were logged since this was last asked, with the env of each."""
        with self._lock:
            logs, self._logged = continued(self._logged, self.native.take_log()), []
        return logs

    def scene(self, env: int = 0) -> dict[str, Any]:
        """What an env is like now, for pictures of it; nothing moves."""
        if self._has_forgotten:
            raise ValueError("pictures show all rows, and keep_rows forgets the first")
        with self._lock:
            if self._is_logged:
                # Reading uses the log of the batch: what is in it is put aside.
                self._logged = continued(self._logged, self.native.take_log())
            try:
                held = holdings(self.native, self.native.state_dict(), env)
            finally:
                self.native.keep_log(self._is_logged)
            data, infos = self.data, self.native.infos()
        if len(self._levels) != len(data):
            self._levels = self._benchmark.levels(data)
        agents = {name: own.initial_cash for name, own in self.config.members.items()}
        scene = portfolio_scene(held, data, agents, self._levels)
        if len(agents) > 1:
            return scene
        # Infos of a batch are those of the first agent.
        return {**scene, **{name: float(infos[name][env]) for name in ("cost", "turnover")}}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, bit for bit, on the same rows."""
        return self.native.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        with self._lock:
            self.native.load_state_dict(state)
            self._wake()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._lock:
            self._is_closed = True
            self._wake()

    def _forget(self) -> None:
        """Let go of rows that nobody needs, many at a time."""
        keep = self.config.keep_rows
        if keep is not None and self._stream is not None and len(self._stream) >= 2 * keep:
            self._stream.forget(self.native.forget(keep))
            if self._rolling is not None:
                self._rolling.forget(len(self._stream))
            self._has_forgotten = True

    def _taken(self, stream: FeatureStream, shown: NDArray[np.floating]) -> NDArray[np.float64]:
        """Let the native batch have the latest row, and say which levels are known after it."""
        latest = stream.latest
        # Of what is shown from elsewhere the core knows nothing, in history as in the stream.
        features = None if self.features is None else shown[None]
        present = None if self.features is None else stream.present
        columns = columns_of(latest, features, present, self.config.decisions)
        before = self._benchmark.returns(self._data)[1] if self._known is None else self._known
        columns["benchmark"], known = self._benchmark.returns(latest, before)
        self.native.push(columns)
        return known

    def _check_shape(self, bar: Bar) -> None:
        wanted = (len(self.assets), len(self._data.fields))
        if np.shape(bar.values) != wanted:
            raise ValueError(
                f"values of {wanted[0]} assets by {wanted[1]} fields were wanted, found the shape "
                f"{np.shape(bar.values)}"
            )

    def _set_removed(self, name: str, env: int | None, is_removed: bool) -> None:
        if name not in self.assets:
            hint = "" if is_removed else "; a new one needs data"
            raise KeyError(f"one of {', '.join(self.assets)} was wanted, found {name!r}{hint}")
        place = self.assets.index(name)
        with self._lock:
            envs = range(self.native.num_envs) if env is None else [env]
            for one in envs:
                self.native.set_removed(one, place, is_removed)

    def _fill(self, asset: MarketData) -> None:
        """Let a new asset into the first free place."""
        if not self._free or self.pipeline is None:
            wanted = "features that a pipeline computes" if self._free else "a free place"
            raise ValueError(f"{wanted} was wanted for {asset.assets[0]}, found none: see slots=")
        place = len(self.assets)
        data = with_asset(self.data, place, asset)
        stream = None if self._stream is None else self.pipeline.stream(data)
        panel = self._panel_of_one(asset, place, self.pipeline.transform(data))
        self.native.fill_slot(place, panel, self.config.core_settings(data, **self._core))
        self._data, self._stream, self._known = data, stream, None
        self._free -= 1

    def _panel_of_one(
        self, asset: MarketData, place: int, features: FeaturePanel
    ) -> PortfolioPanel:
        rows = len(asset)
        shown = features.values[:, [place]]
        columns = columns_of(asset, shown, None, "every_row")
        # Decisions and benchmarks of rows that are known stay what they were.
        return PortfolioPanel({**columns, "benchmark": np.zeros(rows)}, self.config.stream)

    def _in_turn(self, method: Callable[..., Result]) -> Callable[..., Result]:
        def call(*args: Any, **kwargs: Any) -> Result:
            with self._lock:
                return method(*args, **kwargs)

        return call

    def _wake(self) -> None:
        """Let those who wait look again, in their own loops."""
        for waiter in self._waiters:
            # In a loop that was closed nobody waits any more.
            with suppress(RuntimeError):
                waiter.get_loop().call_soon_threadsafe(_finish, waiter)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _stream(data: MarketData, pipeline: Pipeline | None, config: PortfolioConfig) -> FeatureStream:
    if pipeline is None:
        raise ValueError(
            "stream=True needs features that can be computed for rows to come: a Pipeline or "
            "names, found a FeaturePanel"
        )
    stream = pipeline.stream(data)
    if config.keep_rows is not None:
        needed = stream.rows_needed
        if needed is None:
            raise ValueError("keep_rows needs features that look back so many rows, found others")
        if config.keep_rows < max(needed, config.lookback):
            raise ValueError(
                f"keep_rows must be at least {max(needed, config.lookback)}, which features and "
                f"lookback need, was {config.keep_rows}"
            )
    return stream
