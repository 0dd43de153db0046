"""Hostile calls of the native core, made in a child process that must survive all of them.

Run as a script: `hostile.py calls SEED ROUNDS`, `hostile.py states SEED ROUNDS` or `hostile.py
sizes`. Every call is written down before it is made, so that a process that dies names its last
one. What is raised must be an error that a caller can name; anything else ends the process.
"""

from __future__ import annotations

import copy
import inspect
import json
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import quant_gym_rs._core as core
from sekai.data import simulate_gbm
from sekai.envs import (
    MarketMakingConfig,
    MultiPortfolio,
    OptimalExecutionConfig,
    PortfolioConfig,
)
from sekai.envs.portfolio_panel import features_of, panel_of
from sekai.error import SekaiError

EXPECTED = (
    ValueError,
    TypeError,
    MemoryError,
    OverflowError,
    IndexError,
    KeyError,
    AttributeError,
    SekaiError,
    RuntimeError,
)
"""What a refusal may be. A `PanicException` is none of them: it is a `BaseException`."""

ADDRESS_SPACE = 4 << 30
"""Bytes that the child may map: an allocation without a check fails here as on a full machine."""

SIZES = (2**31, 2**40, 2**62, -1, 0)


def trading_config(**changes: Any) -> str:
    settings = json.loads(core.trading_defaults())
    return json.dumps({**settings, **changes})


def market_config(**changes: Any) -> str:
    return json.dumps({**json.loads(core.trading_defaults())["market"], **changes})


DATA = simulate_gbm(assets=3, rows=60, seed=1)
PORTFOLIO = PortfolioConfig(lookback=4)


def portfolio_panel(open_ended: bool = False) -> core.PortfolioPanel:
    shown, _ = features_of(DATA, ("log_return",))
    return panel_of(DATA, shown, PORTFOLIO.decisions, PORTFOLIO.benchmark, open_ended=open_ended)


PANEL = portfolio_panel()
SETTINGS = PORTFOLIO.core_settings(DATA)


def trading_batch(num_envs: int = 2) -> core.TradingBatch:
    batch = core.TradingBatch(trading_config(warm_up=5), num_envs, 2)
    if num_envs > 1:
        batch.reset(np.arange(2), np.arange(2, dtype=np.uint64), np.zeros((2, 54)), None)
    return batch


def book() -> core.OrderBook:
    made = core.OrderBook()
    for account, (side, price) in enumerate([(0, 99), (0, 98), (1, 101), (1, 103)]):
        made.limit(account, side, price, 5)
    return made


def market() -> core.Market:
    made = core.Market(market_config(), 3)
    made.tick(20)
    return made


def matcher() -> core.OrderMatcher:
    prices = np.linspace(10, 11, 60)
    made = core.OrderMatcher(prices, 100 * prices, True, 500.0, 5, 55, ticks_per_step=10)
    made.step(50.0)
    return made


def moments() -> core.RunningMoments:
    made = core.RunningMoments(3)
    made.update(np.arange(12.0).reshape(4, 3))
    return made


def features() -> core.FeatureState:
    made = core.FeatureState()
    for step in range(20):
        made.push([102.0 + step, 99.0, 100.0 + step % 3, 5.0, 2.0])
    return made


def portfolio_batch(num_envs: int = 1) -> core.PortfolioBatch:
    made = core.PortfolioBatch(PANEL, SETTINGS, num_envs, 2)
    if num_envs == 1:
        made.reset_one(1)
        made.step_one(np.array([0.2, 0.3, 0.1, 0.4]))
    return made


def single(batch: Any) -> Any:
    batch.reset_one(1)
    return batch


OBJECTS: dict[str, Callable[[], Any]] = {
    "TradingBatch": trading_batch,
    "TradingBatch of one": lambda: single(trading_batch(1)),
    "TradingWeightsBatch": lambda: single(core.TradingWeightsBatch(trading_config(warm_up=5))),
    "MarketMakingBatch": lambda: single(core.MarketMakingBatch(MarketMakingConfig())),
    "OptimalExecutionBatch": lambda: single(core.OptimalExecutionBatch(OptimalExecutionConfig())),
    "PortfolioBatch": portfolio_batch,
    "PortfolioBatch of two": lambda: portfolio_batch(2),
    "PortfolioPanel": portfolio_panel,
    "PortfolioAgents": lambda: core.PortfolioAgents(["a", "b"], [], []),
    "Market": market,
    "OrderBook": book,
    "OrderMatcher": matcher,
    "RunningMoments": moments,
    "RewardScale": lambda: core.RewardScale(3),
    "EpisodeTotals": lambda: core.EpisodeTotals(3),
    "FeatureState": features,
    "PyTradingEnv": lambda: core.PyTradingEnv(100, 1),
    "PyVecTradingEnv": lambda: core.PyVecTradingEnv(2, 100, 1),
}

SIZED: dict[str, Callable[[int], Any]] = {
    "TradingBatch num_envs": lambda n: core.TradingBatch(trading_config(), n),
    "TradingBatch num_threads": lambda n: core.TradingBatch(trading_config(), 64, n),
    "TradingBatch max_episode_steps": lambda n: core.TradingBatch(trading_config(), 1, 1, n),
    "TradingBatch warm_up": lambda n: core.TradingBatch(trading_config(warm_up=n)),
    "TradingBatch max_ticks": lambda n: core.TradingBatch(trading_config(max_ticks=n)),
    "TradingBatch scene levels": lambda n: trading_batch().scene(0, 0, n),
    "TradingBatch scene symbol": lambda n: trading_batch().scene(0, n),
    "TradingBatch scene env": lambda n: trading_batch().scene(n),
    "TradingBatch clone_env": lambda n: trading_batch().clone_env(0, n),
    "TradingWeightsBatch num_envs": lambda n: core.TradingWeightsBatch(trading_config(), n),
    "MarketMakingBatch num_envs": lambda n: core.MarketMakingBatch(MarketMakingConfig(), n),
    "OptimalExecutionBatch num_envs": lambda n: core.OptimalExecutionBatch(
        OptimalExecutionConfig(), n
    ),
    "PortfolioBatch num_envs": lambda n: core.PortfolioBatch(PANEL, SETTINGS, n),
    "PortfolioBatch num_threads": lambda n: core.PortfolioBatch(PANEL, SETTINGS, 1, n),
    "PortfolioBatch lookback": lambda n: core.PortfolioBatch(
        PANEL, json.dumps({**json.loads(SETTINGS), "lookback": n})
    ),
    "PortfolioBatch forget": lambda n: portfolio_batch().forget(n),
    "PortfolioBatch fill_slot": lambda n: portfolio_batch().fill_slot(n, PANEL, SETTINGS),
    "PortfolioBatch set_removed": lambda n: portfolio_batch().set_removed(0, n, True),
    "PortfolioAgents lookback": lambda n: core.PortfolioAgents(["a"], [(np.ones(3), n)], [0]),
    "PortfolioAgents shown": lambda n: core.PortfolioAgents(["a"], [], [n]),
    "Market symbols": lambda n: core.Market(
        market_config(symbols=[{"price": 10_000, "sector": n}])
    ),
    "Market external": lambda n: core.Market(market_config(external=n)),
    "Market makers": lambda n: core.Market(
        market_config(population={**json.loads(market_config())["population"], "makers": n})
    ),
    "Market record_columns": lambda n: n < 2**30 or market().record_columns(n),
    "Market depth_columns": lambda n: market().depth_columns(0, 0, n),
    "Market symbol": lambda n: market().mid(n),
    "Market agent": lambda n: market().account_columns(n),
    "OrderBook levels": lambda n: book().levels(0, n),
    "OrderBook depth_columns": lambda n: book().depth_columns(0, n),
    "OrderBook size": lambda n: book().limit(0, 0, 90, n),
    "OrderBook price": lambda n: book().limit(0, 0, n, 1),
    "OrderMatcher first": lambda n: core.OrderMatcher(
        np.ones(9), np.ones(9), True, 1.0, n, 2**62 + 1
    ),
    "OrderMatcher ticks_per_step": lambda n: core.OrderMatcher(
        np.ones(9), np.ones(9), True, 1.0, 0, 9, ticks_per_step=n
    ).step(0.5),
    "OrderMatcher fills": lambda n: matcher().fills(0, n),
    "RunningMoments width": core.RunningMoments,
    "RewardScale batch": core.RewardScale,
    "EpisodeTotals batch": core.EpisodeTotals,
    "PyTradingEnv num_symbols": lambda n: core.PyTradingEnv(100, 1, n),
    "PyTradingEnv max_ticks": core.PyTradingEnv,
    "PyVecTradingEnv num_envs": core.PyVecTradingEnv,
    "PyVecTradingEnv num_threads": lambda n: core.PyVecTradingEnv(64, num_threads=n),
    "gather_windows lookback": lambda n: core.gather_windows(
        np.ones((5, 1, 1), np.float32), np.array([4]), n, np.ones((1, 1, 1, 1), np.float32)
    ),
    "gather_windows threads": lambda n: core.gather_windows(
        np.ones((400, 9, 9), np.float32),
        np.full(5000, 300),
        3,
        np.ones((5000, 3, 9, 9), np.float32),
        n,
    ),
    "rolling_windows rows": lambda n: core.rolling_windows(np.ones((3, 2)), n, "deviation"),
    "rolling_windows sum": lambda n: core.rolling_windows(np.ones((3, 2)), n, "sum"),
    "log_changes rows": lambda n: core.log_changes(np.ones((3, 2)), np.ones((3, 2), bool), n),
    "show_features firsts": lambda n: core.show_features(np.ones((3, 2, 1)), None, [n]),
    "panel_flaw prices": lambda n: core.priced_places(np.ones((3, 2, 1)), [n]),
    "logarithms broadcast": lambda n: core.logarithms(broadcast(1.0, n)),
    "rolling_windows broadcast": lambda n: core.rolling_windows(broadcast(1.0, n, 1), 2, "sum"),
    "join_features broadcast": lambda n: core.join_features(
        [broadcast(1.0, n, 1, 1)], broadcast(True, n, 1)
    ),
    "show_features broadcast": lambda n: core.show_features(broadcast(1.0, n, 1, 1)),
    "priced_places broadcast": lambda n: core.priced_places(broadcast(1.0, n, 1, 1), [0]),
    "benchmark_returns broadcast": lambda n: core.benchmark_returns(broadcast(1.0, n, 1)),
    "OrderMatcher broadcast": lambda n: core.OrderMatcher(
        broadcast(1.0, n), broadcast(1.0, n), True, 1.0, 0, 9
    ),
    "FeatureState series broadcast": lambda n: features().series(broadcast(1.0, n, 5)),
    "RunningMoments broadcast": lambda n: moments().update(broadcast(1.0, n, 3)),
    "PortfolioPanel broadcast": lambda n: core.PortfolioPanel(
        {
            "times": broadcast(1, n),
            "close": broadcast(1.0, n, 3),
            **{name: broadcast(True, n, 3) for name in ("listed", "quoted", "tradable")},
            "decides": broadcast(True, n),
            "benchmark": broadcast(0.0, n),
        }
    ),
    "settle_trades broadcast": lambda n: core.settle_trades(
        broadcast(1, n), broadcast(1, n), broadcast(np.int8(1), n), core.Free()
    ),
}
"""Calls that take a size; zero and less are refused, or are no size at all for them."""


def broadcast(value: Any, *shape: int) -> Any:
    """An array of this shape that occupies one number."""
    if shape[0] < 0:
        raise ValueError("negative dimensions are not allowed")
    return np.broadcast_to(np.asarray(value), shape)


def hostile_values(rng: np.random.Generator) -> Iterator[Any]:
    """Values that no caller should pass, for ever."""
    shapes: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (3,), (7,), (2, 0), (0, 3), (2, 54)]
    shapes += [(3, 2), (1, 1, 1), (0, 2, 2), (3, 2, 0), (3, 2, 1), (2, 2, 2, 2), (6, 3), (3, 5)]
    dtypes = [np.float64, np.float32, np.int64, np.int8, np.uint64, np.bool_, np.complex128]
    dtypes += [np.float16, object]
    numbers = [0, 1, -1, 2, 3, 7, 2**31, 2**40, 2**62, 2**63, 2**64, 2**200, -(2**63), 0.5]
    numbers += [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 1j, True]
    others = [None, "", "x", "sum", b"", b"x" * 40, [], [0], [1, 0], [[1]], (), {}, {"a": 1}]
    others += [object(), slice(None), core.Free(), np.float64("nan"), np.int64(-1), [None]]
    others += [{"native": b""}, {"count": 1, "mean": [1.0], "squares": [-1.0]}, "\ud800"]
    plain = [*numbers, *others]
    while True:
        kind = rng.integers(4)
        if kind == 0:
            yield plain[rng.integers(len(plain))]
        elif kind == 1:
            yield hostile_array(rng, shapes[rng.integers(len(shapes))], dtypes)
        elif kind == 2:
            made = OBJECTS[list(OBJECTS)[rng.integers(len(OBJECTS))]]
            yield made() if rng.random() < 0.1 else json.loads(SETTINGS)
        else:
            yield [hostile_array(rng, shapes[rng.integers(len(shapes))], dtypes)]


def hostile_array(rng: np.random.Generator, shape: tuple[int, ...], dtypes: list[Any]) -> Any:
    dtype = np.dtype(dtypes[rng.integers(len(dtypes))])
    array = rng.normal(0, 3, shape).astype(dtype) if dtype != object else np.full(shape, None)
    array = np.asarray(array)
    twist = rng.integers(8)
    if twist == 0 and dtype.kind == "f" and array.size:
        array.flat[rng.integers(array.size)] = [np.nan, np.inf, 1e300][rng.integers(3)]
    elif twist == 1:
        array.setflags(write=False)
    elif twist == 2:
        array = array.T
    elif twist == 3:
        array = np.broadcast_to(array, (2, *array.shape))
    elif twist == 4:
        array = array[..., ::-1] if array.ndim else array
    elif twist == 5 and dtype != object:
        array = array.astype(dtype.newbyteorder())
    elif twist == 6 and dtype.itemsize > 1 and dtype != object:
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        array = np.frombuffer(raw, dtype, count=array.size).reshape(array.shape)
    return array


def callables() -> list[tuple[str, str | None]]:
    """Functions and classes of the core, and the methods of one object of each class."""
    found: list[tuple[str, str | None]] = []
    for name in core.__all__:
        found.append((name, None))
    for name, make in OBJECTS.items():
        made = make()
        for attribute in dir(type(made)):
            is_plain = not attribute.startswith("__") or attribute in ("__len__", "__deepcopy__")
            if is_plain and callable(getattr(type(made), attribute)):
                found.append((name, attribute))
    return found


def ones(*shape: int) -> Any:
    return np.ones(shape)


def true(*shape: int) -> Any:
    return np.ones(shape, np.bool_)


def step_arrays(envs: int, width: int, dtype: Any = np.float64) -> list[Any]:
    rows = (envs, width)
    flags = [np.zeros(envs, np.bool_), np.zeros(envs, np.bool_)]
    return [np.zeros(rows, dtype), np.zeros(envs), *flags, np.zeros(rows, dtype), true(envs)]


GOOD: dict[tuple[str, str | None], Callable[[], list[Any]]] = {
    ("rolling_windows", None): lambda: [ones(6, 2), 3, "deviation"],
    ("log_changes", None): lambda: [ones(6, 2), true(6, 2), 2],
    ("logarithms", None): lambda: [ones(3, 2)],
    ("join_features", None): lambda: [[ones(3, 2, 1), ones(3, 2, 2)], true(3, 2)],
    ("show_features", None): lambda: [ones(3, 2, 4), (-1.0, 1.0), [0, 2], True],
    ("panel_flaw", None): lambda: [ones(3, 2, 4), true(3, 2), true(3, 2), true(3, 2), [0, 1]],
    ("priced_places", None): lambda: [ones(3, 2, 4), [0]],
    ("seen_places", None): lambda: [ones(3, 2, 4), true(3, 2)],
    ("row_masks", None): lambda: [ones(3, 2), [0], true(2, 3), true(3), true(3), true(3)],
    ("benchmark_returns", None): lambda: [ones(3, 2), true(3, 2), true(3, 2), ones(2)],
    ("gather_windows", None): lambda: [
        np.ones((9, 2, 2), np.float32),
        np.array([4, 5]),
        3,
        np.ones((2, 3, 2, 2), np.float32),
        2,
    ],
    ("settle_trades", None): lambda: [
        np.array([1, 2]),
        np.array([3, 4]),
        np.array([0, 1], np.int8),
        core.PerLot(1, 2),
    ],
    ("OrderMatcher", None): lambda: [ones(9), ones(9), True, 5.0, 0, 9],
    ("PortfolioAgents", None): lambda: [["a", "b"], [(ones(3, 2), 1)], [0, 0]],
    ("PortfolioPanel", None): lambda: [panel_columns(), False],
    ("PortfolioBatch", None): lambda: [PANEL, SETTINGS, 2, 1, 5],
    ("TradingBatch", None): lambda: [trading_config(), 2, 1, 5],
    ("MarketMakingBatch", None): lambda: [MarketMakingConfig(), 2, 1, 5],
    ("OptimalExecutionBatch", None): lambda: [OptimalExecutionConfig(), 2, 1, 5],
    ("Market", None): lambda: [market_config(), 1, 2],
    ("RunningMoments", "normalise"): lambda: [ones(4, 3), 1e-8, 5.0, True, ones(4, 3)],
    ("RunningMoments", "update"): lambda: [ones(4, 3)],
    ("RunningMoments", "load_state_dict"): lambda: [moments().state_dict()],
    ("RewardScale", "scale"): lambda: [ones(3), true(3), True, true(3)],
    ("RewardScale", "restart"): lambda: [true(3)],
    ("EpisodeTotals", "step"): lambda: [ones(3), true(3), true(3)],
    ("EpisodeTotals", "restart"): lambda: [true(3)],
    ("FeatureState", "series"): lambda: [ones(4, 5), np.full((4, 13), np.nan), True],
    ("FeatureState", "push"): lambda: [[2.0, 1.0, 1.5, 3.0, 1.0]],
    ("FeatureState", "row"): lambda: [[np.nan] * 13, False],
    ("TradingBatch", "step"): lambda: [np.ones((2, 1), np.int64), *step_arrays(2, 54)],
    ("TradingBatch", "reset"): lambda: [
        np.arange(2),
        np.arange(2, dtype=np.uint64),
        np.zeros((2, 54)),
        [None, None],
    ],
    ("TradingBatch", "scene"): lambda: [0, 0, 5],
    ("TradingBatch of one", "step_one"): lambda: [1],
    ("MarketMakingBatch", "step"): lambda: [ones(1, 2), *step_arrays(1, 4)],
    ("MarketMakingBatch", "step_one"): lambda: [[0.5, 0.5]],
    ("OptimalExecutionBatch", "step"): lambda: [ones(1), *step_arrays(1, 4, np.float32)],
    ("PortfolioBatch", "step_one"): lambda: [ones(4) / 4],
    ("PortfolioBatch", "orders"): lambda: [0, ones(4) / 4],
    ("PortfolioBatch", "report"): lambda: [0, 1e5, ones(3), ones(3), ones(7), 1.0],
    ("PortfolioBatch", "push"): lambda: [panel_columns()],
    ("PortfolioBatch", "fill_slot"): lambda: [1, PANEL, SETTINGS],
    ("PortfolioBatch", "set_removed"): lambda: [0, 1, True],
    ("PortfolioBatch", "reset_agents"): lambda: [core.PortfolioAgents(["a"], [], []), 1],
    ("PortfolioBatch", "step_agents"): lambda: [
        core.PortfolioAgents(["a"], [], []),
        {"a": ones(4) / 4},
    ],
    ("OrderBook", "batch_columns"): lambda: [
        np.zeros(4, np.int8),
        np.array([0, 1, 0, 1], np.int8),
        np.array([99, 101, 102, 90]),
        np.array([1, 2, 3, 4]),
        np.array([1, 2, 3, 4]),
        None,
        False,
    ],
    ("OrderBook", "place"): lambda: [1, 0, 100, 3, 0],
    ("OrderBook", "replace"): lambda: [0, 100, 3],
    ("OrderBook", "reduce"): lambda: [0, 1],
    ("Market", "place_order"): lambda: [0, 0, 0, 9_990, 3, 0],
    ("Market", "take"): lambda: [0, 0, 0, 3],
    ("Market", "depth_columns"): lambda: [0, 0, 5],
    ("PyVecTradingEnv", "step_all"): lambda: [[1, 1]],
    ("PyVecTradingEnv", "reset_all"): lambda: [[1, 2]],
    ("PyTradingEnv", "step"): lambda: [1],
}
"""Arguments that each call takes, of which the fuzzer then changes one or two."""


def panel_columns() -> dict[str, Any]:
    columns: dict[str, Any] = {"times": np.arange(4), "close": ones(4, 3), "open": ones(4, 3)}
    columns |= {name: true(4, 3) for name in ("listed", "quoted", "tradable")}
    return columns | {
        "decides": true(4),
        "benchmark": ones(4),
        "volume": ones(4, 3),
        "features": np.ones((4, 3, 1), np.float32),
    }


def twisted(argument: Any, values: Iterator[Any], rng: np.random.Generator) -> Any:
    """An argument much like the one that is taken, or nothing like it."""
    if isinstance(argument, dict) and argument and rng.random() < 0.8:
        key = list(argument)[rng.integers(len(argument))]
        return {**argument, key: twisted(argument[key], values, rng)}
    if isinstance(argument, list) and argument and rng.random() < 0.7:
        place = int(rng.integers(len(argument)))
        changed = list(argument)
        changed[place] = twisted(argument[place], values, rng)
        return changed if rng.random() < 0.8 else changed[:place]
    if isinstance(argument, str) and argument.startswith("{") and rng.random() < 0.8:
        return json.dumps(twisted_settings(json.loads(argument), rng))
    if isinstance(argument, np.ndarray) and rng.random() < 0.8:
        return twisted_array(argument, rng)
    return next(values)


def twisted_settings(settings: Any, rng: np.random.Generator) -> Any:
    if isinstance(settings, dict) and settings:
        key = list(settings)[rng.integers(len(settings))]
        return {**settings, key: twisted_settings(settings[key], rng)}
    if isinstance(settings, list) and settings and rng.random() < 0.8:
        return [twisted_settings(settings[0], rng), *settings[1:]]
    choices = [0, -1, 1, 2**31, 2**40, 2**62, 1e300, -1e300, 0.5, None, [], {}, "x", 1e-300, 999]
    return choices[rng.integers(len(choices))]


def twisted_array(array: Any, rng: np.random.Generator) -> Any:
    if array.ndim == 0:
        return array
    changed = array.copy()
    kind = rng.integers(5)
    if kind == 0 and changed.size:
        numbers = [np.nan, np.inf, -np.inf, -1, 0, 1e300, -1e300, 2**40, 2**62, 7]
        with np.errstate(all="ignore"):
            chosen = np.array(numbers[rng.integers(len(numbers))]).astype(changed.dtype)
        changed.flat[rng.integers(changed.size)] = chosen
    elif kind == 1:
        changed = changed[:0]
    elif kind == 2:
        changed = np.concatenate([changed, changed])
    elif kind == 3:
        changed = np.repeat(changed, 2, axis=0)[::2]
    else:
        changed = changed[..., :0]
    return changed


def good_arguments(
    name: str, method: str | None, values: Iterator[Any], rng: np.random.Generator
) -> list[Any]:
    arguments = GOOD[name, method]()
    for _ in range(int(rng.integers(3))):
        place = int(rng.integers(len(arguments)))
        arguments[place] = twisted(arguments[place], values, rng)
    return arguments


def arguments_of(function: Any, values: Iterator[Any], rng: np.random.Generator) -> list[Any]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        parameters = []
    count = len([p for p in parameters if p.kind is not p.KEYWORD_ONLY])
    count += int(rng.integers(-1, 2)) if rng.random() < 0.1 else 0
    return [next(values) for _ in range(max(0, count))]


TAKES_LONG = {("Market", "tick"), ("Market", "record_columns")}


def attempt(label: str, call: Callable[[], Any], log: Any) -> None:
    log.write(label + "\n")
    log.flush()
    try:
        call()
    except EXPECTED:
        return
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        FAILURES.append(f"{label}: {error}")


FAILURES: list[str] = []


def good_call(name: str, target: Any) -> None:
    """Use an object after what it went through."""
    if name in ("Market",):
        target.tick(3)
    elif name in ("OrderBook",):
        target.limit(9, 0, 100, 3)
        target.levels(0)
        target.cancel_all(0)
    elif hasattr(target, "step_one") and hasattr(target, "num_envs"):
        use_batch(target)
    elif name == "OrderMatcher":
        target.total(), target.fills()
        if not target.done:
            target.step(target.position / 2)
        target.total_steps, target.next_boundary
    elif name == "FeatureState":
        target.push([102.0, 99.0, 100.0, 5.0, 2.0])
        target.row([np.nan] * 13)
    elif name == "RunningMoments":
        target.update(np.ones((2, target.width)))
        target.normalise(np.ones((2, target.width)))
    elif name == "RewardScale":
        target.scale(np.ones(3), np.zeros(3, bool))
    elif name == "EpisodeTotals":
        target.step(np.ones(3), np.ones(3, bool))


ACTIONS = {
    "TradingBatch": 2,
    "TradingWeightsBatch": 0.5,
    "MarketMakingBatch": [0.5, 0.5],
    "OptimalExecutionBatch": 0.3,
    "PortfolioBatch": [0.2, 0.3, 0.1, 0.4],
}


def use_batch(batch: Any) -> None:
    batch.infos()
    if hasattr(batch, "scene"):
        batch.scene(0)
    if batch.num_envs == 1:
        for _ in range(30):
            if batch.step_one(ACTIONS[type(batch).__name__]).done:
                break
        batch.reset_one()
        batch.step_one(ACTIONS[type(batch).__name__])
    for name in ("optimal_action", "certainty_equivalent", "seen"):
        if hasattr(batch, name):
            getattr(batch, name)()
    if hasattr(batch, "account"):
        batch.account(0)


def fuzz_calls(seed: int, rounds: int, log: Any) -> None:
    """Call everything with what nobody should pass, and then as one should."""
    rng = np.random.default_rng(seed)
    values = hostile_values(rng)
    every = callables()
    objects = {name: make() for name, make in OBJECTS.items()}
    for round_number in range(rounds):
        choices = [*every, *GOOD, *GOOD]
        name, method = choices[rng.integers(len(choices))]
        if (name, method) in TAKES_LONG:
            continue
        owner = getattr(core, name) if method is None else objects[name]
        function = owner if method is None else getattr(owner, method)
        if (name, method) in GOOD and rng.random() < 0.8:
            arguments = good_arguments(name, method, values, rng)
        else:
            arguments = arguments_of(function, values, rng)
        shown = [describe(argument) for argument in arguments]
        label = f"{round_number}: {name}.{method}({', '.join(shown)})"
        attempt(label, lambda function=function, arguments=arguments: function(*arguments), log)
        if method is not None:
            attempt(f"{label}, then use", lambda name=name: good_call(name, objects[name]), log)
        if rng.random() < 0.05:
            chosen = list(OBJECTS)[rng.integers(len(OBJECTS))]
            objects[chosen] = OBJECTS[chosen]()


def describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array{value.shape}:{value.dtype}"
    return repr(value)[:60]


def fnv(data: bytes) -> int:
    total = 0xCBF29CE484222325
    for byte in data:
        total = ((total ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return total


def resealed(state: bytes, body: bytes) -> bytes:
    """The state with another body, its length and checksum made to fit."""
    head = state[:8] + len(body).to_bytes(8, "little") + body
    return head + fnv(head).to_bytes(8, "little")


def mutated(body: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(body)
    kind = rng.integers(6)
    place = int(rng.integers(len(changed)))
    if kind == 0:
        changed[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        changed[place] = int(rng.integers(256))
    elif kind == 2:
        words = [0, 2**63, 2**64 - 1, 0x7FF0000000000000, 0x7FF8000000000000, 1]
        word = words[rng.integers(len(words))].to_bytes(8, "little")
        changed[place : place + 8] = word
        del changed[len(body) :]
    elif kind == 3:
        del changed[place : place + int(rng.integers(1, 9))]
    elif kind == 4:
        changed[place:place] = bytes(int(rng.integers(1, 9)))
    else:
        for _ in range(3):
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


def book_inside(body: bytes, rng: np.random.Generator) -> bytes | None:
    """The same body with the book in it changed and sealed again, which is what a forger does."""
    begin = body.find(b"SKLB")
    if begin < 0:
        return None
    length = int.from_bytes(body[begin + 8 : begin + 16], "little")
    end = begin + 16 + length + 8
    sealed = body[begin:end]
    inner = bytearray(sealed[16:-8])
    inner[int(rng.integers(len(inner)))] = int(rng.integers(256))
    return body[:begin] + resealed(sealed, bytes(inner)) + body[end:]


def sealed_states() -> dict[str, tuple[bytes, Callable[[Any, bytes], None]]]:
    """For each object, its state, and how another takes it in."""

    def of_batch(batch: Any) -> bytes:
        return bytes(batch.state_dict()["native"])

    def load_batch(batch: Any, state: bytes) -> None:
        batch.load_state_dict({"native": state})

    def decode(target: Any, state: bytes) -> None:
        target.decode(state)

    batches = [name for name in OBJECTS if "Batch" in name]
    states = {name: (of_batch(OBJECTS[name]()), load_batch) for name in batches}
    for name in ("Market", "OrderBook", "FeatureState"):
        states[name] = (OBJECTS[name]().encode(), decode)
    return states


def fuzz_states(seed: int, rounds: int, log: Any) -> None:
    """Load states that somebody changed and sealed again, and go on from those that are taken."""
    rng = np.random.default_rng(seed)
    states = sealed_states()
    objects = {name: make() for name, make in OBJECTS.items()}
    matched = matcher().__reduce__()[1][0]
    for round_number in range(rounds):
        name = [*states, "OrderMatcher"][rng.integers(len(states) + 1)]
        if name == "OrderMatcher":
            forged = mutated(matched, rng)
            label = f"{round_number}: OrderMatcher.from_bytes({forged.hex()})"
            attempt(label, lambda forged=forged: use_matcher(forged), log)
            continue
        state, load = states[name]
        body = state[16:-8]
        inside = book_inside(body, rng) if rng.random() < 0.3 and name != "OrderBook" else None
        forged = resealed(state, inside or mutated(body, rng))
        difference = next((i for i, (a, b) in enumerate(zip(state, forged)) if a != b and i > 15), 0)
        label = f"{round_number}: {name}.load(byte {difference} of {len(state)})"
        attempt(label, lambda: load_and_use(name, objects, load, forged), log)
    for name, make in OBJECTS.items():
        attempt(f"{name} is as good as new", lambda name=name, make=make: good_call(name, make()), log)


def load_and_use(name: str, objects: dict[str, Any], load: Any, forged: bytes) -> None:
    load(objects[name], forged)
    taken, objects[name] = objects[name], OBJECTS[name]()
    good_call(name, taken)


def use_matcher(forged: bytes) -> None:
    made = core.OrderMatcher.from_bytes(forged)
    good_call("OrderMatcher", made)


def main(arguments: list[str]) -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, limit))
    log = sys.stderr
    if arguments[0] == "sizes":
        for name, call in SIZED.items():
            for size in SIZES:
                attempt(f"{name} {size}", lambda call=call, size=size: call(size), log)
    elif arguments[0] == "size":
        SIZED[arguments[1]](int(arguments[2]))
    else:
        fuzz = {"calls": fuzz_calls, "states": fuzz_states}[arguments[0]]
        fuzz(int(arguments[1]), int(arguments[2]), log)
    if FAILURES:
        sys.exit("\n".join(["panics:", *FAILURES]))
    sys.stdout.write("alive\n")


if __name__ == "__main__":
    main(sys.argv[1:])
