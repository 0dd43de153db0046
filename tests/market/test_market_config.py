"""The configs of a market: what they refuse, by name and before anything is built."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from sekai.market import (
    AccountConfig,
    FundamentalConfig,
    Market,
    MarketConfig,
    NewsConfig,
    PopulationConfig,
    SymbolConfig,
)

COUNTS = ["makers", "noise", "value", "momentum", "trend", "convergence", "reversion", "pool"]
BAD: list[tuple[type, str, Any]] = [
    *((PopulationConfig, name, value) for name in COUNTS for value in (-1, 1.5, 2**40)),
    *((PopulationConfig, name, 0) for name in ("maker_size", "noise_size")),
    *((PopulationConfig, name, -0.1) for name in ("maker_half_spread", "maker_caution")),
    *((PopulationConfig, name, np.inf) for name in ("maker_skew", "value_error")),
    *((PopulationConfig, name, 1.1) for name in ("maker_insight", "noise_activity")),
    *((PopulationConfig, name, np.nan) for name in ("value_activity", "technical_activity")),
    *((FundamentalConfig, name, -1e-9) for name in ("volatility", "jump_rate", "jump_size")),
    (FundamentalConfig, "volatility_persistence", 1.0),
    (FundamentalConfig, "volatility_of_volatility", np.nan),
    (FundamentalConfig, "market_share", 1.01),
    (FundamentalConfig, "sector_share", 0.71),
    (FundamentalConfig, "discount_rate", 0.0),
    (FundamentalConfig, "growth_rate", 0.08),
    (NewsConfig, "rate", 1.01),
    (NewsConfig, "impact", 0.2),
    (NewsConfig, "shortest", 0),
    (NewsConfig, "longest", 49),
    (NewsConfig, "longest", 1001),
    *((AccountConfig, "cash", value) for value in (0.0, -1.0, 0.001, np.nan, np.inf, 1e15)),
    *((AccountConfig, "most_long", value) for value in (-1, 1.5, 2_000_000)),
    (AccountConfig, "most_short", -1),
    *((AccountConfig, "ruin", value) for value in (-0.1, 1.0, np.nan)),
    *((AccountConfig, name, 1e6) for name in ("maker_fee", "taker_fee")),
    (AccountConfig, "taker_fee", 0.001),
    *((MarketConfig, "tick_size", value) for value in (0.0, -0.01, np.nan, np.inf)),
    *((MarketConfig, "symbols", value) for value in (0, (), 1001)),
    *((MarketConfig, "population", value) for value in ("heavy", 3, None)),
    *((MarketConfig, "regime", value) for value in ("stormy", None)),
    *((MarketConfig, "agents", value) for value in (-1, 1.5, 10**7)),
]
PRICES = [0.0, 0.99, -5.0, 100.001, np.nan, np.inf, 1e9]


@pytest.mark.parametrize(("kind", "name", "value"), BAD)
def test_a_bad_value_is_refused_by_name(kind: type, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        kind(**{name: value})


@pytest.mark.parametrize("name", ["fundamental", "news", "account", "symbols"])
@pytest.mark.parametrize("value", [None, 1.5, ("AAPL",), [SymbolConfig()]])
def test_a_part_of_another_kind_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be a .*, got "):
        MarketConfig(**{name: value})


@pytest.mark.parametrize("price", PRICES)
def test_a_price_that_no_book_can_hold_is_refused_by_name(price: float) -> None:
    with pytest.raises(ValueError, match="price"):
        MarketConfig(symbols=(SymbolConfig(price=price),))


@pytest.mark.parametrize("sector", [-1, 1000, 1.5])
def test_a_sector_is_one_of_a_thousand(sector: Any) -> None:
    with pytest.raises(ValueError, match="sector"):
        MarketConfig(symbols=(SymbolConfig(sector=sector),))


def test_an_error_says_what_was_wanted_and_what_was_found() -> None:
    with pytest.raises(ValueError, match="^expected noise_activity from 0 to 1, got 1.5$"):
        PopulationConfig(noise_activity=1.5)
    with pytest.raises(ValueError, match="^population.makers: .*`-1`, expected u32$"):
        PopulationConfig(makers=-1)
    with pytest.raises(ValueError, match='^news.rate: .* string "nan", expected f64$'):
        NewsConfig(rate=np.nan)


@pytest.mark.parametrize(
    "kind",
    [MarketConfig, PopulationConfig, FundamentalConfig, NewsConfig, AccountConfig, SymbolConfig],
)
def test_configs_are_values_without_unknown_fields(kind: Any) -> None:
    config = kind()

    for copied in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config), kind()):
        assert copied == config
        assert hash(copied) == hash(config)
    with pytest.raises(TypeError, match="weather"):
        kind(weather="fine")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(kind)[0].name, 1)


def test_a_changed_config_is_another_one() -> None:
    config = MarketConfig(symbols=2)
    other = dataclasses.replace(config, regime="crisis")

    assert other != config
    assert other.symbols == 2
    rough, usual = (one.settings["fundamental"]["volatility"] for one in (other, config))
    assert rough > usual
    assert pickle.loads(pickle.dumps(other)).settings == other.settings
    assert len({config, other, dataclasses.replace(config, regime="normal")}) == 2


def test_a_number_of_symbols_has_four_to_a_sector() -> None:
    settings = MarketConfig(symbols=9).settings

    assert [one["sector"] for one in settings["symbols"]] == [0] * 4 + [1] * 4 + [2]
    assert {one["price"] for one in settings["symbols"]} == {10_000}


def test_prices_and_cash_are_told_in_ticks() -> None:
    settings = MarketConfig(symbols=(SymbolConfig(price=12.5),), tick_size=0.05).settings

    assert settings["symbols"][0]["price"] == 250
    assert settings["account"]["cash"] == 2_000_000
    assert settings["account"]["taker_fee"] == 50


def test_presets_have_the_traders_they_promise() -> None:
    def traders(population: PopulationConfig) -> int:
        kinds = dataclasses.asdict(population)
        return sum(kinds[name] for name in COUNTS if name != "pool")

    assert traders(PopulationConfig.preset("light")) == 100
    assert traders(PopulationConfig.preset("standard")) == 400
    assert PopulationConfig.preset("light") == PopulationConfig()
    assert PopulationConfig.preset("standard").pool == 10_000


def test_the_accounts_of_a_market_are_as_configured() -> None:
    market = Market(MarketConfig(agents=2, account=AccountConfig(cash=2_500.0)))

    assert [market.account(agent).cash for agent in (0, 1)] == [2_500.0, 2_500.0]
    assert market.config == MarketConfig(agents=2, account=AccountConfig(cash=2_500.0))
