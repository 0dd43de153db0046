"""Agent-based market simulation: order books, fundamental values, news and traders.

Defaults and presets are those of the Rust core, which also checks every setting.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs import _core
from quant_gym_rs._core import market_defaults, market_settled
from quant_gym_rs.codes import Side, TimeInForce
from sekai.config.checked import CheckedConfig
from sekai.error import StateError
from sekai.market.order_book import SHOWN_LEVELS, Depth, Placement, depth_html
from sekai.storage.display import brief_repr, name_list

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Recorded market: arrays of (ticks, symbols), and a row for each trade. Prices in ticks."""

    mid: Floats
    fair: Floats
    sentiment: Floats
    high: Counts
    low: Counts
    close: Counts
    bought: Counts
    """Lots bought by takers."""
    sold: Counts
    """Lots sold by takers."""
    trades: Counts
    """Number of incoming orders that traded."""
    spread: Counts
    """Bid-ask spread in ticks; 0 where a side was empty."""
    trade_tick: Counts
    """Tick of each trade, counted from 0."""
    trade_symbol: Counts
    trade_sign: Counts
    """1 where the taker bought, -1 where it sold."""
    trade_price: Counts
    trade_size: Counts

    __repr__ = brief_repr

    @property
    def volume(self) -> Counts:
        """Lots traded."""
        return self.bought + self.sold


@dataclass(frozen=True, slots=True)
class Account:
    """Account of a trained agent, in currency and lots."""

    cash: float
    equity: float
    """Cash plus positions at mid prices."""
    lots: tuple[int, ...]
    """Position in each symbol; negative when short."""
    realized_pnl: float
    """Realized profit, before fees."""
    fees: float


@dataclass(frozen=True, slots=True)
class NewsEvent:
    """News event about a symbol."""

    topic: str
    """`earnings`, `guidance`, `rates` or `sector`."""
    symbol: int
    sentiment: float
    """From -1 (bad) to 1 (good), at publication."""
    magnitude: float
    age: int
    """Ticks since publication."""
    duration: int
    """Ticks that it has an effect."""


class Market(_core.Market):
    """Simulated market of one or more symbols with a population of traders.

    The market advances by `tick` alone; between ticks trained agents may trade, each with its own
    account. Prices and sizes are whole ticks and lots. The same seed gives the same market.
    Thread-safe: each call waits for the one before it.
    """

    config: MarketConfig

    def __new__(
        cls, config: MarketConfig | None = None, *, seed: int = 0, episode: int = 0
    ) -> Self:
        """Create a market; books are empty until the first tick."""
        config = MarketConfig() if config is None else config
        market = super().__new__(cls, json.dumps(config.settings), seed, episode)
        market.config = config
        return market

    def record(self, ticks: int) -> Recording:
        """Advance the market by `ticks` and record it."""
        return Recording(**self.record_columns(ticks))

    def place(
        self,
        side: Side,
        price: int,
        size: int,
        *,
        agent: int = 0,
        symbol: int = 0,
        time_in_force: TimeInForce = TimeInForce.GOOD_TILL_CANCELLED,
    ) -> Placement:
        """Place an agent's order; `OrderError` if its account or the book rejects it."""
        return self.place_order(agent, symbol, side, price, size, time_in_force)

    def depth(self, levels: int, symbol: int = 0) -> Depth:
        """Depth: the best `levels` price levels of both sides of a symbol's book."""
        bids = self.depth_columns(symbol, Side.BUY, levels)
        return Depth(*bids, *self.depth_columns(symbol, Side.SELL, levels))

    def account(self, agent: int = 0) -> Account:
        """Account of an agent."""
        cash, equity, lots, realised, fees = self.account_columns(agent)
        unit = self.config.tick_size
        return Account(
            unit * cash, unit * equity, tuple(lots), unit * sum(realised), unit * sum(fees)
        )

    def news(self) -> tuple[NewsEvent, ...]:
        """Active news, oldest first."""
        return tuple(NewsEvent(*row) for row in self.news_rows())

    def __repr__(self) -> str:
        mids = [f"{self.mid(symbol):g}" for symbol in range(len(_symbols(self.config.symbols)))]
        return (
            f"{type(self).__name__}({len(mids)} symbols, tick {self.now}, mid "
            f"{name_list(mids)}, tick_size={self.config.tick_size:g})"
        )

    def _repr_html_(self) -> str:
        return depth_html(f"{self!r}, book of symbol 0", self.depth(SHOWN_LEVELS))

    def state_dict(self) -> dict[str, Any]:
        """State of the market as bytes with version and checksum."""
        return {"market": self.encode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; a rejected one changes nothing."""
        encoded = state.get("market") if isinstance(state, Mapping) else None
        if not isinstance(encoded, bytes):
            raise StateError("state must have the bytes of a market under 'market'")
        self.decode(encoded)


Regime = Literal["calm", "normal", "volatile", "crisis"]
Preset = Literal["light", "standard"]

MOST_SYMBOLS = 10_000

DEFAULTS: dict[str, dict[str, Any]] = json.loads(market_defaults())
_LIGHT, _FUNDAMENTAL = DEFAULTS["light"], DEFAULTS["fundamental"]
_NEWS, _ACCOUNT = DEFAULTS["news"], DEFAULTS["account"]
DEFAULT_TICK = 0.01
"""Tick size that the core's default cash is counted in, in currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolConfig(CheckedConfig):
    """Settings of a symbol."""

    price: float = 100.0
    """Price and fundamental value at the start, in currency."""

    sector: int = 0
    """Sector; fundamental values of a sector are correlated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationConfig(CheckedConfig):
    """Population of traders of each symbol, and their parameters."""

    makers: int = _LIGHT["makers"]
    """Market makers."""

    noise: int = _LIGHT["noise"]
    """Noise traders."""

    value: int = _LIGHT["value"]
    """Value traders, with a noisy estimate of the fundamental value."""

    momentum: int = _LIGHT["momentum"]
    """Momentum traders (RSI)."""

    trend: int = _LIGHT["trend"]
    """Trend followers (moving averages)."""

    convergence: int = _LIGHT["convergence"]
    """MACD traders."""

    reversion: int = _LIGHT["reversion"]
    """Mean-reversion traders (Bollinger bands)."""

    pool: int = _LIGHT["pool"]
    """Traders simulated as one statistical pool; their number costs no time."""

    maker_size: int = _LIGHT["maker_size"]
    """Lots that a market maker quotes on each side."""

    maker_half_spread: float = _LIGHT["maker_half_spread"]
    """Smallest half spread of a market maker's quotes, in ticks."""

    maker_caution: float = _LIGHT["maker_caution"]
    """Ticks by which the half spread grows per tick of volatility."""

    maker_skew: float = _LIGHT["maker_skew"]
    """Ticks by which quotes shift per hundred lots of inventory."""

    maker_insight: float = _LIGHT["maker_insight"]
    """Weight of the fair value in the centre of quotes; the rest is the mid price."""

    noise_activity: float = _LIGHT["noise_activity"]
    """Probability that a noise trader acts in a tick."""

    noise_size: int = _LIGHT["noise_size"]
    """Mean size of a noise trader's order, in lots."""

    value_activity: float = _LIGHT["value_activity"]
    """Probability that a value trader acts in a tick."""

    value_error: float = _LIGHT["value_error"]
    """Standard deviation of a value trader's estimate, in ticks."""

    technical_activity: float = _LIGHT["technical_activity"]
    """Probability that a technical trader acts in a tick."""

    def __post_init__(self) -> None:
        _check(population=asdict(self))

    @staticmethod
    def preset(name: Preset) -> PopulationConfig:
        """Preset population: `light` has 100 traders, `standard` 400 and a larger pool."""
        if name not in ("light", "standard"):
            raise ValueError(f"population must be 'light' or 'standard', got {name!r}")
        return PopulationConfig(**DEFAULTS[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class FundamentalConfig(CheckedConfig):
    """Process of fundamental values, relative to the value and per tick."""

    volatility: float = _FUNDAMENTAL["volatility"]
    """Mean volatility: standard deviation of the log value over a tick."""

    volatility_persistence: float = _FUNDAMENTAL["volatility_persistence"]
    """Autoregressive coefficient of log volatility."""

    volatility_of_volatility: float = _FUNDAMENTAL["volatility_of_volatility"]
    """Standard deviation of the innovations of log volatility."""

    jump_rate: float = _FUNDAMENTAL["jump_rate"]
    """Probability of a jump in a tick."""

    jump_size: float = _FUNDAMENTAL["jump_size"]
    """Standard deviation of a jump of the log value."""

    market_share: float = _FUNDAMENTAL["market_share"]
    """Share of the variance common to all symbols."""

    sector_share: float = _FUNDAMENTAL["sector_share"]
    """Share of the variance common to the symbols of a sector."""

    discount_rate: float = _FUNDAMENTAL["discount_rate"]
    """Yearly discount rate."""

    growth_rate: float = _FUNDAMENTAL["growth_rate"]
    """Yearly growth rate of dividends, below `discount_rate`."""

    def __post_init__(self) -> None:
        _check(fundamental=asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsConfig(CheckedConfig):
    """Rate, impact and duration of news."""

    rate: float = _NEWS["rate"]
    """Probability of an event about a symbol in a tick."""

    impact: float = _NEWS["impact"]
    """Largest relative change of the value by an event of magnitude 1."""

    shortest: int = _NEWS["shortest"]
    """Shortest duration of an event, in ticks."""

    longest: int = _NEWS["longest"]
    """Longest duration of an event, in ticks."""

    def __post_init__(self) -> None:
        _check(news=asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountConfig(CheckedConfig):
    """Account of a trained agent: cash, position limits, fees and ruin."""

    cash: float = DEFAULT_TICK * _ACCOUNT["cash"]
    """Cash at the start, in currency."""

    most_long: int = _ACCOUNT["most_long"]
    """Largest long position in a symbol, in lots."""

    most_short: int = _ACCOUNT["most_short"]
    """Largest short position in a symbol, in lots."""

    ruin: float = _ACCOUNT["ruin"]
    """Share of the initial cash at or below which equity is ruin."""

    maker_fee: float = _ACCOUNT["maker_fee"] / 100
    """Maker fee, in basis points; negative is a rebate."""

    taker_fee: float = _ACCOUNT["taker_fee"] / 100
    """Taker fee, in basis points."""

    def __post_init__(self) -> None:
        _check(account=self._settings(DEFAULT_TICK))

    def _settings(self, tick_size: float) -> dict[str, Any]:
        return {
            **asdict(self),
            "cash": _whole("cash", self.cash / tick_size, "ticks times lots"),
            "maker_fee": _whole("maker_fee", 100 * self.maker_fee, "hundredths of a basis point"),
            "taker_fee": _whole("taker_fee", 100 * self.taker_fee, "hundredths of a basis point"),
        }


PARTS = {"fundamental": FundamentalConfig, "news": NewsConfig, "account": AccountConfig}


@dataclass(frozen=True, kw_only=True)
class MarketConfig(CheckedConfig):
    """Settings of a simulated market, apart from its seed."""

    symbols: tuple[SymbolConfig, ...] | int = (SymbolConfig(),)
    """The symbols; a number is so many default symbols, four to a sector."""

    tick_size: float = DEFAULT_TICK
    """Tick size, in currency."""

    population: PopulationConfig | Preset = "light"
    """Population of traders of each symbol."""

    regime: Regime = "normal"
    """Market regime: scales volatility, jumps, news and the depth of quotes."""

    fundamental: FundamentalConfig = field(default_factory=FundamentalConfig)
    """Process of fundamental values."""

    news: NewsConfig = field(default_factory=NewsConfig)
    """News process."""

    account: AccountConfig = field(default_factory=AccountConfig)
    """Accounts of trained agents."""

    agents: int = 1
    """Trained agents beside the population, each with its own account."""

    def __post_init__(self) -> None:
        if not 0.0 < self.tick_size < math.inf:
            raise ValueError(f"tick_size must be finite and above 0, got {self.tick_size}")
        for name, kind in PARTS.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")
        self.settings  # noqa: B018 - checks everything

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings for the Rust core: prices and cash in ticks, the regime applied."""
        population = self.population
        if not isinstance(population, PopulationConfig):
            population = PopulationConfig.preset(population)
        config = {
            "symbols": [
                {
                    "price": _whole("price", symbol.price / self.tick_size, "ticks"),
                    "sector": symbol.sector,
                }
                for symbol in _symbols(self.symbols)
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
            raise ValueError(f"symbols must be from 1 to {MOST_SYMBOLS}, got {symbols!r:.80}")
        return tuple(SymbolConfig(sector=index // 4) for index in range(symbols))
    if isinstance(symbols, tuple) and all(isinstance(symbol, SymbolConfig) for symbol in symbols):
        return symbols
    raise TypeError(f"symbols must be a number or a tuple of SymbolConfig, got {symbols!r}")


def _check(**part: Any) -> None:
    """Check a part of the settings with the Rust core."""
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
    """Round a number that must be an integer, up to rounding errors."""
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a whole number of {unit}, got {number}")
    nearest = round(number)
    if abs(number - nearest) > 1e-6 * max(1.0, abs(number)):
        raise ValueError(f"{name} must be a whole number of {unit}, got {number:g} of them")
    return nearest


def to_json(settings: dict[str, Any]) -> str:
    """Settings as strict JSON; values it cannot express become text, which the core rejects."""
    return json.dumps(_finite(settings), allow_nan=False, default=_plain)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else f"a {type(value).__name__}"
