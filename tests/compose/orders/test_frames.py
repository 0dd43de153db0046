"""Orders on frames of minutes: the same results as from files, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import (
    TWAP,
    VWAP,
    Order,
    OrderDir,
    SingleAssetOrderExecution,
    SingleAssetOrderExecutionSimple,
    run_orders,
)
from sekai.data import FrameIntraday, TickStore
from sekai.error import DataError
from tests.compose.orders.days import DATE, order, panel, work

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

EXECUTOR = {"time_per_step": "30min"}


def frame(symbols: tuple[str, ...] = ("AAA", "BBB"), pattern: str = "{}") -> Any:
    """The minutes of the panel as rows of pandas, with names of columns by a pattern."""
    data = panel()
    parts = []
    for symbol in symbols:
        values = data.values[:, data.asset(symbol)]
        columns = {pattern.format(name): values[:, at] for at, name in enumerate(data.fields)}
        parts.append(pd.DataFrame({"datetime": data.times, "symbol": symbol, **columns}))
    return pd.concat(parts, ignore_index=True)


def orders() -> list[Order]:
    return [
        Order(symbol, 500.0, direction, f"{day} 09:37", f"{day} {end}")
        for symbol in ("AAA", "BBB")
        for direction in OrderDir
        for day, end in (("2020-01-02", "11:10"), ("2020-01-04", "14:59"))
    ]


KINDS: dict[str, Any] = {
    "pandas": frame,
    "pandas with an index": lambda: frame().set_index("datetime"),
    "names of Qlib": lambda: frame(pattern="${}0"),
    "polars": lambda: pl.from_pandas(frame()),
    "read before": lambda: FrameIntraday(frame()),
    "a zone": lambda: frame().assign(
        datetime=lambda rows: rows["datetime"].dt.tz_localize("Asia/Shanghai")
    ),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TickStore:
    return TickStore.build(panel(), tmp_path_factory.mktemp("store") / "ticks")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("provider") / "1min"
    panel().to_qlib(root, freq="1min")
    return {"provider_uri_1min": str(root)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", [TWAP(), "vwap"])
def test_orders_on_a_frame_go_as_on_the_store_bit_for_bit(
    store: TickStore, kind: str, policy: Any
) -> None:
    settings: dict[str, Any] = {"progress": False, "vol_threshold": 0.05, "ticks_per_step": 20}
    reports = [
        run_orders(orders(), data, VWAP(data=data) if policy == "vwap" else policy, **settings)
        for data in (KINDS[kind](), store)
    ]

    assert reports[0].metrics.tobytes() == reports[1].metrics.tobytes()
    assert reports[0].fills.tobytes() == reports[1].fills.tobytes()


def test_a_frame_of_one_symbol_needs_no_column_of_symbols(store: TickStore) -> None:
    alone = frame(("AAA",)).drop(columns="symbol")

    both = [
        work(SingleAssetOrderExecutionSimple(order(), data), TWAP()).fills.tobytes()
        for data in (alone, store)
    ]

    assert both[0] == both[1]


def test_a_frame_read_from_a_file_of_the_store_gives_its_fills(store: TickStore) -> None:
    file = Path(store.folder, "backtest", "AAA.parquet")

    fills = [
        work(SingleAssetOrderExecutionSimple(order(), data), TWAP()).fills.tobytes()
        for data in (pd.read_parquet(file), pl.read_parquet(file), pl.scan_parquet(file), store)
    ]

    assert len(set(fills)) == 1


def test_workers_take_a_frame_along(store: TickStore) -> None:
    reports = [
        run_orders(orders(), data, TWAP(), progress=False, workers=workers)
        for data, workers in ((frame(), 2), (store, 1))
    ]

    assert reports[0].fills.tobytes() == reports[1].fills.tobytes()


EXCHANGES: dict[str, dict[str, Any]] = {
    "plain": {"trade_unit": None},
    "units and costs": {"open_cost": 0.0005, "close_cost": 0.0015, "min_cost": 5.0},
    "expressions": {
        "deal_price": ["$close*1.01", "Mean($close, 5)"],
        "volume_threshold": {"all": ("current", "0.03*$volume"), "buy": ("cum", "2*$volume")},
        "limit_threshold": ["$close > Ref($close, 1)*1.002", "$close < Ref($close, 1)*0.998"],
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_the_exchange_on_a_frame_is_that_of_a_provider_bit_for_bit(
    folders: dict[str, str], kind: str, exchange: str
) -> None:
    data = KINDS[kind]()
    if "names of Qlib" not in kind:
        data = FrameIntraday(data) if not isinstance(data, FrameIntraday) else data
    rules = EXCHANGES[exchange]
    for one in orders():
        on_frame = SingleAssetOrderExecution(one, EXECUTOR, rules, data=data)
        on_disk = SingleAssetOrderExecution(one, EXECUTOR, rules, folders)
        assert work(on_frame, TWAP()).fills.tobytes() == work(on_disk, TWAP()).fills.tobytes()
        assert on_frame.metrics == on_disk.metrics


def test_a_frame_and_folders_are_one_too_many(folders: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="one of data and qlib_config"):
        SingleAssetOrderExecution(order(), EXECUTOR, {}, folders, data=frame())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["full_history", "current_step"])
def test_the_env_on_a_frame_is_the_one_on_the_store(
    store: TickStore, kind: str, state: str
) -> None:
    named: dict[str, Any] = {
        "assets": ["AAA", "BBB"],
        "days": ["2020-01-02", "2020-01-03", "2020-01-04"],
    }
    envs = [
        sekai.make("OrderExecution-v0", data=KINDS[kind](), state=state),
        sekai.make("OrderExecution-v0", data=store, state=state, **named),
    ]

    for seed in (3, 4):
        assert len({played(env, seed) for env in envs}) == 1


def played(env: Any, seed: int) -> tuple[Any, ...]:
    """All that an episode shows and pays, in bytes."""
    result = env.reset(seed=seed)
    seen: list[Any] = [*pickled(result.observation)]
    while True:
        result = env.step(2)
        seen += [*pickled(result.observation), float(result.reward).hex(), result.done]
        if result.done:
            return tuple(seen)


def pickled(observation: Any) -> list[bytes]:
    return [np.asarray(observation[key]).tobytes() for key in sorted(observation)]


def test_an_env_on_a_frame_without_symbols_draws_its_orders() -> None:
    env: Any = sekai.make("OrderExecution-v0", data=frame(("AAA",)).drop(columns="symbol"))

    env.reset(seed=0)

    assert str(env.unwrapped.simulator.order.date) >= DATE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.drop(columns="volume"), "column '\\$volume', .*got \\$change"),
        (lambda rows: rows.drop(columns="close"), "column '\\$close', .*got"),
        (lambda rows: rows.iloc[::-1], "unsorted timestamps: (AAA|BBB)"),
        (lambda rows: pd.concat([rows, rows]).sort_values("datetime"), "duplicate timestamp: AAA"),
    ],
)
def test_a_frame_that_is_wrong_is_refused_before_anything_is_traded(change: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        SingleAssetOrderExecutionSimple(order(), change(frame()))


def test_a_field_that_an_exchange_needs_is_named() -> None:
    with pytest.raises(DataError, match="no field '\\$volume'"):
        SingleAssetOrderExecution(order(), EXECUTOR, {}, data=frame().drop(columns="volume"))


def test_what_has_no_ticks_is_refused_with_what_has() -> None:
    with pytest.raises(TypeError, match="MarketData, a frame of pandas.*got int"):
        SingleAssetOrderExecutionSimple(order(), 3)
