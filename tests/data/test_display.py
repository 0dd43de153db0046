"""Representations are short, frames and charts hold the values, help shows every option."""

from __future__ import annotations

import inspect as introspection
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

import sekai
import sekai.data
import sekai.envs
import sekai.market
from sekai.data import (
    Bar,
    DayCache,
    Disruptions,
    Events,
    FrameIntraday,
    MarketData,
    MarketIntraday,
    Options,
    PanelWindows,
    Pipeline,
    Policies,
    QlibProvider,
    Regime,
    TickStore,
    Windows,
    bundled_sets,
    inspect,
    make_feature,
    simulate_gbm,
    simulate_regimes,
)  # fmt: skip
from sekai.data.qlib.panel import QlibOptions
from sekai.data.summary import price_decimals
from sekai.envs import EpisodeLog, Portfolio
from sekai.error import MissingExtraError
from sekai.market import Free, Market, MarketConfig, OrderBook, Side, project_weights, settle
from tests.data.panels import bars

LONGEST = 2048
LARGE = simulate_gbm(assets=300, rows=400, sectors=["one", "two"])
SMALL = simulate_gbm(assets=4, rows=120)
MINUTES = simulate_gbm(assets=2, rows=800, frequency="1min")
READERS = (MarketData.from_parquet, MarketData.from_csv, MarketData.from_frame, inspect)


def traded_book() -> tuple[OrderBook, Any]:
    book, rng = OrderBook(), np.random.default_rng(0)
    result = book.batch(
        np.zeros(500, int), side=rng.integers(0, 2, 500), price=rng.integers(90, 110, 500),
        size=rng.integers(1, 9, 500), account=np.arange(500) % 7,
    )  # fmt: skip
    return book, result


def log_of(steps: int = 60, data: MarketData = SMALL) -> EpisodeLog:
    env = Portfolio(data=data, lookback=5, features=("log_return",), starts=6, record=True)
    env.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        env.step(rng.dirichlet(np.ones(len(data.assets) + 1)))
    return env.take_log()[0]


def data_objects(folder: Path) -> Iterator[Any]:
    pipeline = Pipeline([f"momentum({rows})" for rows in range(2, 90)], scaling="zscore")
    yield pipeline
    yield pipeline.fit(SMALL)
    yield pipeline.transform(SMALL)
    yield pipeline.stream(SMALL)
    yield from (LARGE, LARGE.calendar, LARGE.frequency, next(Bar.each(LARGE)), Policies())
    yield LARGE.walk_forward(train_rows=100, test_rows=50)[0]
    yield LARGE.walk_forward(train_rows=100, test_rows=50)
    yield Events(LARGE.times, np.ones(400), assets=["A000"] * 400, delay="1d")
    yield Options(market=bars(400), listing=dict.fromkeys(LARGE.assets, (None, None)))
    yield from (make_feature("momentum(20)"), DayCache(), Regime(), Disruptions(), *bundled_sets())
    intraday = MarketIntraday(MINUTES)
    yield from (intraday, intraday.day("A000", MINUTES.times[0]), FrameIntraday(MINUTES.to_frame()))
    panel = SMALL.values.astype(np.float32)
    yield PanelWindows(panel, 30, times=SMALL.times, assets=SMALL.assets, features=SMALL.fields)
    Windows.write(folder / "windows", SMALL, lookback=30)
    with Windows.open(folder / "windows") as windows:
        yield windows
    days = SMALL.times.astype("datetime64[D]").astype("datetime64[ns]")
    SMALL.replace(times=days).to_qlib(folder / "qlib")
    yield QlibProvider(folder / "qlib")
    yield TickStore.build(MINUTES, folder / "store")
    broken = bars(300).assign(close=-1.0)
    yield inspect(broken)
    yield inspect(broken)[0]


def market_objects() -> Iterator[Any]:
    book, result = traded_book()
    yield from (
        book,
        result,
        result.fills,
        settle(result.fills, Free()),
        book.orders(Side.BUY),
        book.depth(50),
    )
    yield Market(MarketConfig(symbols=40))
    market = Market()
    market.tick(10)
    yield from (market, market.record(500), market.config, market.account(), market.depth(20))
    yield from (sekai.market.Constraints(), sekai.market.Costs(), sekai.market.Execution())
    yield from (project_weights(np.ones(501) / 501), sekai.market.CashAccount())


def env_objects() -> Iterator[Any]:
    log = log_of()
    yield from (log, log.steps, log.trades)
    worlds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("Portfolio-v0", {"data": LARGE, "lookback": 5}), ("Trading-v0", {}),
        ("MarketMaking-v0", {}), ("OptimalExecution-v0", {}),
    )  # fmt: skip
    for name, options in worlds:
        env: Any = sekai.make(name, **options)
        step = env.reset(seed=0)
        yield from (env, env.unwrapped, env.unwrapped.config, env.observation_space, step)


def test_representations_are_short_and_tables_are_html(tmp_path: Path) -> None:
    objects = [*data_objects(tmp_path), *market_objects(), *env_objects()]
    unnamed = {type(shown).__name__ for shown in objects if " at 0x" in repr(shown)}
    assert unnamed == set()
    for shown in objects:
        kind = type(shown).__name__
        if kind != "ResetResult":
            assert len(repr(shown)) <= LONGEST, f"{kind}: {repr(shown)[:200]}"
        if hasattr(shown, "_repr_html_"):
            assert shown._repr_html_().startswith("<table>"), kind
            assert len(shown._repr_html_()) < 4 * LONGEST, kind
    with_table = {type(shown).__name__ for shown in objects if hasattr(shown, "_repr_html_")}
    assert with_table >= {"MarketData", "EpisodeLog", "OrderBook", "Market", "Pipeline", "Depth"}


def test_every_public_dataclass_with_arrays_is_among_them(tmp_path: Path) -> None:
    kinds = {type(shown) for shown in (*data_objects(tmp_path), *market_objects(), *env_objects())}
    for module in (sekai.data, sekai.market, sekai.envs):
        for name in module.__all__:
            kind = getattr(module, name)
            arrays = "NDArray" in str(getattr(kind, "__annotations__", ""))
            if isinstance(kind, type) and arrays and hasattr(kind, "__dataclass_fields__"):
                assert kind in kinds or kind.__name__ in ("PortfolioState", "AccountReport"), name


def test_a_panel_names_its_size_dates_frequency_fields_and_missing_share() -> None:
    text = repr(simulate_gbm(assets=2, rows=10, start="2024-01-01"))

    assert text == (
        "MarketData(10 rows, 2 assets, 2024-01-01 16:00 to 2024-01-12 16:00, every 1d, "
        "fields open, high, low, close, volume; 0.0% missing)"
    )
    assert "no rows" in repr(SMALL.rows(0, 0))
    assert "<table>" in SMALL.rows(0, 0)._repr_html_()


def test_problems_are_shown_as_their_report() -> None:
    found = inspect(bars(300).assign(close=-1.0))

    assert repr(found) == str(found)
    assert "price" in repr(found)


def test_prices_are_shown_with_the_decimals_that_they_have() -> None:
    rates = np.array([1.08512, 1.0850, 1.09])
    frame = pd.DataFrame(
        {"time": pd.date_range("2024-01-01", periods=3), "symbol": "EURUSD", "close": rates}
    )
    data = MarketData.from_frame(frame)

    assert "1.09000" in data._repr_html_()
    assert data.describe()["max_close"][0] == 1.09
    assert data.describe()["min_close"][0] == 1.085
    assert [price_decimals(rates), price_decimals([151.2, 3.0]), price_decimals([np.pi])] == [
        5, 2, 4,
    ]  # fmt: skip


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_the_summary_of_a_panel_is_a_frame_with_a_row_per_asset(backend: str) -> None:
    halts = Disruptions(halt_rate=0.1, late_share=0.5, listing_rows=20)
    data = simulate_gbm(assets=5, rows=200, seed=1, disruptions=halts, sectors=["one"])
    frame = data.describe(backend)
    table = {name: list(frame[name]) for name in ("asset", "rows", "halted", "last_close")}

    for index, asset in enumerate(data.assets):
        close = data.field("close")[data.quoted[:, index], index]
        assert str(table["asset"][index]) == asset
        assert int(table["rows"][index]) == data.listed[:, index].sum()
        assert int(table["halted"][index]) == (data.listed & ~data.quoted)[:, index].sum()
        assert float(table["last_close"][index]) == close[-1]


def test_the_volatility_of_a_panel_is_annualized() -> None:
    data = simulate_gbm(assets=1, rows=5000, volatility=0.25)

    assert data.describe()["volatility"][0] == pytest.approx(0.25, rel=0.05)


def test_logs_become_frames_of_pandas_and_polars() -> None:
    log = log_of()
    steps, trades, weights = (log.to_frame(name) for name in ("steps", "trades", "weights"))

    assert isinstance(steps, pd.DataFrame)
    assert isinstance(log.to_frame("trades", "polars"), pl.DataFrame)
    assert len(steps) == len(weights) == len(log.steps)
    assert np.array_equal(steps["equity"], log.steps.equity)
    assert np.array_equal(trades["value"], log.trades.value)
    assert np.array_equal(weights[[*log.assets, "cash"]], log.steps.weights)
    assert set(steps["agent"]) == {"portfolio"}
    kinds = [column for column in steps if column in log.costs]
    np.testing.assert_allclose(steps[kinds].sum(axis=1), log.steps.costs.sum(axis=1))
    assert log.trades.to_frame("polars").height == len(log.trades)
    assert len(log.steps.to_frame()) == len(log.steps)
    with pytest.raises(ValueError, match="table must be one of"):
        log.to_frame("orders")


def test_features_and_windows_become_frames(tmp_path: Path) -> None:
    panel = Pipeline(["log_return"]).transform(SMALL)
    frame = panel.to_frame("polars")
    Windows.write(tmp_path / "windows", SMALL, lookback=30)

    assert frame.shape == (len(SMALL) * 4, 2 + len(panel.names))
    shown = frame.filter(pl.col("asset") == SMALL.assets[2])[panel.names[0]].to_numpy()
    assert np.array_equal(shown, panel.values[:, 2, 0])
    with Windows.open(tmp_path / "windows") as windows:
        assert np.array_equal(windows.to_frame()["time"], windows.times)


def test_charts_are_matplotlib_axes_with_the_values() -> None:
    mpl.use("Agg")
    from matplotlib import pyplot

    log = log_of()
    axes = SMALL.plot(assets=SMALL.assets[:2], relative=True)
    equity, drawdown = log.plot()
    lines = axes.get_lines()

    assert len(lines) == 2
    close = SMALL.field("close")[:, 1]
    assert np.array_equal(lines[1].get_ydata(), close / close[0])
    assert np.array_equal(equity.get_lines()[0].get_ydata(), log.steps.equity)
    assert (drawdown.get_lines()[0].get_ydata() <= 0).all()
    assert SMALL.plot("volume", ax=axes) is axes
    pyplot.close("all")


def test_charts_name_the_extra_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)

    for plot in (SMALL.plot, log_of(3).plot):
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[report\]'"):
            plot()


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_readers_show_every_option_with_its_text(reader: Any) -> None:
    parameters = introspection.signature(reader).parameters
    text = introspection.getdoc(reader) or ""
    options = {field.name: getattr(Options(), field.name) for field in fields(Options)}

    assert list(parameters)[1:] == list(options)
    for name, default in options.items():
        assert f"\n    {name}: " in text, name
        assert parameters[name].kind is parameters[name].KEYWORD_ONLY
        if parameters[name].default is not None:
            assert parameters[name].default == default, name


@pytest.mark.parametrize(
    "function",
    [
        MarketData.from_qlib, MarketData.to_qlib, MarketData.split, MarketData.walk_forward,
        MarketData.resample, simulate_gbm, simulate_regimes, Windows.write, TickStore.build,
    ],
    ids=lambda function: function.__qualname__,
)  # fmt: skip
def test_functions_hide_no_option_behind_keywords(function: Any) -> None:
    text = introspection.getdoc(function) or ""
    for name, parameter in introspection.signature(function).parameters.items():
        assert parameter.kind is not parameter.VAR_KEYWORD
        assert name == "self" or f"{name}:" in text, name


def test_the_options_of_qlib_are_those_of_its_reader() -> None:
    parameters = list(introspection.signature(MarketData.from_qlib).parameters)

    assert parameters[1:] == [field.name for field in fields(QlibOptions)]
