"""Objects and calls of the native core, as one should make them and by their sizes."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import quant_gym_rs._core as core
from sekai.data import simulate_gbm
from sekai.envs import MarketMakingConfig, OptimalExecutionConfig
from sekai.envs.portfolio.config import PortfolioConfig
from sekai.envs.portfolio.panel import build_panel, compute_features

SIZES = (2**31, 2**40, 2**62, -1, 0)


def trading_config(**changes: Any) -> str:
    settings = json.loads(core.trading_defaults())
    return json.dumps({**settings, **changes})


def market_config(**changes: Any) -> str:
    return json.dumps({**json.loads(core.trading_defaults())["market"], **changes})


DATA = simulate_gbm(assets=3, rows=60, seed=1)
PORTFOLIO = PortfolioConfig(lookback=4)


def portfolio_panel(open_ended: bool = False) -> core.PortfolioPanel:
    shown, _ = compute_features(DATA, ("log_return",))
    return build_panel(DATA, shown, PORTFOLIO.decisions, PORTFOLIO.benchmark, open_ended=open_ended)


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


ORDER_SETTINGS: dict[str, Any] = {
    "ticks_per_step": 5, "order_steps": 4, "day_ticks": 60, "columns": 1,
    "state": "full_history", "shares": [0.0, 0.5, 1.0], "reward": "shortfall", "penalty": 1.0,
    "amount": (10.0, 20.0), "buys": None, "basket": None, "open_cost": 0.0, "close_cost": 0.0,
    "min_cost": 0.0, "impact_cost": 0.0,
}  # fmt: skip


def order_table() -> core.OrderTable:
    made = core.OrderTable()
    prices = np.linspace(10, 11, 60)
    rows = made.add_features(np.ones((60, 1), np.float32))
    made.add_ticks(prices, None, 100 * prices, features=[(rows, None)])
    return made


def order_batch(num_envs: int = 1, **changes: Any) -> core.OrderExecutionBatch:
    settings = {**ORDER_SETTINGS, **changes}
    return core.OrderExecutionBatch(order_table(), settings, num_envs, candidates=[0])


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


def begun(env: Any) -> Any:
    getattr(env, "reset_all" if hasattr(env, "reset_all") else "reset")()
    return env


OBJECTS: dict[str, Callable[[], Any]] = {
    "TradingBatch": trading_batch,
    "TradingBatch of one": lambda: single(trading_batch(1)),
    "TradingWeightsBatch": lambda: single(core.TradingWeightsBatch(trading_config(warm_up=5))),
    "MarketMakingBatch": lambda: single(core.MarketMakingBatch(MarketMakingConfig())),
    "OptimalExecutionBatch": lambda: single(core.OptimalExecutionBatch(OptimalExecutionConfig())),
    "OrderExecutionBatch": lambda: single(order_batch()),
    "OrderTable": order_table,
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
    "PyTradingEnv": lambda: begun(core.PyTradingEnv(10**6, 1)),
    "PyVecTradingEnv": lambda: begun(core.PyVecTradingEnv(2, 10**6, 1)),
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
    "OrderExecutionBatch num_envs": order_batch,
    "OrderExecutionBatch order_steps": lambda n: order_batch(order_steps=n),
    "OrderExecutionBatch day_ticks": lambda n: order_batch(day_ticks=n),
    "OrderExecutionBatch ticks_per_step": lambda n: order_batch(ticks_per_step=n),
    "OrderExecutionBatch columns": lambda n: order_batch(columns=n),
    "OrderExecutionBatch basket": lambda n: order_batch(basket=n),
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
    "Market record_columns": lambda n: market().record_columns(n),
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


HARMLESS = {
    "TradingBatch max_episode_steps": "a limit that is never reached",
    "TradingBatch max_ticks": "a limit that is never reached",
    "PyTradingEnv max_ticks": "a limit that is never reached",
    "TradingBatch scene levels": "no more levels than there are",
    "PortfolioBatch forget": "no more rows than there are",
    "PortfolioAgents lookback": "no more rows than there are",
    "OrderBook size": "2**31 lots are a size",
    "OrderMatcher ticks_per_step": "a step that ends with the day",
    "rolling_windows rows": "windows that are all missing",
    "rolling_windows sum": "windows that are all missing",
    "log_changes rows": "changes that are all missing",
}
"""Calls that take sizes of 2**31 and more, and why."""


def broadcast(value: Any, *shape: int) -> Any:
    """An array of this shape that occupies one number."""
    return np.broadcast_to(np.asarray(value), shape)


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
    ("project", None): lambda: [
        ones(2, 4) / 4,
        ones(2, 4) / 4,
        true(2, 3),
        [0.0] * 3,
        [0.5] * 3,
        0.0,
        1.0,
        1.5,
        [0, 0, None],
        [0.6],
        0.5,
    ],
    ("make_market", None): lambda: [fields(MarketMakingConfig())],
    ("work_order", None): lambda: [fields(OptimalExecutionConfig())],
    ("live_market", None): lambda: [market_config()],
    ("trade", None): lambda: [trading_config(warm_up=3)],
    ("hold", None): lambda: [SETTINGS],
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


def fields(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def project(*given: Any) -> Any:
    names = [
        "lower",
        "upper",
        "cash_lower",
        "cash_upper",
        "leverage",
        "sectors",
        "sector_caps",
        "turnover",
    ]
    limits: dict[str, Any] = dict(zip(names, given[3:], strict=True))
    return core.project_weights(*given[:3], **limits)


def make_market(settings: Any) -> None:
    use(single(core.MarketMakingBatch(SimpleNamespace(**settings))))


def work_order(settings: Any) -> None:
    use(single(core.OptimalExecutionBatch(SimpleNamespace(**settings))))


def live_market(settings: str) -> None:
    made = core.Market(settings, 1)
    made.tick(10)
    made.decode(made.encode())
    made.record_columns(3)


def trade(settings: str) -> None:
    use(single(core.TradingBatch(settings)))


def hold(settings: str) -> None:
    use(single(core.PortfolioBatch(PANEL, settings)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(core, name) for name in core.__all__},
    **{made.__name__: made for made in (project, make_market, work_order, live_market)},
    **{made.__name__: made for made in (trade, hold)},
}
"""Functions and classes of the core, and calls that use what they are given settings for."""

ACTIONS: dict[str, Any] = {
    "TradingBatch": 2,
    "TradingWeightsBatch": 0.5,
    "MarketMakingBatch": [0.5, 0.5],
    "OptimalExecutionBatch": 0.3,
    "PortfolioBatch": [0.2, 0.3, 0.1, 0.4],
}


def use(made: Any) -> None:
    """Use an object as one should, whatever it has gone through."""
    USES.get(type(made).__name__, lambda _: None)(made)


def use_batch(batch: Any) -> None:
    batch.infos()
    for name in ("scene", "account"):
        if hasattr(batch, name):
            getattr(batch, name)(0)
    for name in ("optimal_action", "certainty_equivalent", "seen"):
        if hasattr(batch, name):
            getattr(batch, name)()
    if batch.num_envs == 1:
        for _ in range(30):
            if batch.step_one(ACTIONS[type(batch).__name__]).done:
                break
        batch.reset_one()
        batch.step_one(ACTIONS[type(batch).__name__])
    batch.load_state_dict(batch.state_dict())


def use_book(made: core.OrderBook) -> None:
    made.limit(9, 0, 100, 3)
    made.levels(0)
    made.cancel_all(0)
    made.decode(made.encode())


def use_market(made: core.Market) -> None:
    made.tick(3)
    made.decode(made.encode())


def use_matcher(made: core.OrderMatcher) -> None:
    made.total()
    made.fills()
    if not made.done:
        made.step(made.position / 2)
    assert made.total_steps >= 0
    assert made.boundary_after(made.tick) >= made.tick
    copied: Any = made.__reduce__()
    core.OrderMatcher.from_bytes(*copied[1])


def use_features(made: core.FeatureState) -> None:
    made.push([102.0, 99.0, 100.0, 5.0, 2.0])
    made.row([np.nan] * 13)
    made.decode(made.encode())


def use_moments(made: core.RunningMoments) -> None:
    made.update(np.ones((2, made.width)))
    made.normalise(np.ones((2, made.width)))


USES: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(ACTIONS, use_batch),
    "OrderBook": use_book,
    "Market": use_market,
    "OrderMatcher": use_matcher,
    "FeatureState": use_features,
    "RunningMoments": use_moments,
    "RewardScale": lambda made: made.scale(np.ones(3), np.zeros(3, np.bool_)),
    "EpisodeTotals": lambda made: made.step(np.ones(3), np.ones(3, np.bool_)),
}
