"""Portfolio benchmarks: data, random actions, and scripts of the peers."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai
from measure import in_peer, peer_python
from quant_gym_rs._core import PortfolioBatch
from sekai.data import FeaturePanel, MarketData, Windows, simulate_gbm
from sekai.envs import PortfolioConfig
from sekai.envs.portfolio.panel import build_panel

Market = tuple[MarketData, FeaturePanel]

ROWS = 2520
FEATURES = 5
ACCOUNT, REPORT = 5, 20
"""Sizes of the account observation, and of the report on one of several agents."""

VECTOR_PEER = """
import json, sys, time
import numpy as np
from sekai.envs.finance import PortfolioEnv, PortfolioVecEnv
envs, assets, lookback, steps, repeats = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
prices = 100 * np.exp(np.cumsum(0.01 * rng.standard_normal((2520, assets)), axis=0))
options = {"prices": prices, "lookback": lookback}
actions = rng.random((steps, envs, assets + 1), np.float32)
if envs == 1:
    env = PortfolioEnv(**options)
    env.reset(seed=0)
    def step(action):
        if env.step(action[0]).done:
            env.reset()
else:
    vec = PortfolioVecEnv(envs, **options)
    vec.reset(seed=0)
    step = vec.step
times = []
for repeat in range(repeats + 1):
    begin = time.process_time()
    for action in actions:
        step(action)
    times.append((time.process_time() - begin) / steps / envs * 1e9)
print(json.dumps({"nanoseconds": times[1:]}))
"""

# The package imports brokers and algorithms that a step does not need: load the one file.
FINRL_PEER = """
import contextlib, importlib.util, io, json, pathlib, sys, time, types
for name in ("stable_baselines3", "stable_baselines3.common", "stable_baselines3.common.vec_env"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["stable_baselines3.common.vec_env"].DummyVecEnv = None
root = pathlib.Path(importlib.util.find_spec("finrl").origin).parent
file = root / "meta" / "env_stock_trading" / "env_stocktrading.py"
spec = importlib.util.spec_from_file_location("env_stocktrading", file)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import numpy as np, pandas as pd
assets, steps, repeats, rows = *map(int, sys.argv[1:]), 2520
rng, indicators = np.random.default_rng(0), ["a", "b", "c", "d"]
prices = 100 * np.exp(np.cumsum(0.01 * rng.standard_normal((rows, assets)), axis=0))
table = pd.DataFrame({"date": np.repeat(np.arange(rows), assets).astype(str),
                      "tic": np.tile(np.arange(assets).astype(str), rows), "close": prices.ravel()},
                     index=np.repeat(np.arange(rows), assets))
for name in indicators:
    table[name] = rng.standard_normal(len(table))
env = module.StockTradingEnv(
    df=table, stock_dim=assets, hmax=100, initial_amount=1_000_000, num_stock_shares=[0] * assets,
    buy_cost_pct=[0.001] * assets, sell_cost_pct=[0.001] * assets, reward_scaling=1e-4,
    state_space=1 + 2 * assets + len(indicators) * assets, action_space=assets,
    tech_indicator_list=indicators)
env.reset(seed=0)
actions, times = rng.uniform(-1, 1, (steps, assets)), []
with contextlib.redirect_stdout(io.StringIO()):
    for repeat in range(repeats + 1):
        begin = time.process_time()
        for action in actions:
            if env.step(action)[2]:
                env.reset()
        times.append((time.process_time() - begin) / steps * 1e9)
print(json.dumps({"nanoseconds": times[1:]}))
"""


def sekai_peer(envs: int, assets: int, lookback: int, steps: int, repeats: int) -> float:
    """Nanoseconds of CPU time per env-step of PyPI's sekai 0.2.0."""
    python = peer_python("sekai-0.2.0", "sekai==0.2.0", "numpy", "cloudpickle")
    sizes = map(str, (envs, assets, lookback, steps, repeats))
    return statistics.median(in_peer(python, VECTOR_PEER, *sizes)["nanoseconds"])


def finrl_peer(assets: int, steps: int, repeats: int) -> float:
    """Nanoseconds of CPU time per step of FinRL's StockTradingEnv."""
    python = peer_python("finrl-0.3.7", "finrl==0.3.7", "gymnasium", "pandas", "matplotlib")
    sizes = map(str, (assets, steps, repeats))
    return statistics.median(in_peer(python, FINRL_PEER, *sizes)["nanoseconds"])


def make_market(assets: int, features: int = FEATURES) -> Market:
    """Simulate market data and a panel of random features."""
    data = simulate_gbm(assets, ROWS)
    values = np.random.default_rng(0).standard_normal((ROWS, assets, features), np.float32)
    names = tuple(f"feature_{index}" for index in range(features))
    present = np.ones((ROWS, assets), np.bool_)
    return data, FeaturePanel(values, names, present, data.times, data.assets)


def random_weights(
    shape: tuple[int, ...], assets: int, *, feasible: bool = False
) -> NDArray[np.float64]:
    """Draw weights of a softmax policy; unless `feasible`, every other one has to be projected."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(assets + 1), shape)
    if feasible:
        return weights
    weights[..., ::2, :] = rng.standard_normal(weights[..., ::2, :].shape)
    return weights


def write_windows(market: Market, lookback: int, folder: str) -> Windows:
    """Write the windows of the features to a file and open it."""
    _, features = market
    Windows.write(f"{folder}/windows", features, lookback, dtype="float32")
    return Windows.open(f"{folder}/windows")


def vector_run(
    envs: int, steps: int, market: Market, *, feasible: bool = False, **options: Any
) -> Callable[[], int]:
    """Return a run of a vector env on one thread; a unit is one env-step."""
    data, features = market
    settings = {"features": features, "copy": False, **options}
    vec = sekai.make_vec("Portfolio-v0", envs, "native", data=data, num_threads=1, **settings)
    shape = min(steps, 16), max(envs, 2)
    actions = random_weights(shape, len(data.assets), feasible=feasible)[:, :envs]
    vec.reset(seed=0)

    def run() -> int:
        for step in range(steps):
            vec.step(actions[step % len(actions)])
        return steps * envs

    return run


def single_run(steps: int, market: Market, **options: Any) -> Callable[[], int]:
    """Return a run of one env from Python."""
    data, features = market
    env = sekai.make("Portfolio-v0", data=data, features=features, **options)
    actions = list(random_weights((256,), len(data.assets)))
    env.reset(seed=0)

    def run() -> int:
        for step in range(steps):
            if env.step(actions[step % 256]).done:
                env.reset()
        return steps

    return run


def core_run(
    envs: int, steps: int, market: Market, agents: int = 1, lookback: int = 30
) -> Callable[[], int]:
    """Return a run of the native batch alone, by index; a unit is one agent-step."""
    data, features = market
    config = PortfolioConfig(observation="index", lookback=lookback)
    settings = json.loads(config.core_settings(data))
    settings["agents"] *= agents
    panel = build_panel(data, features, config.decisions, config.benchmark, open_ended=False)
    batch = PortfolioBatch(panel, json.dumps(settings), envs, 1)
    assets = len(data.assets)
    observations = observation_arrays(envs, agents, assets)
    finals = {name: array.copy() for name, array in observations.items()}
    out = np.empty(envs), np.empty(envs, np.bool_), np.empty(envs, np.bool_)
    actions = random_weights((16, envs * agents), assets).reshape(16, envs, -1)
    batch.reset(np.arange(envs), np.arange(envs, dtype=np.uint64), observations, None)

    def run() -> int:
        for step in range(steps):
            batch.step(actions[step % 16], observations, *out, finals, None)
        return steps * envs * agents

    return run


def observation_arrays(envs: int, agents: int, assets: int) -> dict[str, NDArray[Any]]:
    """Allocate observation arrays; a single agent has no agent axis and no report."""
    axes = (envs,) if agents == 1 else (envs, agents)
    observations: dict[str, NDArray[Any]] = {
        "index": np.empty((envs, 1), np.int64),
        "weights": np.empty((*axes, assets + 1), np.float32),
        "mask": np.empty((envs, assets), np.int8),
        "account": np.empty((*axes, ACCOUNT), np.float32),
    }
    report = {} if agents == 1 else {"report": np.empty((*axes, REPORT))}
    return {**observations, **report}
