"""Random markets, accounts and settings of portfolios."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.envs.portfolio.config import AgentConfig, PortfolioConfig
from tests.envs.portfolio_worlds import (
    World,
    accounts,
    costs,
    executions,
    mandates,
    markets,
    wishes,
)

TERMS = (
    "return", "log_return", "profit", "mean_variance", "drawdown_penalty", "volatility_penalty",
    "turnover_penalty", "cost_penalty", "benchmark_relative",
)  # fmt: skip


def examples(count: int) -> settings:
    """Number of examples without shrinking: a random market depends on its seed."""
    phases = (Phase.explicit, Phase.generate)
    return settings(max_examples=count, deadline=None, phases=phases)


rewards = st.dictionaries(st.sampled_from(TERMS), st.sampled_from([1.0, -0.5, 3.0]), min_size=1)


@st.composite
def agent_fields(draw: st.DrawFn, data: MarketData) -> dict[str, Any]:
    """An account, its mandate and its reward."""
    account = draw(accounts)
    return {
        "initial_cash": draw(st.sampled_from([1e3, 1e5, 1e8])),
        "account": account,
        "constraints": draw(mandates(data, account)),
        "reward": draw(rewards),
        "reward_memory": draw(st.sampled_from([0.01, 0.5])),
        "risk_aversion": draw(st.sampled_from([0.0, 2.0])),
        "ruin": draw(st.sampled_from([0.0, 0.5])),
    }


@st.composite
def worlds(draw: st.DrawFn, /, max_agents: int = 1, **fixed: Any) -> World:
    """Random settings, except for fixed ones."""
    data = draw(markets())
    rows, assets = data.listed.shape
    has_volume = "volume" in data.fields
    drawn: dict[str, Any] = {
        **draw(agent_fields(data)),
        "lookback": 1,
        "observation": "index",
        "action": draw(st.sampled_from(["weights", "weights", "tilts"])),
        "tilt": draw(st.sampled_from([0.05, 0.3])),
        "execution": draw(executions(has_volume)),
        "costs": draw(costs(has_volume)),
        "episode_rows": draw(st.none() | st.integers(1, rows)),
        "starts": draw(st.integers(0, rows - 2)),
        "decisions": draw(st.sampled_from(["every_row", "every_row", "trading_days", "complete"])),
    }
    config = PortfolioConfig(**{**drawn, **fixed})
    others = tuple(
        AgentConfig(**draw(agent_fields(data))) for _ in range(draw(st.integers(0, max_agents - 1)))
    )
    asset, step = st.integers(0, assets - 1), st.integers(0, rows)
    removals = draw(st.dictionaries(step, st.tuples(asset, st.booleans()), max_size=3))
    seed, is_tilts = draw(st.integers(0, 2**32)), config.action == "tilts"
    return World(
        data=data,
        config=config,
        others=others,
        shared_leverage=draw(st.sampled_from([None, 0.5, 1.5])) if others else None,
        reward_mode=draw(st.sampled_from(["own", "cooperative", "competitive"])),
        removals=draw(st.sampled_from([{}, removals])),
        actions=wishes(seed, rows, 1 + len(others), assets, is_tilts),
    )
