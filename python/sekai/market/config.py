"""How a simulated market is set up: its symbols, values, news, population and accounts.

The numbers of presets and defaults live in the Rust core, which also checks every setting; these
objects carry them to Python.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from quant_gym_rs._core import market_defaults, market_settled
from sekai.market.settings import to_json

__all__ = [
    "AccountConfig",
    "FundamentalConfig",
    "MarketConfig",
    "NewsConfig",
    "PopulationConfig",
    "Regime",
    "SymbolConfig",
]

Regime = Literal["calm", "normal", "volatile", "crisis"]
Preset = Literal["light", "standard"]

MOST_SYMBOLS = 10_000

DEFAULTS: dict[str, dict[str, Any]] = json.loads(market_defaults())
_LIGHT, _FUNDAMENTAL = DEFAULTS["light"], DEFAULTS["fundamental"]
_NEWS, _ACCOUNT = DEFAULTS["news"], DEFAULTS["account"]
USUAL_TICK = 0.01
"""The currency of a tick that the core's default cash is counted in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolConfig:
    """One symbol."""

    price: float = 100.0
    """What a share costs, and is worth, when the market opens, in currency."""

    sector: int = 0
    """The sector it belongs to; values of a sector move together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationConfig:
    """How many traders of each kind trade a symbol, and how they are set."""

    makers: int = _LIGHT["makers"]
    """Market makers."""

    noise: int = _LIGHT["noise"]
    """Traders without a reason."""

    value: int = _LIGHT["value"]
    """Traders who know roughly what a share is worth."""

    momentum: int = _LIGHT["momentum"]
    """Traders who follow strength (RSI)."""

    trend: int = _LIGHT["trend"]
    """Traders who follow moving averages."""

    convergence: int = _LIGHT["convergence"]
    """Traders who follow converging averages (MACD)."""

    reversion: int = _LIGHT["reversion"]
    """Traders who bet on a return to the average (Bollinger)."""

    pool: int = _LIGHT["pool"]
    """Traders whom a statistical pool stands for; their number costs no time."""

    maker_size: int = _LIGHT["maker_size"]
    """Lots that a market maker offers on each side."""

    maker_half_spread: float = _LIGHT["maker_half_spread"]
    """The least distance of a market maker's quotes from the centre, in ticks."""

    maker_caution: float = _LIGHT["maker_caution"]
    """Ticks that quotes move away for each tick of volatility."""

    maker_skew: float = _LIGHT["maker_skew"]
    """Ticks that quotes move for each hundred lots of inventory."""

    maker_insight: float = _LIGHT["maker_insight"]
    """Weight of the fair value in the centre of quotes; the rest is the mid price."""

    noise_activity: float = _LIGHT["noise_activity"]
    """Probability that a noise trader acts in a tick."""

    noise_size: int = _LIGHT["noise_size"]
    """Mean size of a noise trader's order, in lots."""

    value_activity: float = _LIGHT["value_activity"]
    """Probability that a value trader looks at the market in a tick."""

    value_error: float = _LIGHT["value_error"]
    """Ticks by which a value trader may be wrong (standard deviation)."""

    technical_activity: float = _LIGHT["technical_activity"]
    """Probability that a technical trader looks at the market in a tick."""

    def __post_init__(self) -> None:
        _check(population=asdict(self))

    @staticmethod
    def preset(name: Preset) -> PopulationConfig:
        """A population by name: `light` has 100 traders, `standard` 400 and a larger pool."""
        if name not in ("light", "standard"):
            raise ValueError(f"population must be 'light' or 'standard', was {name!r}")
        return PopulationConfig(**DEFAULTS[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class FundamentalConfig:
    """How the values of shares move, as parts of the value and per tick."""

    volatility: float = _FUNDAMENTAL["volatility"]
    """Standard deviation of the log value over a tick, on average."""

    volatility_persistence: float = _FUNDAMENTAL["volatility_persistence"]
    """How much of the log volatility's departure from its mean is left after a tick."""

    volatility_of_volatility: float = _FUNDAMENTAL["volatility_of_volatility"]
    """Standard deviation of the log volatility's own steps."""

    jump_rate: float = _FUNDAMENTAL["jump_rate"]
    """Probability of a jump in a tick."""

    jump_size: float = _FUNDAMENTAL["jump_size"]
    """Standard deviation of a jump of the log value."""

    market_share: float = _FUNDAMENTAL["market_share"]
    """Part of the variance that all symbols share."""

    sector_share: float = _FUNDAMENTAL["sector_share"]
    """Part of the variance that the symbols of a sector share."""

    discount_rate: float = _FUNDAMENTAL["discount_rate"]
    """What investors ask for a year, as a rate."""

    growth_rate: float = _FUNDAMENTAL["growth_rate"]
    """How fast dividends grow in a year, as a rate below `discount_rate`."""

    def __post_init__(self) -> None:
        _check(fundamental=asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsConfig:
    """How often there is news, and how much it matters."""

    rate: float = _NEWS["rate"]
    """Probability of an event about one symbol, in a tick."""

    impact: float = _NEWS["impact"]
    """Change of the value, as a part of it, that an event of magnitude 1 brings at most."""

    shortest: int = _NEWS["shortest"]
    """The shortest time an event is talked about, in ticks."""

    longest: int = _NEWS["longest"]
    """The longest time an event is talked about, in ticks."""

    def __post_init__(self) -> None:
        _check(news=asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountConfig:
    """What a learning agent's account starts with and may do."""

    cash: float = USUAL_TICK * _ACCOUNT["cash"]
    """Cash at the start, in currency."""

    most_long: int = _ACCOUNT["most_long"]
    """Lots of a symbol that it may hold."""

    most_short: int = _ACCOUNT["most_short"]
    """Lots of a symbol that it may owe."""

    ruin: float = _ACCOUNT["ruin"]
    """Part of the starting cash at or below which its equity means ruin."""

    maker_fee: float = _ACCOUNT["maker_fee"] / 100
    """Fee of its orders that rested, in basis points; negative is a rebate."""

    taker_fee: float = _ACCOUNT["taker_fee"] / 100
    """Fee of its orders that came in, in basis points."""

    def __post_init__(self) -> None:
        _check(account=self._settings(USUAL_TICK))

    def _settings(self, tick_size: float) -> dict[str, Any]:
        return {
            **asdict(self),
            "cash": _whole("cash", self.cash / tick_size, "ticks times lots"),
            "maker_fee": _whole("maker_fee", 100 * self.maker_fee, "hundredths of a basis point"),
            "taker_fee": _whole("taker_fee", 100 * self.taker_fee, "hundredths of a basis point"),
        }


PARTS = {"fundamental": FundamentalConfig, "news": NewsConfig, "account": AccountConfig}


@dataclass(frozen=True, kw_only=True)
class MarketConfig:
    """Everything that a market is made of, apart from its seed."""

    symbols: tuple[SymbolConfig, ...] | int = (SymbolConfig(),)
    """The symbols; a number stands for so many like the first one, four to a sector."""

    tick_size: float = USUAL_TICK
    """The smallest step of a price, in currency."""

    population: PopulationConfig | Preset = "light"
    """Who trades each symbol."""

    regime: Regime = "normal"
    """The weather: scales moves, jumps, news and the depth of quotes."""

    fundamental: FundamentalConfig = field(default_factory=FundamentalConfig)
    """How values move."""

    news: NewsConfig = field(default_factory=NewsConfig)
    """What is in the news."""

    account: AccountConfig = field(default_factory=AccountConfig)
    """The accounts of learning agents."""

    agents: int = 1
    """Learning agents that trade beside the population, each with its own account."""

    def __post_init__(self) -> None:
        if not 0.0 < self.tick_size < math.inf:
            raise ValueError(f"tick_size must be finite and above 0, was {self.tick_size}")
        for name, kind in PARTS.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} must be a {kind.__name__}, was {getattr(self, name)!r}")
        self.settings  # noqa: B018 - checks everything

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What the Rust core is given: prices and cash in ticks, the regime applied."""
        population = self.population
        if not isinstance(population, PopulationConfig):
            population = PopulationConfig.preset(population)
        config = {
            "symbols": [
                {
                    "price": _whole("price", one.price / self.tick_size, "ticks"),
                    "sector": one.sector,
                }
                for one in _symbols(self.symbols)
            ],
            "population": asdict(population),
            "fundamental": asdict(self.fundamental),
            "news": asdict(self.news),
            "agents": self.agents,
            "account": self.account._settings(self.tick_size),
        }
        settled: dict[str, Any] = json.loads(market_settled(to_json(config), str(self.regime)))
        return settled


def _symbols(symbols: tuple[SymbolConfig, ...] | int) -> tuple[SymbolConfig, ...]:
    if isinstance(symbols, int):
        if not 1 <= symbols <= MOST_SYMBOLS:
            raise ValueError(f"symbols must be from 1 to {MOST_SYMBOLS}, was {symbols!r:.80}")
        return tuple(SymbolConfig(sector=index // 4) for index in range(symbols))
    if isinstance(symbols, tuple) and all(isinstance(one, SymbolConfig) for one in symbols):
        return symbols
    raise TypeError(f"symbols must be a number or a tuple of SymbolConfig, was {symbols!r}")


def _check(**part: Any) -> None:
    """Let the core refuse a part that could not run."""
    config = {
        "symbols": [{"price": 10_000, "sector": 0}],
        "population": _LIGHT,
        "fundamental": _FUNDAMENTAL,
        "news": _NEWS,
        "agents": 1,
        "account": _ACCOUNT,
        **part,
    }
    market_settled(to_json(config), "normal")


def _whole(name: str, number: float, unit: str) -> int:
    """A number that must be whole, forgiving what binary fractions leave over."""
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a whole number of {unit}, was {number}")
    nearest = round(number)
    if abs(number - nearest) > 1e-6 * max(1.0, abs(number)):
        raise ValueError(f"{name} must be a whole number of {unit}, was {number:g} of them")
    return nearest
