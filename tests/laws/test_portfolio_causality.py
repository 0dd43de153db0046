"""The future is invisible to portfolios, and pipelines that look ahead are caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.envs import Portfolio
from sekai.utils.checker import check_causal
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import FEATURES, World
from tests.laws.leaky_portfolios import (
    TWINS,
    Features,
    fills_at_the_next_open,
    fills_at_the_seen_close,
    portfolio,
    prices,
    sample,
)

FEW: Any = {"n_episodes": 1, "n_steps": 24, "max_cuts": 8}


@pytest.mark.parametrize("leaky", [pair[0] for pair in TWINS.values()], ids=list(TWINS))
def test_a_leaky_pipeline_is_caught(leaky: Features) -> None:
    issues = check_causal(portfolio(leaky), sample(), **FEW)

    assert any(issue.startswith("ERROR: observation at ") for issue in issues), issues


@pytest.mark.parametrize("causal", [pair[1] for pair in TWINS.values()], ids=list(TWINS))
def test_its_causal_twin_is_not_accused(causal: Features) -> None:
    assert check_causal(portfolio(causal), sample(), **FEW) == []


def test_a_fill_at_the_close_that_was_seen_is_caught() -> None:
    issues = check_causal(fills_at_the_seen_close, prices(), **FEW)

    assert any(issue.startswith("ERROR: executed price at ") for issue in issues), issues


def test_a_fill_at_the_next_open_is_not_accused() -> None:
    assert check_causal(fills_at_the_next_open, prices(), **FEW) == []


@given(world=worlds(lookback=2, observation="window"), starts=st.sampled_from(["random", 1]))
@examples(12)
def test_no_portfolio_sees_the_future_whatever_its_settings(world: World, starts: Any) -> None:
    config = replace(world.config, starts=starts)

    def make(data: MarketData) -> Portfolio:
        return Portfolio(data, FEATURES, config)

    issues = check_causal(make, world.data, n_episodes=1, n_steps=12, max_cuts=4)

    # Where nothing is listed any more, nothing can be proven, and that is all that is said.
    assert [issue for issue in issues if "look-ahead not checked" not in issue] == []
