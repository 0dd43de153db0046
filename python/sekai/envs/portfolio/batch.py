"""Batches of portfolio envs: market data and native batch together, and layers around them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch, PortfolioPanel
from sekai.core.result import ResetResult, StepResult
from sekai.data import (
    Bar,
    DataSignature,
    FeaturePanel,
    MarketData,
    Pipeline,
    RollingWindows,
)
from sekai.data.features.stream import FeatureStream
from sekai.envs.native_env import BatchWrapper
from sekai.envs.portfolio.account_report import AccountReport
from sekai.envs.portfolio.config import LEAST_KEPT, PortfolioConfig
from sekai.envs.portfolio.log import Holdings, current_holdings, join_logs
from sekai.envs.portfolio.panel import (
    Benchmark,
    WindowSource,
    build_panel,
    fill_slot,
    pad_bar,
    panel_columns,
    select_asset,
)
from sekai.error import StateError
from sekai.market.costs import COST_FIELDS
from sekai.storage.names import unknown_name

__all__ = ["COST_FIELDS", "AccountReport", "BatchLayer", "MarketBatch", "Observation"]

Result = TypeVar("Result")
Floats = NDArray[np.float64]
Observation = dict[str, NDArray[Any]]


class MarketBatch:
    """Native batch of portfolios on market data that can be streamed and gain assets.

    Implements `sekai.vector.NativeBatch` and `sekai.envs.native_env.BatchOfOne`.

    Args:
        num_envs: number of envs.
        data: market data, whose last `config.slots` assets are free slots.
        features: features shown; None where windows are shown from a file.
        pipeline: computes the features of streamed rows.
        config: settings of episodes.
        num_threads: most threads that step the envs; None for one per core.
        max_episode_steps: decisions after which episodes are truncated.
        first_row: first row of a decision, if not the one after the warm-up.
        rolling: windows of a file that go on with streamed rows.
        windows: windows that `index` observations refer to.
        shown: observation of the native batch if not the config's: `"index"` where windows are
            added to it in Python.
    """

    reset: Callable[..., None]
    step: Callable[..., None]
    reset_one: Callable[..., ResetResult[Observation]]
    step_one: Callable[..., StepResult[Observation]]
    reset_agents: Callable[..., Any]
    step_agents: Callable[..., Any]
    rollout: Callable[..., Any]
    write_cuts: Callable[..., None]

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
        rolling: RollingWindows | None = None,
        windows: WindowSource | None = None,
        shown: str | None = None,
    ) -> None:
        self.config = config
        self.features = features
        self.pipeline = pipeline
        self.windows = windows
        self._rolling = rolling
        self._data = data
        self._free_slots = config.slots
        self._benchmark = Benchmark(config.benchmark, data)
        self._benchmark_levels: Floats | None = None
        self._stream = _open_stream(data, pipeline, config) if config.stream else None
        panel = build_panel(data, features, config.decisions, self._benchmark, config.stream)
        self._core_options: dict[str, Any] = {"first_row": first_row, "shown": shown}
        settings = config.core_settings(data, **self._core_options)
        self.native = PortfolioBatch(panel, settings, num_envs, num_threads, max_episode_steps)
        self._scene_levels: Floats = np.empty(0)
        self._is_logged, self._logged = False, list[dict[str, Any]]()
        self._waiters: list[asyncio.Future[None]] = []
        self._is_closed = False
        self._has_forgotten = False
        # Another thread may push rows. Without a stream the native methods are called directly.
        self._lock = threading.RLock()
        for name in ("reset", "step", "reset_one", "step_one", "reset_agents", "step_agents"):
            method = getattr(self.native, name)
            setattr(self, name, self._locked(method) if config.stream else method)
        if not config.stream:
            self.rollout, self.write_cuts = self.native.rollout, self.native.write_cuts

    @property
    def market(self) -> MarketBatch:
        """The batch itself, as that of the layers around it."""
        return self

    @property
    def num_envs(self) -> int:
        """Number of envs."""
        return self.native.num_envs

    @property
    def num_threads(self) -> int:
        """Number of threads that step the envs."""
        return self.native.num_threads

    @property
    def data(self) -> MarketData:
        """All known rows; free slots are assets that are never listed."""
        return self._data if self._stream is None else self._stream.panel()

    @property
    def assets(self) -> tuple[str, ...]:
        """Names of the assets, without free slots."""
        return self._data.assets[: len(self._data.assets) - self._free_slots]

    @property
    def data_signature(self) -> DataSignature:
        """Bar length, calendar, features and assets."""
        return _signature(self)

    @property
    def rows(self) -> int:
        """Number of known rows."""
        return self.native.rows

    @property
    def has_one_start(self) -> bool:
        """True if episodes of all seeds are the same rows."""
        return self.native.has_one_start

    def infos(self) -> Mapping[str, NDArray[Any]]:
        """Infos of the envs, one array for each key."""
        return self.native.infos()

    def final_infos(self) -> Mapping[str, NDArray[Any]]:
        """Infos of the episodes that the last step ended; other rows are undefined."""
        return self.native.final_infos()

    def clone_env(self, source: int, target: int) -> None:
        """Copy env `source` to env `target`, random streams included."""
        self.native.clone_env(source, target)

    def waits(self, env: int = 0) -> bool:
        """Return True if the next step of an env needs a row that has not been pushed."""
        return self.native.waits(env)

    def push(self, bar: Bar) -> None:
        """Append the next row of a stream. A rejected one changes nothing. Thread-safe."""
        if self._stream is None:
            raise ValueError("push() needs a stream; make the env with stream=True")
        with self._lock:
            self._check_shape(bar)
            bar = pad_bar(bar, self._free_slots)
            features = self._stream.push(bar.time, bar.values, market=bar.market, **bar.masks())
            try:
                self._benchmark_levels = self._push_native(self._stream, features)
            except Exception:
                self._stream.take_back()
                raise
            if self._rolling is not None:
                self._rolling.push(self._stream.latest.times[0], features)
            self._drop_old_rows()
            self._wake_waiters()

    async def ready(self, env: int = 0) -> None:
        """Wait until the next step of an env has the rows it needs."""
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
        """Remove an asset from the universe of an env, or of all, until its next episode.

        A position in it is sold as soon as possible, and none is bought.
        """
        self._set_removed(name, env, True)

    def add_asset(self, name: str, data: MarketData | None = None, env: int | None = None) -> None:
        """Add a removed asset again, or a new one into a free slot of all envs.

        Args:
            name: the asset.
            data: rows of a new asset, with the same times as the known rows. Features of the
                other assets in these rows stay as they were.
            env: env that a removed asset returns to; None for all.
        """
        if data is None:
            self._set_removed(name, env, False)
        elif name in self.assets:
            raise ValueError(f"asset {name!r} is in the universe; data is for new assets only")
        else:
            with self._lock:
                self._fill_slot(select_asset(name, data, self.data))

    def orders(self, action: Any, env: int = 0) -> Floats:
        """Units of each asset that an action of an env would order now; NaN is no order.

        With several agents, one row for each.
        """
        with self._lock:
            units = self.native.orders(env, action)
        agents = len(self.config.members)
        rows = units.reshape(agents, -1)[:, : len(self.assets)]
        return rows[0] if agents == 1 else rows

    def report(self, report: AccountReport, env: int = 0) -> None:
        """Set the account of an env after its next row without a report."""
        with self._lock:
            self.native.report(env, *report.columns(self.assets, self._free_slots))

    def keep_log(self, kept: bool) -> None:
        """Start or stop logging every env."""
        with self._lock:
            self.native.keep_log(kept)
            self._is_logged, self._logged = kept, []

    def take_log(self) -> list[dict[str, Any]]:
        """Episodes logged since the last call, with the env of each."""
        with self._lock:
            logs, self._logged = join_logs(self._logged, self.native.take_log()), []
        return logs

    def scene(self, env: int = 0) -> dict[str, Any]:
        """State of an env for renderers; nothing changes."""
        if self._has_forgotten:
            raise ValueError("cannot render after keep_rows has dropped rows; use keep_rows=None")
        with self._lock:
            if self._is_logged:
                # Reading the holdings uses the log of the native batch: set its contents aside.
                self._logged = join_logs(self._logged, self.native.take_log())
            try:
                holdings = current_holdings(self.native, self.native.state_dict(), env)
            finally:
                self.native.keep_log(self._is_logged)
            data, infos = self.data, self.native.infos()
        if len(self._scene_levels) != len(data):
            self._scene_levels = self._benchmark.levels(data)
        agents = {name: agent.initial_cash for name, agent in self.config.members.items()}
        scene = _scene(holdings, data, agents, self._scene_levels)
        if len(agents) > 1:
            return scene
        # Infos of a batch are those of the first agent.
        return {**scene, **{name: float(infos[name][env]) for name in ("cost", "turnover")}}

    def state_dict(self) -> dict[str, Any]:
        """State from which the batch continues bit for bit, on the same rows."""
        return self.native.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rejected one changes nothing."""
        with self._lock:
            self.native.load_state_dict(state)
            self._wake_waiters()

    def save_rows(self, *, every: bool = False) -> dict[str, Any]:
        """Rows of a stream that later rows depend on, for `load_rows`.

        Their number is bounded by `keep_rows`, or without it by what features and lookback need;
        all rows are included if a feature needs all history and its stream has no state.

        Args:
            every: include all known rows.
        """
        if self._stream is None:
            raise ValueError("save_rows() needs a stream; make the env with stream=True")
        with self._lock:
            keep = None if every else self._rows_to_keep(self._stream)
            levels = self._benchmark_levels
            if levels is None:
                levels = self._benchmark.returns(self._data)[1]
            count = len(self._stream) if keep is None else keep
            native = self.native.save_rows(count)
            return {
                "assets": list(self._data.assets),
                "fields": list(self._data.fields),
                "native": native,
                "stream": self._stream.state_dict(keep),
                "rolling": None if self._rolling is None else self._rolling.state_dict(count),
                "benchmark": levels,
                "has_forgotten": self._has_forgotten or count < len(self._stream),
            }

    def load_rows(self, rows: Mapping[str, Any]) -> None:
        """Replace the rows of a stream by those of `save_rows`; load the state of an env next.

        Raises:
            StateError: they are rows of other assets or features.
        """
        names = {"assets": list(self._data.assets), "fields": list(self._data.fields)}
        expected = {**names, "stream": self._stream is not None, "file": self._rolling is not None}
        actual = {name: rows[name] for name in names}
        actual |= {"stream": True, "file": rows["rolling"] is not None}
        if self._stream is None or expected != actual:
            raise StateError(f"rows of another stream: got {actual}, expected {expected}")
        with self._lock:
            self.native.load_rows(rows["native"])
            self._stream.load_state_dict(rows["stream"])
            if self._rolling is not None:
                self._rolling.load_state_dict(rows["rolling"])
            self._benchmark_levels = np.array(rows["benchmark"], np.float64)
            self._has_forgotten = bool(rows["has_forgotten"])

    def _rows_to_keep(self, stream: FeatureStream) -> int | None:
        """Number of last rows to save; None for all."""
        needed = stream.rows_needed
        if self.config.keep_rows is not None or needed is None:
            return None
        return max(needed, self.config.lookback, LEAST_KEPT)

    def close(self) -> None:
        """Release all callers that wait in `ready`."""
        with self._lock:
            self._is_closed = True
            self._wake_waiters()

    def _drop_old_rows(self) -> None:
        keep = self.config.keep_rows
        if keep is not None and self._stream is not None and len(self._stream) >= 2 * keep:
            self._stream.forget(self.native.forget(keep))
            if self._rolling is not None:
                self._rolling.forget(len(self._stream))
            self._has_forgotten = True

    def _push_native(self, stream: FeatureStream, features: NDArray[np.floating]) -> Floats:
        """Push the latest row to the native batch; return the benchmark levels after it."""
        latest = stream.latest
        # The core has no features where windows are shown from a file.
        values = None if self.features is None else features[None]
        present = None if self.features is None else stream.present
        columns = panel_columns(latest, values, present, self.config.decisions)
        levels = self._benchmark_levels
        before = self._benchmark.returns(self._data)[1] if levels is None else levels
        columns["benchmark"], levels = self._benchmark.returns(latest, before)
        self.native.push(columns)
        return levels

    def _check_shape(self, bar: Bar) -> None:
        expected = (len(self.assets), len(self._data.fields))
        if np.shape(bar.values) != expected:
            raise ValueError(
                f"wrong shape of bar values: got {np.shape(bar.values)}, expected {expected} "
                f"({expected[0]} assets by the fields {', '.join(self._data.fields)})"
            )

    def _set_removed(self, name: str, env: int | None, is_removed: bool) -> None:
        if name not in self.assets:
            hint = "" if is_removed else "; a new asset needs data"
            raise KeyError(f"{unknown_name('asset', name, self.assets)}{hint}")
        asset = self.assets.index(name)
        with self._lock:
            for index in range(self.native.num_envs) if env is None else [env]:
                self.native.set_removed(index, asset, is_removed)

    def _fill_slot(self, asset: MarketData) -> None:
        name = asset.assets[0]
        if not self._free_slots:
            raise ValueError(f"no free slot for asset {name!r}; make the env with more slots")
        if self.pipeline is None:
            raise ValueError(
                f"cannot compute features of new asset {name!r}; make the env with a Pipeline or "
                "names of features"
            )
        if self._has_forgotten and self._stream is not None and self._stream.is_recursive:
            raise ValueError(
                f"cannot compute features of new asset {name!r}: they depend on rows that were "
                "dropped; use features with a bounded lookback, or keep_rows=None"
            )
        slot = len(self.assets)
        data = fill_slot(self.data, slot, asset)
        stream = None if self._stream is None else self.pipeline.stream(data)
        features = self.pipeline.transform(data).values[:, [slot]]
        columns = panel_columns(asset, features, None, "every_row")
        # Decisions and benchmark of known rows stay as they were.
        columns["benchmark"] = np.zeros(len(asset))
        panel = PortfolioPanel(columns, self.config.stream)
        self.native.fill_slot(slot, panel, self.config.core_settings(data, **self._core_options))
        self._data, self._stream, self._benchmark_levels = data, stream, None
        self._free_slots -= 1

    def _locked(self, method: Callable[..., Result]) -> Callable[..., Result]:
        def call(*args: Any, **kwargs: Any) -> Result:
            with self._lock:
                return method(*args, **kwargs)

        return call

    def _wake_waiters(self) -> None:
        for waiter in self._waiters:
            # Nobody waits in a loop that was closed.
            with suppress(RuntimeError):
                waiter.get_loop().call_soon_threadsafe(_finish, waiter)


class BatchLayer(BatchWrapper):
    """Batch around another one, for what is not written in Rust; subclasses override methods.

    Stepping, states and logs pass through the layers; market data and orders go to the
    `MarketBatch` directly.
    """

    batch: MarketBatch | BatchLayer

    def __init__(self, batch: MarketBatch | BatchLayer) -> None:
        super().__init__(batch)
        self.market: MarketBatch = batch.market if isinstance(batch, BatchLayer) else batch
        self.windows: WindowSource | None = batch.windows
        self.config, self.features = self.market.config, self.market.features
        self.pipeline = self.market.pipeline
        self.has_one_start = self.market.has_one_start
        self.push, self.ready, self.waits = self.market.push, self.market.ready, self.market.waits
        self.orders, self.report = self.market.orders, self.market.report
        self.add_asset, self.remove_asset = self.market.add_asset, self.market.remove_asset
        self.scene, self.close = self.market.scene, self.market.close

    @property
    def data(self) -> MarketData:
        """All known rows."""
        return self.market.data

    @property
    def assets(self) -> tuple[str, ...]:
        """Names of the assets, without free slots."""
        return self.market.assets

    @property
    def data_signature(self) -> DataSignature:
        """Bar length, calendar, features and assets."""
        return _signature(self)

    @property
    def rows(self) -> int:
        """Number of known rows."""
        return self.market.rows

    def reset_agents(self, agents: Any, seed: int | None = None) -> Any:
        """Start an episode of a batch of one, for several agents by name."""
        return self.batch.reset_agents(agents, seed)

    def step_agents(self, agents: Any, actions: Mapping[str, Any]) -> Any:
        """Step a batch of one with the actions of several agents by name."""
        return self.batch.step_agents(agents, actions)

    def keep_log(self, kept: bool) -> None:
        """Start or stop logging every env."""
        self.batch.keep_log(kept)

    def take_log(self) -> list[dict[str, Any]]:
        """Episodes logged since the last call, with the env of each."""
        return self.batch.take_log()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _signature(batch: MarketBatch | BatchLayer) -> DataSignature:
    shown: Any = batch.windows if batch.features is None else batch.features
    names = shown.features if batch.features is None else shown.names
    pipeline = batch.pipeline or getattr(shown, "pipeline", None)
    return DataSignature.of(batch.data, names, pipeline, batch.assets)


def _open_stream(
    data: MarketData, pipeline: Pipeline | None, config: PortfolioConfig
) -> FeatureStream:
    if pipeline is None:
        raise ValueError(
            "cannot compute features of streamed rows from a FeaturePanel; pass a Pipeline or "
            "names of features with stream=True"
        )
    stream = pipeline.stream(data)
    if config.keep_rows is not None:
        needed = stream.rows_needed
        if needed is None:
            raise ValueError("keep_rows needs features with a bounded lookback; use keep_rows=None")
        if config.keep_rows < max(needed, config.lookback):
            raise ValueError(
                f"keep_rows must be at least {max(needed, config.lookback)}, which features and "
                f"lookback need, got {config.keep_rows}"
            )
    return stream


def _scene(
    holdings: Holdings, data: MarketData, agents: Mapping[str, float], benchmark: Floats
) -> dict[str, Any]:
    """State of portfolios for renderers.

    Args:
        holdings: cash and units of the agents.
        data: all known rows.
        agents: initial cash of each agent, by name.
        benchmark: level of the benchmark in each row.
    """
    values = holdings.units * _marks(data, holdings.row, holdings.units)
    equity = holdings.cash + values.sum(axis=1)
    parts = np.column_stack([values, holdings.cash])
    weights = np.divide(parts, equity[:, None], out=np.zeros_like(parts), where=equity[:, None] > 0)
    return {
        "seed": holdings.seed,
        "episode": holdings.episode,
        "tick": holdings.row,
        "time": data.times[holdings.row],
        "agents": tuple(agents),
        "assets": data.assets,
        "beginnings": np.array(list(agents.values())),
        "equities": equity,
        "weights": weights.astype(np.float32),
        "benchmark": float(benchmark[holdings.row]),
    }


def _marks(data: MarketData, row: int, units: Floats) -> Floats:
    """Last price of each asset that is held; 0 for others."""
    closes = data.field("close")
    marks = np.where(data.quoted[row], closes[row], 0.0)
    for asset in np.flatnonzero(~data.quoted[row] & (units != 0).any(axis=0)):
        quoted = np.flatnonzero(data.quoted[:row, asset])
        marks[asset] = closes[quoted[-1], asset]
    return marks
